//! Congestion control: one window in bytes, and a small interface to the algorithms.
//!
//! Called by: ack, recovery, output and pacing. An algorithm sees bytes and times, but neither
//! segments nor the send queue. RFC 5681 (slow start, response to loss), RFC 6928 (initial window),
//! RFC 3465 (bytes are counted, so that ACK division gains nothing).

mod bbr;
mod cubic;
mod hystart;
mod validation;

use base::{Duration, Instant, SeqNumber};
use bbr::Bbr;
use cubic::Cubic;
use hystart::{Growth, HyStart};
use validation::Validation;

use crate::rare::Rare;

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 9438.
    Cubic,
    /// RFC 5681 with the recovery of RFC 6582.
    NewReno,
    /// draft-ietf-ccwg-bbr-06, version 3.
    Bbr,
    /// RFC 5681 alone, as in 4.3BSD Reno: the first ACK of new data ends recovery. Historical.
    Reno,
    /// As in 4.3BSD Tahoe, 1988: every loss reduces cwnd to one segment. Historical.
    Tahoe,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: &'static [Algorithm] =
        &[Algorithm::Cubic, Algorithm::NewReno, Algorithm::Bbr, Algorithm::Reno, Algorithm::Tahoe];

    /// Name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Cubic => "cubic",
            Algorithm::NewReno => "newreno",
            Algorithm::Bbr => "bbr",
            Algorithm::Reno => "reno",
            Algorithm::Tahoe => "tahoe",
        }
    }
}

/// The news of one ACK, as the algorithms see it.
pub(crate) struct Ack {
    pub(crate) now: Instant,
    /// Bytes by which SND.UNA advanced.
    pub(crate) acked_bytes: u32,
    /// Bytes newly delivered: acknowledged or SACKed, each counted once.
    pub(crate) delivered_bytes: u32,
    /// Bytes newly deemed lost.
    pub(crate) lost_bytes: u32,
    /// Round trip of the newest delivered segment that was sent only once.
    pub(crate) rtt: Option<Duration>,
    /// Smoothed round trip.
    pub(crate) srtt: Duration,
    /// When the segment that `rtt` measures was sent; `now` if there is none.
    pub(crate) sent_at: Instant,
    /// SND.UNA after the ACK, and SND.NXT: a round ends when SND.UNA passes an old SND.NXT.
    pub(crate) una: SeqNumber,
    pub(crate) nxt: SeqNumber,
    /// Bytes estimated to be in the network after the ACK ("pipe").
    pub(crate) pipe_bytes: u32,
    /// cwnd limited sending since the last ACK.
    pub(crate) cwnd_limited: bool,
    /// In fast recovery.
    pub(crate) repairing: bool,
}

/// State that only the algorithm in use has.
#[derive(Clone, Debug)]
enum Law {
    NewReno,
    Reno,
    Tahoe,
    Cubic(Rare<Cubic>),
    Bbr(Box<Bbr>),
}

/// The congestion window of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Cc {
    /// Bytes that may be in flight.
    pub(crate) cwnd: u64,
    /// Slow start below this.
    pub(crate) ssthresh: u64,
    mss: u64,
    law: Law,
    /// HyStart++ of the first slow start; `None` once that has ended.
    hystart: Option<HyStart>,
    validation: Validation,
    /// Slow start continues while more than half of cwnd is used.
    half_is_enough: bool,
    /// The state before the last reduction, for undo.
    before: Option<Box<Before>>,
}

/// The state that [`Cc::undo`] restores.
#[derive(Clone, Debug)]
struct Before {
    cwnd: u64,
    ssthresh: u64,
    law: Law,
}

impl Cc {
    pub(crate) fn new(algorithm: Algorithm) -> Cc {
        let law = match algorithm {
            Algorithm::NewReno => Law::NewReno,
            Algorithm::Reno => Law::Reno,
            Algorithm::Tahoe => Law::Tahoe,
            Algorithm::Cubic => Law::Cubic(Rare::default()),
            Algorithm::Bbr => Law::Bbr(Box::new(Bbr::new())),
        };
        Cc {
            cwnd: 0,
            // RFC 5681 3.1-d.
            ssthresh: u64::MAX,
            mss: 1,
            law,
            hystart: Some(HyStart::new()),
            validation: Validation::default(),
            half_is_enough: false,
            before: None,
        }
    }

    /// The segment size changes; cwnd stays the same in bytes.
    pub(crate) fn set_mss(&mut self, mss: usize) {
        self.mss = mss.max(1) as u64;
    }

