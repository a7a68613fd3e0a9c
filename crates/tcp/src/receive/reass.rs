//! Data that arrived before the data in front of it: an ordered map from stream offset to mbuf,
//! so that no order of arrival costs more than a logarithm (CVE-2018-5390), with a limit.
//!
//! Called by: text. RFC 9293 section 3.10.7.4 (seventh check), RFC 5961 has no say here.

use std::collections::BTreeMap;

use base::SeqNumber;
use mbuf::{Class, Mbuf, Pool};

/// Out-of-order data by its 64-bit offset in the stream.
#[derive(Default)]
pub(crate) struct Reassembly {
    segments: BTreeMap<u64, Mbuf>,
    /// Where the stream ends, if a FIN came early.
    pub(crate) fin: Option<SeqNumber>,
}

impl Reassembly {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.fin.is_none()
    }

    /// Pieces that wait.
    pub(crate) fn pieces(&self) -> usize {
        self.segments.len()
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.segments.values().map(Mbuf::len).sum()
    }

    /// Pieces that a receive buffer of this size affords: with a buffer of 2 KB each, whatever
    /// their size, they cost no more than four times as much.
    pub(crate) fn affordable(receive_buffer_bytes: usize) -> usize {
        4 * receive_buffer_bytes / Class::K2.stride() + 8
    }

    /// The first run of bytes held that lies in stream offsets `from..end`: what a segment of that
    /// range brings again. Looks at the pieces of that run alone.
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

    /// Keep what of `m` (which starts at stream offset `at`) is not there yet; adds one piece at
    /// most. Was any byte of it new?
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
        // What lies behind is overlapped from the front: later arrivals give way to earlier ones,
        // except a piece that is wholly inside the new one, which the new one replaces.
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
        // Pieces that lie side by side may have held all of it between them.
        let new = m.len() > replaced;
        self.keep(at, m, pool);
        new
    }

    /// A small piece goes behind the one it continues, or into a buffer that others can join; what
    /// is left of a large one does not keep its buffer.
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

    /// The data that continues at stream offset `at`, its overlap cut off.
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

    /// Give everything back.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        for (_, m) in core::mem::take(&mut self.segments) {
            pool.free(m);
        }
        self.fin = None;
    }
}

/// Is the buffer more than twice as large as the bytes need? Trimmed to what is new or fits the
/// window, or posted for the largest frame, it may be: a peer that sends such pieces would hold
/// many times the memory that pieces are counted for.
fn is_wasteful(m: &Mbuf) -> bool {
    let cluster = m.headroom() + m.len() + m.tailroom();
    Class::for_len(m.len()).is_some_and(|fitting| cluster > 2 * fitting.stride())
}
