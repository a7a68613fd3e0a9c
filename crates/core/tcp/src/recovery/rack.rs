//! RACK, RFC 8985: a segment is lost if a segment that was sent later has arrived and the
//! reordering window has passed. The window grows with the reordering observed.
//!
//! Called by: sack (what arrived) and loss (what is lost). Plain data and rules.

use base::{Duration, Instant, SeqNumber};

use crate::sendq::Piece;

/// DupThresh: SACKed segments after which no reordering is assumed, if none was ever seen.
pub(crate) const DUPLICATE_THRESHOLD: u32 = 3;
/// Episodes for which a widened reordering window is kept (section 6.2, step 4).
const PERSISTENCE: u8 = 16;

/// State that outlives an episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// Send time of the delivered segment that was sent last ("RACK.xmit_ts").
    pub(crate) sent_at: Instant,
    /// The end of that segment ("RACK.end_seq").
    pub(crate) end: SeqNumber,
    /// Its round trip ("RACK.rtt").
    pub(crate) rtt: Duration,
    /// The end of the highest byte delivered ("RACK.fack").
    highest: SeqNumber,
    /// Reordering was observed.
    pub(crate) reordering_seen: bool,
    /// The reordering window in quarters of the minimum round trip, less one.
    widened: u8,
    /// Episodes until the window is reset.
    persistence: u8,
    /// The window is not widened again before this byte is acknowledged: once a round trip
    /// ("RACK.dsack_round").
    widened_at: Option<SeqNumber>,
}

impl Rack {
    pub(crate) const CLEAN: Rack = Rack {
        sent_at: Instant::ZERO,
        end: SeqNumber(0),
        rtt: Duration::ZERO,
        highest: SeqNumber(0),
        reordering_seen: false,
        widened: 0,
        persistence: 0,
        widened_at: None,
    };

    /// The first sign of loss: all bytes acknowledged until now arrived in order.
    pub(crate) fn begin(&mut self, una: SeqNumber) {
        self.highest = una;
    }

    /// A piece arrived, up to `end`; steps 1 to 3 of section 6.2.
    pub(crate) fn arrived(&mut self, piece: &Piece, end: SeqNumber, least: Duration, now: Instant) {
        let resent = piece.has(Piece::RETRANSMITTED);
        let rtt = now.since(piece.sent_at);
        if end.gt(self.highest) {
            self.highest = end;
        } else if end.lt(self.highest) && !resent {
            self.reordering_seen = true;
        }
        // RFC 8985 6.2-a.
        // The ACK came too early to be for the retransmission: the original has arrived.
        if resent && rtt < least {
            return;
        }
        self.rtt = rtt;
        if is_sent_before(self.sent_at, self.end, piece.sent_at, end) {
            self.sent_at = piece.sent_at;
            self.end = end;
        }
    }

    /// A retransmission was spurious: segments are reordered by more than the window allows. Widen
    /// it, once a round trip.
    /// RFC 8985 4-c.
    pub(crate) fn widen(&mut self, una: SeqNumber, nxt: SeqNumber) {
        self.reordering_seen = true;
        if self.widened_at.is_some_and(|at| una.lt(at)) {
            return;
        }
        self.widened_at = Some(nxt);
        self.widened = self.widened.saturating_add(1);
        self.persistence = PERSISTENCE;
    }

    /// An episode has ended and was not undone.
    pub(crate) fn episode_over(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.widened = 0;
        }
    }

    /// Step 4: the reordering window, by which a segment may arrive later than its successors.
    /// RFC 8985 6.2-c, 6.2-d.
    pub(crate) fn window(&self, hurry: bool, least: Duration, srtt: Duration) -> Duration {
        if !self.reordering_seen && hurry {
            return Duration::ZERO;
        }
        let quarters = u64::from(self.widened) + 1;
        least.div(4).saturating_mul(quarters).min(srtt)
    }
}

/// Was the segment with this send time and end sent before the other (section 6.2)? All segments of
/// a burst have the same send time.
/// RFC 8985 6.2-b.
pub(crate) fn is_sent_before(
    at: Instant,
    end: SeqNumber,
    other_at: Instant,
    other_end: SeqNumber,
) -> bool {
    at < other_at || (at == other_at && end.lt(other_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8985 6.2-d.
    #[test]
    fn the_reordering_window_ends_at_the_smoothed_round_trip() {
        let (least, srtt) = (Duration::from_millis(80), Duration::from_millis(100));
        let mut rack = Rack::CLEAN;
        let window = |rack: &Rack| rack.window(true, least, srtt).as_millis();
        assert_eq!(window(&rack), 0, "nothing was ever reordered");
        rack.reordering_seen = true;
        assert_eq!(window(&rack), 20);
        for round in 0..20u32 {
            rack.widen(SeqNumber(round), SeqNumber(round + 1));
        }
        assert_eq!(window(&rack), 100, "not limited (21 quarters of 80 ms are 420)");
    }
}
