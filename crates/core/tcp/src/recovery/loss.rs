//! Which bytes in flight are lost: RACK's step 5 (RFC 8985 section 6.2), and marking them.
//!
//! Called by: recovery. Segments are judged once each, in the order in which they were sent: those
//! sent only once are in the send queue from `judged_to` on, retransmissions are in `resent`. So
//! the cost of an ACK is proportional to its news, not to the window.

use base::{Duration, Instant, SeqNumber, Switch};

use crate::Cx;
use crate::recovery::rack::{DUPLICATE_THRESHOLD, is_sent_before};
use crate::recovery::scoreboard::{Phase, Resent};
use crate::sendq::Piece;
use crate::tcb::Tcb;

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
        // Without RACK a segment is lost once three segments after it have arrived.
        return;
    };
    let due = detect_originals(tcb, allowed, cx.now).min(detect_resent(tcb, allowed, cx.now));
    tcb.await_reordered(due);
}

/// Judge segments that were sent only once; returns when the next of them will be deemed lost.
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

/// Judge retransmissions; returns when the next of them will be deemed lost.
fn detect_resent(tcb: &mut Tcb, allowed: Duration, now: Instant) -> Instant {
    while let Some(&Resent { range: (left, right), sent_at }) = tcb.recovery.resent.front() {
        if right.gt(tcb.snd_una) && has_unarrived(tcb, left, right) {
            // The retransmission was sent at the same time as a segment that has arrived: their
            // order is unknown.
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

/// The bytes of a retransmission that have not arrived are lost, unless they were retransmitted
/// since.
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
