//! How late things happened that had a time: a histogram.
//!
//! Called by: the bridge, for each packet it hands out; whoever prints it. Must not know: packets.
//! Two significant figures, from a nanosecond to a minute.

use base::Duration;
use hdrhistogram::Histogram;

/// What is later counts as this.
const MOST_NS: u64 = 60_000_000_000;

/// How late, of everything so far.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness(Histogram::new_with_bounds(1, MOST_NS, 2).expect("these bounds are in order"))
    }
}

impl Lateness {
    /// Something was late by so much.
    #[inline]
    pub fn note(&mut self, late: Duration) {
        self.0.saturating_record(late.as_nanos());
    }

    /// How much was noted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// This share of it, from 0 to 1, was no later than that.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// How much was later than that.
    pub fn later_than(&self, late: Duration) -> u64 {
        self.0.len() - self.0.count_between(0, late.as_nanos())
    }

    /// The latest of all.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}
