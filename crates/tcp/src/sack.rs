//! Selective acknowledgement, RFC 2018: the blocks we report and the blocks we are told.
//!
//! Called by: text (what arrived out of order), output (what to report), ack (what the peer has).

use base::SeqNumber;
use wire::tcp::SackBlocks;

use crate::sendq::Piece;
use crate::tcb::{Marks, Tcb};
use crate::{Cx, recovery};

/// Ranges held out of order, the one that grew last first (RFC 2018 section 4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceivedBlocks {
    blocks: [(SeqNumber, SeqNumber); 4],
    count: u8,
}

impl ReceivedBlocks {
    /// `left..right` arrived out of order: join what it touches and put it first.
    pub(crate) fn add(&mut self, mut left: SeqNumber, mut right: SeqNumber) {
        let mut kept = [(SeqNumber(0), SeqNumber(0)); 4];
        let mut n = 0;
        for &(l, r) in self.iter() {
            if l.le(right) && left.le(r) {
                left = left.min(l);
                right = right.max(r);
            } else if n < 3 {
                kept[n] = (l, r);
                n += 1;
            }
        }
        self.blocks[0] = (left, right);
        self.blocks[1..4].copy_from_slice(&kept[..3]);
        self.count = n as u8 + 1;
    }

    /// Everything before `rcv_nxt` has been delivered.
    pub(crate) fn advance(&mut self, rcv_nxt: SeqNumber) {
        let mut kept = ReceivedBlocks::default();
        for &(l, r) in self.iter() {
            if r.gt(rcv_nxt) && l.gt(rcv_nxt) {
                kept.blocks[kept.count as usize] = (l, r);
                kept.count += 1;
            }
        }
        *self = kept;
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(SeqNumber, SeqNumber)> {
        self.blocks[..self.count as usize].iter()
    }

    /// As an option: at most three beside timestamps, four without.
    pub(crate) fn report(&self, with_timestamps: bool) -> SackBlocks {
        let mut out = SackBlocks::default();
        for &(l, r) in self.iter().take(if with_timestamps { 3 } else { 4 }) {
            out.push(l, r);
        }
        out
    }
}

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
