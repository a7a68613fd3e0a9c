//! Pools: a LIFO free list per class, filled from slabs up to a limit in bytes.
//!
//! Called by: a stack, a device. A pool has one user at a time (`&mut self`), so free lists and
//! reference counts need no atomics; other threads only access the return list. LIFO order matters:
//! the buffer that was freed last is still in the cache, which saves 27 to 32 ns a segment.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use std::sync::Arc;

use crate::class::{Class, HEADROOM, LINE};
use crate::mbuf::Mbuf;
use crate::reclaim::Attempts;
use crate::store::{Header, Shared, Store, give_back_to};

/// How many handles of another pool are returned in one batch.
const RETURN_BATCH: usize = 32;

/// While there is work, fewer handles than this are not returned: the atomic operations take 40 ns.
const RETURN_FEW: usize = 4;

/// Allocates [`Mbuf`]s.
///
/// A pool takes memory from the system in slabs as needed, within the limit. Slabs are freed after
/// the pool and the last of its handles are dropped, or when they are unused and another class
/// needs memory, or [`Pool::shrink`] is called.
///
/// ```
/// # use wirespeed_mbuf as wirespeed;
/// use wirespeed::Pool;
///
/// let mut pool = Pool::new(1 << 20); // at most a megabyte
/// let mut mbuf = pool.alloc(64).expect("within the limit");
/// assert_eq!(mbuf.append(b"payload"), 7);
/// mbuf.prepend(2).expect("headroom").copy_from_slice(b"h:");
/// assert_eq!(mbuf.as_slice(), b"h:payload");
/// pool.free(mbuf); // a drop would do as well
/// ```
pub struct Pool {
    pub(crate) store: Store,
    pub(crate) shared: Arc<Shared>,
    limit_bytes: usize,
    exhausted: u64,
    reclaims: Attempts,
    /// Handles of another pool that are to be returned, in a linked list, with that pool.
    outbox: Option<Outbox>,
}

/// The outbox is kept when its list is empty: the next handles mostly belong to the same pool, and
/// keeping the `Arc` costs less than cloning and dropping it for every batch.
struct Outbox {
    home: Arc<Shared>,
    list: Option<(NonNull<Header>, NonNull<Header>)>,
    count: usize,
}

// SAFETY: as for `Store`; the outbox holds unique handles, which are `Send`.
unsafe impl Send for Pool {}

impl Pool {
    /// An empty pool that takes at most `limit_bytes` bytes from the system.
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

