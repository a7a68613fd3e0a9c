//! The cases: a wire with legacy hosts, a wire with hosts of ours, two wires with a router of ours
//! between them, and two hosts of ours with a connection on the wire of a storm.
//!
//! Called by: `storm.rs`, the benchmarks, tests. All cases are in virtual time: the same seed gives
//! the same figures.

use std::net::Ipv4Addr;

use base::{Duration, Instant, MacAddr};
use device::fault::Rng;

use super::legacy::{Faults, Legacy};
use super::ours::Ours;
use super::segment::{Station, World};
use super::{Clock, Form};

/// How long a network without a storm is watched: every program sends at least twice.
const QUIET: Duration = Duration::from_secs(120);

/// The size of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Hosts on a wire; every second one has the old form of the broadcast address.
    pub hosts: usize,
    /// A storm is ended when it has put this many frames on the wire.
    pub frames_max: u64,
    /// Seconds of virtual time that a connection is watched, before a storm and in it.
    pub seconds: u64,
    /// The seed of the times at which the hosts' programs begin.
    pub seed: u64,
}

impl Settings {
    /// The default size: twenty hosts.
    pub fn new(is_quick: bool) -> Settings {
        let (frames_max, seconds) = if is_quick { (20_000, 5) } else { (200_000, 30) };
        Settings { hosts: 20, frames_max, seconds, seed: 1 }
    }
}

/// The outcome of broadcasts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Storm {
    /// Datagrams that programs sent to all.
    pub originals: u64,
    /// All frames on the wire that these datagrams caused, and their own frames; behind a router:
    /// frames that the router sent on the other wire.
    pub frames: u64,
    /// Virtual time until the end, in seconds.
    pub seconds: f64,
    /// The share of that time in which the wire was busy, in percent.
    pub busy_percent: f64,
    /// Datagrams that programs received.
    pub received: u64,
    /// The storm was ended at [`Settings::frames_max`].
    pub was_ended: bool,
}

impl Storm {
    /// Frames per original frame; `None` without any.
    pub fn per_original(&self) -> Option<f64> {
        (self.originals > 0).then(|| self.frames as f64 / self.originals as f64)
    }
}

/// Two wires with a router of ours between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Behind {
    /// The wire that storms; `frames` are those that reached the other wire.
    pub storm: Storm,
    /// Frames on the wire that storms.
    pub storming_frames: u64,
    /// Datagrams that were sent to a single host on the other wire, and those that arrived: they
    /// show that the router does forward.
    pub unicasts: (u64, u64),
}

/// Two hosts of ours with a connection, on the wire of a storm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bystander {
    /// Bytes a second on the quiet wire.
    pub quiet_bytes_per_s: f64,
    /// The same in the storm.
    pub storm_bytes_per_s: f64,
    /// Frames of the storm, and originals.
    pub storm: Storm,
    /// Both ends are established at the end.
    pub is_connected: bool,
    /// Each end knows the other's link address at the end.
    pub knows_peer: bool,
    /// Neighbours that the writer has in its table.
    pub neighbours: usize,
    /// Segments that were retransmitted.
    pub retransmits: u32,
    /// The reader's reports about neighbours with another configuration.
    pub names: Vec<String>,
}

fn address(wire: u8, host: usize) -> (Ipv4Addr, MacAddr) {
    let number = host as u8 + 1;
    (Ipv4Addr::new(192, 0, wire, number), MacAddr([8, 0, 0x20, 0, wire, number]))
}

/// The router's number as a host on each wire.
const GATEWAY: usize = 250;

fn legacy(wire: u8, host: usize, clock: Clock) -> Legacy {
    let gateway = address(wire, GATEWAY).0;
    Legacy::new(address(wire, host), Form::of(host), gateway, Faults::ALL, clock)
}

/// A host of either kind.
enum Host {
    Legacy(Box<Legacy>),
    Ours(Box<Ours>),
}

impl Host {
    fn counts(&self) -> (u64, u64) {
        match self {
            Host::Legacy(host) => (host.originals, host.received),
            Host::Ours(host) => (host.originals, host.received),
        }
    }

    fn ours(&mut self) -> Option<&mut Ours> {
        match self {
            Host::Ours(host) => Some(host),
            Host::Legacy(_) => None,
        }
    }
}

