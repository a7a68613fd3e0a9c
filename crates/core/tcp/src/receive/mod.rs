//! The receive side: data in order and out of order, its SACK report, receive buffer tuning and
//! PAWS.
//!
//! Called by: input and predict. RFC 9293 section 3.10.7, RFC 2018, RFC 7323.

pub(crate) mod reass;
pub(crate) mod text;
pub(crate) mod tuning;
use base::SeqNumber;
use wire::tcp::SackBlocks;

use crate::rare::Clean;

// The out-of-order data that we hold, as SACK options report it (RFC 2018 section 4), and the data
// that arrived twice (D-SACK, RFC 2883).
//
// Plain data. The mbufs are in `reass`.

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

// Protection against wrapped sequence numbers (PAWS), RFC 7323 section 5: does a segment belong to
// the current pass through the sequence space, or to an earlier one?
//
// The RFC's test drops every segment with a timestamp before TS.Recent. After a retransmission has
// set TS.Recent, segments that were sent before it and arrive late would be dropped. But sequence
// numbers repeat only after 4 GB. So here a timestamp is too old only if it is older than the
// TS.Recent of some hundreds of megabytes ago (decision 0032).

/// A timestamp, and how many whole megabytes had been received when it was TS.Recent.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    value: u32,
    megabytes: u32,
}

impl Mark {
    fn new(value: u32, bytes: u64) -> Mark {
        Mark { value, megabytes: (bytes >> 20) as u32 }
    }

    /// Bytes received since this mark, if `bytes` have been received by now; too large by less than
    /// a megabyte.
    fn age(self, bytes: u64) -> u64 {
        bytes - (u64::from(self.megabytes) << 20)
    }
}

/// Two marks; `last` is the later one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paws {
    before: Mark,
    last: Mark,
}

/// Bytes between two marks: an eighth of the sequence space.
const APART: u64 = 1 << 29;
/// Bytes after which a mark proves nothing: half of the sequence space.
const TOO_OLD: u64 = 1 << 31;

impl Paws {
    /// The timestamp of the peer's SYN.
    pub(crate) fn new(value: u32) -> Paws {
        let mark = Mark::new(value, 0);
        Paws { before: mark, last: mark }
    }

    /// Record that TS.Recent was `recent` when `bytes` had been received. It should be called
    /// often; each call may set a mark.
    pub(crate) fn note(&mut self, recent: u32, bytes: u64) {
        let mark = Mark::new(recent, bytes);
        if self.before.age(bytes) >= TOO_OLD {
            *self = Paws { before: mark, last: mark };
        } else if self.last.age(bytes) >= APART {
            *self = Paws { before: self.last, last: mark };
        }
    }

    /// Was a segment with the timestamp `value`, which is older than TS.Recent, nevertheless sent
    /// so recently that its sequence number cannot have wrapped? `bytes` have been received by now.
    pub(crate) fn is_of_this_life(&self, value: u32, bytes: u64) -> bool {
        SeqNumber(value).ge(SeqNumber(self.before.value)) && self.before.age(bytes) < TOO_OLD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    #[test]
    fn what_is_late_is_of_this_life_and_what_is_four_gigabytes_old_is_not() {
        let mut paws = Paws::new(1000);
        assert!(paws.is_of_this_life(1000, 0) && !paws.is_of_this_life(999, 0));
        // One millisecond per 100 KB: 4 GB take 43 s.
        for step in 1..400_000u64 {
            let (value, bytes) = (1000 + step as u32, step * 100_000);
            if step % 50 == 0 {
                paws.note(value, bytes);
            }
            assert!(step < 100 || paws.is_of_this_life(value - 100, bytes), "{step}");
            let wrapped = value.wrapping_sub(22_000);
            assert!(step < 22_000 || !paws.is_of_this_life(wrapped, bytes), "{step}");
        }
    }

    #[test]
    fn after_a_long_time_unobserved_nothing_old_is_believed_until_it_is_newer() {
        let mut paws = Paws::new(1000);
        assert!(!paws.is_of_this_life(5000, 3 * GB));
        paws.note(6000, 3 * GB);
        assert!(!paws.is_of_this_life(5000, 3 * GB) && paws.is_of_this_life(6000, 3 * GB + 1));
    }
}
