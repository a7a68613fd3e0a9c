//! Pools: last-in-first-out free lists per class, filled from slabs up to a limit in bytes.
//!
//! Called by: a stack, a device. One pool has one user at a time (`&mut self`), so the free lists
//! and the reference counts need no atomics; the one thing other threads touch is the return list.
//! Last in, first out matters: the buffer freed last is still in the cache (27 to 32 ns a segment).
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use std::sync::Arc;

use crate::class::{Class, HEADROOM, LINE};
use crate::mbuf::Mbuf;
use crate::reclaim::Attempts;
use crate::store::{Header, Shared, Store, give_back_to};

/// Handles given back in one go to another pool.
const RETURN_BATCH: usize = 32;

/// Fewer do not go by themselves while there is work: the lists' lock instructions are 40 ns.
const RETURN_FEW: usize = 4;

/// Where [`Mbuf`]s come from.
///
/// Memory is taken from the system in slabs as needed, never past the limit, and given back when
/// the pool and the last of its handles are gone, or when another class needs what one has unused.
pub struct Pool {
    pub(crate) store: Store,
    pub(crate) shared: Arc<Shared>,
    limit_bytes: usize,
    exhausted: u64,
    reclaims: Attempts,
    /// Another pool's handles on their way home, linked, with their owner.
    outbox: Option<Outbox>,
}

/// Kept when it is empty: the next handles mostly have the same home, and keeping its count costs
/// less than taking and giving it up for every list.
struct Outbox {
    home: Arc<Shared>,
    list: Option<(NonNull<Header>, NonNull<Header>)>,
    count: usize,
}

// SAFETY: as for `Store`; the outbox holds unique handles, which are `Send`.
unsafe impl Send for Pool {}

impl Pool {
    /// An empty pool that takes at most `limit_bytes` from the system.
    pub fn new(limit_bytes: usize) -> Pool {
        Pool {
            store: Store::default(),
            shared: Shared::new(),
            limit_bytes,
            exhausted: 0,
            reclaims: Attempts::default(),
            outbox: None,
        }
    }

