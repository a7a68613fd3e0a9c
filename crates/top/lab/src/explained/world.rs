//! Runs a situation in virtual time, and reads the figures of its connection as the control socket
//! does.
//!
//! Called by: `explained.rs`.

use base::{Duration, Instant, IpVersion, Switch};
use device::mitigation::Threshold;
use explain::{Look, Surroundings};
use link::Settings;
use sim::app::Script;
use sim::{Cost, FlowSettings, Hook, HostSettings, PortSettings, ScheduledEvent, Violation, World};
use stack::StackConfig;
use tcp::Config;

use super::draw::Draw;

/// A situation with its parameters.
pub(super) struct Setup {
    /// The link from the host that connects, and the link back.
    pub(super) links: (Settings, Settings),
    pub(super) ports: (PortSettings, PortSettings),
    pub(super) config: (Config, Config),
    pub(super) scripts: (Script, Script),
    pub(super) costs: (Cost, Cost),
    /// Drops segments from the host that connects.
    pub(super) hook: Option<Hook>,
    /// When the port of the host that is explained loses its carrier.
    pub(super) unplugged: Option<Duration>,
    /// When the looks begin, and how long they are taken.
    pub(super) from: Duration,
    pub(super) length: Duration,
    /// The connection is explained at the host that accepts it.
    pub(super) at_acceptor: bool,
}

/// The looks at the connection of a draw.
pub(super) fn looks(draw: fn(&mut Draw) -> Setup, seed: u64) -> Result<Vec<Look>, Violation> {
    let setup = draw(&mut Draw::new(seed));
    let mut world = World::new(seed, false, None);
    for (number, cost) in [(0, setup.costs.0), (1, setup.costs.1)] {
        let mut stack = StackConfig::new([seed, number]);
        // Checksums are off, because these paths corrupt no packet.
        for switch in [Switch::ChecksumRx, Switch::ChecksumTx] {
            stack.switches = stack.switches.with(switch, false);
        }
        let (clock, interrupt) = (Duration::from_secs(1), Threshold::EACH);
        world.add_host(HostSettings { stack, clock, own_buffers: false, interrupt, cost });
    }
    world.join(0, (0, 1), (&setup.ports.0, &setup.ports.1), setup.links, true);
    if let Some(hook) = setup.hook {
        world.set_hook(0, hook);
    }
    let flow = FlowSettings {
        hosts: (0, 1),
        network: 0,
        version: IpVersion::V4,
        config: setup.config,
        scripts: setup.scripts,
        at: Instant::ZERO,
    };
    let added = world.add_flow(flow);
    debug_assert!(added.is_ok(), "a new stack has every port free");
    let host = usize::from(setup.at_acceptor);
    if let Some(at) = setup.unplugged {
        world.schedule(Instant::ZERO + at, ScheduledEvent::Unplug(host));
    }
    let (mut looks, mut now) = (Vec::new(), Instant::ZERO + setup.from);
    let end = now + setup.length;
    while now <= end {
        world.run_until(now)?;
        looks.extend(look(&world, host, now));
        // In real use a busy program answers about twenty times a second.
        now += explain::apart(looks.len()) + Duration::from_millis(30);
    }
    Ok(looks)
}

/// The look that the control socket would give at the only connection of a host.
fn look(world: &World, host: usize, now: Instant) -> Option<Look> {
    let stack = world.stack(host);
    let page = stack.connections_page(0, 1);
    let row = page.rows.first()?;
    let ports = stack.ports_page(0, 1);
    let link_up = ports.rows.first().is_none_or(|port| port.link_up);
    let around = Surroundings::of(stack, Some(world.busy(host).as_micros()));
    Some(Look::of(row, link_up, &around, now))
}
