//! A histogram of how late events were handled.
//!
//! Called by: the bridge, for each packet it hands out; reports. Two significant figures,
//! from a nanosecond to a minute.

use base::Duration;
use hdrhistogram::Histogram;

/// Larger values count as this.
const MOST_NS: u64 = 60_000_000_000;

/// The histogram.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness(Histogram::new_with_bounds(1, MOST_NS, 2).expect("these bounds are in order"))
    }
}

impl Lateness {
    /// Record an event that was late by so much.
    #[inline]
    pub fn note(&mut self, late: Duration) {
        self.0.saturating_record(late.as_nanos());
    }

    /// The number of recorded events.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The quantile `share`, from 0 to 1.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// The number of events that were later than this.
    pub fn later_than(&self, late: Duration) -> u64 {
        self.0.len() - self.0.count_between(0, late.as_nanos())
    }

    /// The latest of all.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}
