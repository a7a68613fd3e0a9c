//! RACK, RFC 8985: a segment is lost if one that was sent later has arrived and the reordering
//! window has passed. The window grows with the reordering observed.
//!
//! Called by: sack (what arrived) and recovery (what is lost). Segments are judged once each, in
//! the order in which they were sent: those sent only once are in the send queue from `judged_to`
//! on, retransmissions are in `resent`. So an ACK costs in proportion to its news, not to the
//! window.

use base::{Duration, Instant, SeqNumber, Switch};

use crate::Cx;
use crate::recovery::scoreboard::{Phase, Resent};
use crate::sendq::Piece;
use crate::tcb::Tcb;

/// DupThresh: SACKed segments after which no reordering is assumed, if none was ever seen.
pub(crate) const DUPLICATE_THRESHOLD: u32 = 3;
/// Episodes for which a widened reordering window is kept (section 6.2, step 4).
const PERSISTENCE: u8 = 16;

/// State that outlives an episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// Send time of the delivered segment that was sent last ("RACK.xmit_ts").
    sent_at: Instant,
    /// The end of that segment ("RACK.end_seq").
    end: SeqNumber,
    /// Its round trip ("RACK.rtt").
    rtt: Duration,
    /// The end of the highest byte delivered ("RACK.fack").
    highest: SeqNumber,
    /// Reordering was observed.
    pub(crate) reordering_seen: bool,
    /// The reordering window in quarters of the minimum round trip, less one.
    widened: u8,
    /// Episodes until the window is reset.
    persistence: u8,
    /// Not widened again before this is acknowledged: once a round trip ("RACK.dsack_round").
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

    /// The first sign of loss: what was acknowledged until now arrived in order.
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
        // Too early for an ACK of the retransmission: the original has arrived.
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

    /// An episode has ended that was not undone.
    pub(crate) fn episode_over(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.widened = 0;
        }
    }

    /// Step 4: the reordering window, by which a segment may be later than its successors.
    /// RFC 8985 6.2-c, 6.2-d.
    fn window(&self, hurry: bool, least: Duration, srtt: Duration) -> Duration {
        if !self.reordering_seen && hurry {
            return Duration::ZERO;
        }
        let quarters = u64::from(self.widened) + 1;
        least.div(4).saturating_mul(quarters).min(srtt)
    }
}

/// Was the segment with this send time and end sent before the other (section 6.2)? A burst has one
/// send time.
/// RFC 8985 6.2-b.
fn is_sent_before(at: Instant, end: SeqNumber, other_at: Instant, other_end: SeqNumber) -> bool {
    at < other_at || (at == other_at && end.lt(other_end))
}

/// Step 5: mark what is lost now, and set the timer for what may be lost later.
/// RFC 8985 6.2-e.
pub(crate) fn detect(tcb: &mut Tcb, cx: &Cx) {
    let r = &tcb.recovery;
    let many = r.sacked.bytes() > (DUPLICATE_THRESHOLD - 1) * tcb.snd_mss.bytes() as u32;
    let hurry = r.phase != Phase::Open || many;
    let window = tcb.recovery.rack.window(hurry, tcb.rtt.min(), tcb.rtt.srtt());
    let allowed = if cx.switches.on(Switch::Rack) {
        tcb.recovery.rack.rtt + window
    } else if many || r.phase != Phase::Open {
        Duration::ZERO
    } else {
        // Without RACK: nothing is lost before three segments behind it have arrived.
        return;
    };
    let due = detect_originals(tcb, allowed, cx.now).min(detect_resent(tcb, allowed, cx.now));
    tcb.await_reordered(due);
}

/// Judge segments sent only once; returns when the next of them will be lost.
fn detect_originals(tcb: &mut Tcb, allowed: Duration, now: Instant) -> Instant {
    let mut at = tcb.recovery.judged_to.max(tcb.snd_una);
    let mut due = Instant::NEVER;
    let mut index = tcb.sendq.find(at);
    while let Some(piece) = tcb.sendq.in_flight(index) {
        let (piece_end, sent_at) = (piece.end(), piece.sent_at);
        // Parts of a super-segment may have arrived.
        let Some((gap, end)) = tcb.recovery.sacked.next_gap(at, piece_end) else {
            at = tcb.recovery.sacked.holding(at).map_or(piece_end, |(_, right)| right);
            index = tcb.sendq.find(at);
            continue;
        };
        if !piece.has(Piece::RETRANSMITTED) {
            if !is_sent_before(sent_at, end, tcb.recovery.rack.sent_at, tcb.recovery.rack.end) {
                break;
            }
            if sent_at + allowed > now {
                due = sent_at + allowed;
                break;
            }
            tcb.recovery.lost.add(gap, end);
        }
        at = end;
        index += usize::from(end == piece_end);
    }
    tcb.recovery.judged_to = at;
    due
}

/// Judge retransmissions; returns when the next of them will be lost.
fn detect_resent(tcb: &mut Tcb, allowed: Duration, now: Instant) -> Instant {
    while let Some(&Resent { range: (left, right), sent_at }) = tcb.recovery.resent.front() {
        if right.gt(tcb.snd_una) && has_unarrived(tcb, left, right) {
            // Sent at the same time as what has arrived: the order is unknown.
            if sent_at >= tcb.recovery.rack.sent_at {
                break;
            }
            if sent_at + allowed > now {
                return sent_at + allowed;
            }
            lose_resent(tcb, left.max(tcb.snd_una), right, sent_at);
        }
        tcb.recovery.resent.pop_front();
    }
    Instant::NEVER
}

fn has_unarrived(tcb: &Tcb, left: SeqNumber, right: SeqNumber) -> bool {
    tcb.recovery.sacked.next_gap(left.max(tcb.snd_una), right).is_some()
}

/// What has not arrived of a retransmission is lost, unless it was retransmitted since.
fn lose_resent(tcb: &mut Tcb, left: SeqNumber, right: SeqNumber, sent_at: Instant) {
    let mut index = tcb.sendq.find(left);
    while let Some(piece) = tcb.sendq.in_flight(index).filter(|p| p.seq.lt(right)) {
        if piece.sent_at == sent_at {
            let (l, r) = (piece.seq.max(left), piece.end().min(right));
            mark_lost(tcb, l, r);
        }
        index += 1;
    }
}

/// Mark `left..right` as lost, except what has arrived.
pub(crate) fn mark_lost(tcb: &mut Tcb, left: SeqNumber, right: SeqNumber) {
    let r = &mut tcb.recovery;
    let mut from = left;
    while let Some((l, end)) = r.sacked.next_gap(from, right) {
        r.lost.add(l, end);
        from = end;
    }
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
        assert_eq!(window(&rack), 100, "twenty-one quarters of 80 ms would be 420");
    }
}
