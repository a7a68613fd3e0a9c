//! A receiver that is busy with each frame for a while and loses frames that end in that time, as
//! interfaces with one receive buffer do.
//!
//! Called by: tests, benchmarks. It wraps the receiver's end of a wire. Its losses are exact if it
//! is polled at the times at which frames arrive ([`Device::wakes_at`]). Drop reason:
//! `device_ring_full`.

use base::{DropReason, Drops, Duration, Instant};
use mbuf::Pool;

use crate::nic::Clock;
use crate::wrap::{pass_sleep, pass_through};
use crate::{Burst, Device};

/// The wrapper.
pub struct Busy<D> {
    device: D,
    busy: Duration,
    clock: Clock,
    /// The arrival time of the frame that was taken last.
    taken_at: Option<Instant>,
    drops: Drops,
}

impl<D: Device> Busy<D> {
    /// Lose frames that arrive less than `busy` after the last one that was not lost.
    pub fn new(device: D, busy: Duration, clock: Clock) -> Busy<D> {
        Busy { device, busy, clock, taken_at: None, drops: Drops::default() }
    }
}

impl<D: Device> Device for Busy<D> {
    pass_through!();
    pass_sleep!();

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let first = into.len();
        self.device.rx_burst(pool, into);
        let now = (self.clock)();
        let arrived: Burst = into.drain(first..).collect();
        for frame in arrived {
            if self.taken_at.is_some_and(|at| now.since(at) < self.busy) {
                self.drops.count(DropReason::DeviceRingFull);
                pool.free(frame);
            } else {
                self.taken_at = Some(now);
                into.push(frame);
            }
        }
        into.len() - first
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.device.tx_burst(pool, from)
    }

    fn rx_ready(&self) -> bool {
        self.device.rx_ready()
    }

    fn tx_ready(&self) -> bool {
        self.device.tx_ready()
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}
