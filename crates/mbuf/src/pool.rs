//! Pools: last-in-first-out free lists per class, filled from slabs up to a limit in bytes.
//!
//! Called by: a stack, a device. One pool has one user at a time (`&mut self`), so the free lists
//! and the reference counts need no atomics; the one thing other threads touch is the return list.
//! Last in, first out matters: the buffer freed last is still in the cache (27 to 32 ns a segment).
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::{Arc, Mutex};

use crate::class::{Class, HEADROOM, LINE};
use crate::mbuf::{Header, Mbuf, Meta};

/// Built with `--cfg wirespeed_unpooled`, every buffer is its own allocation and is released when
/// freed, so that AddressSanitizer and valgrind see a use after free.
const UNPOOLED: bool = cfg!(wirespeed_unpooled);

/// Handles given back in one go to another pool.
const RETURN_BATCH: usize = 32;

/// Fewer do not go by themselves while there is work: the lists' lock instructions are 40 ns.
const RETURN_FEW: usize = 4;

/// The part of a pool that outlives it while handles are out, and that other threads touch.
pub(crate) struct Shared {
    returned: AtomicPtr<Header>,
    orphaned: AtomicBool,
    orphan: Mutex<Option<Store>>,
}

/// Free lists, slabs and counts.
struct Store {
    free: [Option<NonNull<Header>>; Class::COUNT],
    slabs: Vec<(NonNull<u8>, Layout)>,
    held_bytes: usize,
    outstanding: usize,
}

// SAFETY: the pointers are to memory that the store owns; whoever holds the store has them alone.
unsafe impl Send for Store {}

