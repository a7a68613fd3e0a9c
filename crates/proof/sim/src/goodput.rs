//! Simulates bulk flows over one path in virtual time and measures their goodput.
//!
//! Called by: the program `wirespeed-sim`, benches, the lab.
//!
//! The path: two hosts, MTU 1500, IPv4 over Ethernet. The rate counts IP packets with their
//! headers, but without link headers. Impairments act only on data, after the bottleneck's queue.
//! ACKs return with the same rate and delay, through a queue that never fills. Time runs from the
//! first SYN.

use base::{Duration, Instant, IpVersion, Switch};
use device::fault::Rng;
use device::mitigation::Threshold;
use link::{Aqm, Loss, Settings};
use stack::StackConfig;
use tcp::Ecn;
use tcp::cc::Algorithm;

use crate::app::{Finish, Read, Script, Write};
use crate::flow::FlowSettings;
use crate::host::{Cost, HostSettings, PortSettings};
use crate::violation::Violation;
use crate::world::World;

/// Bytes of an IPv4 packet that carries a full segment with timestamps, and bytes of its payload.
const PACKET: f64 = 1500.0;
const PAYLOAD: f64 = 1448.0;

/// Packets of up to this many bytes have no impairments. It is more than any segment without data
/// has, and less than any segment with much data has.
const EXEMPT_BYTES: usize = 100;

/// A path, and the flows over it.
#[derive(Clone, Debug)]
pub struct Goodput {
    /// The rate in bits per second.
    pub rate_bps: u64,
    /// The delay in one direction; the round trip is twice this.
    pub delay: Duration,
    /// Size of the bottleneck's queue, in bytes.
    pub queue_bytes: usize,
    /// The active queue management of that queue, for example CoDel.
    pub aqm: Aqm,
    /// Length of the run in virtual time, from the first SYN on.
    pub length: Duration,
    /// Bytes that arrive earlier are not counted.
    pub from: Duration,
    /// Bulk flows that begin within a round trip.
    pub flows: usize,
    /// How data packets are lost.
    pub loss: Loss,
    /// The probability that a data packet is late, and by how much.
    pub late: (f64, Duration),
    /// The flows' congestion control.
    pub algorithm: Algorithm,
    /// Do the flows negotiate ECN?
    pub ecn: bool,
    /// Send and receive buffer of each connection; `None` is the stack's default.
    pub buffer_bytes: Option<u32>,
    /// The largest super-segment that the sender's device takes, in bytes; 0 for none.
    pub tso_max_bytes: usize,
    /// The seed of all random choices: the same seed gives the same packets.
    pub seed: u64,
}

impl Goodput {
    /// A path with this rate and delay, a queue of one bandwidth-delay product, 60 s, and one flow
    /// of CUBIC.
    pub fn new(rate_bps: u64, delay: Duration) -> Goodput {
        let mut path = Goodput {
            rate_bps,
            delay,
            queue_bytes: 0,
            aqm: Aqm::None,
            length: Duration::from_secs(60),
            from: Duration::ZERO,
            flows: 1,
            loss: Loss::Never,
            late: (0.0, Duration::ZERO),
            algorithm: Algorithm::Cubic,
            ecn: false,
            buffer_bytes: None,
            tso_max_bytes: 0,
            seed: 1,
        };
        path.queue_bytes = path.bdp_bytes(1.0);
        path
    }

