//! The ring of pieces of a send queue; its size is a power of two, so an index is reduced by a
//! mask. Every slot always holds a piece, an empty one if unused, so bulk removal has nothing to
//! drop.
//!
//! Called by: the send queue.

use core::ops::Range;

use super::Piece;

#[derive(Default)]
pub(super) struct Ring {
    /// Empty before the first piece; afterwards their number is a power of two.
    slots: Box<[Piece]>,
    /// Slot of the first piece.
    head: u32,
    /// Pieces queued.
    len: u32,
}

impl Ring {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// The slot of a piece that is or will be at `index`. Out of range while there are no slots.
    #[inline(always)]
    fn slot(&self, index: usize) -> usize {
        (self.head as usize + index) & self.slots.len().wrapping_sub(1)
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> Option<&Piece> {
        if index < self.len() { self.slots.get(self.slot(index)) } else { None }
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Piece> {
        if index < self.len() { self.slots.get_mut(self.slot(index)) } else { None }
    }

    #[inline(always)]
    pub(super) fn back_mut(&mut self) -> Option<&mut Piece> {
        self.get_mut(self.len().checked_sub(1)?)
    }

    /// The pieces `from..to`, up to the end of the ring's memory; a second call that begins where
    /// this result ends returns the remaining pieces. Empty if there are none.
    #[inline(always)]
    pub(super) fn run(&self, from: usize, to: usize) -> &[Piece] {
        self.slots.get(self.side_by_side(from, to)).unwrap_or_default()
    }

    /// [`Ring::run`], mutable.
    #[inline(always)]
    pub(super) fn run_mut(&mut self, from: usize, to: usize) -> &mut [Piece] {
        self.slots.get_mut(self.side_by_side(from, to)).unwrap_or_default()
    }

    #[inline(always)]
    fn side_by_side(&self, from: usize, to: usize) -> Range<usize> {
        let first = self.slot(from);
        let last = first + to.min(self.len()).saturating_sub(from);
        first..last.min(self.slots.len())
    }

    /// The contiguous empty slots after the last piece, at least one. Once the caller has filled
    /// the first of them, [`Ring::grown_by`] makes these pieces part of the ring.
    #[inline(always)]
    pub(super) fn vacant(&mut self) -> &mut [Piece] {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let first = self.slot(self.len());
        let last = self.slots.len().min(first + self.slots.len() - self.len());
        self.slots.get_mut(first..last).unwrap_or_default()
    }

    /// The first `count` slots of [`Ring::vacant`] are now pieces.
    #[inline(always)]
    pub(super) fn grown_by(&mut self, count: usize) {
        self.len += count as u32;
    }

    /// Double the slots. The first allocation is a single slot, because many connections never have
    /// two pieces.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let size = if self.slots.is_empty() { 1 } else { (2 * self.slots.len()).max(4) };
        let mut slots: Vec<Piece> = Vec::with_capacity(size);
        slots.extend(core::iter::from_fn(|| self.pop_front()));
        self.len = slots.len() as u32;
        self.head = 0;
        slots.resize_with(size, Piece::default);
        self.slots = slots.into_boxed_slice();
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, piece: Piece) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let end = self.slot(self.len());
        if let Some(slot) = self.slots.get_mut(end) {
            occupy(slot, piece);
            self.len += 1;
        }
    }

    #[inline(always)]
    pub(super) fn pop_front(&mut self) -> Option<Piece> {
        let piece = core::mem::take(self.get_mut(0)?);
        self.drop_front(1);
        Some(piece)
    }

    /// Remove the first `count` pieces, whose buffers were taken.
    #[inline(always)]
    pub(super) fn drop_front(&mut self, count: usize) {
        debug_assert!(
            self.run(0, count).iter().all(|piece| piece.mbuf.is_none()),
            "a removed piece has a buffer"
        );
        self.head = self.slot(count) as u32;
        self.len -= count as u32;
    }

    /// Insert `piece` at an index; the pieces on the shorter side move.
    pub(super) fn insert(&mut self, index: usize, piece: Piece) {
        self.push_back(piece);
        let last = self.len() - 1;
        if index < last / 2 {
            // Rotate the ring by one slot, which works for a full ring as well.
            let end = self.slot(last);
            self.head = self.slot(self.slots.len() - 1) as u32;
            self.slots.swap(end, self.head as usize);
            self.shift(0, index);
        } else {
            self.shift(last, index);
        }
    }

    /// Remove the piece at an index; the pieces on the shorter side move.
    pub(super) fn remove(&mut self, index: usize) -> Option<Piece> {
        let last = self.len().checked_sub(1).filter(|&last| index <= last)?;
        if index < last / 2 {
            self.shift(index, 0);
            return self.pop_front();
        }
        self.shift(index, last);
        let piece = self.back_mut().map(core::mem::take);
        self.len = last as u32;
        piece
    }

    /// Move a piece to another index; those in between move by one.
    fn shift(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at != to {
            let next = if at < to { at + 1 } else { at - 1 };
            self.slots.swap(self.slot(at), self.slot(next));
            at = next;
        }
    }
}

/// Store a piece in a vacant slot without dropping the empty one.
#[inline(always)]
pub(super) fn occupy(slot: &mut Piece, piece: Piece) {
    let empty = core::mem::replace(slot, piece);
    debug_assert!(empty.mbuf.is_none(), "a vacant slot has a buffer");
    core::mem::forget(empty);
}

#[cfg(test)]
mod tests;