    /// A buffer with room for `len` bytes behind its headroom, empty; `None` past the limit (which
    /// is counted) or for more than 65,664 bytes.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Mbuf> {
        self.alloc_class(Class::for_len(len)?)
    }

    #[inline(always)]
    fn alloc_class(&mut self, class: Class) -> Option<Mbuf> {
        let header = self.take(class)?;
        // SAFETY: taken from a free list, the header belongs to this handle; its cluster follows.
        unsafe {
            let data = header.as_ptr().cast::<u8>().add(LINE + HEADROOM);
            header.as_ref().begin(data, 0);
        }
        Some(Mbuf { header, _owns: PhantomData })
    }

    /// [`Pool::alloc`] for `len` bytes at least, of which `fill` writes the first `n`.
    #[inline(always)]
    pub fn alloc_filled<R>(
        &mut self,
        len: usize,
        n: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<(Mbuf, R)> {
        self.alloc_filled_in(Class::for_len(len.max(n))?, n, fill)
    }

    /// [`Pool::alloc_filled`] by class, for many of one size; `None` as well where `n` is more than
    /// its capacity.
    #[inline(always)]
    pub fn alloc_filled_in<R>(
        &mut self,
        class: Class,
        n: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<(Mbuf, R)> {
        if class == Class::Share || n > class.capacity() {
            return None;
        }
        let header = self.take(class)?;
        // SAFETY: taken from a free list, the header and the cluster that follows it are nobody
        // else's; behind its headroom there is room for `n` bytes.
        let filled = unsafe {
            let data = header.as_ptr().cast::<u8>().add(LINE + HEADROOM);
            let filled = fill(core::slice::from_raw_parts_mut(data, n));
            header.as_ref().begin(data, n);
            filled
        };
        Some((Mbuf { header, _owns: PhantomData }, filled))
    }

    /// A header off a free list, as its last user left it.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: Class) -> Option<NonNull<Header>> {
        self.store.take(class).or_else(|| self.refill(class))
    }

    /// First what came home, then a new slab, then one in the place of slabs that nobody uses, then
    /// a larger buffer than was asked for.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: Class) -> Option<NonNull<Header>> {
        self.collect();
        if self.store.is_dry(class) {
            self.store.grow(class, self.limit_bytes, &self.shared);
        }
        if self.store.is_dry(class) && self.reclaims.admit(self.store.outstanding) {
            // A walk is long: it is to be worth it.
            let wanted = (class.stride() * class.slab_objects()).max(self.limit_bytes / 32);
            if self.store.reclaim(wanted) > 0 {
                self.reclaims = Attempts::default();
                self.store.grow(class, self.limit_bytes, &self.shared);
            }
        }
        let header = self.store.take(class).or_else(|| {
            let larger =
                Class::CLUSTERS.into_iter().filter(|&c| c > class && class != Class::Share);
            larger.filter_map(|class| self.store.take(class)).next()
        });
        self.exhausted += u64::from(header.is_none());
        header
    }

    /// Give a handle back. A handle of another pool joins a batch that goes home at
    /// [`Pool::flush`], or when the batch is full.
    #[inline(always)]
    pub fn free(&mut self, mbuf: Mbuf) {
        let header = mbuf.into_raw();
        // SAFETY: the handle was unique and is gone.
        unsafe {
            if ptr::eq(header.as_ref().owner.as_ptr(), Arc::as_ptr(&self.shared)) {
                self.store.release(header);
            } else {
                self.send_home(header, header, 1);
            }
        }
    }

    /// [`Pool::free`] for each of them, most of them ours.
    #[inline(always)]
    pub fn free_all(&mut self, mbufs: impl Iterator<Item = Mbuf>) {
        let ours = Arc::as_ptr(&self.shared);
        mbufs.for_each(|mbuf| {
            if !ptr::eq(mbuf.header().owner.as_ptr(), ours) {
                return self.free_foreign(mbuf);
            }
            // SAFETY: the handle was unique and is gone.
            unsafe { self.store.release(mbuf.into_raw()) }
        });
    }

    #[cold]
    #[inline(never)]
    fn free_foreign(&mut self, mbuf: Mbuf) {
        let header = mbuf.into_raw();
        // SAFETY: the handle was unique and is gone.
        unsafe { self.send_home(header, header, 1) }
    }

    /// # Safety
    /// `first` to `last` are `count` foreign handles of one owner, linked by `next`, given up by
    /// their holder.
    #[inline]
    unsafe fn send_home(&mut self, first: NonNull<Header>, last: NonNull<Header>, count: usize) {
        // SAFETY: the handles in the outbox and these belong to this pool until pushed, and while
        // they are out they keep their pool's shared part alive.
        unsafe {
            let owner = first.as_ref().owner.as_ptr().cast_const();
            if self.outbox.as_ref().is_none_or(|out| Arc::as_ptr(&out.home) != owner) {
                self.flush();
                Arc::increment_strong_count(owner);
                let home = Arc::from_raw(owner);
                self.outbox = Some(Outbox { home, list: None, count: 0 });
            }
            let Some(out) = &mut self.outbox else { return };
            last.as_ref().next.set(out.list.map(|(head, _)| head));
            out.list = Some((first, out.list.map_or(last, |(_, tail)| tail)));
            out.count += count;
            if out.count >= RETURN_BATCH {
                self.flush();
            }
        }
    }

    /// [`Pool::free`] for a list.
    ///
    /// # Safety
    /// `first` to `last` are `count` handles of one owner, linked by `next`, that nobody holds any
    /// more.
    #[inline(always)]
    pub(crate) unsafe fn free_run(
        &mut self,
        first: NonNull<Header>,
        last: NonNull<Header>,
        count: usize,
    ) {
        // SAFETY: by contract.
        unsafe {
            if ptr::eq(first.as_ref().owner.as_ptr(), Arc::as_ptr(&self.shared)) {
                last.as_ref().next.set(None);
                self.store.release_list(first.as_ptr());
            } else {
                self.send_home(first, last, count);
            }
        }
    }

    /// Send home what is waiting to go: whenever nothing else is to do.
    #[inline]
    pub fn flush(&mut self) {
        if let Some(out) = &mut self.outbox
            && let Some((head, tail)) = out.list.take()
        {
            out.count = 0;
            // SAFETY: the outbox held unique handles of one owner, linked from head to tail.
            unsafe { give_back_to(&out.home, head, tail) }
        }
    }

    /// Does another pool's handle wait here to go home? Whoever is about to sleep asks this, and
    /// calls [`Pool::flush`]: its owner may have no other.
    #[inline]
    pub fn holds_foreign(&self) -> bool {
        self.outbox.as_ref().is_some_and(|out| out.list.is_some())
    }

    /// [`Pool::flush`], but a few wait for company: once a burst.
    #[inline]
    pub fn flush_many(&mut self) {
        if self.outbox.as_ref().is_some_and(|out| out.count >= RETURN_FEW) {
            self.flush();
        }
    }

    /// Take in what other threads and plain drops gave back; returns how many handles. Called
    /// once a burst, and when a free list is empty.
    #[inline]
    pub fn collect(&mut self) -> usize {
        let head = self.shared.take_returned();
        // SAFETY: the list belongs to this pool, which owns every handle on it.
        unsafe { self.store.release_list(head) }
    }

    /// A fresh exclusive buffer with these bytes; `None` past 65,664 or without memory.
    pub fn copy_of(&mut self, bytes: &[u8]) -> Option<Mbuf> {
        let mut mbuf = self.alloc(bytes.len())?;
        mbuf.append(bytes);
        Some(mbuf)
    }

    /// Does `mbuf` come from this pool?
    #[inline(always)]
    pub fn owns(&self, mbuf: &Mbuf) -> bool {
        ptr::eq(mbuf.header().owner.as_ptr(), Arc::as_ptr(&self.shared))
    }

    /// Handles that are out; what came home is taken in first.
    pub fn outstanding(&mut self) -> usize {
        self.collect();
        self.store.outstanding
    }

    /// Bytes taken from the system.
    pub fn held_bytes(&self) -> usize {
        self.store.held_bytes
    }

    /// About how many bytes are in buffers that are out: handles that are out times what an average
    /// object takes. Exact sums would cost every packet something.
    pub fn in_use_bytes(&self) -> usize {
        let objects = self.store.objects.max(1) as u64;
        (self.store.held_bytes as u64 * self.store.outstanding as u64 / objects) as usize
    }

    /// The most bytes it may take.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// From now on it takes at most this many bytes; what it has taken it keeps.
    pub fn set_limit_bytes(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
    }

    /// How often it had no buffer to give.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.flush();
        self.shared.orphan(core::mem::take(&mut self.store));
    }
}
