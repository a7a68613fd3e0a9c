//! Simulates a transfer between two hosts whose devices coalesce interrupts, in virtual time, and
//! measures how long it takes.
//!
//! Called by: the lab, tests. There are two hosts, MTU 1500, IPv4 over Ethernet, and no packet is
//! lost. Time runs from the first SYN until the receiver has read the last byte.

use base::{Duration, Instant, IpVersion};
use device::mitigation::Threshold;
use link::Settings;

use crate::app::{Finish, Read, Script, Write};
use crate::flow::FlowSettings;
use crate::goodput::two_hosts_that;
use crate::host::{Cost, PortSettings};
use crate::violation::Violation;
use crate::world::World;

/// Payload of a full-size segment with timestamps, in bytes.
pub const SEGMENT_BYTES: u64 = 1_448;

/// The precision with which the end of a transfer is measured.
const TICK: Duration = Duration::from_micros(1);

/// A time that is longer than any transfer without loss takes.
const LONGEST: Duration = Duration::from_secs(60);

/// The settings of the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// When the devices of both hosts interrupt.
    pub interrupt: Threshold,
    /// The CPU time of an interrupt and of a frame.
    pub cost: Cost,
    /// The rate of the link in bits per second, counted over IP packets.
    pub rate_bps: u64,
    /// The delay in one direction; the round trip is twice this.
    pub delay: Duration,
    /// Bytes of the transfer.
    pub bytes: u64,
    /// The seed of all random choices: the same seed gives the same packets.
    pub seed: u64,
}

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The time from the first SYN until the last byte was read, to the microsecond.
    pub time: Duration,
    /// How often the receiver was interrupted.
    pub interrupts: u64,
    /// How many frames the receiver got.
    pub frames: u64,
    /// CPU time of the receiver.
    pub busy: Duration,
}

/// Runs the transfer.
///
/// # Errors
/// The first law that does not hold, or "liveness" if the transfer does not end.
pub fn measure(transfer: &Transfer) -> Result<Outcome, Violation> {
    let mut world = world(transfer);
    let mut now = Instant::ZERO;
    while world.received(0) < transfer.bytes {
        now += TICK;
        world.run_until(now)?;
        if now.since(Instant::ZERO) > LONGEST {
            let what = format!("{} of {} bytes arrived", world.received(0), transfer.bytes);
            return Err(Violation::new("liveness", what));
        }
    }
    Ok(Outcome {
        time: now.since(Instant::ZERO),
        interrupts: world.interrupts(1),
        frames: world.stack(1).counters().of(base::Counter::RxFrames),
        busy: world.busy(1),
    })
}

fn world(transfer: &Transfer) -> World {
    let mut world = two_hosts_that(transfer.seed, transfer.interrupt, transfer.cost);
    let way = Settings {
        rate_bps: Some(transfer.rate_bps),
        delay: transfer.delay,
        ..Settings::default()
    };
    let port = PortSettings::default();
    world.join(0, (0, 1), (&port, &port), (way.clone(), way), true);
    let writes = vec![Write::Bytes(transfer.bytes), Write::Finish];
    let config = tcp::Config::default();
    let flow = FlowSettings {
        hosts: (0, 1),
        network: 0,
        version: IpVersion::V4,
        config: (config, config),
        scripts: (
            Script { writes, reads: vec![Read::ToEnd], finish: Finish::Close },
            Script { writes: vec![Write::Finish], reads: vec![Read::ToEnd], finish: Finish::Close },
        ),
        at: Instant::ZERO,
    };
    // This cannot fail: the world is new, so that the port is free.
    let _ = world.add_flow(flow);
    world
}
