//! The send side of a connection: one queue of pieces, those in flight first, then those not yet
//! sent.
//!
//! Called by: output, ack, recovery, sack, usrreq. Must not know: headers, windows, timers.
//! A piece is what one segment carries, cut when it is written: sending it moves a border and
//! nothing else. Those in flight are in sequence order, so that a SACK block or a loss is found by
//! binary search, never by a walk.

mod cut;

use std::collections::VecDeque;

use base::{Instant, SeqNumber};
use mbuf::{Flags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum};

/// What one segment carries or carried.
pub(crate) struct Piece {
    /// The payload; `None` for a FIN without data.
    pub(crate) mbuf: Option<Mbuf>,
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    /// Its first byte, once it is sent.
    pub(crate) seq: SeqNumber,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) marks: u8,
}

impl Piece {
    pub(crate) const RETRANSMITTED: u8 = 1;
    pub(crate) const FIN: u8 = 2;
    /// Not sent yet, and to be sent as one segment although it is larger than others.
    pub(crate) const PROBE: u8 = 4;
    /// It was sent with PSH, and is so when it goes again.
    pub(crate) const PUSH: u8 = 8;
    /// A record ends here: what is written next begins a segment of its own.
    pub(crate) const RECORD: u8 = 16;
    /// More is about to be written behind it: no PSH yet.
    pub(crate) const MORE: u8 = 32;

    /// Not yet sent.
    #[inline(always)]
    fn waiting(mbuf: Option<Mbuf>, len: u32) -> Piece {
        Piece { mbuf, sent_at: Instant::ZERO, seq: SeqNumber(0), len, marks: 0 }
    }

    #[inline(always)]
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Sequence space: payload and FIN.
    #[inline(always)]
    pub(crate) fn space(&self) -> u32 {
        self.len + u32::from(self.has(Piece::FIN))
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> SeqNumber {
        self.seq + self.space()
    }

    /// The first bytes are acknowledged.
    #[cold]
    fn trim_front(&mut self, bytes: u32) {
        if let Some(m) = self.mbuf.as_mut() {
            m.trim_front(bytes as usize);
            m.clear(Flags::SUMMED);
        }
        self.seq += bytes;
        self.len -= bytes.min(self.len);
    }
}

#[derive(Default)]
pub(crate) struct SendQueue {
    pieces: VecDeque<Piece>,
    /// How many of them are in flight.
    sent: u32,
    /// Payload bytes of the others.
    unsent_bytes: u32,
}

impl SendQueue {
    /// Bytes not yet sent.
    #[inline(always)]
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes as usize
    }

    /// Pieces not yet sent.
    #[inline(always)]
    pub(crate) fn unsent_count(&self) -> usize {
        self.pieces.len() - self.sent as usize
    }

    /// Pieces in flight.
    #[inline(always)]
    pub(crate) fn sent_count(&self) -> usize {
        self.sent as usize
    }

    /// The next piece to send.
    #[inline(always)]
    pub(crate) fn front(&self) -> Option<&Piece> {
        self.pieces.get(self.sent as usize)
    }

    /// The next piece to send.
    #[inline(always)]
    pub(crate) fn front_mut(&mut self) -> Option<&mut Piece> {
        self.pieces.get_mut(self.sent as usize)
    }

    /// The piece that went last.
    #[inline(always)]
    pub(crate) fn last_sent(&self) -> Option<&Piece> {
        self.pieces.get((self.sent as usize).wrapping_sub(1))
    }

    /// A piece in flight, by its place.
    #[inline]
    pub(crate) fn in_flight(&self, index: usize) -> Option<&Piece> {
        self.pieces.get(index).filter(|_| index < self.sent as usize)
    }

    /// A piece in flight, by its place.
    #[inline]
    pub(crate) fn in_flight_mut(&mut self, index: usize) -> Option<&mut Piece> {
        self.pieces.get_mut(index).filter(|_| index < self.sent as usize)
    }

    /// The front is in flight now; here it is, for its time and place to be noted.
    #[inline(always)]
    pub(crate) fn send_front(&mut self) -> Option<&mut Piece> {
        let piece = self.pieces.get_mut(self.sent as usize)?;
        self.sent += 1;
        self.unsent_bytes -= piece.len;
        Some(piece)
    }

    /// Send pieces of `len` bytes each that wait one behind the other, all but the last of the
    /// queue and at most `most`: `send` says whether it could. Returns how many went, and whether
    /// more of them wait: where the ring turns, if nowhere else, there is an end.
    #[inline(always)]
    pub(crate) fn send_alike(
        &mut self,
        len: u32,
        most: usize,
        mut send: impl FnMut(&mut Piece) -> bool,
    ) -> (usize, bool) {
        let most = most.min(self.unsent_count().saturating_sub(1));
        let (front, back) = self.pieces.as_mut_slices();
        let first = self.sent as usize;
        let waiting = match first.checked_sub(front.len()) {
            None => front.get_mut(first..),
            Some(first) => back.get_mut(first..),
        };
        let waiting = waiting.unwrap_or_default();
        let here = most.min(waiting.len());
        let stop = waiting[..here].iter_mut().position(|piece| piece.len != len || !send(piece));
        let count = stop.unwrap_or(here);
        self.sent += count as u32;
        self.unsent_bytes -= count as u32 * len;
        (count, count < most)
    }

