//! The times at which router solicitations are sent.
//!
//! Called by: `stack/autoconf/router.rs`. RFC 4861 section 6.3.7 (the first after a random delay),
//! RFC 7559 section 2 (then again at growing intervals, until a router answers).

use base::{Duration, Instant};

/// MAX_RTR_SOLICITATION_DELAY of RFC 4861 section 10.
pub const DELAY_MAX: Duration = Duration::from_secs(1);
/// IRT of RFC 7559 section 2: RTR_SOLICITATION_INTERVAL of RFC 4861 section 10.
const FIRST: Duration = Duration::from_secs(4);
/// MRT of RFC 7559 section 2.
const MOST: Duration = Duration::from_secs(3_600);

/// The times of solicitations.
#[derive(Clone, Copy, Debug)]
pub struct Solicit {
    due: Instant,
    /// The time between the last solicitation and the next; zero before the first.
    interval: Duration,
}

impl Solicit {
    /// The first solicitation is due at `at`.
    pub fn starting(at: Instant) -> Solicit {
        Solicit { due: at, interval: Duration::ZERO }
    }

    /// When the next solicitation is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// A solicitation was sent at `now`. The next one is due after twice the previous interval,
    /// changed by up to a tenth by `random`. RFC 7559 2-a.
    pub fn sent(&mut self, now: Instant, random: u64) {
        let doubled = self.interval + self.interval;
        let base = if self.interval == Duration::ZERO { FIRST } else { doubled.min(MOST) };
        let tenth = base.div(10);
        let off = Duration::from_nanos(random % (2 * tenth.as_nanos() + 1));
        self.interval = base.saturating_sub(tenth) + off;
        self.due = now + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7559 2-a.
    #[test]
    fn solicitations_become_rare() {
        let mut solicit = Solicit::starting(Instant::ZERO);
        let mut gaps = Vec::new();
        for n in 0..15_u64 {
            let at = solicit.due();
            solicit.sent(at, n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            gaps.push(solicit.due().since(at));
        }
        assert!(gaps[0] >= Duration::from_millis(3_600) && gaps[0] <= Duration::from_millis(4_400));
        for pair in gaps.windows(2) {
            let doubled = pair[0].saturating_mul(2).min(MOST);
            assert!(pair[1] >= doubled.div(10).saturating_mul(9), "{gaps:?}");
            assert!(pair[1] <= doubled + doubled.div(10), "{gaps:?}");
        }
        let most = MOST + MOST.div(10);
        assert!(gaps[14] > Duration::from_secs(3_000) && gaps[14] <= most);
    }
}