impl Station for Host {
    fn receive(&mut self, port: usize, frame: &[u8], now: Instant) {
        match self {
            Host::Legacy(host) => host.receive(port, frame, now),
            Host::Ours(host) => host.receive(port, frame, now),
        }
    }

    fn run(&mut self, now: Instant) {
        match self {
            Host::Legacy(host) => host.run(now),
            Host::Ours(host) => host.run(now),
        }
    }

    fn next_frame(&mut self, port: usize) -> Option<Vec<u8>> {
        match self {
            Host::Legacy(host) => host.next_frame(port),
            Host::Ours(host) => host.next_frame(port),
        }
    }

    fn next_deadline(&self) -> Instant {
        match self {
            Host::Legacy(host) => host.next_deadline(),
            Host::Ours(host) => host.next_deadline(),
        }
    }
}

/// The counts of a wire and of the programs on its hosts.
fn storm(world: &World<Host>, wire: usize, settings: &Settings) -> Storm {
    let carried = world.carried(wire);
    let counts = world.stations.iter().map(Host::counts);
    let (originals, received) = counts.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
    let seconds = world.now().as_nanos() as f64 / 1e9;
    Storm {
        originals,
        frames: carried.frames,
        seconds,
        busy_percent: carried.busy.as_nanos() as f64 / 1e7 / seconds.max(1e-9),
        received,
        was_ended: carried.frames >= settings.frames_max,
    }
}

/// Run hosts of one kind on a wire until the storm is ended, or for [`QUIET`] if there is no storm.
fn one_wire(settings: &Settings, make: impl Fn(usize, Clock) -> Host) -> Storm {
    let (mut world, mut rng) = (World::new(), Rng::new(settings.seed));
    let wire = world.add_wire();
    for host in 0..settings.hosts {
        world.add(make(host, Clock::new(Instant::ZERO, &mut rng)), &[wire]);
    }
    world.run_until(Instant::ZERO + QUIET, |w| w.carried(wire).frames >= settings.frames_max);
    storm(&world, wire, settings)
}

/// Legacy hosts alone.
pub fn legacy_hosts(settings: &Settings) -> Storm {
    one_wire(settings, |host, clock| Host::Legacy(Box::new(legacy(2, host, clock))))
}

/// Legacy hosts that agree about the broadcast address.
#[cfg(test)]
pub(super) fn legacy_hosts_of_one_form(settings: &Settings) -> Storm {
    one_wire(settings, |host, clock| {
        let (place, gateway) = (address(2, host), address(2, GATEWAY).0);
        Host::Legacy(Box::new(Legacy::new(place, Form::Zeros, gateway, Faults::ALL, clock)))
    })
}

/// Hosts of ours alone, with the same addresses and the same programs.
pub fn our_hosts(settings: &Settings) -> Storm {
    one_wire(settings, |host, clock| {
        Host::Ours(Box::new(Ours::new(&[address(2, host)], Form::of(host), clock)))
    })
}