    /// A FIN without data goes behind everything, in flight at once.
    pub(crate) fn send_fin(&mut self, seq: SeqNumber, now: Instant) {
        debug_assert_eq!(self.unsent_count(), 0, "a FIN is the last");
        let marks = Piece::FIN;
        self.pieces.push_back(Piece { seq, sent_at: now, marks, ..Piece::waiting(None, 0) });
        self.sent += 1;
    }

    /// Take data to send: fill up the last piece if it waits, then cut pieces of `unit` bytes.
    /// Returns how many bytes were taken; fewer when no buffers are left.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        data: &[u8],
        unit: usize,
        sums: Option<(Ladder, bool)>,
        pool: &mut Pool,
    ) -> usize {
        let mut taken = 0;
        // A backlog means that full units pay; a lone small write takes a small buffer.
        let mut room = data.len();
        if self.unsent_count() > 0 {
            taken = self.fill_last(data, unit, sums);
            room = unit;
        }
        while let Some(rest) = data.get(taken..)
            && !rest.is_empty()
        {
            let piece = &rest[..rest.len().min(unit)];
            let filled = pool.alloc_filled(room.min(unit), piece.len(), |to| match sums {
                Some((ladder, fused)) => Some(bytepass_copy_sum(ladder, fused, piece, to)),
                None => {
                    bytepass_copy(piece, to);
                    None
                }
            });
            let Some((mut m, sum)) = filled else { break };
            if let Some(sum) = sum {
                m.set_csum(sum.0);
                m.set(Flags::SUMMED);
            }
            taken += piece.len();
            if self.pieces.capacity() == 0 {
                // Many connections never have two.
                self.pieces.reserve_exact(1);
            }
            self.pieces.push_back(Piece::waiting(Some(m), piece.len() as u32));
            room = unit;
        }
        self.unsent_bytes += taken as u32;
        taken
    }

    /// Fill up the last piece to a unit; returns how many bytes went into it.
    #[inline]
    fn fill_last(&mut self, data: &[u8], unit: usize, sums: Option<(Ladder, bool)>) -> usize {
        let Some(piece) = self.pieces.back_mut() else { return 0 };
        if piece.has(Piece::RECORD) {
            return 0;
        }
        piece.marks &= !Piece::MORE;
        let Some(m) = &mut piece.mbuf else { return 0 };
        let room = unit.saturating_sub(m.len()).min(m.tailroom());
        if room == 0 {
            return 0;
        }
        let filled = fill(m, &data[..room.min(data.len())], sums);
        piece.len += filled as u32;
        filled
    }

    /// Say something of what was written last, if it was not sent yet.
    #[cold]
    pub(crate) fn mark_last(&mut self, mark: u8) {
        if self.unsent_count() > 0
            && let Some(piece) = self.pieces.back_mut()
        {
            piece.marks |= mark;
        }
    }

    /// Take an mbuf that the user filled (loaned buffers).
    pub(crate) fn append_mbuf(&mut self, mut m: Mbuf, sums: Option<(Ladder, bool)>) {
        if let Some((ladder, _)) = sums {
            m.set_csum(bytepass_sum(ladder, m.as_slice()).0);
            m.set(Flags::SUMMED);
        }
        let len = m.len() as u32;
        self.unsent_bytes += len;
        self.pieces.push_back(Piece::waiting(Some(m), len));
    }

    /// Remove everything before `ack`. Returns when the newest of it left that was sent once only.
    /// RFC 2018 8-a.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: SeqNumber, pool: &mut Pool) -> Option<Instant> {
        let mut newest = None;
        if self.sent == 1
            && let Some(piece) = self.pieces.front_mut()
            && piece.end() == ack
            && piece.marks & !Piece::PUSH == 0
        {
            // All there was, as in any conversation of one segment at a time.
            newest = Some(piece.sent_at);
            self.sent = 0;
            if let Some(m) = self.pieces.pop_front().and_then(|piece| piece.mbuf) {
                pool.free(m);
            }
            return newest;
        }
        let mut whole = 0;
        for piece in self.pieces.range_mut(..self.sent as usize) {
            if piece.end().gt(ack) {
                if piece.seq.lt(ack) {
                    piece.trim_front(ack.since(piece.seq) as u32);
                }
                break;
            }
            if !piece.has(Piece::RETRANSMITTED) {
                newest = Some(piece.sent_at);
            }
            if let Some(m) = piece.mbuf.take() {
                pool.free(m);
            }
            whole += 1;
        }
        self.sent -= whole;
        self.pieces.drain(..whole as usize);
        newest
    }

    /// Place of the piece in flight that holds `seq`, or of the first behind it.
    pub(crate) fn find(&self, seq: SeqNumber) -> usize {
        // Behind those in flight is nothing that has a place in sequence.
        let (a, b) = self.pieces.as_slices();
        let in_a = &a[..a.len().min(self.sent as usize)];
        let in_b = &b[..self.sent as usize - in_a.len()];
        match in_a.partition_point(|p| p.end().le(seq)) {
            all if all == in_a.len() => all + in_b.partition_point(|p| p.end().le(seq)),
            index => index,
        }
    }

    /// Give everything back.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        for piece in core::mem::take(self).pieces {
            if let Some(m) = piece.mbuf {
                pool.free(m);
            }
        }
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
    mbuf::copy(from, to);
}

#[inline(never)]
pub(crate) fn bytepass_sum(ladder: Ladder, data: &[u8]) -> Sum {
    ladder.sum(data)
}
