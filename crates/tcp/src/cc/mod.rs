//! Congestion control: one window in bytes, one small interface, the laws behind it.
//!
//! Called by: ack and recovery. A law sees bytes and times, never segments, sequence numbers or the
//! send queue. RFC 5681 (slow start, what a loss does), 6928 (initial window), 3465 (bytes are
//! counted, so that dividing ACKs gains nothing).

mod bbr;
mod cubic;
mod hystart;
mod newreno;
mod validation;

use base::{Duration, Instant, SeqNumber};

use bbr::Bbr;
use cubic::Cubic;
use hystart::{Growth, HyStart};
use validation::Validation;

use crate::rare::Rare;

/// The laws to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 9438.
    Cubic,
    /// RFC 5681 with the recovery of RFC 6582.
    NewReno,
    /// draft-ietf-ccwg-bbr-06, version 3.
    Bbr,
    /// RFC 5681 alone, as in 4.3BSD Reno: the first ACK of new data ends a repair. For the record.
    Reno,
    /// As in 4.3BSD Tahoe, 1988: every loss means a window of one segment. For the record.
    Tahoe,
}

impl Algorithm {
    /// All of them.
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

/// What an ACK told, as the laws see it.
pub(crate) struct Ack {
    pub(crate) now: Instant,
    /// Bytes by which SND.UNA advanced.
    pub(crate) acked_bytes: u32,
    /// Bytes newly delivered: acknowledged or SACKed, each counted once.
    pub(crate) delivered_bytes: u32,
    /// Bytes newly deemed lost.
    pub(crate) lost_bytes: u32,
    /// Round trip of the newest segment it covers that was sent once only.
    pub(crate) rtt: Option<Duration>,
    /// Smoothed round trip.
    pub(crate) srtt: Duration,
    /// When the newest segment it covers was sent.
    pub(crate) sent_at: Instant,
    /// SND.UNA after it, and SND.NXT: a round is over when SND.UNA passes an old SND.NXT.
    pub(crate) una: SeqNumber,
    pub(crate) nxt: SeqNumber,
    /// Bytes thought to be on the way after it ("pipe").
    pub(crate) pipe_bytes: u32,
    /// The window held data back since the last ACK.
    pub(crate) cwnd_limited: bool,
    /// Losses are being repaired.
    pub(crate) repairing: bool,
}

/// State of the law in use.
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
    /// Below this, slow start.
    pub(crate) ssthresh: u64,
    mss: u64,
    law: Law,
    /// Of the first slow start, until it is over.
    hystart: Option<HyStart>,
    validation: Validation,
    /// More than half of the window used is enough for slow start to go on.
    half_is_enough: bool,
    /// How all was before the last reduction, in case it was for nothing.
    before: Option<Box<Before>>,
}

