//! Several handles on one cluster: sharing, sharing to send, splitting; no byte is copied.
//!
//! Called by: send queues. The count of a cluster's handles is touched by its own pool alone; what
//! belongs to another pool is copied.
#![allow(unsafe_code)]

use core::marker::PhantomData;

use crate::Pool;
use crate::class::Class;
use crate::mbuf::{Flags, Mbuf};

impl Pool {
    /// A second handle on the same bytes, of the same metadata; both become read-only. A foreign
    /// mbuf is copied. `None` when no memory is left.
    pub fn share(&mut self, mbuf: &mut Mbuf) -> Option<Mbuf> {
        self.share_range(mbuf, 0, mbuf.len())
    }

    /// Cut `mbuf` at `at`: it keeps the front, the result has the rest. No byte is copied, unless
    /// it is another pool's. `None` if `at` is past the end or no memory is left.
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
            // What the new handle sees is no longer this one's to write.
            let end = (offset + from).min(h.refs_or_private_end.get().into());
            h.refs_or_private_end.set(end as u16);
        }
        let whole = from == 0 && len == mbuf.len();
        let s = share.header();
        s.len.set(len as u32);
        // SAFETY: callers give a range inside the data.
        s.data.set(unsafe { s.data.get().add(from) });
        if !whole {
            s.flags.update(|flags| *flags &= !Flags::SUMMED);
        }
        Some(share)
    }

    /// A copy of part of a foreign mbuf, with its metadata.
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

    /// A handle to send: the same bytes, and all room in front of them is the new handle's to
    /// write headers into. `mbuf` stays behind for a retransmission. `None` while an earlier copy
    /// is still out (then the caller copies), for a foreign mbuf, or when no memory is left.
    #[inline(always)]
    pub fn share_for_send(&mut self, mbuf: &mut Mbuf) -> Option<Mbuf> {
        if !self.reclaim(mbuf) {
            return None;
        }
        let private_end = mbuf.offset().min(usize::from(u16::MAX)) as u16;
        self.bare_share(mbuf, private_end)
    }

    /// Make `mbuf` writable again if no other handle on its cluster is left.
    #[inline(always)]
    pub fn reclaim(&mut self, mbuf: &mut Mbuf) -> bool {
        if mbuf.is_exclusive() {
            return self.owns(mbuf);
        }
        // SAFETY: `owns` says that this pool is the one that may read the count.
        let alone = self.owns(mbuf)
            && unsafe { mbuf.header().base.get().as_ref() }.refs_or_private_end.get() == 1;
        if alone && mbuf.header().class != Class::Share {
            mbuf.header().flags.update(|flags| *flags &= !Flags::SHARED);
            return true;
        }
        false
    }

    /// A share header with `mbuf`'s metadata, marked shared, the cluster counted once more;
    /// before `private_end` in the cluster the new handle alone may write.
    #[inline(always)]
    fn bare_share(&mut self, mbuf: &mut Mbuf, private_end: u16) -> Option<Mbuf> {
        let base = mbuf.header().base.get();
        // SAFETY: the cluster is this pool's (callers checked `owns`), so the count is ours.
        let refs = unsafe { base.as_ref() }.refs_or_private_end.get();
        // With 65,535 handles out the caller copies.
        refs.checked_add(1)?;
        // This may take in handles that came home, of this very cluster too: count after it.
        let header = self.take(Class::Share)?;
        mbuf.header().flags.update(|flags| *flags |= Flags::SHARED);
        let from = mbuf.header();
        // SAFETY: `header` is the new handle's alone; the count is ours as above.
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
