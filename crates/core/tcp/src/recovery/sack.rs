//! Enters in the scoreboard what an ACK reports about the bytes in flight, by its SACK blocks (RFC
//! 2018, RFC 2883) or by SEG.ACK.
//!
//! Called by: ack. Each byte is processed once, when it is first reported, however often blocks
//! repeat it. The SACK blocks that we send are in receive/mod.rs.

use base::{Instant, Limit, SeqNumber};
use wire::tcp::{SackBlocks, Timestamps};

use crate::marks::Marks;
use crate::recovery::scoreboard::News;
use crate::sendq::Piece;
use crate::tcb::Tcb;
use crate::{Cx, path, recovery};

/// Enter the SACK blocks of an ACK that acknowledges up to `ack`. A block outside the bytes in
/// flight is invalid, or a D-SACK.
/// RFC 6675 3-a. RFC 2018 5-a.
pub(crate) fn take(
    tcb: &mut Tcb,
    ack: SeqNumber,
    blocks: &SackBlocks,
    news: &mut News,
    cx: &mut Cx,
) {
    if !tcb.marks.has(Marks::SACK) {
        return;
    }
    let mut list = blocks.iter();
    if let Some((left, right)) = list.next() {
        // RFC 2883 4-c.
        // RFC 2883 section 4: the first block is a D-SACK if it is acknowledged or inside the
        // second.
        let inside = list.next().is_some_and(|(l, r)| l.le(left) && right.le(r));
        if left.lt(right) && right.le(tcb.snd_nxt) && (right.le(ack) || inside) {
            news.duplicate = Some((left, right));
        }
    }
    for (left, right) in blocks.iter() {
        let plausible = left.gt(tcb.snd_una) && left.lt(right) && right.le(tcb.snd_nxt);
        if plausible && right.gt(ack) {
            recovery::begin(tcb, cx.now);
            let known = tcb.recovery.sacked.count();
            if cx.budget.admits(Limit::SackRanges, known) {
                arrived(tcb, left, right, news, cx.now);
            }
        }
    }
}

/// Everything before `ack` has arrived; called only while [`Tcb::REPAIRING`] is set.
pub(crate) fn take_up_to(
    tcb: &mut Tcb,
    ack: SeqNumber,
    timestamps: Option<Timestamps>,
    news: &mut News,
    now: Instant,
) {
    let first = tcb.sendq.in_flight(0).filter(|p| p.has(Piece::RETRANSMITTED) && p.end().le(ack));
    let gap = first.map(|first| (first.space(), first.sent_at));
    arrived(tcb, tcb.snd_una, ack, news, now);
    let Some((bytes, sent_at)) = gap else { return };
    // Data after a filled gap may have arrived long ago: no round-trip sample.
    news.sent_at = None;
    // The segment that fills the gap is the one whose timestamp is echoed (RFC 7323 section 4.3),
    // so the echo tells which transmission arrived (Eifel, RFC 3522).
    if tcb.marks.has(Marks::TIMESTAMPS)
        && let Some(ts) = timestamps
        && (ts.echo.wrapping_sub(tcb.ts_at(sent_at)) as i32) < 0
    {
        news.original_bytes = bytes;
    }
}

/// The peer has the bytes `left..right`: enter those that were not known to have arrived.
fn arrived(tcb: &mut Tcb, left: SeqNumber, right: SeqNumber, news: &mut News, now: Instant) {
    let least = tcb.rtt.min();
    let small = path::smaller(tcb).unwrap_or(u16::MAX);
    let recovery = &mut *tcb.recovery;
    let mut from = left;
    while let Some((l, r)) = recovery.sacked.next_gap(from, right) {
        let mut index = tcb.sendq.find(l);
        while let Some(piece) = tcb.sendq.in_flight(index).filter(|p| p.seq.lt(r)) {
            if piece.len > u32::from(small) {
                // Segments of this size do arrive.
                recovery.large_arrived_to = piece.end();
            }
            recovery.rack.arrived(piece, piece.end().min(r), least, now);
            if !piece.has(Piece::RETRANSMITTED) {
                news.sent_at = news.sent_at.max(Some(piece.sent_at));
                news.from_before |= piece.seq.lt(recovery.recover);
            }
            index += 1;
        }
        news.delivered += r.since(l) as u32;
        recovery.lost.remove(l, r);
        from = r;
    }
    recovery.sacked.add(left, right);
}
