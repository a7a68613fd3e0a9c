//! Re-cuts pieces of the send queue: splits one, or joins several for a larger segment.
//!
//! Called by: output, path, recovery and the handshake, when a segment has to differ from the
//! pieces that were written. A split copies no byte.

use base::SeqNumber;
use mbuf::{Mbuf, Pool};
use wire::checksum::Ladder;

use super::write::fill;
use super::{Piece, SendQueue};

impl SendQueue {
    /// Data that was written before the handshake was cut for segments that the peer may not
    /// accept. Cut it again into pieces of `unit` bytes. Nothing is in flight. If buffers run out,
    /// the remaining pieces stay as they are.
    #[cold]
    pub(crate) fn recut(&mut self, unit: usize, sums: Option<(Ladder, bool)>, pool: &mut Pool) {
        if self.front().is_none_or(|front| front.len as usize <= unit) {
            return;
        }
        let mut waiting = core::mem::take(&mut self.pieces);
        self.unsent_bytes = 0;
        let pieces = core::iter::from_fn(|| waiting.pop_front());
        for mut m in pieces.filter_map(|piece| piece.mbuf) {
            let taken = self.append(m.as_slice(), 0, (unit, 0), sums, pool);
            if taken == m.len() {
                pool.free(m);
            } else {
                m.trim_front(taken);
                self.append_mbuf(m, sums.map(|(ladder, _)| ladder), None);
            }
        }
    }

    /// Treat everything in flight as never sent.
    #[cold]
    pub(crate) fn take_back(&mut self) {
        for index in 0..self.sent as usize {
            if let Some(piece) = self.pieces.get_mut(index) {
                self.unsent_bytes += piece.len;
                piece.marks = 0;
            }
        }
        self.sent = 0;
    }

    /// Cut the front piece to `len` bytes; `false` if that is not possible.
    pub(crate) fn cut_front(&mut self, len: u32, pool: &mut Pool) -> bool {
        self.cut_at(self.sent as usize, len, pool)
    }

    /// Make the front piece `len` bytes long, for a segment larger than the MSS: cut it, or copy
    /// the bytes that follow it into one buffer. `false` if there is too little data, or no buffer.
    #[cold]
    pub(crate) fn join_front(
        &mut self,
        len: usize,
        sums: Option<(Ladder, bool)>,
        pool: &mut Pool,
    ) -> bool {
        let first = self.sent as usize;
        let Some(front_len) = self.front().map(|front| front.len as usize) else { return false };
        if front_len < len {
            if self.unsent_bytes() < len {
                return false;
            }
            let Some(mut joined) = pool.alloc(len) else { return false };
            while joined.len() < len {
                let rest = len - joined.len();
                let Some(piece) = self.pieces.get_mut(first) else { break };
                let part = piece.mbuf.as_ref().map_or(&[][..], Mbuf::as_slice);
                let taken = fill(&mut joined, &part[..rest.min(part.len())], sums);
                if taken < part.len() {
                    piece.trim_front(taken as u32);
                    if taken < rest {
                        break;
                    }
                } else if let Some(m) = self.pieces.remove(first).and_then(|piece| piece.mbuf) {
                    pool.free(m);
                }
            }
            let taken = joined.len() as u32;
            self.pieces.insert(first, Piece::waiting(Some(joined), taken));
        } else if front_len > len && !self.cut_front(len as u32, pool) {
            return false;
        }
        if let Some(front) = self.front_mut() {
            front.marks = Piece::PROBE;
        }
        true
    }

    /// Split the piece in flight at `index` where `seq` is, if `seq` is inside it. No byte is
    /// copied. Returns the index of the piece that begins at `seq`, or `index` if nothing had to be
    /// cut; `None` if there is no buffer.
    pub(crate) fn cut(&mut self, index: usize, seq: SeqNumber, pool: &mut Pool) -> Option<usize> {
        let (at, len) = self.in_flight(index).map_or((0, 0), |p| (seq.since(p.seq), p.len));
        if at <= 0 || at as u32 >= len {
            return Some(index);
        }
        self.cut_at(index, at as u32, pool).then_some(index + 1)
    }

    fn cut_at(&mut self, index: usize, at: u32, pool: &mut Pool) -> bool {
        let Some(piece) = self.pieces.get_mut(index).filter(|p| at < p.len) else { return false };
        let Some(tail) = piece.mbuf.as_mut().and_then(|m| pool.split(m, at as usize)) else {
            return false;
        };
        let rest = Piece {
            mbuf: Some(tail),
            sent_at: piece.sent_at,
            seq: piece.seq + at,
            len: piece.len - at,
            marks: piece.marks,
        };
        piece.len = at;
        piece.marks &= !(Piece::FIN | Piece::PUSH | Piece::RECORD | Piece::GOES_ON);
        self.pieces.insert(index + 1, rest);
        self.sent += u32::from(index < self.sent as usize);
        true
    }
}
