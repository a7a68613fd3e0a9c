//! A histogram of how late events were handled, with two significant figures, from 1 ns to 60 s.
//!
//! Called by: the bridge, for each packet that it delivers; reports.

use base::Duration;
use hdrhistogram::Histogram;

/// The largest value of the histogram in ns; greater ones are recorded as this.
const MOST_NS: u64 = 60_000_000_000;

/// A histogram of delays.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness(Histogram::new_with_bounds(1, MOST_NS, 2).expect("these bounds are in order"))
    }
}

impl Lateness {
    /// Record an event that was handled `late` after its time.
    #[inline]
    pub fn note(&mut self, late: Duration) {
        self.0.saturating_record(late.as_nanos());
    }

    /// The number of recorded events.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The delay at the quantile `share`, which is from 0 to 1.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// The number of events that were later than `late`.
    pub fn later_than(&self, late: Duration) -> u64 {
        self.0.len() - self.0.count_between(0, late.as_nanos())
    }

    /// The greatest delay.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}
