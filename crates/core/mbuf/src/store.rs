//! Buffers in memory: the [`Header`]; the [`Store`], which owns headers and clusters; and the
//! return of handles that are freed elsewhere.
//!
//! Called by: `pool.rs` and `frames.rs`, each the only user of its store; `mbuf.rs`, `share.rs` and
//! `queue.rs` for the header.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use std::alloc::Layout;
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, Ordering},
};

use crate::class::{Class, LINE};
use crate::field::Field;
use crate::memory::Memory;
use crate::pages;
use crate::prefetch::prefetch_line;

/// With `--cfg wirespeed_unpooled`, every buffer is an allocation of its own and is freed with its
/// last handle, so that AddressSanitizer and valgrind detect a use after free.
const UNPOOLED: bool = cfg!(any(wirespeed_unpooled, loom));

/// One cache line: the first line of its object, or the whole object of a share.
#[repr(C, align(64))]
pub(crate) struct Header {
    /// The next header on a list; undefined otherwise.
    pub(crate) next: Field<Option<NonNull<Header>>>,
    pub(crate) data: Field<*mut u8>,
    /// The header whose cluster contains the data: this one, or, for a share, another one.
    pub(crate) base: Field<NonNull<Header>>,
    pub(crate) owner: NonNull<Shared>,
    pub(crate) meta: Field<Meta>,
    pub(crate) len: Field<u32>,
    /// In a cluster's header: the number of its handles; only the owning pool accesses it. In a
    /// share's header: the cluster offset before which only this handle may write.
    pub(crate) refs_or_private_end: Field<u16>,
    pub(crate) flags: Field<u8>,
    pub(crate) class: Class,
}

/// Packet metadata. A share begins with a copy of it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Meta {
    pub(crate) time_ns: u64,
    pub(crate) mark: u32,
    pub(crate) flow_hash: u32,
    pub(crate) csum: u16,
    pub(crate) in_port: u16,
    pub(crate) segment_size: u16,
    pub(crate) vlan: u16,
}

const _: () = assert!(size_of::<Header>() == LINE || cfg!(loom) && size_of::<Header>() < LINE);

impl Header {
    /// Initialise a cluster's first handle, with `len` bytes at `data` and empty metadata.
    #[inline(always)]
    pub(crate) fn begin(&self, data: *mut u8, len: usize) {
        self.data.set(data);
        self.meta.set(Meta::default());
        self.len.set(len as u32);
        self.refs_or_private_end.set(1);
        self.flags.set(0);
    }
}

/// The part of a pool that other threads access, and that outlives it while handles are in use.
pub(crate) struct Shared {
    returned: AtomicPtr<Header>,
    orphaned: AtomicBool,
    orphan: Mutex<Option<Orphan>>,
}

/// The store of a pool that was dropped, and the reference that keeps its [`Shared`] alive. The two
/// keep each other alive until [`reap`] removes the orphan.
struct Orphan {
    store: Store,
    /// Keeps the shared part alive; never read.
    _home: Arc<Shared>,
}

/// Objects of one class, contiguous.
pub(crate) struct Slab {
    pub(crate) start: NonNull<u8>,
    pub(crate) layout: Layout,
    pub(crate) objects: usize,
}

/// Free lists, slabs and counts.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) free: [Option<NonNull<Header>>; Class::COUNT],
    pub(crate) slabs: Vec<Slab>,
    /// Bytes taken from the system.
    pub(crate) held_bytes: usize,
    /// Objects of all classes in that memory.
    pub(crate) objects: usize,
    /// Handles in use.
    pub(crate) outstanding: usize,
    /// Memory that a device has provided; the store then has no slabs.
    brought: Option<Box<dyn Memory>>,
}

// SAFETY: the pointers are to memory that the store owns, and its holder has exclusive access.
unsafe impl Send for Store {}

impl Shared {
    pub(crate) fn new() -> Arc<Shared> {
        Arc::new(Shared {
            returned: AtomicPtr::new(ptr::null_mut()),
            orphaned: AtomicBool::new(false),
            orphan: Mutex::new(None),
        })
    }

