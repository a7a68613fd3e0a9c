//! The world that a seed draws for a gateway: a guest, the gateway's two hosts, a server beyond;
//! connections of the guest, some of them to ports where nobody listens; small limits now and then,
//! exhausted memory, pauses.
//!
//! Called by: `run`. The laws are those of all worlds, and: every graceful connection arrives
//! whole, connects that are refused look refused, nothing of the gateway is left at the end.

use core::net::SocketAddr;

use base::{Duration, Instant, IpVersion, Limit, LinkKind, Mtu};
use gateway::Config;

use super::{BOUND, NEVER_ENOUGH, Network, Scenario, describe_flow, path, port, secs, switches};
use crate::app::{Endpoint, Finish, Opening, Read, Script, Write};
use crate::flow::FlowSettings;
use crate::host::{Cost, HostSettings};
use crate::scenario::Draw;
use crate::scripts;
use crate::trace::Trace;
use crate::violation::Violation;
use crate::world::{ScheduledEvent, World, address};
use device::fault::Rng;
use device::mitigation::Threshold;
use link::Loss;
use stack::{Foreign, ListenError, StackConfig};

const GUEST: usize = 0;
const INNER: usize = 1;
const OUTER: usize = 2;
const SERVER: usize = 3;
/// The guest's network, and the server's.
const INSIDE: u8 = 1;
const BEYOND: u8 = 2;

/// Ports of the server where nobody listens begin here.
const CLOSED_PORT: u16 = 9_000;
/// Retries of a SYN: two minutes apart at last, for as long as a world lasts.
const SYN_RETRIES: u8 = 150;