/// What [`Cc::undo`] brings back.
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

    /// Segments are of another size from now on; the window stays as many bytes as it was.
    pub(crate) fn set_mss(&mut self, mss: usize) {
        self.mss = mss.max(1) as u64;
    }

    /// The MSS is known: ten segments to begin with, RFC 6928 section 2; one if the SYN was lost,
    /// RFC 5681 section 3.1.
    /// RFC 5681 3.1-c.
    pub(crate) fn start(&mut self, mss: usize, syn_lost: bool) {
        self.mss = mss.max(1) as u64;
        self.cwnd = if syn_lost { self.mss } else { self.initial() };
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.start(self.cwnd);
        }
    }

    /// The window to begin with, in bytes.
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

    /// Is every ACK of interest, and not only those that come while the window is the limit?
    #[inline(always)]
    pub(crate) fn watches_all(&self) -> bool {
        matches!(self.law, Law::Bbr(_))
    }

    /// Does it need every ACK, whether the window is the limit or not?
    #[inline(always)]
    pub(crate) fn hears_all(&self) -> bool {
        self.half_is_enough || self.watches_all()
    }

    /// Let slow start go on while more than half of the window is used.
    pub(crate) fn grow_when_half_used(&mut self, on: bool) {
        self.half_is_enough = on;
    }

    /// Does it?
    #[inline(always)]
    pub(crate) fn half_is_enough(&self) -> bool {
        self.half_is_enough
    }

    /// Is the window below the threshold?
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Does recovery set the window by Proportional Rate Reduction (RFC 9937)?
    pub(crate) fn by_prr(&self) -> bool {
        !matches!(self.law, Law::Bbr(_) | Law::Tahoe)
    }

    /// Does a loss that ACKs reported leave more than a window of one segment, and a repair to its
    /// name? If not, all that is in flight counts as lost, as after a time-out.
    pub(crate) fn fast_recovery(&self) -> bool {
        !matches!(self.law, Law::Tahoe)
    }

    /// Does a repair last until all is acknowledged that was in flight at its beginning (RFC 6582,
    /// RFC 6675)? If not, the first ACK of new data ends it.
    pub(crate) fn partial_acks(&self) -> bool {
        !matches!(self.law, Law::Reno)
    }

    /// Something leaves at `sent_at`; before it so many bytes were in flight, and after it so many.
    /// `starved`: before it there was nothing to send. For a law that [`Cc::watches_all`].
    pub(crate) fn on_send(&mut self, sent_at: Instant, before: u64, after: u64, starved: bool) {
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.cwnd = self.cwnd;
            bbr.on_send(sent_at, before, after, starved);
            self.cwnd = bbr.cwnd;
        }
    }

    /// Bytes a second to send at on a way of `srtt`; 0 for no limit. In slow start the window
    /// doubles within a round trip; beyond, a fifth more than the window, so that it is the window
    /// that limits. While losses are repaired the window may be a few bytes: two segments at least.
    pub(crate) fn pacing_rate(&self, srtt: Duration) -> u64 {
        if let Law::Bbr(bbr) = &self.law {
            return bbr.pacing_rate(srtt) as u64;
        }
        let gain = if self.cwnd < self.ssthresh { 2.0 } else { 1.2 };
        let window = self.cwnd.max(2 * self.mss);
        (gain * window as f64 / srtt.as_secs_f64().max(1e-9)) as u64
    }

    /// An ACK, good or while repairing: of new data while the window was the limit, or any at all
    /// for a law that [`Cc::watches_all`].
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
                self.cwnd = newreno::avoid(self.cwnd, acked, self.mss);
            }
            Law::Cubic(cubic) => {
                self.cwnd = cubic.avoid(self.cwnd, acked, self.mss, ack.now, ack.srtt);
            }
            Law::Bbr(_) => {}
        }
    }

    /// RFC 5681 section 3.1 up to the threshold; returns the bytes left for what is beyond.
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

    /// Congestion with this many bytes in flight: a loss found by SACKs or duplicate ACKs, or a
    /// mark (RFC 3168). Sets the threshold; the window follows by PRR, or by [`Cc::recovered`].
    /// RFC 5681 3.2-d. RFC 9406 4.3-b.
    pub(crate) fn on_congestion(&mut self, flight_bytes: u64) {
        if let Law::Bbr(bbr) = &mut self.law {
            bbr.on_congestion(self.cwnd);
            return;
        }
        self.remember();
        self.hystart = None;
        self.ssthresh = match &mut self.law {
            Law::NewReno | Law::Reno | Law::Tahoe => newreno::reduced(flight_bytes, self.mss),
            Law::Cubic(cubic) => cubic.reduced(self.cwnd, flight_bytes, self.mss),
            Law::Bbr(_) => self.ssthresh,
        };
        if !self.fast_recovery() {
            self.cwnd = self.mss;
        }
    }

    /// Losses are repaired: on with the window of the threshold.
    /// RFC 5681 3.2-g. RFC 9937 6.4-a.
    pub(crate) fn recovered(&mut self) {
        self.cwnd = match &mut self.law {
            Law::Bbr(bbr) => bbr.recovered(self.cwnd),
            Law::Tahoe => self.cwnd,
            _ => self.ssthresh,
        };
    }

    /// The retransmission timer fired: one segment, RFC 5681 equation 4 and after. `first` in a
    /// row, and none while losses were repaired already.
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

    /// Nothing was lost after all: as if there had been no reduction. `false` if there was none to
    /// take back.
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

    /// The last reduction stays, whatever the next ACKs say.
    pub(crate) fn forget_before(&mut self) {
        self.before = None;
    }

    /// Does it slow down for a mark as for a loss (RFC 3168 section 5)? BBR goes by its model of
    /// the path, of which marks are no part.
    pub(crate) fn heeds_marks(&self) -> bool {
        !matches!(self.law, Law::Bbr(_))
    }

    fn remember(&mut self) {
        let (cwnd, ssthresh, law) = (self.cwnd, self.ssthresh, self.law.clone());
        self.before = Some(Box::new(Before { cwnd, ssthresh, law }));
    }

    /// What is sent is spread over the round trip: then a window that is not used may be kept for a
    /// while, RFC 7661.
    pub(crate) fn validate(&mut self, now: Instant) {
        if self.watches_all() {
            return;
        }
        let initial = self.initial();
        if let Some(to) = self.validation.check(now, self.cwnd, self.ssthresh, initial) {
            (self.cwnd, self.ssthresh) = (to.cwnd, to.ssthresh);
        }
    }

    /// Nothing was sent for longer than a time-out, and what is now leaves at once: start over from
    /// the initial window at most, RFC 5681 section 4.1.
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
