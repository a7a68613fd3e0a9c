//! The send queue of a connection: pieces in flight, followed by pieces not yet sent.
//!
//! Called by: output, ack, recovery, sack, usrreq. A piece is the payload of one segment, cut when
//! it is written; sending it only moves the border between the two parts. Pieces in flight are in
//! sequence order, so a SACK block or a loss is found by binary search.

mod cut;
mod ring;
mod write;

use base::{Instant, SeqNumber};
use mbuf::{Flags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum};

use ring::Ring;

/// The payload of one segment.
#[derive(Default)]
pub(crate) struct Piece {
    /// The payload; `None` for a FIN without data.
    pub(crate) mbuf: Option<Mbuf>,
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    /// Its first sequence number; valid once it was sent.
    pub(crate) seq: SeqNumber,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) marks: u8,
}

impl Piece {
    pub(crate) const RETRANSMITTED: u8 = 1;
    pub(crate) const FIN: u8 = 2;
    /// Not sent yet; to be sent as one segment although larger than the MSS (path MTU probe).
    pub(crate) const PROBE: u8 = 4;
    /// Sent with PSH; a retransmission has PSH too.
    pub(crate) const PUSH: u8 = 8;
    /// Ends a record: the next write begins a new segment.
    pub(crate) const RECORD: u8 = 16;
    /// The user will write more at once: no PSH yet.
    pub(crate) const MORE: u8 = 32;
    /// More of the same write follows: no PSH yet, and a short segment waits while anything is in
    /// flight.
    pub(crate) const REST: u8 = 64;
    /// [`Piece::MORE`] or [`Piece::REST`].
    pub(crate) const GOES_ON: u8 = Piece::MORE | Piece::REST;

    /// A piece not yet sent.
    #[inline(always)]
    fn waiting(mbuf: Option<Mbuf>, len: u32) -> Piece {
        Piece { mbuf, sent_at: Instant::ZERO, seq: SeqNumber(0), len, marks: 0 }
    }

    #[inline(always)]
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Was the piece sent once, and is it payload without a FIN or any other mark than PUSH?
    #[inline(always)]
    fn is_ordinary(&self) -> bool {
        self.marks & !Piece::PUSH == 0
    }

    /// The sequence space that the piece takes: its payload and its FIN.
    #[inline(always)]
    pub(crate) fn space(&self) -> u32 {
        self.len + u32::from(self.has(Piece::FIN))
    }

    #[inline(always)]
    pub(crate) fn end(&self) -> SeqNumber {
        self.seq + self.space()
    }

    /// Remove acknowledged bytes from the front.
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
    pieces: Ring,
    /// The number of pieces in flight.
    sent: u32,
    /// Payload bytes not yet sent.
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

    /// The piece sent last.
    #[inline(always)]
    pub(crate) fn last_sent(&self) -> Option<&Piece> {
        self.pieces.get((self.sent as usize).wrapping_sub(1))
    }

    /// A piece in flight, by index.
    #[inline]
    pub(crate) fn in_flight(&self, index: usize) -> Option<&Piece> {
        self.pieces.get(index).filter(|_| index < self.sent as usize)
    }

    /// A piece in flight, by index.
    #[inline]
    pub(crate) fn in_flight_mut(&mut self, index: usize) -> Option<&mut Piece> {
        self.pieces.get_mut(index).filter(|_| index < self.sent as usize)
    }

    /// Make the front piece the last one in flight. The caller sets its sequence number and time.
    #[inline(always)]
    pub(crate) fn send_front(&mut self) -> Option<&mut Piece> {
        let piece = self.pieces.get_mut(self.sent as usize)?;
        self.sent += 1;
        self.unsent_bytes -= piece.len;
        Some(piece)
    }

    /// Send consecutive waiting pieces, at most `most` and never the last of the queue. `make` is
    /// called only for pieces of `len` bytes, and returns `false` if it cannot send the piece.
    /// Returns how many pieces were sent, and whether more may follow; a call also ends where the
    /// ring wraps.
    #[inline(always)]
    pub(crate) fn send_alike(
        &mut self,
        len: u32,
        most: usize,
        mut make: impl FnMut(&mut Piece) -> bool,
    ) -> (usize, bool) {
        let most = most.min(self.unsent_count().saturating_sub(1));
        let first = self.sent as usize;
        let run = self.pieces.run_mut(first, first + most);
        let count = run.iter_mut().position(|piece| !make(piece)).unwrap_or(run.len());
        debug_assert!(
            run.iter().take(count).all(|piece| piece.len == len),
            "the pieces differ in length"
        );
        self.sent += count as u32;
        self.unsent_bytes -= count as u32 * len;
        (count, count < most)
    }

    /// Append a FIN without data, in flight at once.
    pub(crate) fn send_fin(&mut self, seq: SeqNumber, now: Instant) {
        debug_assert_eq!(self.unsent_count(), 0, "data is unsent behind the FIN");
        let marks = Piece::FIN;
        self.pieces.push_back(Piece { seq, sent_at: now, marks, ..Piece::waiting(None, 0) });
        self.sent += 1;
    }

