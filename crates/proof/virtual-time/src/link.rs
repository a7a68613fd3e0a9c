//! [`Link`]: what is between two hosts: a model of a path for each direction, which can change and
//! break.
//!
//! Called by: programs under test; `host.rs`, when a host crashes or comes back. Each end is a wire
//! in memory behind `link::Shaped`, whose transmit direction has the model of the path. The packets
//! are IP packets without link headers, each as long as on a wire.

use std::io;
use std::sync::{Arc, PoisonError};

use base::{Cidr, Instant, LinkKind};
use device::{Device, mem};
use link::{Counts, Outage, Settings, Shaped};
use net::Net;
use stack::{PortConfig, PortId, Route};

use crate::error::down;
use crate::state::{Cable, Core, Paths, State};

/// Bytes that a wire holds: what the model has delivered and the receiver has not yet taken.
const WIRE_BYTES: usize = 4 << 20;
/// Packets that a wire holds.
const WIRE_PACKETS: usize = 4096;

/// A link between two hosts. Cheap to clone; dropping it changes nothing.
#[derive(Clone)]
pub struct Link {
    core: Arc<Core>,
    number: usize,
}

impl Link {
    pub(crate) fn new(core: Arc<Core>, number: usize) -> Link {
        Link { core, number }
    }

    /// Change the paths, from now on. Packets on their way are not affected.
    pub fn set(&self, path: impl Into<Paths>) {
        self.core.state().cables[self.number].paths = path.into().0;
        apply(&self.core, self.number);
    }

    /// Cut the link: packets that are sent from now on are lost, in both directions, and so are
    /// those still in a queue. Nobody is told.
    pub fn partition(&self) {
        self.core.state().cables[self.number].is_cut = true;
        apply(&self.core, self.number);
    }

    /// Undo [`Link::partition`].
    pub fn repair(&self) {
        self.core.state().cables[self.number].is_cut = false;
        apply(&self.core, self.number);
    }

    /// What happened to the packets of each direction since the link was made, or since one of its
    /// hosts was last restarted.
    pub fn counts(&self) -> [Counts; 2] {
        let state = self.core.state();
        state.cables[self.number].shapes.each_ref().map(|shape| shape.counts()[0])
    }
}

/// Join two hosts; returns the number of the cable.
pub(crate) fn join(core: &Core, ends: [usize; 2], paths: Paths) -> io::Result<usize> {
    let number = {
        let mut state = core.state();
        let [a, b] = ends;
        let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if a == b {
            return refuse("a link joins two hosts; a host reaches itself without one");
        }
        if state.cable_between(ends).is_some() {
            return refuse("these hosts are joined: change their link by `Link::set`");
        }
        if let Some(&end) = ends.iter().find(|&&end| state.stations[end].is_none()) {
            return Err(down(&state.machines[end].name));
        }
        state.cables.push(Cable {
            ends,
            paths: paths.0,
            is_cut: false,
            ports: [None; 2],
            unplugged: [None, None],
            shapes: Default::default(),
            generation: 0,
        });
        state.cables.len() - 1
    };
    plug(core, number)?;
    core.idle.wake();
    Ok(number)
}

/// The settings of one direction at present: a host that is down receives nothing.
fn settings(cable: &Cable, state: &State, direction: usize) -> Settings {
    let mut settings = cable.paths[direction].clone();
    if cable.is_cut || cable.ends.iter().any(|&end| state.stations[end].is_none()) {
        settings.outages.push(Outage { from: Instant::ZERO, until: Instant::NEVER });
    }
    settings
}

