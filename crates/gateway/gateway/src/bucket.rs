//! A token bucket: so many events a second, and four times as many at once after a rest.
//!
//! Called by: `tcp/begin.rs`, for `gateway_connects_per_second`.

use base::{Budget, Duration, Instant, Limit};

/// How many seconds of the rate may be saved.
const BURST: u64 = 4;
const SECOND: Duration = Duration::from_secs(1);

/// The state of a bucket: when the next event would be due if there had been no rest. As in the
/// generic cell rate algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    due: Instant,
}

impl Bucket {
    /// May one more happen now? If not, the hit of the limit is counted.
    pub(crate) fn admits(&mut self, limit: Limit, now: Instant, budget: &mut Budget) -> bool {
        let rate = budget.of(limit) as u64;
        let room = Duration::from_secs(BURST);
        let gap = Duration::from_nanos(SECOND.as_nanos() / rate.max(1));
        let due = self.due.max(now);
        let fits = rate > 0 && due + gap <= now + room;
        if fits {
            self.due = due + gap;
        } else {
            // Counts the hit.
            budget.admits(limit, usize::MAX);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let (mut bucket, mut budget) = (Bucket::default(), Budget::default());
        let limit = Limit::GatewayConnectsPerSecond;
        budget.set(limit, 10);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut within = |ms, budget: &mut Budget| {
            (0..1_000).filter(|_| bucket.admits(limit, at(ms), budget)).count()
        };
        assert_eq!(within(1_000, &mut budget), 40);
        assert_eq!(within(1_099, &mut budget), 0);
        assert_eq!(within(1_100, &mut budget), 1);
        assert_eq!(within(2_000, &mut budget), 9);
        assert_eq!(within(60_000, &mut budget), 40);
        assert_eq!(budget.hits(limit), 5_000 - 90);
        budget.set(limit, 0);
        assert_eq!(within(90_000, &mut budget), 0);
    }
}