/// Legacy hosts on two wires with a router of ours between them. The hosts of the first wire
/// broadcast, on their own wire and, by way of the router, to the other wire's network. The hosts
/// of the second wire are silent, so that all frames on their wire have crossed the router. At the
/// end datagrams are sent to a single host across the router.
pub fn behind_router(settings: &Settings) -> Behind {
    const UNICASTS: u64 = 10;
    const TRIES: usize = 2_000;
    let (mut world, mut rng) = (World::new(), Rng::new(settings.seed));
    let wires = [world.add_wire(), world.add_wire()];
    for host in 0..settings.hosts / 2 {
        let clock = Clock::new(Instant::ZERO, &mut rng);
        world.add(Host::Legacy(Box::new(legacy(2, host, clock))), &[wires[0]]);
    }
    let first_far = world.stations.len();
    for host in 0..settings.hosts / 2 {
        world.add(Host::Legacy(Box::new(legacy(3, host, Clock::SILENT))), &[wires[1]]);
    }
    let ends = [address(2, GATEWAY), address(3, GATEWAY)];
    let mut router = Ours::new(&ends, Form::Ones, Clock::SILENT);
    router.stack.set_forwarding(true);
    world.add(Host::Ours(Box::new(router)), &wires);
    // Broadcasts to the addresses of the other network, before the wire is full.
    for (host, form) in [(0, Form::Ones), (1, Form::Zeros)] {
        if let Some(Host::Legacy(host)) = world.stations.get_mut(host) {
            let is_sent = host.send(form.address(address(3, 0).0), 520, b"to all of you");
            host.originals += u64::from(is_sent);
        }
    }
    let is_over = |w: &World<Host>| w.carried(wires[0]).frames >= settings.frames_max;
    world.run_until(Instant::ZERO + QUIET, is_over);
    let mut found = storm(&world, wires[0], settings);
    let storming_frames = found.frames;
    let before = world.stations[first_far].counts().1;
    found.frames = world.carried(wires[1]).frames;
    let mut sent = 0;
    // The storm nearly always fills the host's queue, so that the datagram is sent again until
    // there is room.
    for _ in 0..TRIES {
        if let Some(Host::Legacy(host)) = world.stations.get_mut(0) {
            sent += u64::from(sent < UNICASTS && host.send(address(3, 0).0, 520, b"to you"));
        }
        world.run_until(world.now() + Duration::from_millis(1), |_| false);
    }
    let arrived = world.stations[first_far].counts().1 - before;
    Behind { storm: found, storming_frames, unicasts: (sent, arrived) }
}

/// A connection between two hosts of ours on a wire, first without a storm and then in one.
pub fn bystander(settings: &Settings) -> Bystander {
    let span = Duration::from_secs(settings.seconds);
    let (mut world, mut rng) = (World::new(), Rng::new(settings.seed));
    let wire = world.add_wire();
    let [a, b] = [100, 101].map(|host| address(2, host));
    let [writer, reader] = [a, b].map(|end| {
        let ours = Ours::new(&[end], Form::Ones, Clock::SILENT);
        world.add(Host::Ours(Box::new(ours)), &[wire])
    });
    // Programs begin to broadcast after the quiet time, at random times within a period.
    for host in 0..settings.hosts {
        let clock = Clock::new(Instant::ZERO + span, &mut rng);
        world.add(Host::Legacy(Box::new(legacy(2, host, clock))), &[wire]);
    }
    if let Some(ours) = world.stations[reader].ours() {
        ours.listen();
    }
    if let Some(ours) = world.stations[writer].ours() {
        ours.connect(b.0, Instant::ZERO);
        ours.run(Instant::ZERO);
    }
    let read = |world: &mut World<Host>| world.stations[reader].ours().map_or(0, |ours| ours.read);
    world.run_until(Instant::ZERO + span, |_| false);
    let quiet = read(&mut world);
    // Until a program's first datagram there is no storm.
    let counts = |w: &World<Host>| w.stations.iter().any(|host| host.counts().0 > 0);
    world.run_until(Instant::ZERO + span + QUIET, counts);
    let (began, before, frames) = (world.now(), read(&mut world), world.carried(wire));
    world.run_until(began + span, |_| false);
    let in_storm = read(&mut world) - before;
    let mut found = storm(&world, wire, settings);
    let carried = world.carried(wire);
    found.frames = carried.frames - frames.frames;
    found.seconds = settings.seconds as f64;
    let busy = carried.busy.as_nanos() - frames.busy.as_nanos();
    found.busy_percent = busy as f64 / 1e7 / found.seconds;
    let mut result = Bystander {
        quiet_bytes_per_s: quiet as f64 / settings.seconds as f64,
        storm_bytes_per_s: in_storm as f64 / settings.seconds as f64,
        storm: found,
        is_connected: true,
        knows_peer: true,
        ..Bystander::default()
    };
    for (end, peer) in [(writer, b), (reader, a)] {
        let Some(ours) = world.stations[end].ours() else { continue };
        result.is_connected &= ours.is_connected();
        result.knows_peer &= ours.knows(peer.0, peer.1);
        result.retransmits += ours.retransmits();
        result.neighbours = result.neighbours.max(ours.neighbours());
        let rows = ours.stack.other_broadcasters().iter();
        result.names = rows.map(ToString::to_string).collect();
    }
    result
}
