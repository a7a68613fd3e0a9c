//! A FIFO list of mbufs. It is linked through their headers, so it needs no allocation.
//!
//! Called by: socket buffers.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use crate::Pool;
use crate::mbuf::Mbuf;
use crate::store::Header;

/// A list of mbufs, with their number and their bytes.
#[derive(Default)]
pub struct MbufQueue {
    head: Option<NonNull<Header>>,
    tail: Option<NonNull<Header>>,
    count: u32,
    bytes: u32,
}

// SAFETY: the queue holds unique handles, which are `Send`.
unsafe impl Send for MbufQueue {}

impl MbufQueue {
    /// An empty queue.
    pub const fn new() -> MbufQueue {
        MbufQueue { head: None, tail: None, count: 0, bytes: 0 }
    }

    /// Append an mbuf.
    #[inline(always)]
    pub fn push_back(&mut self, mbuf: Mbuf) {
        self.bytes += mbuf.header().len.get();
        self.count += 1;
        let header = mbuf.into_raw();
        // SAFETY: the queue holds both handles.
        unsafe {
            header.as_ref().next.set(None);
            match self.tail {
                Some(tail) => tail.as_ref().next.set(Some(header)),
                None => self.head = Some(header),
            }
        }
        self.tail = Some(header);
    }

    /// Append several mbufs of `len` bytes each, exactly `mbufs.len()` of them. If the iterator
    /// panics, the mbufs that it returned before are leaked.
    #[inline(always)]
    pub fn extend_alike(&mut self, mut mbufs: impl ExactSizeIterator<Item = Mbuf>, len: usize) {
        let count = mbufs.len() as u32;
        let Some(first) = mbufs.next() else { return };
        let first = first.into_raw();
        let mut last = first;
        for mbuf in mbufs {
            debug_assert_eq!(mbuf.len(), len, "the buffers differ in length");
            let header = mbuf.into_raw();
            // SAFETY: the iterator gave the handle up, and no queue has it yet.
            unsafe { last.as_ref().next.set(Some(header)) };
            last = header;
        }
        // SAFETY: as above, and the queue holds its tail.
        unsafe {
            last.as_ref().next.set(None);
            match self.tail {
                Some(tail) => tail.as_ref().next.set(Some(first)),
                None => self.head = Some(first),
            }
        }
        self.tail = Some(last);
        self.count += count;
        self.bytes += count * len as u32;
    }

    /// Prepend an mbuf.
    pub fn push_front(&mut self, mbuf: Mbuf) {
        self.bytes += mbuf.header().len.get();
        self.count += 1;
        let header = mbuf.into_raw();
        // SAFETY: the queue holds the handle.
        unsafe { header.as_ref().next.set(self.head) };
        self.tail = self.tail.or(Some(header));
        self.head = Some(header);
    }