    /// Take the list of handles that were returned since the last call. It then belongs to the
    /// caller.
    #[inline(always)]
    pub(crate) fn take_returned(&self) -> *mut Header {
        if self.returned.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        self.returned.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// The pool is dropped: its store is freed with the last handle in use.
    pub(crate) fn orphan(self: &Arc<Shared>, store: Store) {
        *lock(&self.orphan) = Some(Orphan { store, _home: self.clone() });
        self.orphaned.store(true, Ordering::SeqCst);
        reap(self);
    }
}

impl Store {
    /// Take a header off a free list, in the state in which it was freed. `next` is valid only on
    /// lists.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: Class) -> Option<NonNull<Header>> {
        let header = self.free[class as usize]?;
        // SAFETY: a header on a free list belongs to the store alone.
        let next = unsafe { header.as_ref().next.get() };
        self.free[class as usize] = next;
        // The next one will probably be taken soon.
        prefetch_line(next.map_or(ptr::null(), |next| next.as_ptr().cast_const()));
        self.outstanding += 1;
        Some(header)
    }

    /// Is the free list of a class empty?
    pub(crate) fn is_dry(&self, class: Class) -> bool {
        self.free[class as usize].is_none()
    }

    /// Release a handle. When the last handle of a cluster is released, the cluster goes to its
    /// free list.
    ///
    /// # Safety
    /// `header` is a handle of this store's pool that nobody holds any more.
    #[inline(always)]
    pub(crate) unsafe fn release(&mut self, header: NonNull<Header>) {
        self.outstanding -= 1;
        // SAFETY: by contract; the count of a cluster belongs to the pool.
        unsafe {
            let base = header.as_ref().base.get();
            if base != header {
                self.push(header);
            }
            self.release_base(base);
        }
    }

    /// # Safety
    /// `base` is a cluster of this store, and one of its handles is given up.
    #[inline(always)]
    unsafe fn release_base(&mut self, base: NonNull<Header>) {
        // SAFETY: by contract; the count belongs to the pool, whoever holds the handle.
        unsafe {
            let count = &base.as_ref().refs_or_private_end;
            let left = count.get() - 1;
            count.set(left);
            if left == 0 {
                self.push(base);
            }
        }
    }

    /// # Safety
    /// `head` starts a list of handles of this store's pool which nobody holds any more.
    pub(crate) unsafe fn release_list(&mut self, head: *mut Header) -> usize {
        let mut at = NonNull::new(head);
        let mut count = 0;
        if UNPOOLED {
            while let Some(header) = at {
                // SAFETY: by contract; `next` is read before the header can be reused.
                unsafe {
                    at = header.as_ref().next.get();
                    self.release(header);
                }
                count += 1;
            }
            return count;
        }
        // Nearly all handles are shares: the head of their free list stays in a register.
        let mut shares = self.free[Class::Share as usize];
        while let Some(header) = at {
            // SAFETY: by contract, as in `release`; a base is never a share.
            unsafe {
                at = header.as_ref().next.get();
                let base = header.as_ref().base.get();
                if base != header {
                    header.as_ref().next.set(shares);
                    shares = Some(header);
                }
                self.release_base(base);
            }
            count += 1;
        }
        self.free[Class::Share as usize] = shares;
        self.outstanding -= count;
        count
    }

    /// # Safety
    /// `header` belongs to this store, and no handle points at it.
    #[inline(always)]
    unsafe fn push(&mut self, header: NonNull<Header>) {
        // SAFETY: by contract.
        unsafe {
            let class = header.as_ref().class;
            if UNPOOLED && self.brought.is_none() {
                self.held_bytes -= class.stride();
                self.objects -= 1;
                pages::give_back(header.cast(), layout(class, 1));
                return;
            }
            header.as_ref().next.set(self.free[class as usize]);
        }
        // SAFETY: as above.
        let class = unsafe { header.as_ref().class };
        self.free[class as usize] = Some(header);
    }

    /// Allocate a slab, if the limit permits.
    pub(crate) fn grow(&mut self, class: Class, limit_bytes: usize, shared: &Arc<Shared>) {
        let wanted = if UNPOOLED { 1 } else { class.slab_objects() };
        let room = limit_bytes.saturating_sub(self.held_bytes) / class.stride();
        let objects = wanted.min(room);
        if objects == 0 {
            return;
        }
        let layout = layout(class, objects);
        let Some(start) = pages::take(layout) else { return };
        self.held_bytes += layout.size();
        if !UNPOOLED {
            self.slabs.push(Slab { start, layout, objects });
        }
        // SAFETY: just allocated for this many objects of the class, and owned by the store.
        unsafe { self.lay(start, class, objects, class.stride(), shared) };
    }