    /// The bytes of `share` bandwidth-delay products (rate times round trip).
    pub fn bdp_bytes(&self, share: f64) -> usize {
        (self.rate_bps as f64 / 8.0 * 2.0 * self.delay.as_secs_f64() * share) as usize
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Goodput of all flows together, divided by what the path can carry (rate x 1448 / 1500).
    pub share: f64,
    /// The goodput of each flow in bits per second.
    pub flows_bps: Vec<f64>,
    /// Jain's index of the flows' goodput: 1 if all are equal.
    pub fairness: f64,
    /// Retransmitted segments of all flows.
    pub retransmits: u64,
    /// Retransmission time-outs of all flows.
    pub timeouts: u64,
    /// Number of times that flows entered fast recovery, over all flows.
    pub fast_recoveries: u64,
    /// How often flows reduced their window because of echoed ECN marks.
    pub ecn_reductions: u64,
    /// The counters of the bottleneck.
    pub bottleneck: link::Counts,
    /// Events that the simulation handled.
    pub events: u64,
}

/// A world with two unconnected hosts and no oracles.
pub(crate) fn two_hosts(seed: u64) -> World {
    two_hosts_that(seed, Threshold::EACH, Cost::default())
}

/// Like [`two_hosts`], with these interrupt settings and CPU costs of the devices.
pub(crate) fn two_hosts_that(seed: u64, interrupt: Threshold, cost: Cost) -> World {
    let mut world = World::new(seed, false, None);
    for number in 0..2 {
        let mut stack = StackConfig::new([seed, number]);
        // Checksums are off: these paths corrupt nothing, and checksums would take a quarter of the
        // time.
        for switch in [Switch::ChecksumRx, Switch::ChecksumTx] {
            stack.switches = stack.switches.with(switch, false);
        }
        world.add_host(HostSettings {
            stack,
            clock: Duration::from_secs(1),
            own_buffers: false,
            interrupt,
            cost,
        });
    }
    world
}

/// The settings of the two directions. Data passes the bottleneck; ACKs have only its rate and
/// delay.
pub fn ways(path: &Goodput) -> (Settings, Settings) {
    let back = Settings {
        rate_bps: Some(path.rate_bps),
        delay: path.delay,
        queue_bytes: 1 << 30,
        ..Settings::default()
    };
    let there = Settings {
        queue_bytes: path.queue_bytes,
        aqm: path.aqm,
        loss: path.loss,
        late: path.late.0,
        late_by: path.late.1,
        exempt_bytes: EXEMPT_BYTES,
        ..back.clone()
    };
    (there, back)
}

/// Goodput as a share of what the path can carry in full segments with timestamps.
pub fn share_of(path: &Goodput, goodput_bps: f64) -> f64 {
    goodput_bps / (path.rate_bps as f64 * PAYLOAD / PACKET)
}

/// Jain's index: the square of the sum, divided by the number of flows times the sum of the
/// squares. It is 1 if all flows are equal, and 1/n if one of n flows gets everything.
pub fn fairness(flows_bps: &[f64]) -> f64 {
    let sum: f64 = flows_bps.iter().sum();
    let squares: f64 = flows_bps.iter().map(|bps| bps * bps).sum();
    sum * sum / (squares * flows_bps.len() as f64)
}

/// A world with the path and its flows, at its start.
pub fn world(path: &Goodput) -> World {
    let mut rng = Rng::new(path.seed);
    let rtt_ns = 2 * path.delay.as_nanos() as usize;
    let flows = (0..path.flows).map(|flow| {
        // Time starts with the first SYN; the other flows begin within a round trip.
        let at_ns = if flow == 0 { 0 } else { rng.below(rtt_ns) as u64 };
        (path.algorithm, Instant::from_nanos(at_ns))
    });
    world_of(path, flows)
}

/// A world with the path and these flows, each with its congestion control and start time.
pub fn world_of(path: &Goodput, flows: impl Iterator<Item = (Algorithm, Instant)>) -> World {
    let mut world = two_hosts(path.seed);
    let mut port = PortSettings::default();
    port.offloads.tso_max_bytes = path.tso_max_bytes;
    port.offloads.tx_checksum = path.tso_max_bytes > 0;
    world.join(0, (0, 1), (&port, &port), ways(path), true);
    for (algorithm, at) in flows {
        let ecn = if path.ecn { Ecn::On } else { Ecn::default() };
        let mut config = tcp::Config { algorithm, ecn, ..tcp::Config::default() };
        if let Some(bytes) = path.buffer_bytes {
            config.set_fixed_buffers(bytes, bytes);
        }
        let added = world.add_flow(FlowSettings {
            hosts: (0, 1),
            network: 0,
            version: IpVersion::V4,
            config: (config, config),
            scripts: (
                Script {
                    writes: vec![Write::AwaitOpen, Write::Bytes(u64::MAX)],
                    reads: vec![],
                    finish: Finish::Close,
                },
                Script { writes: vec![], reads: vec![Read::ToEnd], finish: Finish::Close },
            ),
            at,
        });
        debug_assert!(added.is_ok(), "a new stack has every port free");
    }
    world
}

/// Run the flows for the length of the run.
///
/// # Errors
/// The bytes that arrive are not those that were sent.
pub fn measure(path: &Goodput) -> Result<Outcome, Violation> {
    let mut world = world(path);
    world.run_until(Instant::ZERO + path.from)?;
    let before = received(path, &world);
    world.run_until(Instant::ZERO + path.length)?;
    Ok(outcome(path, &world, &before))
}

/// The virtual time between two calls of `stop`. In it at most some tens of thousands of packets
/// are sent.
const LOOK: Duration = Duration::from_millis(20);

/// Like [`measure`], but returns `None` if `stop` has returned true in the meantime.
///
/// # Errors
/// The bytes that arrive are not those that were sent.
pub fn measure_unless(
    path: &Goodput,
    stop: impl Fn() -> bool,
) -> Result<Option<Outcome>, Violation> {
    let mut world = world(path);
    let mut now = Instant::ZERO;
    let mut go = |world: &mut World, until: Duration| -> Result<bool, Violation> {
        while now < Instant::ZERO + until {
            if stop() {
                return Ok(false);
            }
            now = (now + LOOK).min(Instant::ZERO + until);
            world.run_until(now)?;
        }
        Ok(true)
    };
    if !go(&mut world, path.from)? {
        return Ok(None);
    }
    let before = received(path, &world);
    let is_whole = go(&mut world, path.length)?;
    Ok(is_whole.then(|| outcome(path, &world, &before)))
}

/// Bytes that each flow has received.
fn received(path: &Goodput, world: &World) -> Vec<u64> {
    (0..path.flows).map(|flow| world.received(flow)).collect()
}

fn outcome(path: &Goodput, world: &World, before: &[u64]) -> Outcome {
    let seconds = path.length.saturating_sub(path.from).as_secs_f64();
    let flows_bps: Vec<f64> = (0..path.flows)
        .map(|flow| (world.received(flow) - before[flow]) as f64 * 8.0 / seconds)
        .collect();
    let infos: Vec<_> = (0..path.flows).filter_map(|flow| world.info(flow)).collect();
    Outcome {
        share: share_of(path, flows_bps.iter().sum()),
        fairness: fairness(&flows_bps),
        flows_bps,
        retransmits: infos.iter().map(|i| u64::from(i.retransmits)).sum(),
        timeouts: infos.iter().map(|i| u64::from(i.timeouts)).sum(),
        fast_recoveries: infos.iter().map(|i| u64::from(i.fast_recoveries)).sum(),
        ecn_reductions: infos.iter().map(|i| u64::from(i.ecn_reductions)).sum(),
        bottleneck: *world.link_counts(0),
        events: world.events(),
    }
}
