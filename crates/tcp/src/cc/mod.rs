//! Congestion control: one window in bytes, one small interface, the laws behind it.
//!
//! Called by: ack and recovery. Must not know: segments, sequence numbers, the send queue.
//! RFC 5681 (slow start, what a loss does), 6928 (initial window), 3465 (bytes are counted, so
//! that dividing ACKs gains nothing).

mod cubic;
mod newreno;

use base::{Duration, Instant};

use cubic::Cubic;

/// The laws to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 9438.
    Cubic,
    /// RFC 5681 with the recovery of RFC 6582.
    NewReno,
}

impl Algorithm {
    /// All of them.
    pub const ALL: &'static [Algorithm] = &[Algorithm::Cubic, Algorithm::NewReno];

    /// Name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Cubic => "cubic",
            Algorithm::NewReno => "newreno",
        }
    }
}

/// State of the law in use.
#[derive(Clone, Copy, Debug)]
enum Law {
    NewReno,
    Cubic(Cubic),
}

/// The congestion window of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cc {
    /// Bytes that may be in flight.
    pub(crate) cwnd: u64,
    /// Below this, slow start.
    pub(crate) ssthresh: u64,
    mss: u64,
    law: Law,
}

impl Cc {
    pub(crate) fn new(algorithm: Algorithm) -> Cc {
        let law = match algorithm {
            Algorithm::NewReno => Law::NewReno,
            Algorithm::Cubic => Law::Cubic(Cubic::default()),
        };
        Cc { cwnd: 0, ssthresh: u64::MAX, mss: 1, law }
    }

    /// Segments are of another size from now on; the window stays as many bytes as it was.
    pub(crate) fn set_mss(&mut self, mss: usize) {
        self.mss = mss.max(1) as u64;
    }

    /// The MSS is known: ten segments to begin with, RFC 6928 section 2; one if the SYN was lost,
    /// RFC 5681 section 3.1.
    pub(crate) fn start(&mut self, mss: usize, syn_lost: bool) {
        self.mss = mss.max(1) as u64;
        let initial = (10 * self.mss).min((2 * self.mss).max(14_600));
        self.cwnd = if syn_lost { self.mss } else { initial };
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.law {
            Law::NewReno => Algorithm::NewReno,
            Law::Cubic(_) => Algorithm::Cubic,
        }
    }

    /// New data was acknowledged while the window was the limit, and no loss is being repaired.
    #[inline]
    pub(crate) fn on_ack(&mut self, acked_bytes: u32, now: Instant, srtt: Duration) {
        let mut acked = u64::from(acked_bytes);
        if self.cwnd < self.ssthresh {
            let grown = (self.cwnd + acked).min(self.ssthresh);
            acked -= grown - self.cwnd;
            self.cwnd = grown;
            if acked == 0 {
                return;
            }
        }
        match &mut self.law {
            Law::NewReno => self.cwnd = newreno::avoid(self.cwnd, acked, self.mss),
            Law::Cubic(cubic) => self.cwnd = cubic.avoid(self.cwnd, acked, self.mss, now, srtt),
        }
    }

    /// A loss was found by duplicate ACKs or SACKs with this many bytes in flight.
    pub(crate) fn on_loss(&mut self, flight_bytes: u64) {
        self.ssthresh = match &mut self.law {
            Law::NewReno => newreno::reduced(flight_bytes, self.mss),
            Law::Cubic(cubic) => cubic.reduced(self.cwnd, flight_bytes, self.mss),
        };
        self.cwnd = self.ssthresh;
    }

    /// The retransmission timer fired: one segment, RFC 5681 equation 4 and after.
    pub(crate) fn on_timeout(&mut self, flight_bytes: u64, first: bool) {
        if first {
            self.on_loss(flight_bytes);
        }
        self.cwnd = self.mss;
    }

    /// Nothing was sent for longer than a time-out: start over from the initial window at most,
    /// RFC 5681 section 4.1.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_idle(&mut self) {
        self.cwnd = self.cwnd.min((10 * self.mss).min((2 * self.mss).max(14_600)));
    }
}

#[cfg(test)]
mod tests;