    /// Keep memory of this many bytes for the life of the store.
    pub(crate) fn keep(&mut self, memory: Box<dyn Memory>, bytes: usize) {
        self.held_bytes += bytes;
        self.brought = Some(memory);
    }

    /// Put contiguous objects of a class, from `start` on, on the free list.
    ///
    /// # Safety
    /// There are `objects` times `stride` bytes at `start`, aligned to a cache line, which belong
    /// to the store. A stride is a multiple of a line, and an object fits it.
    pub(crate) unsafe fn lay(
        &mut self,
        start: NonNull<u8>,
        class: Class,
        objects: usize,
        stride: usize,
        shared: &Arc<Shared>,
    ) {
        debug_assert!(stride >= class.stride() && stride.is_multiple_of(LINE));
        self.objects += objects;
        // Derived from the Arc itself, because `give_back` counts through this pointer.
        let owner = NonNull::new(Arc::as_ptr(shared).cast_mut()).expect("an Arc is never null");
        for i in (0..objects).rev() {
            // SAFETY: by contract object `i` is inside the memory, aligned to a line, and the
            // store's.
            unsafe {
                let header = start.add(i * stride).cast::<Header>();
                header.write(Header {
                    next: Field::new(self.free[class as usize]),
                    data: Field::new(ptr::null_mut()),
                    base: Field::new(header),
                    owner,
                    meta: Field::new(Meta::default()),
                    len: Field::new(0),
                    refs_or_private_end: Field::new(0),
                    flags: Field::new(0),
                    class,
                });
                self.free[class as usize] = Some(header);
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        debug_assert_eq!(self.outstanding, 0, "a store is dropped while handles are in use");
        for slab in self.slabs.drain(..) {
            // SAFETY: taken with this layout in `grow`; no handle is in use.
            unsafe { pages::give_back(slab.start, slab.layout) }
        }
        if UNPOOLED && self.brought.is_none() {
            for class in Class::CLUSTERS.into_iter().chain([Class::Share]) {
                while let Some(header) = self.free[class as usize] {
                    // SAFETY: a header on a free list is the store's, and was allocated alone.
                    unsafe {
                        self.free[class as usize] = header.as_ref().next.get();
                        pages::give_back(header.cast(), layout(class, 1));
                    }
                }
            }
        }
    }
}

fn layout(class: Class, objects: usize) -> Layout {
    Layout::from_size_align(class.stride() * objects, LINE).expect("slabs are far below isize::MAX")
}

/// Push a linked list of handles of one pool on its return list, from any thread.
///
/// # Safety
/// `head` to `tail` are handles of one pool, linked by `next`, which nobody holds any more.
pub(crate) unsafe fn give_back(head: NonNull<Header>, tail: NonNull<Header>) {
    // SAFETY: handles in use keep their pool's shared part alive. Until they are pushed they are in
    // use, and from then on the count taken here keeps it alive.
    unsafe {
        let owner = head.as_ref().owner.as_ptr().cast_const();
        Arc::increment_strong_count(owner);
        give_back_to(&Arc::from_raw(owner), head, tail);
    }
}

/// # Safety
/// As for [`give_back`], and `home` is their pool's shared part.
pub(crate) unsafe fn give_back_to(home: &Shared, head: NonNull<Header>, tail: NonNull<Header>) {
    let mut first = home.returned.load(Ordering::Relaxed);
    loop {
        // SAFETY: not pushed yet, so still owned here.
        unsafe { tail.as_ref().next.set(NonNull::new(first)) };
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

/// Collect the handles that were returned to a pool that was dropped. The last one frees its
/// memory.
#[cold]
fn reap(shared: &Shared) {
    // The lock is released before the last orphan frees its memory and, with it, its reference to
    // `shared`; the caller has another reference.
    let gone = lock(&shared.orphan).take_if(|orphan| {
        let head = shared.returned.swap(ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: the lock makes this thread the store's only user, and the store owns what was
        // returned.
        unsafe { orphan.store.release_list(head) };
        orphan.store.outstanding == 0
    });
    drop(gone);
}

/// No code panics while it holds this lock, but a poisoned lock must not leak a pool.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
