//! The cost of a packet at a router: the cost with generator and sink, and the cost of generator
//! and sink alone.
//!
//! Called by: `wirespeed lab forward`, the benchmarks.

use std::sync::Arc;
use std::time::Instant as Clock;

use base::Instant;
use filter::Published;

use super::{Alone, ROUND, Rig, Shape};
use crate::Error;

/// Rounds between two readings of the clock.
const ROUNDS: usize = 16;

/// The cost of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Packets that were forwarded.
    pub packets: u64,
    /// Processor time in ns a packet, generator and sink included.
    pub whole_ns: f64,
    /// Processor time in ns a packet of generator and sink alone.
    pub alone_ns: f64,
}

impl Cost {
    /// ns a packet of the router; `None` if generator and sink alone took as long.
    pub fn own_ns(&self) -> Option<f64> {
        Some(self.whole_ns - self.alone_ns).filter(|ns| *ns > 0.0)
    }
}

/// CPU time of the calling thread so far, in seconds.
#[cfg(target_os = "linux")]
pub(crate) fn cpu_s() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Wall time so far, in seconds: only on Linux do we read a thread's CPU time.
#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_s() -> f64 {
    static BEGUN: std::sync::OnceLock<Clock> = std::sync::OnceLock::new();
    BEGUN.get_or_init(Clock::now).elapsed().as_secs_f64()
}

/// Do rounds for about `seconds`, or until `stop`. Returns ns a packet, and the number of packets.
fn rounds(
    seconds: f64,
    stop: &dyn Fn() -> bool,
    mut round: impl FnMut() -> Result<usize, Error>,
) -> Result<(f64, u64), Error> {
    round()?;
    let (begun, cpu, mut packets) = (Clock::now(), cpu_s(), 0);
    while packets == 0 || (begun.elapsed().as_secs_f64() < seconds && !stop()) {
        for _ in 0..ROUNDS {
            packets += round()? as u64;
        }
    }
    Ok(((cpu_s() - cpu) * 1e9 / packets as f64, packets))
}

fn lost(what: impl std::fmt::Display) -> Error {
    Error::Failed(format!("{what}; please report this line"))
}

/// The router in memory with its generator and sink, and another generator and sink alone.
pub struct Memory {
    rig: Rig,
    alone: Alone,
    clock: Clock,
}

impl Memory {
    /// A router for packets of a shape.
    ///
    /// # Errors
    /// If frames have no room for their headers.
    pub fn new(shape: Shape) -> Result<Memory, Error> {
        let rig = Rig::new(shape).ok_or_else(|| lost(format!("no router of {shape:?}")))?;
        Memory::around(rig, shape)
    }

    /// A router that was made for this shape and changed afterwards.
    ///
    /// # Errors
    /// If frames have no room for their headers.
    pub fn around(rig: Rig, shape: Shape) -> Result<Memory, Error> {
        let alone = Alone::new(shape).ok_or_else(|| lost(format!("no frames of {shape:?}")))?;
        Ok(Memory { rig, alone, clock: Clock::now() })
    }

    /// The shards of a router of a shape, each to be measured on a thread of its own.
    ///
    /// # Errors
    /// If frames have no room for their headers, or if there are fewer flows than shards.
    pub fn of_shards(
        shape: Shape,
        count: usize,
        rules: Option<Arc<Published>>,
    ) -> Result<Vec<Memory>, Error> {
        let made = || lost(format!("no router of {count} shards of {shape:?}"));
        let rigs = Rig::of_shards(shape, count, rules).ok_or_else(made)?;
        let memory = |rig| {
            let alone = Alone::new(shape).ok_or_else(made)?;
            Ok(Memory { rig, alone, clock: Clock::now() })
        };
        rigs.into_iter().map(memory).collect()
    }

    /// Measure for `seconds` or until `stop`; half of the time is without the router.
    ///
    /// # Errors
    /// If a packet is lost.
    pub fn measure(&mut self, seconds: f64, stop: &dyn Fn() -> bool) -> Result<Cost, Error> {
        let Memory { rig, alone, clock } = self;
        let (whole_ns, packets) = rounds(seconds / 2.0, stop, || {
            let offered = rig.offer(ROUND);
            rig.turn(Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1));
            let passed = rig.drain();
            match passed == offered && offered > 0 {
                true => Ok(passed),
                false => Err(lost(format!("{passed} of {offered} passed: {:?}", rig.lost()))),
            }
        })?;
        let (alone_ns, _) = rounds(seconds / 2.0, stop, || match alone.pass(ROUND) {
            ROUND => Ok(ROUND),
            passed => Err(lost(format!("{passed} of {ROUND} frames passed a wire"))),
        })?;
        Ok(Cost { packets, whole_ns, alone_ns })
    }
}
