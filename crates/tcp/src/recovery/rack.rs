//! RACK, RFC 8985: a segment is lost when one that was sent after it has arrived and it has had
//! time enough to arrive as well. How much is enough grows with the reordering that is seen.
//!
//! Called by: sack (what arrived) and recovery (what is lost). Segments are judged in the order in
//! which they were sent, each once: those sent once only are the send queue behind `judged_to`,
//! those sent again wait in `resent`. So an ACK costs what it tells, whatever the window.

use base::{Duration, Instant, SeqNumber, Switch};

use crate::Cx;
use crate::recovery::scoreboard::{Phase, Resent};
use crate::sendq::Piece;
use crate::tcb::Tcb;

/// SACKed segments after which reordering is ruled out while none was ever seen: DupThresh.
pub(crate) const DUPLICATE_THRESHOLD: u32 = 3;
/// Episodes for which a wider reordering window is kept (section 6.2, step 4).
const PERSISTENCE: u8 = 16;

/// What outlives an episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// When the segment that was sent last of those that arrived was sent ("RACK.xmit_ts").
    sent_at: Instant,
    /// Behind it ("RACK.end_seq").
    end: SeqNumber,
    /// Its round trip ("RACK.rtt").
    rtt: Duration,
    /// Behind the highest byte that arrived ("RACK.fack").
    highest: SeqNumber,
    /// Segments have overtaken others.
    pub(crate) reordering_seen: bool,
    /// Quarters of the least round trip in the reordering window, less one.
    widened: u8,
    /// Episodes until it is narrow again.
    persistence: u8,
    /// No widening before this is acknowledged: once a round trip ("RACK.dsack_round").
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

    /// Trouble begins: what was acknowledged in order until now arrived in order.
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
        // Too early for the retransmission: it was the original that arrived.
        if resent && rtt < least {
            return;
        }
        self.rtt = rtt;
        if is_sent_before(self.sent_at, self.end, piece.sent_at, end) {
            self.sent_at = piece.sent_at;
            self.end = end;
        }
    }

    /// A retransmission was for nothing: segments are later than the window allows for, so it is
    /// widened, once a round trip.
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

    /// An episode is over that was not for nothing.
    pub(crate) fn episode_over(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.widened = 0;
        }
    }

    /// Step 4: how much later than its successors a segment may be.
    /// RFC 8985 6.2-c, 6.2-d.
    fn window(&self, hurry: bool, least: Duration, srtt: Duration) -> Duration {
        if !self.reordering_seen && hurry {
            return Duration::ZERO;
        }
        let quarters = u64::from(self.widened) + 1;
        least.div(4).saturating_mul(quarters).min(srtt)
    }
}

/// Was the segment up to `end` sent before the other (section 6.2)? One burst has one time.
/// RFC 8985 6.2-b.
fn is_sent_before(at: Instant, end: SeqNumber, other_at: Instant, other_end: SeqNumber) -> bool {
    at < other_at || (at == other_at && end.lt(other_end))
}

/// Step 5: find what is lost now, and set the time when more may be.
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
        // The old way: nothing is lost before three segments behind it have arrived.
        return;
    };
    let due = detect_originals(tcb, allowed, cx.now).min(detect_resent(tcb, allowed, cx.now));
    tcb.await_reordered(due);
}

/// Judge what was sent once only; returns when the next of it will be lost.
fn detect_originals(tcb: &mut Tcb, allowed: Duration, now: Instant) -> Instant {
    let mut at = tcb.recovery.judged_to.max(tcb.snd_una);
    let mut due = Instant::NEVER;
    let mut index = tcb.sendq.find(at);
    while let Some(piece) = tcb.sendq.in_flight(index) {
        let (piece_end, sent_at) = (piece.end(), piece.sent_at);
        // Of a super-segment parts may have arrived.
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

/// Judge what was sent again; returns when the next one will be lost.
fn detect_resent(tcb: &mut Tcb, allowed: Duration, now: Instant) -> Instant {
    while let Some(&Resent { range: (left, right), sent_at }) = tcb.recovery.resent.front() {
        if right.gt(tcb.snd_una) && has_unarrived(tcb, left, right) {
            // Sent at the same time as what arrived: the order is unknown.
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

/// What is left of a retransmission is lost, unless it was sent once more since.
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

/// `left..right` is lost, as far as it has not arrived.
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
