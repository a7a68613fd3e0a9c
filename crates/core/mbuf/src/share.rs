//! Several handles of one cluster: sharing, sharing to send, and splitting, all without a copy.
//!
//! Called by: send queues. Only the pool of a cluster accesses its count, so a buffer of another
//! pool is copied instead.
#![allow(unsafe_code)]

use core::marker::PhantomData;

use crate::Pool;
use crate::class::Class;
use crate::mbuf::{Flags, Mbuf};

impl Pool {
    /// Returns a second handle of the same bytes, with the same metadata; both become read-only. An
    /// mbuf of another pool is copied. `None` without memory.
    pub fn share(&mut self, mbuf: &mut Mbuf) -> Option<Mbuf> {
        self.share_range(mbuf, 0, mbuf.len())
    }

    /// Split `mbuf` at byte `at`: `mbuf` keeps the bytes before, and the result has those after. No
    /// byte is copied, unless the mbuf belongs to another pool. `None` if `at` is past the end, or
    /// without memory.
    pub fn split(&mut self, mbuf: &mut Mbuf, at: usize) -> Option<Mbuf> {
        let rest = mbuf.len().checked_sub(at)?;
        let tail = self.share_range(mbuf, at, rest)?;
        mbuf.truncate(at);
        mbuf.clear(Flags::SUMMED);
        Some(tail)
    }

    fn share_range(&mut self, mbuf: &mut Mbuf, from: usize, len: usize) -> Option<Mbuf> {
        if !self.owns(mbuf) {
            return self.copy_range(mbuf, from, len);
        }
        let share = self.bare_share(mbuf, 0)?;
        let offset = mbuf.offset();
        let h = mbuf.header();
        if h.class == Class::Share {
            // The sending handle may no longer write bytes that the new handle sees.
            let end = (offset + from).min(h.refs_or_private_end.get().into());
            h.refs_or_private_end.set(end as u16);
        }
        let whole = from == 0 && len == mbuf.len();
        let s = share.header();
        s.len.set(len as u32);
        // SAFETY: callers pass a range inside the data.
        s.data.set(unsafe { s.data.get().add(from) });
        if !whole {
            s.flags.update(|flags| *flags &= !Flags::SUMMED);
        }
        Some(share)
    }

    /// A copy of a part of an mbuf that belongs to another pool, with its metadata.
    #[cold]
    pub(crate) fn copy_range(&mut self, mbuf: &Mbuf, from: usize, len: usize) -> Option<Mbuf> {
        let copy = self.copy_of(&mbuf.as_slice()[from..from + len])?;
        let whole = len == mbuf.len();
        let (old, new) = (mbuf.header(), copy.header());
        new.meta.set(old.meta.get());
        new.flags.set(old.flags.get() & !Flags::SHARED);
        if !whole {
            new.flags.update(|flags| *flags &= !Flags::SUMMED);
        }
        Some(copy)
    }

    /// Returns a handle to send: it has the same bytes, and headers may be written through it into
    /// all the room in front of them. `mbuf` is kept for a retransmission. `None` while an earlier
    /// handle is in use (the caller then copies), for an mbuf of another pool, or without memory.
    #[inline(always)]
    pub fn share_for_send(&mut self, mbuf: &mut Mbuf) -> Option<Mbuf> {
        if !self.reclaim(mbuf) {
            return None;
        }
        let private_end = mbuf.offset().min(usize::from(u16::MAX)) as u16;
        self.bare_share(mbuf, private_end)
    }

    /// Make `mbuf` writable again if no other handle is on its cluster.
    #[inline(always)]
    pub fn reclaim(&mut self, mbuf: &mut Mbuf) -> bool {
        if mbuf.is_exclusive() {
            return self.owns(mbuf);
        }
        // SAFETY: `owns` returned true, so this pool may read the count.
        let alone = self.owns(mbuf)
            && unsafe { mbuf.header().base.get().as_ref() }.refs_or_private_end.get() == 1;
        if alone && mbuf.header().class != Class::Share {
            mbuf.header().flags.update(|flags| *flags &= !Flags::SHARED);
            return true;
        }
        false
    }

    /// Returns a share header with `mbuf`'s metadata, marked as shared; the cluster's count goes up
    /// by one. Only the new handle may write before offset `private_end` in the cluster.
    #[inline(always)]
    fn bare_share(&mut self, mbuf: &mut Mbuf, private_end: u16) -> Option<Mbuf> {
        let base = mbuf.header().base.get();
        // SAFETY: the cluster is this pool's (callers checked `owns`), so it may read the count.
        let refs = unsafe { base.as_ref() }.refs_or_private_end.get();
        // At 65,535 handles the caller must copy.
        refs.checked_add(1)?;
        // This may collect returned handles, even of this cluster, so the count is changed only
        // afterwards.
        let header = self.take(Class::Share)?;
        mbuf.header().flags.update(|flags| *flags |= Flags::SHARED);
        let from = mbuf.header();
        // SAFETY: `header` belongs to the new handle alone; the count as above.
        unsafe {
            base.as_ref().refs_or_private_end.update(|count| *count += 1);
            let to = header.as_ref();
            to.data.set(from.data.get());
            to.base.set(base);
            to.meta.set(from.meta.get());
            to.len.set(from.len.get());
            to.refs_or_private_end.set(private_end);
            to.flags.set(from.flags.get());
        }
        Some(Mbuf { header, _owns: PhantomData })
    }
}
