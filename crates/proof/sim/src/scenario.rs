//! The world that a seed makes: hosts, links, impairments, applications, scheduled events. All are
//! drawn from the seed's random numbers.
//!
//! Called by: `run`. Each line of `plan` describes a choice, for the report of a failure. After any
//! change in this file every seed makes another world, so a seed is only valid together with its
//! commit.
//!
//! At `recovery` all impairments of the network end, except for a little loss in half of the
//! worlds; from then on connections have to make progress.

mod drawn;
mod gateway;

use core::net::SocketAddr;

use base::{Duration, Instant, IpVersion, Limit, LinkKind, Mtu, Switch};
use device::fault::Rng;
use device::mitigation::Threshold;
use link::{Loss, Settings};
use stack::StackConfig;

use crate::adversaries::AdversaryFlow;
use crate::adversary::AdversarySettings;
use crate::app::{Finish, Read, Script, Write};
use crate::background::{BackgroundSettings, Kind};
use crate::flow::FlowSettings;
use crate::host::{Cost, HostSettings, PortSettings};
use crate::misbehaviour::Misbehaviour;
use crate::scripts;
use crate::trace::Trace;
use crate::violation::Violation;
use crate::world::{RouterLeg, ScheduledEvent, World, address};
use drawn::{path, port, switches};

pub(crate) use drawn::Draw;

/// A coalescing setting by which a device interrupts by time only, never by the number of frames.
const NEVER_ENOUGH: Threshold =
    Threshold { frames: u32::MAX, bytes: u32::MAX, within: Duration::ZERO };

/// The longest time without progress. It is longer than the longest legitimate wait: more than
/// twice the longest time-out, which is 120 s.
const BOUND: Duration = Duration::from_secs(260);

/// If connections have not ended by this time, that is a failure. An hour would not be enough:
/// without timestamps each hole may cost a time-out of 120 s.
const LATEST: Duration = Duration::from_secs(5 * 3600);

/// The number of the first network with an adversary. Networks between hosts have lower numbers.
const ADVERSARIES_NETWORK: u8 = 100;

/// The first port number for datagrams. Connections have lower port numbers.
const BACKGROUND_PORT: u16 = 7_000;

/// The world of a seed, ready to run.
pub struct Scenario {
    world: World,
    plan: Vec<String>,
}

