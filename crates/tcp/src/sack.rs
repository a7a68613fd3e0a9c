//! Selective acknowledgement, RFC 2018: the blocks we are told, marked on the send queue.
//!
//! Called by: ack. What we report ourselves is in blocks.

use base::SeqNumber;
use wire::tcp::SackBlocks;

use crate::marks::Marks;
use crate::sendq::Piece;
use crate::tcb::Tcb;
use crate::{Cx, recovery};

/// Note what the peer says it holds; returns how many bytes that is news for.
///
/// A block outside what is in flight is nonsense or a report of a duplicate (RFC 2883): ignored.
pub(crate) fn mark(tcb: &mut Tcb, blocks: &SackBlocks, cx: &mut Cx<'_>) -> u32 {
    if !tcb.marks.has(Marks::SACK) {
        return 0;
    }
    let mut news = 0;
    for (left, right) in blocks.iter() {
        if left.gt(tcb.snd_una) && left.lt(right) && right.le(tcb.snd_nxt) {
            recovery::begin(tcb);
            news += mark_block(tcb, left, right, cx);
        }
    }
    news
}

fn mark_block(tcb: &mut Tcb, left: SeqNumber, right: SeqNumber, cx: &mut Cx<'_>) -> u32 {
    let queue = &mut tcb.sendq;
    let recovery = &mut tcb.recovery;
    let mut news = 0;
    let mut index = queue.find(left);
    if queue.in_flight(index).is_some_and(|s| s.seq.lt(left)) {
        if !queue.cut(index, left, cx.pool) {
            return 0;
        }
        index += 1;
    }
    while let Some(sent) = queue.in_flight(index) {
        if sent.seq.ge(right) {
            break;
        }
        if sent.end().gt(right) && !queue.cut(index, right, cx.pool) {
            break;
        }
        let Some(sent) = queue.in_flight_mut(index) else { break };
        if !sent.has(Piece::SACKED) {
            let bytes = sent.space();
            if sent.has(Piece::LOST) {
                recovery.lost_bytes -= bytes;
            }
            sent.marks = (sent.marks | Piece::SACKED) & !Piece::LOST;
            recovery.sacked_bytes += bytes;
            if sent.end().le(recovery.lost_to) {
                recovery.sacked_below += bytes;
            }
            news += bytes;
        }
        index += 1;
    }
    news
}
