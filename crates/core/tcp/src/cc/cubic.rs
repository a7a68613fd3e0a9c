//! CUBIC, RFC 9438. Windows are in bytes, not in segments as in the RFC, so that the MSS may
//! change.
//!
//! Called by: `mod.rs`, outside slow start.

use base::{Duration, Instant};

use crate::rare::Clean;

/// Section 4.6: the part of cwnd that remains after a loss.
const BETA: f64 = 0.7;
/// Section 5: aggressiveness, in segments per second cubed; multiplied by the MSS, in bytes.
const C: f64 = 0.4;

/// State of one epoch: from one loss to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    /// W_max: the window at the last loss.
    w_max: f64,
    /// K: seconds from the start of the epoch until W_max is reached again.
    k: f64,
    /// W_est: the window that Reno would have.
    w_est: f64,
    /// cwnd_prior: the window before the last reduction.
    cwnd_prior: f64,
    /// When the epoch began, moved forward by the time in which cwnd was not the limit.
    epoch_start: Option<Instant>,
    /// When [`Cubic::avoid`] was last called.
    asked_at: Instant,
}

impl Clean for Cubic {
    const CLEAN: &'static Cubic = &Cubic {
        w_max: 0.0,
        k: 0.0,
        w_est: 0.0,
        cwnd_prior: 0.0,
        epoch_start: None,
        asked_at: Instant::ZERO,
    };
}

impl Cubic {
    /// Section 4.2 to 4.5: the window after `acked` more bytes.
    /// RFC 9438 4.2-a.
    pub(super) fn avoid(
        &mut self,
        cwnd: u64,
        acked: u64,
        mss: u64,
        now: Instant,
        srtt: Duration,
    ) -> u64 {
        let (window, acked, mss) = (cwnd as f64, acked as f64, mss as f64);
        let start = *self.epoch_start.get_or_insert_with(|| {
            self.w_est = window;
            if self.w_max < window {
                self.w_max = window;
            }
            self.k = ((self.w_max - window) / (C * mss)).cbrt();
            now
        });
        let start = self.without_pause(start, now, srtt);
        let t = now.since(start).as_secs_f64();
        let target = self.curve(t + srtt.as_secs_f64(), mss).clamp(window, 1.5 * window);
        // RFC 9438 4.3-a.
        // Figure 4: Reno's slope until the old window is reached again, then one segment a round.
        let alpha =
            if self.w_est < self.cwnd_prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.w_est += alpha * mss * acked / window;
        let next = if self.curve(t, mss) < self.w_est {
            self.w_est.max(window)
        } else {
            window + (target - window) / window * acked
        };
        next as u64
    }

    /// Section 5.8: the curve stands still while the application sends less than cwnd admits.
    /// `avoid` is called for ACKs of a full window only, so a gap of more than a round trip is such
    /// a time.
    /// RFC 9438 5.8-a.
    fn without_pause(&mut self, start: Instant, now: Instant, srtt: Duration) -> Instant {
        let gap = now.since(core::mem::replace(&mut self.asked_at, now));
        if start == now || gap <= srtt {
            return start;
        }
        let shifted = start + gap.saturating_sub(srtt);
        self.epoch_start = Some(shifted);
        shifted
    }

    /// W_cubic(t) of figure 1, in bytes; `t` in seconds since the epoch began.
    fn curve(&self, t: f64, mss: f64) -> f64 {
        let d = t - self.k;
        C * mss * d * d * d + self.w_max
    }

    /// Section 4.6 and 4.7: the slow-start threshold after a loss.
    /// RFC 9438 4.6-a, 4.6-b.
    pub(super) fn reduced(&mut self, cwnd: u64, flight_bytes: u64, mss: u64) -> u64 {
        // A window of which less than half was used is not validated (RFC 7661 section 4.4.1).
        let used = if flight_bytes < cwnd / 2 { flight_bytes } else { cwnd };
        let window = used as f64;
        self.cwnd_prior = window;
        // RFC 9438 4.7-a.
        // Fast convergence: a flow whose window shrinks leaves room for a new one.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.epoch_start = None;
        ((flight_bytes as f64 * BETA).round() as u64).max(2 * mss)
    }

    /// Section 4.8: after a time-out W_max is forgotten; the curve begins where slow start ends, at
    /// its plateau.
    /// RFC 9438 4.8-a.
    pub(super) fn timed_out(&mut self) {
        self.w_max = 0.0;
        self.epoch_start = None;
    }
}
