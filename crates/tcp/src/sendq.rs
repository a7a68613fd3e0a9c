//! The send side of a connection: data not yet sent, and a record of every segment in flight.
//!
//! Called by: output, ack, recovery, usrreq. Must not know: headers, windows, timers.
//! Unsent data is a list of segment-sized mbufs; what is in flight is a ring of records in
//! sequence order, so that a SACK block or a loss is found by binary search, never by a walk.

use std::collections::VecDeque;

use base::{Instant, SeqNumber};
use mbuf::{Flags, Mbuf, MbufQueue, Pool};
use wire::checksum::{Ladder, Sum};

/// A segment in flight.
pub(crate) struct Sent {
    /// The payload; `None` for a FIN without data.
    pub(crate) mbuf: Option<Mbuf>,
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    /// Its first byte.
    pub(crate) seq: SeqNumber,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) marks: u8,
}

impl Sent {
    pub(crate) const RETRANSMITTED: u8 = 1;
    pub(crate) const SACKED: u8 = 2;
    pub(crate) const LOST: u8 = 4;
    pub(crate) const FIN: u8 = 8;

    #[inline(always)]
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Sequence space: payload and FIN.
    #[inline(always)]
    pub(crate) fn space(&self) -> u32 {
        self.len + u32::from(self.has(Sent::FIN))
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> SeqNumber {
        self.seq + self.space()
    }
}

/// What an ACK took off the queue.
#[derive(Clone, Copy, Default)]
pub(crate) struct Acked {
    /// When the newest segment that was sent once only left, if there was one.
    pub(crate) sent_at: Option<Instant>,
    /// Bytes that had been SACKed before.
    pub(crate) sacked: u32,
    /// Bytes that had been marked lost and not sent again.
    pub(crate) lost: u32,
}

#[derive(Default)]
pub(crate) struct SendQueue {
    pub(crate) unsent: MbufQueue,
    pub(crate) in_flight: VecDeque<Sent>,
}

impl SendQueue {
    /// Bytes queued, sent or not.
    pub(crate) fn bytes(&self, in_flight: u32) -> usize {
        self.unsent.bytes() + in_flight as usize
    }

    /// Take data to send: fill up the last unsent mbuf, then cut segments of `unit` bytes.
    /// Returns how many bytes were taken; fewer when no buffers are left.
    pub(crate) fn append(
        &mut self,
        data: &[u8],
        unit: usize,
        sums: Option<(Ladder, bool)>,
        pool: &mut Pool,
    ) -> usize {
        let mut taken = self.fill_last(data, unit, sums);
        while taken < data.len() {
            let rest = &data[taken..];
            // A backlog means that full units pay; a lone small write takes a small buffer.
            let want = if self.unsent.is_empty() { rest.len().min(unit) } else { unit };
            let Some(mut m) = pool.alloc(want) else { break };
            let piece = &rest[..rest.len().min(unit)];
            match sums {
                Some((ladder, fused)) => {
                    let sum = m.put(piece.len(), |to| bytepass_copy_sum(ladder, fused, piece, to));
                    m.set_csum(sum.unwrap_or_default().0);
                    m.set(Flags::SUMMED);
                }
                None => {
                    m.put(piece.len(), |to| bytepass_copy(piece, to));
                }
            }
            taken += m.len();
            self.unsent.push_back(m);
        }
        taken
    }

    /// Fill up the last unsent mbuf to a unit; returns how many bytes went into it.
    #[inline]
    fn fill_last(&mut self, data: &[u8], unit: usize, sums: Option<(Ladder, bool)>) -> usize {
        let filled = self.unsent.with_back(|m| {
            let room = unit.saturating_sub(m.len()).min(m.tailroom());
            if room == 0 { 0 } else { fill(m, &data[..room.min(data.len())], sums) }
        });
        filled.unwrap_or(0)
    }

    /// Take an mbuf that the user filled (loaned buffers).
    pub(crate) fn append_mbuf(&mut self, mut m: Mbuf, sums: Option<(Ladder, bool)>) {
        if let Some((ladder, _)) = sums {
            m.set_csum(bytepass_sum(ladder, m.as_slice()).0);
            m.set(Flags::SUMMED);
        }
        self.unsent.push_back(m);
    }

