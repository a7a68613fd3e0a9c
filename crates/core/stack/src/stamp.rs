//! Stamping: the segments of a run have the same headers except for sequence number and checksum.
//! So the headers of the first segment are copied, and two fields are filled in.
//!
//! Called by: `tx.rs`, after the first segment of a run. `follow.rs` saves the receiver the same
//! work that this saves the sender. Switch `stamp` turns it off, and a differential test compares
//! both.

use base::SeqNumber;
use mbuf::{FRONT_MAX, Flags, Front, Mbuf, Pool, Shares};
use tcp::output::sum_of;
use wire::checksum::{Ladder, Sum};
use wire::tcp::{CHECKSUM_OFFSET, HEADER_LEN, SEQ_OFFSET};

/// All headers of a run's first segment.
pub(crate) struct Stamp {
    front: Front,
    /// Where the TCP header begins in the bytes of [`Front`]; the TCP header is their end.
    tcp_at: usize,
    /// The sum of everything but sequence number and payload, pseudo-header included. `None` if the
    /// checksum field is the same in every segment (a device finishes it, or checksums are off).
    sum: Option<Sum>,
    /// The sums of payloads like the first are known, or are not needed.
    summed: bool,
    frame_len: usize,
}

impl Stamp {
    /// The headers of `frame`, whose TCP header begins at `tcp_at` and whose payload is `payload`.
    /// `summing`: its checksum is complete.
    #[inline(always)]
    pub(crate) fn of(
        frame: &Mbuf,
        tcp_at: usize,
        payload: &Mbuf,
        summing: bool,
        ladder: Ladder,
    ) -> Option<Stamp> {
        let front = Front::of(frame, payload)?;
        let tcp: &[u8; HEADER_LEN] = frame.as_slice().get(tcp_at..)?.first_chunk()?;
        let word = |at: usize| u16::from_ne_bytes([tcp[at], tcp[at + 1]]);
        let field = word(CHECKSUM_OFFSET);
        let sum = if summing {
            let seq = Sum(word(SEQ_OFFSET)).plus(Sum(word(SEQ_OFFSET + 2)));
            Some(Sum(!field).minus(seq).minus(sum_of(payload, ladder)))
        } else {
            None
        };
        let tcp_at = FRONT_MAX - front.headers_len() + tcp_at;
        let summed = payload.has(Flags::SUMMED) || !summing;
        Some(Stamp { front, tcp_at, sum, summed, frame_len: frame.len() })
    }

    /// Bytes of each frame of the run.
    #[inline(always)]
    pub(crate) fn frame_len(&self) -> usize {
        self.frame_len
    }

    /// The frame of another segment of the run: a handle to its payload, with headers prepended.
    /// `None` if the payload is not like the first one's, or if it cannot be shared at once.
    #[inline(always)]
    pub(crate) fn put(
        &self,
        shares: &mut Shares,
        payload: &mut Mbuf,
        seq: SeqNumber,
    ) -> Option<Mbuf> {
        if !self.summed {
            return None;
        }
        let sum = Sum(payload.csum());
        shares.behind(payload, &self.front, |headers| self.fill(headers, seq, sum))
    }

    /// [`Stamp::put`] for any payload of the run's length, which may be copied. `None` for other
    /// lengths, or if there is no buffer.
    pub(crate) fn put_any(
        &self,
        pool: &mut Pool,
        payload: &mut Mbuf,
        seq: SeqNumber,
        ladder: Ladder,
    ) -> Option<Mbuf> {
        if payload.len() + self.front.headers_len() != self.frame_len {
            return None;
        }
        let sum = if self.sum.is_some() { sum_of(payload, ladder) } else { Sum::ZERO };
        pool.share_behind(payload, &self.front, |headers| self.fill(headers, seq, sum))
    }

    /// Fill in the fields that differ; `sum` is the payload's.
    #[inline(always)]
    fn fill(&self, headers: &mut [u8; FRONT_MAX], seq: SeqNumber, sum: Sum) {
        let seq = seq.0.to_be();
        // `tcp_at` is never larger; `min` lets the compiler omit the bounds checks below.
        let at = self.tcp_at.min(FRONT_MAX - HEADER_LEN);
        headers[at + SEQ_OFFSET..at + SEQ_OFFSET + 4].copy_from_slice(&seq.to_ne_bytes());
        if let Some(all) = self.sum {
            let field = all.plus_and_word(sum, seq).field();
            headers[at + CHECKSUM_OFFSET..at + CHECKSUM_OFFSET + 2].copy_from_slice(&field);
        }
    }
}