    /// Set a mark on the last piece, if it was not sent yet.
    #[cold]
    pub(crate) fn mark_last(&mut self, mark: u8) {
        if self.unsent_count() > 0
            && let Some(piece) = self.pieces.back_mut()
        {
            piece.marks |= mark;
        }
    }

    /// Remove a mark from the last piece, if it was not sent yet.
    #[cold]
    pub(crate) fn unmark_last(&mut self, mark: u8) {
        if self.unsent_count() > 0
            && let Some(piece) = self.pieces.back_mut()
        {
            piece.marks &= !mark;
        }
    }

    /// Queue an mbuf that the user filled (a loaned buffer). `ladder` computes its checksum unless
    /// `sum` is given.
    pub(crate) fn append_mbuf(&mut self, mut m: Mbuf, ladder: Option<Ladder>, sum: Option<Sum>) {
        if let Some(ladder) = ladder {
            m.set_csum(sum.unwrap_or_else(|| bytepass_sum(ladder, m.as_slice())).0);
            m.set(Flags::SUMMED);
        }
        let len = m.len() as u32;
        self.unsent_bytes += len;
        self.pieces.push_back(Piece::waiting(Some(m), len));
    }

    /// Remove everything before `ack`. Returns the send time of the newest removed piece that was
    /// sent only once.
    /// RFC 2018 8-a.
    #[inline(always)]
    pub(crate) fn acknowledge(&mut self, ack: SeqNumber, pool: &mut Pool) -> Option<Instant> {
        match self.sent {
            0..=2 => self.acknowledge_few(ack, pool),
            _ => self.acknowledge_many(ack, pool),
        }
    }

    /// Shortcut for an ACK of everything in flight, if that is one piece or two, each sent only
    /// once. This is the usual case when a connection sends a segment at a time and every second
    /// one gets an ACK.
    #[inline(never)]
    fn acknowledge_few(&mut self, ack: SeqNumber, pool: &mut Pool) -> Option<Instant> {
        let count = self.sent as usize;
        let last = self.pieces.get(count.wrapping_sub(1))?;
        let newest = last.sent_at;
        let is_first_ordinary = self.pieces.get(0).is_some_and(Piece::is_ordinary);
        if last.end() != ack || !last.is_ordinary() || !is_first_ordinary {
            return self.acknowledge_many(ack, pool);
        }
        if let Some(m) = self.pieces.get_mut(0).and_then(|piece| piece.mbuf.take()) {
            pool.free(m);
        }
        if count > 1
            && let Some(m) = self.pieces.get_mut(1).and_then(|piece| piece.mbuf.take())
        {
            pool.free(m);
        }
        self.sent = 0;
        self.pieces.drop_front(count);
        Some(newest)
    }

    #[inline(never)]
    fn acknowledge_many(&mut self, ack: SeqNumber, pool: &mut Pool) -> Option<Instant> {
        let mut newest = None;
        while self.sent > 0 {
            let run = self.pieces.run_mut(0, self.sent as usize);
            let whole = covered(run, ack);
            let (before, behind) = run.split_at_mut(whole);
            pool.free_all(before.iter_mut().filter_map(|piece| piece.mbuf.take()));
            let once = before.iter().rfind(|piece| !piece.has(Piece::RETRANSMITTED));
            newest = once.map(|piece| piece.sent_at).or(newest);
            let is_last = !behind.is_empty();
            if let Some(piece) = behind.first_mut()
                && piece.seq.lt(ack)
            {
                piece.trim_front(ack.since(piece.seq) as u32);
            }
            self.pieces.drop_front(whole);
            self.sent -= whole as u32;
            if is_last {
                break;
            }
        }
        newest
    }

    /// Index of the piece in flight that contains `seq`, or of the first one after it.
    pub(crate) fn find(&self, seq: SeqNumber) -> usize {
        // Unsent pieces have no sequence number yet.
        let sent = self.sent as usize;
        let run = self.pieces.run(0, sent);
        match run.partition_point(|p| p.end().le(seq)) {
            all if all == run.len() => {
                all + self.pieces.run(all, sent).partition_point(|p| p.end().le(seq))
            }
            index => index,
        }
    }

    /// Free every buffer.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        let mut pieces = core::mem::take(self).pieces;
        let pieces = core::iter::from_fn(|| pieces.pop_front());
        pieces.filter_map(|piece| piece.mbuf).for_each(|m| pool.free(m));
    }
}

/// How many pieces of `run`, counted from its start, `ack` acknowledges. First checks whether it
/// acknowledges all of them, as it usually does when few are in flight. Otherwise a galloping
/// binary search costs less than comparing each.
#[inline(always)]
fn covered(run: &[Piece], ack: SeqNumber) -> usize {
    let is_covered = |piece: &Piece| piece.end().le(ack);
    if run.last().is_some_and(is_covered) {
        return run.len();
    }
    let mut step = 1;
    while run.get(step).is_some_and(is_covered) {
        step *= 2;
    }
    let from = step / 2;
    let rest = run.get(from..step.min(run.len())).unwrap_or_default();
    from + rest.partition_point(is_covered)
}

// These are functions of their own, so that instruction counts show them separately.

#[inline(never)]
pub(crate) fn bytepass_sum(ladder: Ladder, data: &[u8]) -> Sum {
    ladder.sum(data)
}