    /// Remove everything before `ack`.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: SeqNumber, pool: &mut Pool) -> Acked {
        let mut acked = Acked::default();
        while let Some(sent) = self.in_flight.front_mut() {
            if sent.end().gt(ack) {
                if sent.seq.lt(ack) {
                    acked.trim_front(sent, ack.since(sent.seq) as u32);
                }
                break;
            }
            if sent.marks & !Sent::FIN == 0 {
                acked.sent_at = Some(sent.sent_at);
            } else {
                acked.count(sent.marks, sent.space());
            }
            if let Some(Some(m)) = self.in_flight.pop_front().map(|s| s.mbuf) {
                pool.free(m);
            }
        }
        acked
    }

    /// Index of the record that holds `seq`, or of the first behind it.
    pub(crate) fn find(&self, seq: SeqNumber) -> usize {
        self.in_flight.partition_point(|s| s.end().le(seq))
    }

    /// Make `seq` the border of two records, if it lies inside one. No byte is copied.
    pub(crate) fn cut(&mut self, index: usize, seq: SeqNumber, pool: &mut Pool) -> bool {
        let Some(sent) = self.in_flight.get_mut(index) else { return false };
        let at = seq.since(sent.seq);
        if at <= 0 || at as u32 >= sent.len {
            return false;
        }
        let Some(tail) = sent.mbuf.as_mut().and_then(|m| pool.split(m, at as usize)) else {
            return false;
        };
        let rest = Sent {
            mbuf: Some(tail),
            sent_at: sent.sent_at,
            seq,
            len: sent.len - at as u32,
            marks: sent.marks,
        };
        sent.len = at as u32;
        sent.marks &= !Sent::FIN;
        self.in_flight.insert(index + 1, rest);
        true
    }

    /// Give everything back.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.unsent.clear(pool);
        for sent in core::mem::take(&mut self.in_flight) {
            if let Some(m) = sent.mbuf {
                pool.free(m);
            }
        }
    }
}

impl Acked {
    fn count(&mut self, marks: u8, bytes: u32) {
        if marks & Sent::SACKED != 0 {
            self.sacked += bytes;
        } else if marks & Sent::LOST != 0 {
            self.lost += bytes;
        }
    }

    #[cold]
    fn trim_front(&mut self, sent: &mut Sent, bytes: u32) {
        self.count(sent.marks, bytes);
        if let Some(m) = sent.mbuf.as_mut() {
            m.trim_front(bytes as usize);
            m.clear(Flags::SUMMED);
        }
        sent.seq += bytes;
        sent.len -= bytes.min(sent.len);
    }
}

/// Copy `data` behind what is in `m`, keeping the sum of the whole where sums are asked for.
#[inline]
fn fill(m: &mut Mbuf, data: &[u8], sums: Option<(Ladder, bool)>) -> usize {
    if data.is_empty() {
        return 0;
    }
    let before = m.len();
    let tail = m.tail_mut();
    let n = data.len().min(tail.len());
    match sums {
        Some((ladder, fused)) => {
            let sum = bytepass_copy_sum(ladder, fused, &data[..n], &mut tail[..n]);
            let so_far = if before == 0 { Sum::ZERO } else { Sum(m.csum()) };
            if before == 0 || m.has(Flags::SUMMED) {
                m.set_csum(so_far.plus_at(sum, before).0);
                m.set(Flags::SUMMED);
            }
        }
        None => {
            bytepass_copy(&data[..n], &mut tail[..n]);
            m.clear(Flags::SUMMED);
        }
    }
    m.extend(n);
    n
}

// The passes over the bytes stand apart so that instruction counts can tell them from the rest.

#[inline(never)]
fn bytepass_copy_sum(ladder: Ladder, fused: bool, from: &[u8], to: &mut [u8]) -> Sum {
    if fused { ladder.copy_sum(from, to) } else { ladder.copy_then_sum(from, to) }
}

#[inline(never)]
fn bytepass_copy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

#[inline(never)]
pub(crate) fn bytepass_sum(ladder: Ladder, data: &[u8]) -> Sum {
    ladder.sum(data)
}