impl Scenario {
    /// Draw a scenario from its seed.
    ///
    /// # Errors
    /// A host cannot be set up. That is a defect of the program.
    pub fn new(seed: u64, trace: Option<Trace>) -> Result<Scenario, Violation> {
        let mut draw = Draw(Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed));
        let mut scenario = Scenario { world: World::new(seed, true, trace), plan: Vec::new() };
        let recovery = Instant::ZERO + Duration::from_millis(draw.magnitude(200, 60_000));
        scenario.plan.push(format!("impairments end at {:.3} s", secs(recovery)));
        let hosts = if draw.happens(0.6) { 2 } else { draw.range(3, 5) as usize };
        for host in 0..hosts {
            scenario.host(host, seed, &mut draw);
        }
        let networks = scenario.links(hosts, recovery, &mut draw);
        scenario.flows(&networks, &mut draw)?;
        scenario.scheduled_events(hosts, recovery, &mut draw);
        let lasting = if draw.happens(0.5) { draw.magnitude(10, 2_000) as f64 / 1e5 } else { 0.0 };
        let loss = if lasting > 0.0 { Loss::Random(lasting) } else { Loss::Never };
        scenario.plan.push(format!("after that a loss of {lasting:.4} stays"));
        scenario.adversaries(hosts, recovery, &mut draw);
        scenario.background_flows(&networks, recovery, &mut draw);
        scenario.world.schedule(recovery, ScheduledEvent::Recover(loss));
        scenario.world.expect_progress(recovery, BOUND);
        Ok(scenario)
    }

    /// The choices that were made, one in each line.
    pub fn plan(&self) -> &[String] {
        &self.plan
    }

    /// Run the world to its end.
    ///
    /// # Errors
    /// The first law that did not hold.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.world.run_to_end(Instant::ZERO + LATEST)
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    fn host(&mut self, number: usize, seed: u64, draw: &mut Draw) {
        let mut stack = StackConfig::new([seed, number as u64]);
        stack.switches = switches(draw);
        let is_poor = draw.happens(0.15);
        if is_poor {
            stack.budget.set(Limit::MbufBytes, draw.range(4, 16) as usize * (1 << 20));
        }
        let clock = match draw.range(0, 3) {
            // The host's clock begins shortly before the time when milliseconds in 32 bits, and so
            // timestamps, wrap.
            0 => Duration::from_millis((1 << 32) - draw.range(1, 20_000)),
            1 => Duration::from_millis((1 << 31) - draw.range(1, 20_000)),
            _ => Duration::from_millis(draw.range(1, 1 << 20)),
        };
        let coalesce = if draw.happens(0.3) { draw.magnitude(1, 2_000) } else { 0 };
        let settings = HostSettings {
            stack,
            clock,
            own_buffers: is_poor || draw.happens(0.3),
            interrupt: Threshold { within: Duration::from_micros(coalesce), ..NEVER_ENOUGH },
            cost: Cost::default(),
        };
        let off: Vec<&str> = Switch::ALL
            .iter()
            .filter(|&&s| !settings.stack.switches.on(s))
            .map(|s| s.name())
            .collect();
        self.plan.push(format!(
            "host {number}: clock {} ms, {} MB of buffers{}, coalesces {coalesce} us, off: {off:?}",
            clock.as_millis(),
            settings.stack.budget.of(Limit::MbufBytes) >> 20,
            if settings.own_buffers { " of its own" } else { "" },
        ));
        self.world.add_host(settings);
    }

    /// Join the hosts: by links, each between two hosts, or by one hub. Returns each network with
    /// its hosts, link kind and smallest MTU.
    fn links(&mut self, hosts: usize, recovery: Instant, draw: &mut Draw) -> Vec<Network> {
        let introduced = draw.happens(0.7);
        if draw.happens(0.15) {
            return vec![self.router(hosts, recovery, draw)];
        }
        if hosts > 2 && draw.happens(0.5) {
            let members: Vec<_> = (0..hosts)
                .map(|host| {
                    let port = port(LinkKind::Ethernet, draw);
                    let links = (0..2).map(|_| path(LinkKind::Ethernet, recovery, draw));
                    let [there, back] = links.collect::<Vec<_>>().try_into().unwrap_or_default();
                    self.describe(&format!("host {host} to the hub"), &port, &there);
                    self.describe(&format!("the hub to host {host}"), &port, &back);
                    (host, port, there, back)
                })
                .collect();
            self.world.join_by_hub(0, &members, introduced);
            let mtu = members.iter().map(|m| m.1.mtu).min().unwrap_or(Mtu::ETHERNET);
            let hosts = (0..hosts).map(|host| (host, 0)).collect();
            return vec![Network { hosts, mtu }];
        }
        let mut networks = Vec::new();
        for b in 1..hosts {
            let a = draw.range(0, b as u64 - 1) as usize;
            let kind = draw.one_of(&[LinkKind::Ethernet, LinkKind::Ethernet, LinkKind::Ip]);
            let ports = (port(kind, draw), port(kind, draw));
            let links = (path(kind, recovery, draw), path(kind, recovery, draw));
            self.describe(&format!("host {a} to {b}"), &ports.0, &links.0);
            self.describe(&format!("host {b} to {a}"), &ports.1, &links.1);
            let mtu = ports.0.mtu.min(ports.1.mtu);
            let number = b as u8;
            self.world.join(number, (a, b), (&ports.0, &ports.1), links, introduced);
            networks.push(Network { hosts: vec![(a, number), (b, number)], mtu });
        }
        networks
    }

    /// Join all hosts by one router, some of whose links have a small MTU. Until the network
    /// recovers, the router may silently drop packets that are too long.
    fn router(&mut self, hosts: usize, recovery: Instant, draw: &mut Draw) -> Network {
        let is_black_hole = draw.happens(0.4);
        let mut members = Vec::new();
        for host in 0..hosts {
            let port = port(LinkKind::Ip, draw);
            let (there, back) =
                (path(LinkKind::Ip, recovery, draw), path(LinkKind::Ip, recovery, draw));
            let narrow = draw.range(576, 1500) as usize;
            let mtu =
                if draw.happens(0.5) { port.mtu.bytes().min(narrow) } else { port.mtu.bytes() };
            let mtu = Mtu::new(mtu).unwrap_or(port.mtu);
            self.describe(&format!("host {host} to the router"), &port, &there);
            self.describe(&format!("the router to host {host}, {}", mtu.bytes()), &port, &back);
            members.push(RouterLeg { host, network: host as u8 + 1, port, there, back, mtu });
        }
        let reports_from = if is_black_hole { recovery } else { Instant::ZERO };
        self.plan.push(format!(
            "the router reports packets that are too long from {:.3} s",
            secs(reports_from)
        ));
        self.world.join_by_router(&members, reports_from);
        let mtu = members.iter().map(|m| m.mtu.min(m.port.mtu)).min().unwrap_or(Mtu::ETHERNET);
        Network { hosts: members.iter().map(|m| (m.host, m.network)).collect(), mtu }
    }

    fn describe(&mut self, what: &str, port: &PortSettings, path: &Settings) {
        self.plan.push(format!(
            "{what}: {:?} mtu {} ring {} frames {} KB tso {} sums {}; {:?} b/s, {} us + {}, \
             queue {}, {:?}, {:?}, late {:.3} by {} ms, twice {:.3}, corrupt {:.3}, outages {}, \
             exempt {}",
            port.link,
            port.mtu.bytes(),
            port.depth,
            port.depth_bytes >> 10,
            port.offloads.tso_max_bytes,
            port.offloads.tx_checksum,
            path.rate_bps,
            path.delay.as_micros(),
            path.jitter.as_micros(),
            path.queue_bytes,
            path.aqm,
            path.loss,
            path.late,
            path.late_by.as_millis(),
            path.duplicate,
            path.corrupt,
            path.outages.len(),
            path.exempt_bytes,
        ));
    }

    fn flows(&mut self, networks: &[Network], draw: &mut Draw) -> Result<(), Violation> {
        let count = draw.magnitude(1, 8);
        for _ in 0..count {
            let network = &networks[draw.range(0, networks.len() as u64 - 1) as usize];
            let from = draw.range(0, network.hosts.len() as u64 - 1) as usize;
            let step = draw.range(1, network.hosts.len() as u64 - 1) as usize;
            let to = (from + step) % network.hosts.len();
            let may_be_v6 = network.mtu >= Mtu::MIN_V6;
            let version =
                if may_be_v6 && draw.happens(0.5) { IpVersion::V6 } else { IpVersion::V4 };
            let scripts = scripts::draw(draw);
            let mut config = (scripts::config(draw), scripts::config(draw));
            let is_graceful = scripts.0.is_graceful() && scripts.1.is_graceful();
            if !is_graceful {
                // A RST may be lost. Then only keepalive detects that the connection has ended.
                scripts::keep_alive(&mut config.0);
                scripts::keep_alive(&mut config.1);
            }
            let at = Instant::ZERO + Duration::from_millis(draw.range(0, 3_000));
            let (hosts, network) =
                ((network.hosts[from].0, network.hosts[to].0), network.hosts[to].1);
            self.plan.push(describe_flow(hosts, version, at, &scripts, &config));
            self.world
                .add_flow(FlowSettings { hosts, network, version, config, scripts, at })
                .map_err(|e| Violation { oracle: "scenario", what: format!("{e:?}") })?;
        }
        Ok(())
    }

    /// Add background flows.
    fn background_flows(&mut self, networks: &[Network], recovery: Instant, draw: &mut Draw) {
        if !draw.happens(0.3) {
            return;
        }
        for number in 0..draw.range(1, 3) as u16 {
            let network = draw.range(0, networks.len() as u64 - 1) as usize;
            let Network { hosts, .. } = &networks[network];
            let (from, step) = (draw.range(0, 9) as usize, draw.range(1, hosts.len() as u64 - 1));
            let ends = (from % hosts.len(), (from + step as usize) % hosts.len());
            self.background_flow(&networks[network], ends, number, recovery, draw);
        }
    }

    /// Add background flows from one host of a network to another, or none.
    fn background_between(
        &mut self,
        network: &Network,
        ends: (usize, usize),
        recovery: Instant,
        draw: &mut Draw,
    ) {
        if draw.happens(0.5) {
            for number in 0..draw.range(1, 3) as u16 {
                self.background_flow(network, ends, number, recovery, draw);
            }
        }
    }

    fn background_flow(
        &mut self,
        Network { hosts, mtu }: &Network,
        (from, to): (usize, usize),
        number: u16,
        recovery: Instant,
        draw: &mut Draw,
    ) {
        let may_be_v6 = *mtu >= Mtu::MIN_V6;
        let version = if may_be_v6 && draw.happens(0.5) { IpVersion::V6 } else { IpVersion::V4 };
        let ip = address(hosts[to].1, hosts[to].0, version).addr;
        let settings = BackgroundSettings {
            kind: draw.one_of(&[Kind::Datagrams, Kind::Echoes]),
            hosts: (hosts[from].0, hosts[to].0),
            to: SocketAddr::new(ip, BACKGROUND_PORT + number),
            messages: draw.range(1, 300) as u32,
            every: Duration::from_millis(draw.magnitude(1, 1_000)),
            // The longest headers are IPv6's 40 bytes and eight bytes of UDP or ICMP.
            bytes_max: draw.range(8, mtu.bytes() as u64 - 48) as usize,
            // By that time hosts that paused at the recovery have resumed.
            must_arrive_from: Some(recovery + Duration::from_secs(20)),
            seed: draw.0.next_u64(),
        };
        let at = Instant::ZERO + Duration::from_millis(draw.range(0, 3_000));
        self.plan.push(format!("background flow {number} at {:.3} s: {settings:?}", secs(at)));
        self.world.add_background_flow(settings, at);
    }

    /// Add adversaries, each on a link of its own.
    fn adversaries(&mut self, hosts: usize, recovery: Instant, draw: &mut Draw) {
        if !draw.happens(0.3) {
            return;
        }
        for number in 0..draw.range(1, 2) as u8 {
            let misbehaviour = draw.one_of(Misbehaviour::ALL);
            let host = draw.range(0, hosts as u64 - 1) as usize;
            let links = (path(LinkKind::Ip, recovery, draw), path(LinkKind::Ip, recovery, draw));
            let mut config = scripts::config(draw);
            if !misbehaviour.is_survived() {
                scripts::keep_alive(&mut config);
                config.user_timeout = Some(Duration::from_secs(60));
            }
            // A segment of one byte costs as much work as a full one.
            let most = if misbehaviour == Misbehaviour::TinyMss { 3_000 } else { 300_000 };
            let script = Script {
                writes: vec![Write::Bytes(draw.magnitude(1, most)), Write::Finish],
                reads: vec![Read::ToEnd],
                finish: Finish::Close,
            };
            let bytes = draw.magnitude(1, 20_000);
            let adversary = AdversarySettings {
                misbehaviour,
                honest_from: recovery,
                bytes,
                seed: draw.0.next_u64(),
            };
            let at = Instant::ZERO + Duration::from_millis(draw.range(0, 3_000));
            self.plan.push(format!(
                "adversary {number}: host {host} connects at {:.3} s; {misbehaviour:?}, sends \
                 {bytes}; {}",
                secs(at),
                scripts::describe(&script, &config)
            ));
            let network = ADVERSARIES_NETWORK + number;
            self.world.add_adversary(AdversaryFlow {
                host,
                network,
                links,
                adversary,
                config,
                script,
                at,
            });
        }
    }

    fn scheduled_events(&mut self, hosts: usize, recovery: Instant, draw: &mut Draw) {
        let last = recovery.as_nanos() / 1_000_000;
        let any = |draw: &mut Draw| Instant::ZERO + Duration::from_millis(draw.range(0, last));
        let mut all = Vec::new();
        for host in 0..hosts {
            if draw.happens(0.15) {
                let length = Duration::from_millis(draw.magnitude(1, 5_000));
                all.push((any(draw), ScheduledEvent::Pause(host, length)));
            }
            if draw.happens(0.1) {
                let ms = draw.magnitude(1, 30_000) as i64;
                let by_ms = if draw.happens(0.5) { ms } else { -ms.min(5_000) };
                all.push((any(draw), ScheduledEvent::ClockJump(host, by_ms * 1_000_000)));
            }
            if draw.happens(0.1) {
                let from = any(draw);
                all.push((from, ScheduledEvent::Exhaust(host)));
                let length = Duration::from_millis(draw.magnitude(1, 5_000));
                all.push(((from + length).min(recovery), ScheduledEvent::Release(host)));
            }
        }
        for (at, what) in all {
            self.plan.push(format!("at {:.3} s: {what:?}", secs(at)));
            self.world.schedule(at, what);
        }
    }
}

fn describe_flow(
    hosts: (usize, usize),
    version: IpVersion,
    at: Instant,
    scripts: &(Script, Script),
    config: &(tcp::Config, tcp::Config),
) -> String {
    format!(
        "flow: host {} to {} {version:?} at {:.3} s; {}; {}",
        hosts.0,
        hosts.1,
        secs(at),
        scripts::describe(&scripts.0, &config.0),
        scripts::describe(&scripts.1, &config.1)
    )
}

/// Hosts that can reach each other: on one network, or through a router.
struct Network {
    /// The hosts, each with the number of its network.
    hosts: Vec<(usize, u8)>,
    mtu: Mtu,
}

fn secs(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}