    /// The MSS is known: begin with ten segments, RFC 6928 section 2; with one if the SYN was lost,
    /// RFC 5681 section 3.1.
    /// RFC 5681 3.1-c.
    pub(crate) fn start(&mut self, mss: usize, syn_lost: bool) {
        self.mss = mss.max(1) as u64;
        self.cwnd = if syn_lost { self.mss } else { self.initial() };
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.start(self.cwnd);
        }
    }

    /// The initial window in bytes.
    /// RFC 5681 3.1-b.
    pub(crate) fn initial(&self) -> u64 {
        (10 * self.mss).min((2 * self.mss).max(14_600))
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.law {
            Law::NewReno => Algorithm::NewReno,
            Law::Reno => Algorithm::Reno,
            Law::Tahoe => Algorithm::Tahoe,
            Law::Cubic(_) => Algorithm::Cubic,
            Law::Bbr(_) => Algorithm::Bbr,
        }
    }

    /// Does the algorithm need every ACK and every transmission (BBR)?
    #[inline(always)]
    pub(crate) fn watches_all(&self) -> bool {
        matches!(self.law, Law::Bbr(_))
    }

    /// Does the connection need every ACK, and not only the ACKs that arrive while cwnd is the
    /// limit?
    #[inline(always)]
    pub(crate) fn hears_all(&self) -> bool {
        self.half_is_enough || self.watches_all()
    }

    /// Let slow start continue while more than half of cwnd is used.
    pub(crate) fn grow_when_half_used(&mut self, on: bool) {
        self.half_is_enough = on;
    }

    /// Does slow start continue while more than half of cwnd is used?
    #[inline(always)]
    pub(crate) fn half_is_enough(&self) -> bool {
        self.half_is_enough
    }

    /// Is cwnd below ssthresh?
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Does recovery set cwnd by Proportional Rate Reduction (RFC 9937)?
    pub(crate) fn by_prr(&self) -> bool {
        !matches!(self.law, Law::Bbr(_) | Law::Tahoe)
    }

    /// Is there fast recovery? If not (Tahoe), a reported loss means that all in flight is lost, as
    /// after a time-out, and cwnd is one segment.
    pub(crate) fn fast_recovery(&self) -> bool {
        !matches!(self.law, Law::Tahoe)
    }

    /// Does recovery last until all that was in flight at its beginning is acknowledged (RFC 6582,
    /// RFC 6675)? If not (Reno), the first ACK of new data ends it.
    pub(crate) fn partial_acks(&self) -> bool {
        !matches!(self.law, Law::Reno)
    }

    /// A segment leaves at `sent_at`; `before` and `after` bytes are in flight before and after it.
    /// `starved`: there had been nothing to send. For an algorithm that [`Cc::watches_all`].
    pub(crate) fn on_send(&mut self, sent_at: Instant, before: u64, after: u64, starved: bool) {
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.cwnd = self.cwnd;
            bbr.on_send(sent_at, before, after, starved);
            self.cwnd = bbr.cwnd;
        }
    }

    /// Pacing rate in bytes a second for a round trip of `srtt`. In slow start the rate is twice
    /// cwnd per round trip, because cwnd doubles in that time. Later it is 1.2 times cwnd, so that
    /// cwnd is the limit. During recovery cwnd may be a few bytes, so at least two segments are
    /// assumed.
    pub(crate) fn pacing_rate(&self, srtt: Duration) -> u64 {
        if let Law::Bbr(bbr) = &self.law {
            return bbr.pacing_rate(srtt) as u64;
        }
        let gain = if self.cwnd < self.ssthresh { 2.0 } else { 1.2 };
        let window = self.cwnd.max(2 * self.mss);
        (gain * window as f64 / srtt.as_secs_f64().max(1e-9)) as u64
    }

    /// Process an ACK of new data received while cwnd was the limit; for an algorithm that
    /// [`Cc::watches_all`], any ACK.
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.on_ack(ack, self.cwnd, self.mss);
            self.cwnd = bbr.cwnd;
            return;
        }
        if (ack.repairing && self.fast_recovery()) || !ack.cwnd_limited {
            return;
        }
        self.validation.used(ack.now);
        let mut acked = u64::from(ack.acked_bytes);
        if self.cwnd < self.ssthresh {
            acked = self.slow_start(ack, acked);
            if acked == 0 {
                return;
            }
        }
        match &mut self.law {
            Law::NewReno | Law::Reno | Law::Tahoe => {
                self.cwnd = avoid(self.cwnd, acked, self.mss);
            }
            Law::Cubic(cubic) => {
                self.cwnd = cubic.avoid(self.cwnd, acked, self.mss, ack.now, ack.srtt);
            }
            Law::Bbr(_) => {}
        }
    }

    /// Slow start of RFC 5681 section 3.1, up to ssthresh; returns the bytes left for congestion
    /// avoidance.
    /// RFC 9293 MUST-19. RFC 5681 3.1-a. RFC 9438 4.10-a. RFC 9406 4.2-d.
    fn slow_start(&mut self, ack: &Ack, acked: u64) -> u64 {
        let (growth, last) = match &mut self.hystart {
            None => (acked, false),
            Some(hystart) => match hystart.on_ack(ack, acked) {
                Growth::By(bytes) => (bytes, false),
                Growth::Last(bytes) => (bytes, true),
            },
        };
        let grown = (self.cwnd + growth).min(self.ssthresh);
        let left = growth - (grown - self.cwnd);
        self.cwnd = grown;
        if last {
            self.ssthresh = grown;
            self.hystart = None;
        }
        left
    }

    /// Congestion with this many bytes in flight: a loss found by SACKs or duplicate ACKs, or a CE
    /// mark (RFC 3168). Sets ssthresh; PRR or [`Cc::recovered`] then sets cwnd.
    /// RFC 5681 3.2-d. RFC 9406 4.3-b.
    pub(crate) fn on_congestion(&mut self, flight_bytes: u64) {
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.on_congestion(self.cwnd);
            return;
        }
        self.remember();
        self.hystart = None;
        self.ssthresh = match &mut self.law {
            Law::NewReno | Law::Reno | Law::Tahoe => reduced(flight_bytes, self.mss),
            Law::Cubic(cubic) => cubic.reduced(self.cwnd, flight_bytes, self.mss),
            Law::Bbr(_) => self.ssthresh,
        };
        if !self.fast_recovery() {
            self.cwnd = self.mss;
        }
    }

    /// Recovery has ended: cwnd becomes ssthresh.
    /// RFC 5681 3.2-g. RFC 9937 6.4-a.
    pub(crate) fn recovered(&mut self) {
        self.cwnd = match &mut self.law {
            Law::Bbr(bbr) => bbr.recovered(self.cwnd),
            Law::Tahoe => self.cwnd,
            _ => self.ssthresh,
        };
    }

    /// The retransmission timer fired: cwnd becomes one segment, RFC 5681 equation 4 and after.
    /// `first`: no earlier time-out is being repaired, so ssthresh is reduced.
    /// RFC 5681 3.1-h, 3.1-i.
    pub(crate) fn on_timeout(&mut self, flight_bytes: u64, first: bool) {
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.on_timeout(self.cwnd);
        } else if first {
            self.on_congestion(flight_bytes);
        }
        if let Law::Cubic(cubic) = &mut self.law {
            cubic.timed_out();
        }
        self.cwnd = self.mss;
    }

    /// The losses were spurious: restore the state before the reduction. `false` if there is none
    /// to restore.
    /// RFC 9438 4.9-a.
    pub(crate) fn undo(&mut self) -> bool {
        if let Law::Bbr(bbr) = &mut self.law {
            self.cwnd = bbr.undo(self.cwnd);
        } else if let Some(before) = self.before.take() {
            self.cwnd = self.cwnd.max(before.cwnd);
            self.ssthresh = self.ssthresh.max(before.ssthresh);
            self.law = before.law;
        } else {
            return false;
        }
        true
    }

    /// The last reduction can no longer be undone.
    pub(crate) fn forget_before(&mut self) {
        self.before = None;
    }

    /// Does the algorithm respond to a CE mark as to a loss (RFC 3168 section 5)? BBR's model does
    /// not include marks.
    pub(crate) fn heeds_marks(&self) -> bool {
        !matches!(self.law, Law::Bbr(_))
    }

    fn remember(&mut self) {
        let (cwnd, ssthresh, law) = (self.cwnd, self.ssthresh, self.law.clone());
        self.before = Some(Box::new(Before { cwnd, ssthresh, law }));
    }

    /// For a paced connection: reduce a cwnd that was unused for too long, RFC 7661.
    pub(crate) fn validate(&mut self, now: Instant) {
        if self.watches_all() {
            return;
        }
        let initial = self.initial();
        if let Some(to) = self.validation.check(now, self.cwnd, self.ssthresh, initial) {
            (self.cwnd, self.ssthresh) = (to.cwnd, to.ssthresh);
        }
    }

    /// Nothing was sent for longer than the RTO, and sending is not paced: restart from the initial
    /// window at most, RFC 5681 section 4.1.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_idle(&mut self) {
        if !self.watches_all() {
            self.cwnd = self.cwnd.min(self.initial());
        }
    }
}

#[cfg(test)]
mod tests;

/// Equation 3, counting bytes: cwnd grows by one segment per window acknowledged.
/// RFC 9293 MUST-19. RFC 5681 3.1-f.
fn avoid(cwnd: u64, acked: u64, mss: u64) -> u64 {
    cwnd + (mss * acked / cwnd.max(1)).max(1)
}

/// Equation 4.
/// RFC 5681 3.1-g.
fn reduced(flight_bytes: u64, mss: u64) -> u64 {
    (flight_bytes / 2).max(2 * mss)
}
