//! The rate of punted packets: a token bucket, as a time.
//!
//! Called by: `ingress.rs`, before a packet is copied, so that what is beyond the rate costs
//! little. The generic cell rate algorithm (ITU-T I.371): the bucket is the time at which the next
//! packet would be due if packets came evenly, and packets may be early by a tenth of a second.

use base::{Duration, Instant};

const NANOS: u64 = 1_000_000_000;
/// How early a packet may be.
const EARLY: Duration = Duration::from_millis(100);

/// When the next packet is due.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    due: Instant,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket { due: Instant::ZERO }
    }
}

impl Bucket {
    /// May one more packet pass, at `rate` packets a second?
    pub(super) fn admits(&mut self, rate: u32, now: Instant) -> bool {
        let Some(apart) = NANOS.checked_div(u64::from(rate)) else { return false };
        let due = self.due.max(now);
        let admitted = due.since(now) < EARLY || due == now;
        if admitted {
            self.due = due + Duration::from_nanos(apart);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_comes_at_once_and_the_rest_evenly() {
        let mut bucket = Bucket::default();
        let at = |ms: u64| Instant::from_nanos(5 * NANOS + ms * 1_000_000);
        let count =
            |bucket: &mut Bucket, ms| (0..10_000).filter(|_| bucket.admits(1_000, at(ms))).count();
        assert_eq!(count(&mut bucket, 0), 100);
        assert_eq!(count(&mut bucket, 1), 1);
        assert_eq!(count(&mut bucket, 51), 50);
        assert_eq!(count(&mut bucket, 9_000), 100);
        // A low rate lets one packet pass, and a rate of 0 none.
        assert_eq!((0..9).filter(|_| Bucket::default().admits(0, at(0))).count(), 0);
        let mut low = Bucket::default();
        assert_eq!((0..9).filter(|_| low.admits(2, at(0))).count(), 1);
        assert!(!low.admits(2, at(399)) && low.admits(2, at(401)));
    }
}