/// Make a new wire and give its ends to the hosts that run. The port of a host that has one
/// keeps its connections.
fn plug(core: &Core, number: usize) -> io::Result<()> {
    // Dropped last: a device whose peer is dropped fails the connections of its port.
    let mut old: [Option<Box<dyn Device>>; 2] = [None, None];
    let mut state = core.state();
    let cable = &state.cables[number];
    let (ends, generation) = (cable.ends, cable.generation);
    let (first, second) = mem::pair(&mem::Config {
        link: LinkKind::Ip,
        depth: WIRE_PACKETS,
        depth_bytes: WIRE_BYTES,
        ..mem::Config::default()
    });
    for (side, wire) in [first, second].into_iter().enumerate() {
        let (own, peer) = (ends[side], ends[1 - side]);
        let path = settings(&state.cables[number], &state, side);
        let part = (generation << 40) | ((number as u64) << 2) | 2 | side as u64;
        let clock = core.clock.of_devices();
        let seed = core.seed_of(part);
        let (shaped, shape) = Shaped::new(wire, [path, Settings::default()], seed, clock);
        let mut name = [own, peer].map(|end| state.machines[end].name.replace('/', "_")).join("-");
        if generation > 0 {
            name = format!("{name}-{generation}");
        }
        let mut record = core.record.lock().unwrap_or_else(PoisonError::into_inner);
        let device = record.wrap(shaped, &name)?;
        let of_both = [own, peer].map(|end| state.machines[end].addresses());
        let port = state.cables[number].ports[side];
        let (port, unplugged) = match &state.stations[own] {
            Some(station) => (Some(attach(&station.net, port, device, of_both)?), None),
            None => (None, Some(device)),
        };
        let cable = &mut state.cables[number];
        cable.ports[side] = port;
        cable.shapes[side] = shape;
        old[side] = core::mem::replace(&mut cable.unplugged[side], unplugged);
    }
    state.cables[number].generation += 1;
    Ok(())
}

/// Let the devices take changed settings now.
fn apply(core: &Core, number: usize) {
    let mut nets = Vec::new();
    {
        let state = core.state();
        let cable = &state.cables[number];
        for side in [0, 1] {
            cable.shapes[side].set(0, settings(cable, &state, side));
            nets.extend(state.stations[cable.ends[side]].as_ref().map(|s| s.net.clone()));
        }
    }
    for net in nets {
        // A stack that has ended sends nothing. A device takes its settings after a burst.
        let _ = net.with_stack(|stack| stack.poll(core.clock.now()));
    }
    core.idle.wake();
}

fn cables_of(core: &Core, host: usize) -> Vec<usize> {
    let state = core.state();
    let has_host = |(_, cable): &(usize, &Cable)| cable.side_of(host).is_some();
    state.cables.iter().enumerate().filter(has_host).map(|(number, _)| number).collect()
}

/// Take the devices of a host that has crashed off its stack, and leave them at their cables.
pub(crate) fn unplug(core: &Core, host: usize, net: &Net) {
    let mut state = core.state();
    let cables = state.cables.iter_mut();
    let ends = cables.filter_map(|cable| cable.side_of(host).map(|side| (cable, side)));
    let ends: Vec<_> = ends.map(|(cable, side)| (cable.ports[side].take(), cable, side)).collect();
    // A stack that the program has shut down has no devices to keep.
    let _ = net.with_stack(|stack| {
        for (port, cable, side) in ends {
            cable.unplugged[side] = port.and_then(|port| stack.remove_port(port));
        }
    });
}

/// A host has crashed: its links lose what is sent to it.
pub(crate) fn follow_crash(core: &Core, host: usize) {
    for number in cables_of(core, host) {
        apply(core, number);
    }
}

/// A host has come back: its links are made again.
pub(crate) fn follow_restart(core: &Core, host: usize) -> io::Result<()> {
    for number in cables_of(core, host) {
        plug(core, number)?;
    }
    core.record.lock().unwrap_or_else(PoisonError::into_inner).add_up();
    Ok(())
}

/// Give a device to a stack: in place of that of a port, or as a new port with routes to the peer.
fn attach(
    net: &Net,
    port: Option<PortId>,
    device: Box<dyn Device>,
    [own, peer]: [[Cidr; 2]; 2],
) -> io::Result<PortId> {
    if let Some(port) = port {
        return net.replace_port(port, device).map(|_| port);
    }
    net.with_stack(|stack| {
        let config = PortConfig { addresses: own.to_vec(), ..PortConfig::default() };
        let port = stack.add_port(device, config);
        for to in peer {
            stack.add_route(Route::new(to, None, port.0));
        }
        port
    })
}