/// Where [`Mbuf`]s come from.
///
/// Memory is taken from the system in slabs as needed, never past the limit, and given back when
/// the pool and the last of its handles are gone.
pub struct Pool {
    store: Store,
    shared: Arc<Shared>,
    limit_bytes: usize,
    exhausted: u64,
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
        let shared = Arc::new(Shared {
            returned: AtomicPtr::new(ptr::null_mut()),
            orphaned: AtomicBool::new(false),
            orphan: Mutex::new(None),
        });
        let store =
            Store { free: [None; Class::COUNT], slabs: Vec::new(), held_bytes: 0, outstanding: 0 };
        Pool { store, shared, limit_bytes, exhausted: 0, outbox: None }
    }

    /// A buffer with room for `len` bytes behind its headroom, empty; `None` past the limit (which
    /// is counted) or for more than 65,664 bytes.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Mbuf> {
        self.alloc_class(Class::for_len(len)?)
    }

    #[inline(always)]
    fn alloc_class(&mut self, class: Class) -> Option<Mbuf> {
        let mut header = self.take(class)?;
        // SAFETY: taken from a free list, the header belongs to this handle; its cluster follows.
        unsafe {
            let start = header.as_ptr().cast::<u8>().add(LINE);
            let h = header.as_mut();
            h.data = start.wrapping_add(HEADROOM);
            h.meta = Meta::default();
            h.len = 0;
            h.refs_or_private_end = 1;
            h.flags = 0;
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
        let mut m = self.alloc_class(Class::for_len(len.max(n))?)?;
        let h = m.header_mut();
        h.len = n as u32;
        // SAFETY: the class has room for `n` bytes behind the headroom, and nobody else sees them.
        let filled = fill(unsafe { core::slice::from_raw_parts_mut(h.data, n) });
        Some((m, filled))
    }

    /// A header off a free list, as its last user left it, but linked to none.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: Class) -> Option<NonNull<Header>> {
        let mut header = match self.store.free[class as usize] {
            Some(header) => header,
            None => self.refill(class)?,
        };
        // SAFETY: a header on a free list belongs to the store alone.
        self.store.free[class as usize] = unsafe { header.as_mut().next.take() };
        self.store.outstanding += 1;
        Some(header)
    }

    /// First what came home, then a new slab.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: Class) -> Option<NonNull<Header>> {
        self.collect();
        if self.store.free[class as usize].is_none() {
            self.store.grow(class, self.limit_bytes, &self.shared);
        }
        if self.store.free[class as usize].is_none() {
            self.exhausted += 1;
        }
        self.store.free[class as usize]
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

    /// # Safety
    /// `first` to `last` are `count` foreign handles of one owner, linked by `next`, given up by
    /// their holder.
    #[inline]
    unsafe fn send_home(
        &mut self,
        first: NonNull<Header>,
        mut last: NonNull<Header>,
        count: usize,
    ) {
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
            last.as_mut().next = out.list.map(|(head, _)| head);
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
    /// `first` starts `count` handles, one at least, linked by `next`, that nobody holds any more.
    #[inline(always)]
    pub(crate) unsafe fn free_linked(&mut self, mut first: NonNull<Header>, mut count: usize) {
        // SAFETY: by contract; `next` of a handle is read before the handle can be used again.
        unsafe {
            let ours = Arc::as_ptr(&self.shared).cast_mut();
            while count > 0 {
                let owner = first.as_ref().owner;
                let (mut last, mut alike) = (first, 1);
                let mut next = first.as_ref().next;
                while alike < count
                    && let Some(header) = next
                    && header.as_ref().owner == owner
                {
                    last = header;
                    alike += 1;
                    next = header.as_ref().next;
                }
                if owner.as_ptr() == ours {
                    last.as_mut().next = None;
                    self.store.release_list(first.as_ptr());
                } else {
                    self.send_home(first, last, alike);
                }
                count -= alike;
                let Some(next) = next else { break };
                first = next;
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
        if self.shared.returned.load(Ordering::Relaxed).is_null() {
            return 0;
        }
        let head = self.shared.returned.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: swapped out, the list belongs to this pool, which owns every handle on it.
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

    /// The most bytes it may take.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// How often it had no buffer to give.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.flush();
        let empty =
            Store { free: [None; Class::COUNT], slabs: Vec::new(), held_bytes: 0, outstanding: 0 };
        let store = core::mem::replace(&mut self.store, empty);
        // While handles are out the store stays, kept alive by one count that `reap` gives up.
        let shared = Arc::into_raw(self.shared.clone());
        // SAFETY: `shared` was just made from an Arc.
        unsafe {
            *lock(&(*shared).orphan) = Some(store);
            (*shared).orphaned.store(true, Ordering::SeqCst);
            reap(&*shared);
        }
    }
}

impl Store {
    /// One handle less; the cluster goes to its free list with its last handle.
    ///
    /// # Safety
    /// `header` is a handle of this store's pool that nobody holds any more.
    #[inline(always)]
    unsafe fn release(&mut self, mut header: NonNull<Header>) {
        self.outstanding -= 1;
        // SAFETY: by contract; the count of a cluster is the pool's alone.
        unsafe {
            let base = header.as_ref().base;
            if base != header {
                header.as_mut().base = header;
                self.push(header);
            }
            // Only this field: the handle on the rest of the header may be in use elsewhere.
            let refs = &mut (*base.as_ptr()).refs_or_private_end;
            *refs -= 1;
            if *refs == 0 {
                self.push(base);
            }
        }
    }

    /// # Safety
    /// `head` starts a list of handles of this store's pool that nobody holds any more.
    unsafe fn release_list(&mut self, head: *mut Header) -> usize {
        let mut at = NonNull::new(head);
        let mut count = 0;
        while let Some(header) = at {
            // SAFETY: by contract; `next` is read before the header can be reused.
            unsafe {
                at = header.as_ref().next;
                self.release(header);
            }
            count += 1;
        }
        count
    }

    /// # Safety
    /// `header` is this store's and no handle points at it.
    #[inline(always)]
    unsafe fn push(&mut self, mut header: NonNull<Header>) {
        // SAFETY: by contract.
        unsafe {
            let class = header.as_ref().class;
            if UNPOOLED {
                self.held_bytes -= class.stride();
                dealloc(header.as_ptr().cast(), layout(class, 1));
                return;
            }
            header.as_mut().next = self.free[class as usize];
        }
        // SAFETY: as above.
        let class = unsafe { header.as_ref().class };
        self.free[class as usize] = Some(header);
    }

    /// Take one slab from the system, if the limit allows.
    fn grow(&mut self, class: Class, limit_bytes: usize, shared: &Arc<Shared>) {
        let wanted = if UNPOOLED { 1 } else { class.slab_objects() };
        let room = limit_bytes.saturating_sub(self.held_bytes) / class.stride();
        let objects = wanted.min(room);
        if objects == 0 {
            return;
        }
        let layout = layout(class, objects);
        // SAFETY: the layout is not of zero size.
        let Some(slab) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { return };
        self.held_bytes += layout.size();
        if !UNPOOLED {
            self.slabs.push((slab, layout));
        }
        // From the Arc itself: `give_back` counts through this pointer.
        let owner = NonNull::new(Arc::as_ptr(shared).cast_mut()).expect("an Arc is never null");
        for i in (0..objects).rev() {
            // SAFETY: object `i` lies inside the slab, aligned to a line, and is ours.
            unsafe {
                let header = slab.add(i * class.stride()).cast::<Header>();
                header.write(Header {
                    next: self.free[class as usize],
                    data: ptr::null_mut(),
                    base: header,
                    owner,
                    meta: Meta::default(),
                    len: 0,
                    refs_or_private_end: 0,
                    flags: 0,
                    class,
                });
                self.free[class as usize] = Some(header);
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        debug_assert_eq!(self.outstanding, 0, "a store outlives its handles");
        for (slab, layout) in self.slabs.drain(..) {
            // SAFETY: allocated with this layout in `grow`; no handle is out.
            unsafe { dealloc(slab.as_ptr(), layout) }
        }
        if UNPOOLED {
            for class in Class::CLUSTERS.into_iter().chain([Class::Share]) {
                while let Some(header) = self.free[class as usize] {
                    // SAFETY: a header on a free list is ours, allocated alone.
                    unsafe {
                        self.free[class as usize] = header.as_ref().next;
                        dealloc(header.as_ptr().cast(), layout(class, 1));
                    }
                }
            }
        }
    }
}

fn layout(class: Class, objects: usize) -> Layout {
    Layout::from_size_align(class.stride() * objects, LINE).expect("slabs are far below isize::MAX")
}

/// Put a linked list of handles of one pool on its return list, from any thread.
///
/// # Safety
/// `head` to `tail` are handles of one pool, linked by `next`, that nobody holds any more.
pub(crate) unsafe fn give_back(head: NonNull<Header>, tail: NonNull<Header>) {
    // SAFETY: handles that are out keep their pool's shared part alive: until they are pushed they
    // are out, and afterwards the count taken here does.
    unsafe {
        let owner = head.as_ref().owner.as_ptr().cast_const();
        Arc::increment_strong_count(owner);
        give_back_to(&Arc::from_raw(owner), head, tail);
    }
}

/// # Safety
/// As for [`give_back`], and `home` is theirs.
unsafe fn give_back_to(home: &Shared, head: NonNull<Header>, mut tail: NonNull<Header>) {
    let mut first = home.returned.load(Ordering::Relaxed);
    loop {
        // SAFETY: not pushed yet, so still ours.
        unsafe { tail.as_mut().next = NonNull::new(first) };
        let pushed = home.returned.compare_exchange_weak(
            first,
            head.as_ptr(),
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        match pushed {
            Ok(_) => break,
            Err(now) => first = now,
        }
    }
    if home.orphaned.load(Ordering::SeqCst) {
        reap(home);
    }
}

/// Take in handles for a pool that is gone; with the last one its memory goes.
#[cold]
fn reap(shared: &Shared) {
    let mut orphan = lock(&shared.orphan);
    let Some(store) = orphan.as_mut() else { return };
    let head = shared.returned.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: the lock makes this thread the store's only user; it owns what was returned.
    unsafe { store.release_list(head) };
    if store.outstanding == 0 {
        *orphan = None;
        drop(orphan);
        // SAFETY: gives up the count that `Pool::drop` left for the store that is now gone; the
        // caller holds another.
        unsafe { Arc::decrement_strong_count(ptr::from_ref(shared)) };
    }
}

/// No code panics while it holds one of these locks, but a poisoned lock must not leak a pool.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
