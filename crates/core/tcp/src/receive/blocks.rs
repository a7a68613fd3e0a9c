//! Which out-of-order data we hold, as SACK options report it (RFC 2018 section 4), and what
//! arrived twice (D-SACK, RFC 2883).
//!
//! Called by: tcb, which holds it; input and text, which note what arrived; header and output,
//! which write the report. Plain data. The mbufs are in `reass`.

use base::SeqNumber;
use wire::tcp::SackBlocks;

use crate::rare::Clean;

/// Ranges held out of order, the most recently grown first (RFC 2018 section 4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedBlocks {
    blocks: [(SeqNumber, SeqNumber); 4],
    count: u8,
    /// The range that the next ACK reports as a duplicate (D-SACK).
    duplicate: Option<(SeqNumber, SeqNumber)>,
}

impl Clean for ReceivedBlocks {
    const CLEAN: &'static ReceivedBlocks =
        &ReceivedBlocks { blocks: [(SeqNumber(0), SeqNumber(0)); 4], count: 0, duplicate: None };
}

impl ReceivedBlocks {
    /// `left..right` arrived out of order: merge the ranges it touches and put it first.
    /// RFC 2018 4-b, 4-d.
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

    /// All data before `rcv_nxt` was delivered: remove it from the ranges.
    pub(crate) fn advance(&mut self, rcv_nxt: SeqNumber) {
        let mut kept = ReceivedBlocks { duplicate: self.duplicate, ..*ReceivedBlocks::CLEAN };
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

    /// `left..right` arrived again: the next ACK reports it as a D-SACK.
    pub(crate) fn note_duplicate(&mut self, left: SeqNumber, right: SeqNumber) {
        self.duplicate = Some((left, right));
    }

    /// Is there nothing for an ACK to report?
    #[inline(always)]
    pub(crate) fn nothing_to_report(&self) -> bool {
        self.count == 0 && self.duplicate.is_none()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(SeqNumber, SeqNumber)> {
        self.blocks[..self.count as usize].iter()
    }

    /// The SACK option: at most three blocks beside timestamps, four without. A duplicate goes
    /// first, and is reported once (RFC 2883 section 4).
    /// RFC 2018 4-a, 4-c. RFC 2883 4-a, 4-b.
    pub(crate) fn report(&mut self, with_timestamps: bool) -> SackBlocks {
        let mut out = SackBlocks::default();
        let most = if with_timestamps { 3 } else { 4 };
        let duplicate = self.duplicate.take();
        for (l, r) in duplicate.into_iter().chain(self.iter().copied()).take(most) {
            out.push(l, r);
        }
        out
    }
}