impl Scenario {
    /// Draw a world with a gateway from its seed.
    ///
    /// # Errors
    /// If a host cannot be set up, which is a defect.
    pub fn of_gateway(seed: u64, trace: Option<Trace>) -> Result<Scenario, Violation> {
        let mut draw = Draw(Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x6a7e));
        let mut scenario = Scenario { world: World::new(seed, true, trace), plan: Vec::new() };
        let recovery = Instant::ZERO + Duration::from_millis(draw.magnitude(200, 60_000));
        scenario.plan.push(format!("impairments end at {:.3} s", secs(recovery)));
        for host in [GUEST, INNER, OUTER, SERVER] {
            scenario.gateway_host(host, seed, &mut draw);
        }
        let mut mtu = Mtu::ETHERNET;
        for (network, hosts) in [(INSIDE, (GUEST, INNER)), (BEYOND, (OUTER, SERVER))] {
            let kind = draw.one_of(&[LinkKind::Ethernet, LinkKind::Ethernet, LinkKind::Ip]);
            let ports = (port(kind, &mut draw), port(kind, &mut draw));
            let links = (path(kind, recovery, &mut draw), path(kind, recovery, &mut draw));
            scenario.describe(&format!("host {} to {}", hosts.0, hosts.1), &ports.0, &links.0);
            scenario.describe(&format!("host {} to {}", hosts.1, hosts.0), &ports.1, &links.1);
            mtu = mtu.min(ports.0.mtu).min(ports.1.mtu);
            scenario.world.join(network, hosts, (&ports.0, &ports.1), links, true);
        }
        let versions: &[IpVersion] = match mtu >= Mtu::MIN_V6 {
            true => &[IpVersion::V4, IpVersion::V6],
            false => &[IpVersion::V4],
        };
        let cannot = |e: ListenError| Violation { oracle: "scenario", what: format!("{e:?}") };
        scenario.engine(&mut draw).map_err(cannot)?;
        scenario.gateway_flows(versions, &mut draw).map_err(cannot)?;
        scenario.gateway_trouble(recovery, &mut draw);
        let both = Network { hosts: vec![(GUEST, INSIDE), (SERVER, BEYOND)], mtu };
        scenario.background_between(&both, (0, 1), recovery, &mut draw);
        let lasting = if draw.happens(0.5) { draw.magnitude(10, 2_000) as f64 / 1e5 } else { 0.0 };
        let loss = if lasting > 0.0 { Loss::Random(lasting) } else { Loss::Never };
        scenario.plan.push(format!("after that a loss of {lasting:.4} stays"));
        scenario.world.schedule(recovery, ScheduledEvent::Recover(loss));
        // A SYN that a limit leaves unanswered waits for others to end.
        scenario.world.expect_progress(recovery, BOUND.saturating_mul(8));
        Ok(scenario)
    }

    fn gateway_host(&mut self, number: usize, seed: u64, draw: &mut Draw) {
        let mut stack = StackConfig::new([seed, number as u64]);
        stack.switches = switches(draw);
        let is_inner = number == INNER;
        let (udp, echo, unclaimed) = (is_inner, is_inner, is_inner);
        stack.foreign = Foreign { udp, echo, unclaimed, newcomers: false };
        let settings = HostSettings {
            stack,
            clock: Duration::from_millis(1_000),
            own_buffers: draw.happens(0.3),
            interrupt: Threshold { within: Duration::ZERO, ..NEVER_ENOUGH },
            cost: Cost::default(),
        };
        self.world.add_host(settings);
    }

    fn engine(&mut self, draw: &mut Draw) -> Result<(), ListenError> {
        let mut config = Config::default();
        let mut tcp = scripts::config(draw);
        for own in [&mut config.tcp, &mut tcp] {
            scripts::keep_alive(own);
        }
        if draw.happens(0.3) {
            config.tcp = scripts::config(draw);
            scripts::keep_alive(&mut config.tcp);
        }
        for (limit, most) in [
            (Limit::GatewayFlows, 4),
            (Limit::GatewayPending, 2),
            (Limit::GatewayPendingPerDestination, 2),
            (Limit::GatewayConnectsPerSecond, 2),
        ] {
            if draw.happens(0.2) {
                let value = draw.range(1, most) as usize;
                self.plan.push(format!("{} is {value}", limit.name()));
                config.budget.set(limit, value);
            }
        }
        self.world.add_gateway((GUEST, INSIDE), (INNER, OUTER), config, tcp)
    }

    fn gateway_flows(
        &mut self,
        versions: &[IpVersion],
        draw: &mut Draw,
    ) -> Result<(), ListenError> {
        for _ in 0..draw.magnitude(1, 12) {
            let version = draw.one_of(versions);
            let scripts = scripts::draw(draw);
            let mut config = (scripts::config(draw), scripts::config(draw));
            scripts::keep_alive(&mut config.0);
            scripts::keep_alive(&mut config.1);
            // A limit may leave its SYN without an answer for as long as other flows last.
            config.0.syn_retries_max = SYN_RETRIES;
            let at = Instant::ZERO + Duration::from_millis(draw.range(0, 3_000));
            let hosts = (GUEST, SERVER);
            self.plan.push(describe_flow(hosts, version, at, &scripts, &config));
            let flow = FlowSettings { hosts, network: BEYOND, version, config, scripts, at };
            self.world.add_flow(flow)?;
        }
        for number in 0..draw.range(0, 3) as u16 {
            let at = Duration::from_millis(1_000 + draw.range(0, 3_000));
            let ip = address(BEYOND, SERVER, draw.one_of(versions)).addr;
            let to = SocketAddr::new(ip, CLOSED_PORT + number);
            self.plan.push(format!("a connect to {to}, where nobody listens"));
            let opening = Opening::Connect { to, at: Instant::ZERO + at };
            let (writes, reads) = (vec![Write::Bytes(1), Write::Finish], vec![Read::ToEnd]);
            let script = Script { writes, reads, finish: Finish::Close };
            let config = tcp::Config { syn_retries_max: SYN_RETRIES, ..scripts::config(draw) };
            self.world.add_refused(Endpoint::new(GUEST, opening, config, script, (0, 0)));
        }
        Ok(())
    }

    fn gateway_trouble(&mut self, recovery: Instant, draw: &mut Draw) {
        let last = recovery.as_nanos() / 1_000_000;
        let mut all = Vec::new();
        for host in [GUEST, INNER, OUTER, SERVER] {
            let from = Instant::ZERO + Duration::from_millis(draw.range(0, last));
            let length = Duration::from_millis(draw.magnitude(1, 5_000));
            // The two halves of the gateway are one machine.
            if matches!(host, GUEST | SERVER) && draw.happens(0.15) {
                all.push((from, ScheduledEvent::Pause(host, length)));
            } else if draw.happens(0.15) {
                all.push((from, ScheduledEvent::Exhaust(host)));
                all.push(((from + length).min(recovery), ScheduledEvent::Release(host)));
            }
        }
        for (at, what) in all {
            self.plan.push(format!("at {:.3} s: {what:?}", secs(at)));
            self.world.schedule(at, what);
        }
    }
}
