//! A wrapper that counts a device's frames, bytes and bursts in both directions. The counters are
//! readable from any thread.
//!
//! Called by: programs, around any device. Counters: [`Totals`]. Bursts that move nothing are not
//! counted. Cost: reading each frame's length.
//!
//! ```
//! # mod wirespeed { pub use {base::*, mbuf::Pool, wirespeed_device as device}; }
//! use wirespeed::device::{counted::Counted, mem};
//!
//! let (device, _other) = mem::pair(&mem::Config::default());
//! let (device, counts) = Counted::new(device);
//! // `device` goes to `Stack::add_port`; `counts` may be read from any thread.
//! assert_eq!(counts.totals().rx.frames, 0);
//! # drop(device);
//! ```

use std::sync::Arc;

use base::Drops;
use mbuf::{Mbuf, Pool};

use crate::wrap::{Tally, pass_sleep, pass_through};
use crate::{Burst, Device};

/// Totals of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionTotals {
    /// Frames; a super-segment is one.
    pub frames: u64,
    /// Bytes of these frames, link headers included.
    pub bytes: u64,
    /// Calls that moved at least one frame.
    pub bursts: u64,
}

/// Totals of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// From the device to the stack.
    pub rx: DirectionTotals,
    /// From the stack to the device: the frames that the device took, including those that it
    /// dropped.
    pub tx: DirectionTotals,
}

impl core::iter::Sum for Totals {
    /// The totals of several queues.
    fn sum<I: Iterator<Item = Totals>>(all: I) -> Totals {
        let add = |a: DirectionTotals, b: DirectionTotals| DirectionTotals {
            frames: a.frames + b.frames,
            bytes: a.bytes + b.bytes,
            bursts: a.bursts + b.bursts,
        };
        all.fold(Totals::default(), |a, b| Totals { rx: add(a.rx, b.rx), tx: add(a.tx, b.tx) })
    }
}

#[derive(Debug, Default)]
struct Tallies {
    frames: Tally,
    bytes: Tally,
    bursts: Tally,
}

impl Tallies {
    #[inline]
    fn add(&self, frames: usize, bytes: u64) {
        if frames > 0 {
            self.frames.add(frames as u64);
            self.bytes.add(bytes);
            self.bursts.add(1);
        }
    }

    fn totals(&self) -> DirectionTotals {
        DirectionTotals {
            frames: self.frames.total(),
            bytes: self.bytes.total(),
            bursts: self.bursts.total(),
        }
    }
}

/// The counters of a [`Counted`]. Clones share them, and they outlive the device.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<[Tallies; 2]>);

impl Counts {
    /// The totals so far. If the device is in use at the same time, frames and bytes may differ by
    /// a burst.
    pub fn totals(&self) -> Totals {
        let [rx, tx] = &*self.0;
        Totals { rx: rx.totals(), tx: tx.totals() }
    }
}

/// A device whose traffic is counted.
pub struct Counted<D> {
    device: D,
    counts: Counts,
}

impl<D: Device> Counted<D> {
    /// Wrap `device`. Returns the wrapper and its counters.
    pub fn new(device: D) -> (Counted<D>, Counts) {
        let counts = Counts::default();
        (Counted { device, counts: counts.clone() }, counts)
    }

    /// The inner device.
    pub fn into_inner(self) -> D {
        self.device
    }
}

fn bytes(frames: &[Mbuf]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}

impl<D: Device> Device for Counted<D> {
    pass_through!();
    pass_sleep!();

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        let count = self.device.rx_burst(pool, into);
        self.counts.0[0].add(count, bytes(into.get(before..).unwrap_or_default()));
        count
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let before = bytes(from);
        let count = self.device.tx_burst(pool, from);
        self.counts.0[1].add(count, before.saturating_sub(bytes(from)));
        count
    }

    fn rx_ready(&self) -> bool {
        self.device.rx_ready()
    }

    fn tx_ready(&self) -> bool {
        self.device.tx_ready()
    }

    fn drops(&self) -> Option<&Drops> {
        self.device.drops()
    }
}
