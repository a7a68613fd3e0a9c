//! Reassembly: an ordered map from stream offset to mbuf. No order of arrival costs more than O(log
//! n) (CVE-2018-5390), and the number of pieces is limited.
//!
//! Called by: text. RFC 9293 section 3.10.7.4 (seventh check).

use std::collections::BTreeMap;

use base::SeqNumber;
use mbuf::{Class, Mbuf, Pool};

/// Out-of-order data by its 64-bit offset in the stream.
#[derive(Default)]
pub(crate) struct Reassembly {
    segments: BTreeMap<u64, Mbuf>,
    /// Where the stream ends, if a FIN came out of order.
    pub(crate) fin: Option<SeqNumber>,
}

impl Reassembly {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.fin.is_none()
    }

    /// Pieces held.
    pub(crate) fn pieces(&self) -> usize {
        self.segments.len()
    }

    /// Bytes held.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.segments.values().map(Mbuf::len).sum()
    }

    /// The number of pieces allowed for a receive buffer of this size in bytes. A piece takes 2 KB,
    /// whatever its length, so all pieces take at most four times the receive buffer's memory.
    pub(crate) fn affordable(receive_buffer_bytes: usize) -> usize {
        4 * receive_buffer_bytes / Class::K2.stride() + 8
    }

    /// The first contiguous run of held bytes within stream offsets `from..end`: the bytes that a
    /// segment with that range duplicates. Visits the pieces of that run only.
    pub(crate) fn first_held(&self, from: u64, end: u64) -> Option<(u64, u64)> {
        let before = self.segments.range(..from).next_back();
        let reaches = before.filter(|(at, held)| **at + held.len() as u64 > from);
        let mut run: Option<(u64, u64)> = None;
        for (&at, held) in reaches.into_iter().chain(self.segments.range(from..end)) {
            let (left, right) = (at.max(from), (at + held.len() as u64).min(end));
            match &mut run {
                None => run = Some((left, right)),
                Some((_, until)) if *until == left => *until = right,
                Some(_) => break,
            }
        }
        run
    }

    /// Keep the bytes of `m` (at stream offset `at`) that are not held yet, as at most one new
    /// piece. Returns whether any byte was new.
    pub(crate) fn insert(&mut self, mut at: u64, mut m: Mbuf, pool: &mut Pool) -> bool {
        if let Some((&before, held)) = self.segments.range(..=at).next_back() {
            let covered = (before + held.len() as u64).saturating_sub(at);
            if covered >= m.len() as u64 {
                pool.free(m);
                return false;
            }
            m.trim_front(covered as usize);
            at += covered;
        }
        // Pieces after `at`: bytes that arrived earlier are kept, but a piece wholly inside the new
        // one is replaced.
        let end = at + m.len() as u64;
        let mut replaced = 0;
        while let Some((&next, held)) = self.segments.range(at..end).next() {
            if next + held.len() as u64 <= end {
                if let Some(inside) = self.segments.remove(&next) {
                    replaced += inside.len();
                    pool.free(inside);
                }
            } else {
                m.truncate((next - at) as usize);
                break;
            }
        }
        if m.is_empty() {
            pool.free(m);
            return false;
        }
        // Adjacent pieces may together have held all bytes of `m`.
        let new = m.len() > replaced;
        self.keep(at, m, pool);
        new
    }

    /// Store a piece. A small one is appended to the piece it continues, or copied to a buffer with
    /// room for later ones. The remaining bytes of a large one are copied so that its buffer is
    /// freed.
    fn keep(&mut self, at: u64, mut m: Mbuf, pool: &mut Pool) {
        if let Some((&before, held)) = self.segments.range_mut(..at).next_back()
            && before + held.len() as u64 == at
            && held.absorb(&m)
        {
            return pool.free(m);
        }
        let shared = m.is_small() && m.tailroom() == 0;
        if (shared || is_wasteful(&m))
            && let Some(copy) = pool.copy_of(m.as_slice())
        {
            pool.free(core::mem::replace(&mut m, copy));
        }
        self.segments.insert(at, m);
    }

    /// Remove and return the data that continues at stream offset `at`, without the part before
    /// `at`.
    pub(crate) fn take(&mut self, at: u64, pool: &mut Pool) -> Option<Mbuf> {
        while let Some(entry) = self.segments.first_entry() {
            if *entry.key() > at {
                return None;
            }
            let overlap = at - *entry.key();
            let mut m = entry.remove();
            if overlap < m.len() as u64 {
                m.trim_front(overlap as usize);
                return Some(m);
            }
            pool.free(m);
        }
        None
    }

    /// Free every piece.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        for (_, m) in core::mem::take(&mut self.segments) {
            pool.free(m);
        }
        self.fin = None;
    }
}

/// Is the buffer more than twice the size that its bytes need? That happens after trimming, or if
/// the buffer was posted for the largest frame. A peer that sends such pieces could otherwise hold
/// many times the memory that the limit on pieces assumes.
fn is_wasteful(m: &Mbuf) -> bool {
    let cluster = m.headroom() + m.len() + m.tailroom();
    Class::for_len(m.len()).is_some_and(|fitting| cluster > 2 * fitting.stride())
}
