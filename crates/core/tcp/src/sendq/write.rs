//! Writing: data is cut into pieces, which are appended to the pieces that wait.
//!
//! Called by: usrreq, and the functions that re-cut pieces. If a device computes checksums, the
//! copy takes no sum.

use mbuf::{Class, Flags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum};

use super::ring::occupy;
use super::{Piece, SendQueue};

impl SendQueue {
    /// Queue data to send; `behind` more bytes of the same write follow. Fill the last piece if it
    /// is unsent, then cut pieces of `unit` bytes, each a segment of `mss` bytes or several.
    /// Returns how many bytes were queued; fewer than `data` has if buffers ran out.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        data: &[u8],
        behind: usize,
        (unit, mss): (usize, usize),
        sums: Option<(Ladder, bool)>,
        pool: &mut Pool,
    ) -> usize {
        // If pieces wait already, full units pay off. A lone small write gets a small buffer.
        let backlog = self.unsent_count() > 0;
        let mut taken = if backlog { self.fill_last(data, (unit, mss), sums, pool) } else { 0 };
        if data.len() - taken > unit {
            taken += self.append_units(&data[taken..], unit, sums, pool);
        }
        let last = &data[taken..];
        if !last.is_empty() && last.len() <= unit {
            let room = if backlog || taken > 0 { unit } else { unit.min(last.len() + behind) };
            if let Some(m) = Class::for_len(room).and_then(|c| filled(last, c, sums, pool)) {
                self.pieces.push_back(Piece::waiting(Some(m), last.len() as u32));
                taken = data.len();
            }
        }
        self.unsent_bytes += taken as u32;
        taken
    }

    /// [`SendQueue::append`] for a single piece when no other waits; `None` without a buffer.
    #[inline(always)]
    pub(crate) fn append_alone(
        &mut self,
        data: &[u8],
        sums: Option<(Ladder, bool)>,
        pool: &mut Pool,
    ) -> Option<()> {
        let len = data.len() as u32;
        let m = filled(data, Class::for_len(data.len())?, sums, pool)?;
        self.pieces.push_back(Piece::waiting(Some(m), len));
        self.unsent_bytes += len;
        Some(())
    }

    /// Cut whole units off `data`, except the last unit, whole or not. Returns how many bytes were
    /// cut.
    #[inline(never)]
    fn append_units(
        &mut self,
        data: &[u8],
        unit: usize,
        sums: Option<(Ladder, bool)>,
        pool: &mut Pool,
    ) -> usize {
        let Some(class) = Class::for_len(unit) else { return 0 };
        let whole = (data.len() - 1) / unit * unit;
        let mut rest = &data[..whole];
        while !rest.is_empty() {
            let slots = self.pieces.vacant();
            let (vacant, mut count) = (slots.len(), 0);
            for (slot, bytes) in slots.iter_mut().zip(rest.chunks_exact(unit)) {
                let Some(m) = filled(bytes, class, sums, pool) else { break };
                occupy(slot, Piece::waiting(Some(m), unit as u32));
                count += 1;
            }
            self.pieces.grown_by(count);
            rest = &rest[count * unit..];
            if count < vacant {
                break;
            }
        }
        whole - rest.len()
    }

    /// Fill the last piece up to a unit; returns how many bytes it took.
    #[inline(never)]
    fn fill_last(
        &mut self,
        data: &[u8],
        (unit, mss): (usize, usize),
        sums: Option<(Ladder, bool)>,
        pool: &mut Pool,
    ) -> usize {
        let Some(piece) = self.pieces.back_mut() else { return 0 };
        // If the write found no room and has no data, the marks of the piece stay as they are.
        if piece.has(Piece::RECORD) || data.is_empty() {
            return 0;
        }
        piece.marks &= !Piece::GOES_ON;
        let Some(m) = &mut piece.mbuf else { return 0 };
        let taken = unit.saturating_sub(m.len()).min(data.len());
        if m.tailroom() < taken && m.len() < mss {
            enlarge(m, unit, pool);
        }
        let filled = fill(m, &data[..taken], sums);
        piece.len += filled as u32;
        filled
    }
}

/// Replace the buffer of `m`, which has less than a segment of data and no room after it: `m` is
/// the end of a piece that was cut and shares its buffer, or its buffer is small. The bytes are
/// copied to a buffer with room for a unit, so that they form one segment with the next write
/// instead of a short one. Without such a buffer `m` stays as it is.
#[cold]
#[inline(never)]
fn enlarge(m: &mut Mbuf, unit: usize, pool: &mut Pool) {
    let Some(mut larger) = pool.alloc(unit) else { return };
    larger.append(m.as_slice());
    if m.has(Flags::SUMMED) {
        larger.set_csum(m.csum());
        larger.set(Flags::SUMMED);
    }
    pool.free(core::mem::replace(m, larger));
}

/// Returns a buffer of this class, filled with `data`.
#[inline(always)]
fn filled(
    data: &[u8],
    class: Class,
    sums: Option<(Ladder, bool)>,
    pool: &mut Pool,
) -> Option<Mbuf> {
    let (mut m, sum) = pool.alloc_filled_in(class, data.len(), |to| copied(data, to, sums))?;
    if let Some(sum) = sum {
        m.set_csum(sum.0);
        m.set(Flags::SUMMED);
    }
    Some(m)
}

/// Append `data` to `m`, and update the checksum of all its bytes if sums are requested.
#[inline(always)]
pub(super) fn fill(m: &mut Mbuf, data: &[u8], sums: Option<(Ladder, bool)>) -> usize {
    let before = m.len();
    let n = data.len().min(m.tailroom());
    if n == 0 {
        return 0;
    }
    match m.put(n, |to| copied(&data[..n], to, sums)).flatten() {
        Some(sum) if before == 0 => {
            m.set_csum(sum.0);
            m.set(Flags::SUMMED);
        }
        Some(sum) if m.has(Flags::SUMMED) => m.set_csum(Sum(m.csum()).plus_at(sum, before).0),
        Some(_) => {}
        None => m.clear(Flags::SUMMED),
    }
    n
}

/// Copy `from` to `to`; returns the checksum if sums are requested.
#[inline(always)]
fn copied(from: &[u8], to: &mut [u8], sums: Option<(Ladder, bool)>) -> Option<Sum> {
    match sums {
        Some((ladder, fused)) => Some(bytepass_copy_sum(ladder, fused, from, to)),
        None => {
            bytepass_copy(from, to);
            None
        }
    }
}

// The passes over the bytes are functions of their own, so that instruction counts show them
// separately.

#[inline(never)]
fn bytepass_copy_sum(ladder: Ladder, fused: bool, from: &[u8], to: &mut [u8]) -> Sum {
    if fused { ladder.copy_sum(from, to) } else { ladder.copy_then_sum(from, to) }
}

#[inline(never)]
fn bytepass_copy(from: &[u8], to: &mut [u8]) {
    mbuf::copy(from, to);
}