    /// Returns an empty buffer with room for `len` bytes after its headroom. `None` if the limit is
    /// reached (which is counted), or for more than 65,664 bytes.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Mbuf> {
        self.alloc_class(Class::for_len(len)?)
    }

    #[inline(always)]
    fn alloc_class(&mut self, class: Class) -> Option<Mbuf> {
        let header = self.take(class)?;
        // SAFETY: the header comes from a free list and belongs to this handle; its cluster follows
        // it.
        unsafe {
            let data = header.as_ptr().cast::<u8>().add(LINE + HEADROOM);
            header.as_ref().begin(data, 0);
        }
        Some(Mbuf { header, _owns: PhantomData })
    }

    /// [`Pool::alloc`] for at least `len` bytes, of which `fill` writes the first `n`.
    #[inline(always)]
    pub fn alloc_filled<R>(
        &mut self,
        len: usize,
        n: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<(Mbuf, R)> {
        self.alloc_filled_in(Class::for_len(len.max(n))?, n, fill)
    }

    /// [`Pool::alloc_filled`] from a given class, for many buffers of one size; also `None` if `n`
    /// is more than the capacity of `class`.
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
        // SAFETY: the header comes from a free list, so it and the cluster that follows it belong
        // to this handle; `n` bytes fit after the headroom (checked above).
        let filled = unsafe {
            let data = header.as_ptr().cast::<u8>().add(LINE + HEADROOM);
            let filled = fill(core::slice::from_raw_parts_mut(data, n));
            header.as_ref().begin(data, n);
            filled
        };
        Some((Mbuf { header, _owns: PhantomData }, filled))
    }

    /// Take a header off a free list, in the state in which it was freed.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: Class) -> Option<NonNull<Header>> {
        self.store.take(class).or_else(|| self.refill(class))
    }

    /// The free list is empty. Tries, in this order: the return list, a new slab, a slab in place
    /// of unused ones, a buffer of a larger class.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: Class) -> Option<NonNull<Header>> {
        self.collect();
        if self.store.is_dry(class) {
            self.store.grow(class, self.limit_bytes, &self.shared);
        }
        if self.store.is_dry(class) && self.reclaims.admit(self.store.outstanding) {
            // Walking the free lists takes long, so reclaim enough to make it worth the time.
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

    /// Return a handle to its pool. A handle of another pool joins a batch, which is returned when
    /// it is full, or by [`Pool::flush`].
    #[inline(always)]
    pub fn free(&mut self, mbuf: Mbuf) {
        let header = mbuf.into_raw();
        // SAFETY: the handle was unique and was given up.
        unsafe {
            if ptr::eq(header.as_ref().owner.as_ptr(), Arc::as_ptr(&self.shared)) {
                self.store.release(header);
            } else {
                self.send_home(header, header, 1);
            }
        }
    }

    /// [`Pool::free`] for each mbuf. Fast if most of them belong to this pool.
    #[inline(always)]
    pub fn free_all(&mut self, mbufs: impl Iterator<Item = Mbuf>) {
        let ours = Arc::as_ptr(&self.shared);
        mbufs.for_each(|mbuf| {
            if !ptr::eq(mbuf.header().owner.as_ptr(), ours) {
                return self.free_foreign(mbuf);
            }
            // SAFETY: the handle was unique and is given up.
            unsafe { self.store.release(mbuf.into_raw()) }
        });
    }

    #[cold]
    #[inline(never)]
    fn free_foreign(&mut self, mbuf: Mbuf) {
        let header = mbuf.into_raw();
        // SAFETY: the handle was unique and was given up.
        unsafe { self.send_home(header, header, 1) }
    }

    /// # Safety
    /// `first` to `last` are `count` handles of one other pool, linked by `next`, which their
    /// holder has given up.
    #[inline]
    unsafe fn send_home(&mut self, first: NonNull<Header>, last: NonNull<Header>, count: usize) {
        // SAFETY: these handles and those in the outbox belong to this pool until they are pushed,
        // and until then they keep their own pool's shared part alive.
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

    /// [`Pool::free`] for a list of handles.
    ///
    /// # Safety
    /// `first` to `last` are `count` handles of one owner, linked by `next`, which nobody holds any
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

    /// Return the handles of another pool that wait in the batch. Call this when there is nothing
    /// else to do.
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

    /// Are handles of another pool waiting in the batch? A thread about to sleep checks this and
    /// calls [`Pool::flush`], because their owner may have run out of buffers.
    #[inline]
    pub fn holds_foreign(&self) -> bool {
        self.outbox.as_ref().is_some_and(|out| out.list.is_some())
    }

    /// [`Pool::flush`], but only if several handles wait. Called once a burst.
    #[inline]
    pub fn flush_many(&mut self) {
        if self.outbox.as_ref().is_some_and(|out| out.count >= RETURN_FEW) {
            self.flush();
        }
    }

    /// Collect the handles that other threads and plain drops have returned; returns their number.
    /// Called once a burst, and when a free list is empty.
    #[inline]
    pub fn collect(&mut self) -> usize {
        let head = self.shared.take_returned();
        // SAFETY: the list belongs to this pool, which owns every handle on it.
        unsafe { self.store.release_list(head) }
    }

    /// Returns a new exclusive buffer with these bytes; `None` for more than 65,664 bytes or
    /// without memory.
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

    /// The number of handles in use. It calls [`Pool::collect`] first.
    pub fn outstanding(&mut self) -> usize {
        self.collect();
        self.store.outstanding
    }

    /// Bytes taken from the system.
    pub fn held_bytes(&self) -> usize {
        self.store.held_bytes
    }

    /// Give memory back to the system: slabs without a buffer in use are freed until no more than
    /// `keep_bytes` are held, or none is left; returns the bytes freed. It takes time for each free
    /// buffer, so it is for the time after a bulk transfer, not for the packet path; the pool takes
    /// memory again when it is needed.
    ///
    /// ```
    /// # use wirespeed_mbuf as wirespeed;
    /// use wirespeed::Pool;
    ///
    /// let mut pool = Pool::new(64 << 20);
    /// let bulk: Vec<_> = (0..10_000).filter_map(|_| pool.alloc(1_500)).collect();
    /// bulk.into_iter().for_each(|mbuf| pool.free(mbuf));
    /// assert!(pool.held_bytes() > 20 << 20);
    /// pool.shrink(1 << 20);
    /// assert!(pool.held_bytes() <= 1 << 20);
    /// ```
    pub fn shrink(&mut self, keep_bytes: usize) -> usize {
        self.collect();
        self.store.reclaim(self.store.held_bytes.saturating_sub(keep_bytes))
    }

    /// Approximate number of bytes of the buffers in use: the number of handles in use times the
    /// average object size. An exact sum would cost time for every packet.
    pub fn in_use_bytes(&self) -> usize {
        let objects = self.store.objects.max(1) as u64;
        (self.store.held_bytes as u64 * self.store.outstanding as u64 / objects) as usize
    }

    /// The limit in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Set the limit. Memory that was taken already is kept.
    pub fn set_limit_bytes(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
    }

    /// How often an allocation failed.
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
