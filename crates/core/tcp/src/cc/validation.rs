//! Congestion window validation, RFC 7661: a window that is not used in full is kept for five
//! minutes, instead of restarting after each idle time (RFC 5681 section 4.1).
//!
//! Called by: `mod.rs`. The RFC calls a window validated while half of it is used, measured by
//! pipeACK. Our rule is stricter and costs nothing: only an ACK that lets cwnd grow validates the
//! window.

use base::{Duration, Instant};

/// NVP: how long an unused window is kept (RFC 7661 section 4.4).
const NON_VALIDATED_PERIOD: Duration = Duration::from_secs(300);

/// When the window was last used in full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Validation {
    used_at: Instant,
}

/// cwnd and ssthresh after the window was unused for too long, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adjusted {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
}

impl Validation {
    /// The window was used in full: cwnd was the limit.
    #[inline(always)]
    pub(super) fn used(&mut self, now: Instant) {
        self.used_at = now;
    }

    /// Section 4.4.3, at the end of each period: halve cwnd, and set ssthresh so that slow start
    /// can restore it.
    #[inline]
    pub(super) fn check(
        &mut self,
        now: Instant,
        cwnd: u64,
        ssthresh: u64,
        initial: u64,
    ) -> Option<Adjusted> {
        if self.used_at == Instant::ZERO {
            self.used_at = now;
        }
        if now.since(self.used_at) < NON_VALIDATED_PERIOD || cwnd <= initial {
            return None;
        }
        let mut adjusted = Adjusted { cwnd, ssthresh };
        while now.since(self.used_at) >= NON_VALIDATED_PERIOD && adjusted.cwnd > initial {
            self.used_at += NON_VALIDATED_PERIOD;
            adjusted.ssthresh = adjusted.ssthresh.max(adjusted.cwnd / 4 * 3);
            adjusted.cwnd = (adjusted.cwnd / 2).max(initial);
        }
        Some(adjusted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn a_window_is_kept_for_five_minutes_and_then_halved_each_five() {
        let mut validation = Validation::default();
        validation.used(at(10));
        assert_eq!(validation.check(at(309), 1000, 500, 10), None);
        let halved = Adjusted { cwnd: 500, ssthresh: 750 };
        assert_eq!(validation.check(at(310), 1000, 500, 10), Some(halved));
        assert_eq!(
            validation.check(at(311), 500, 750, 10),
            None,
            "the window was halved again at once"
        );
        // The window is halved twice at once, after ten more minutes of silence.
        let quarter = Adjusted { cwnd: 125, ssthresh: 750 };
        assert_eq!(validation.check(at(910), 500, 750, 10), Some(quarter));
    }

    #[test]
    fn never_below_the_initial_window() {
        let mut validation = Validation::default();
        validation.used(at(1));
        let initial = Adjusted { cwnd: 10, ssthresh: 750 };
        assert_eq!(validation.check(at(100_000), 1000, 500, 10), Some(initial));
        assert_eq!(validation.check(at(200_000), 10, 750, 10), None);
    }
}
