//! The methods of tapping, and what was measured of each: times by size, and lines through them.
//!
//! Called by: `tap.rs`, which measures; `results`, which reports.

use super::fit::Line;
use super::streams::{Allocation, Processors};

/// Sizes of packets, in bytes; the mean on a network is near the second.
pub(super) const SIZES: [usize; 12] =
    [60, 100, 150, 200, 300, 400, 550, 700, 850, 1000, 1250, 1514];

/// A method of tapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(pub(super) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Copy,
    Ours,
    Streams { allocation: Allocation, frees: bool, processors: Processors },
}

impl Method {
    /// No tap, only the copy.
    pub(super) const COPY: Method = Method(Kind::Copy);
    /// A call with the packet in place.
    pub const OURS: Method = Method(Kind::Ours);
    /// Messages whose blocks are separate allocations.
    pub const ALLOCATE: Method = streams(Allocation::Apart, false, Processors::Several);
    /// The same, and freed.
    pub const ALLOCATE_AND_FREE: Method = streams(Allocation::Apart, true, Processors::Several);
    /// Messages in one allocation, and freed.
    pub const TOGETHER: Method = streams(Allocation::Together, true, Processors::Several);
    /// Messages of separate allocations, freed, with one processor and without locks.
    pub const UNLOCKED: Method = streams(Allocation::Apart, true, Processors::One);
}

const fn streams(allocation: Allocation, frees: bool, processors: Processors) -> Method {
    Method(Kind::Streams { allocation, frees, processors })
}

/// Nanoseconds a packet of one round.
pub(super) type Times = Vec<f64>;

/// The measurements of a method.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) method: Method,
    /// By size, in the order of [`SIZES`].
    pub(super) times: Vec<Times>,
}

impl Measured {
    pub(super) fn of(name: &'static str, method: Method) -> Measured {
        Measured { name, method, times: Vec::new() }
    }

    /// Bytes and median; sizes that were not measured are missing.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let medians = self.times.iter().zip(SIZES);
        medians.filter_map(|(t, size)| Some((size as f64, percentile(t, 0.5)?)))
    }

    pub(super) fn line(&self) -> Option<Line> {
        Line::through(&self.points().collect::<Vec<_>>())
    }

    pub(super) fn above(&self, other: &Measured) -> Option<Line> {
        let points = self.points().zip(other.points());
        Line::through(&points.map(|((x, y), (_, less))| (x, y - less)).collect::<Vec<_>>())
    }
}

/// The value below which this share of the times lies.
pub(super) fn percentile(times: &Times, share: f64) -> Option<f64> {
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}