    /// Remove the first mbuf.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<Mbuf> {
        let header = self.head?;
        // SAFETY: the queue holds the handle and gives it up here.
        unsafe {
            self.head = header.as_ref().next.get();
            header.as_ref().next.set(None);
            self.bytes -= header.as_ref().len.get();
        }
        if self.head.is_none() {
            self.tail = None;
        }
        self.count -= 1;
        Some(Mbuf { header, _owns: PhantomData })
    }

    /// Take the first mbuf, if it is the only one and has at most `len` bytes.
    #[inline(always)]
    pub fn take_only(&mut self, len: usize) -> Option<Mbuf> {
        if self.count != 1 || self.bytes() > len {
            return None;
        }
        let header = self.head.take()?;
        (self.tail, self.count, self.bytes) = (None, 0, 0);
        Some(Mbuf { header, _owns: PhantomData })
    }

    /// Pass the data of each mbuf, from the front, to `use_up`, until that returns `false`. The
    /// mbufs for which it returned `true` are freed.
    #[inline(always)]
    pub fn use_up(&mut self, pool: &mut Pool, mut use_up: impl FnMut(&[u8]) -> bool) {
        while self.use_up_run(pool, &mut use_up) {}
    }

    /// [`MbufQueue::use_up`] for the mbufs at the front that have the same owner, which are freed
    /// together. Returns whether the next mbuf has another owner.
    #[inline(always)]
    fn use_up_run(&mut self, pool: &mut Pool, use_up: &mut impl FnMut(&[u8]) -> bool) -> bool {
        let Some(first) = self.head else { return false };
        // SAFETY: the queue holds the handle.
        let owner = unsafe { first.as_ref().owner };
        let (mut last, mut count, mut bytes) = (first, 0, 0);
        let mut at = self.head;
        while let Some(header) = at {
            // SAFETY: the queue holds the handle; `Mbuf` is a transparent view of the pointer.
            let mbuf = unsafe { &*core::ptr::from_ref(&header).cast::<Mbuf>() };
            if mbuf.header().owner != owner || !use_up(mbuf.as_slice()) {
                break;
            }
            last = header;
            count += 1;
            bytes += mbuf.header().len.get();
            at = mbuf.header().next.get();
        }
        if count > 0 {
            self.head = at;
            if at.is_none() {
                self.tail = None;
            }
            self.count -= count;
            self.bytes -= bytes;
            // SAFETY: `count` handles of one owner, which the queue gave up above.
            unsafe { pool.free_run(first, last, count as usize) }
        }
        // SAFETY: the queue holds the handle.
        at.is_some_and(|next| unsafe { next.as_ref().owner } != owner)
    }

    /// The first mbuf.
    #[inline]
    pub fn front(&self) -> Option<&Mbuf> {
        // SAFETY: `Mbuf` is a transparent view of the pointer: one non-null field and a marker.
        self.head.as_ref().map(|h| unsafe { &*core::ptr::from_ref(h).cast::<Mbuf>() })
    }

    /// Change the first mbuf; the byte count is updated.
    #[inline]
    pub fn with_front<R>(&mut self, change: impl FnOnce(&mut Mbuf) -> R) -> Option<R> {
        self.visit(self.head?, change)
    }

    /// Change the last mbuf; the byte count is updated.
    #[inline]
    pub fn with_back<R>(&mut self, change: impl FnOnce(&mut Mbuf) -> R) -> Option<R> {
        self.visit(self.tail?, change)
    }

    #[inline]
    fn visit<R>(&mut self, was: NonNull<Header>, change: impl FnOnce(&mut Mbuf) -> R) -> Option<R> {
        // SAFETY: the queue holds the handle.
        let (next, len) = unsafe { (was.as_ref().next.get(), was.as_ref().len.get()) };
        let mbuf = ManuallyDrop::new(Mbuf { header: was, _owns: PhantomData });
        let mut visit = Visit { queue: self, mbuf, was, next, len };
        Some(change(&mut visit.mbuf))
    }

    /// Put `now` in the place of `was`, which the queue no longer owns.
    #[cold]
    fn relink(
        &mut self,
        was: NonNull<Header>,
        now: NonNull<Header>,
        next: Option<NonNull<Header>>,
    ) {
        // SAFETY: the queue holds every handle linked from its head up to `was`, and `now`.
        unsafe { now.as_ref().next.set(next) };
        if self.tail == Some(was) {
            self.tail = Some(now);
        }
        if self.head == Some(was) {
            self.head = Some(now);
            return;
        }
        let mut at = self.head;
        while let Some(header) = at {
            // SAFETY: as above; the walk ends before `was`.
            unsafe {
                if header.as_ref().next.get() == Some(was) {
                    header.as_ref().next.set(Some(now));
                    return;
                }
                at = header.as_ref().next.get();
            }
        }
    }

    /// The number of mbufs.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes of data.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Is the queue empty?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Free every mbuf.
    pub fn clear(&mut self, pool: &mut Pool) {
        while let Some(mbuf) = self.pop_front() {
            pool.free(mbuf);
        }
    }
}

/// A handle passed to a closure, which may shorten it, replace it, or panic.
struct Visit<'a> {
    queue: &'a mut MbufQueue,
    mbuf: ManuallyDrop<Mbuf>,
    was: NonNull<Header>,
    next: Option<NonNull<Header>>,
    len: u32,
}

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.mbuf.header != self.was {
            self.queue.relink(self.was, self.mbuf.header, self.next);
        }
        self.queue.bytes = self.queue.bytes - self.len + self.mbuf.header().len.get();
    }
}

impl Drop for MbufQueue {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}
