//! Buffers in memory that a kernel or a device shares with us, and into which it writes received
//! frames (UMEM of AF_XDP).
//!
//! Called by: devices, which provide the memory, lend buffers of it to the kernel, and get them
//! back as mbufs when they are filled. These mbufs are like any other: they may be kept, shared and
//! freed anywhere. The memory is kept until the last of them is freed.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::Arc;

use crate::class::{Class, LINE};
use crate::mbuf::Mbuf;
use crate::memory::Memory;
use crate::store::{Header, Shared, Store};

/// The layout of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// The size class of a buffer.
    pub class: Class,
    /// Bytes from one buffer to the next, a multiple of a cache line. If the stride is an odd
    /// number of lines, headers are spread over the sets of a cache; that of [`FrameLayout::of`]
    /// is.
    pub stride: usize,
}

impl FrameLayout {
    /// Buffers of a class, without gaps.
    pub const fn of(class: Class) -> FrameLayout {
        FrameLayout { class, stride: class.stride() }
    }
}

/// A fixed number of buffers in one memory area. A buffer is free, lent, or in use as an mbuf.
pub struct Frames {
    store: Store,
    shared: Arc<Shared>,
    layout: FrameLayout,
    start: NonNull<u8>,
    lent: Vec<bool>,
    lent_count: usize,
}

// SAFETY: as for a pool: its holder has exclusive access to the free and the lent buffers.
unsafe impl Send for Frames {}

impl Frames {
    /// Bytes at the start of each buffer that are reserved for its header, even while it is lent.
    pub const RESERVED: usize = LINE;

    /// Lay out as many buffers as fit the memory, all free. `None` if none fits, or if stride or
    /// alignment is invalid.
    pub fn new(layout: FrameLayout, memory: impl Memory) -> Option<Frames> {
        let FrameLayout { class, stride } = layout;
        let (start, bytes) = (memory.start(), memory.bytes());
        let is_aligned = (start.as_ptr() as usize).is_multiple_of(LINE);
        if stride < class.stride() || !stride.is_multiple_of(LINE) || !is_aligned {
            return None;
        }
        // Offsets must fit 32 bits.
        let count = bytes.min(u32::MAX as usize) / stride;
        if count == 0 {
            return None;
        }
        let (mut store, shared) = (Store::default(), Shared::new());
        store.keep(Box::new(memory), bytes);
        // SAFETY: by the trait's contract the memory is valid and ours; `count` strides fit.
        unsafe { store.lay(start, class, count, stride, &shared) };
        Some(Frames { store, shared, layout, start, lent: vec![false; count], lent_count: 0 })
    }

    /// Address of the memory.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Length of the memory in bytes.
    pub fn bytes(&self) -> usize {
        self.store.held_bytes
    }

    /// Number of free buffers, at the last [`Frames::collect`].
    pub fn idle(&self) -> usize {
        self.lent.len() - self.store.outstanding
    }

    /// Number of buffers in use as mbufs, at the last [`Frames::collect`].
    pub fn held(&self) -> usize {
        self.store.outstanding - self.lent_count
    }

    /// Collect the mbufs that were freed elsewhere.
    #[inline]
    pub fn collect(&mut self) {
        let head = self.shared.take_returned();
        // SAFETY: the list has handles of this store only, which owns them.
        unsafe { self.store.release_list(head) };
    }

    /// Lend a free buffer; returns its offset in the memory. The borrower may use all but its first
    /// [`Frames::RESERVED`] bytes.
    #[inline]
    pub fn lend(&mut self) -> Option<u64> {
        let header = self.store.take(self.layout.class)?;
        let offset = header.as_ptr() as usize - self.start.as_ptr() as usize;
        self.lent[offset / self.layout.stride] = true;
        self.lent_count += 1;
        Some(offset as u64)
    }

    /// Returns the `len` bytes at `offset` of a lent buffer, which the borrower has filled, and the
    /// offset of the buffer, to lend it again. `None` if the buffer is not lent or does not contain
    /// these bytes.
    ///
    /// # Safety
    /// Nobody else writes to the buffer while the bytes are borrowed.
    #[inline]
    pub unsafe fn look(&self, offset: u64, len: usize) -> Option<(&[u8], u64)> {
        let (index, at) = self.place(offset)?;
        if !self.lent[index] || !self.holds(at, len) {
            return None;
        }
        // SAFETY: inside a lent buffer and after its header (`holds`); by contract nobody writes to
        // it.
        let bytes =
            unsafe { core::slice::from_raw_parts(self.start.as_ptr().add(offset as usize), len) };
        Some((bytes, offset - at as u64))
    }

    /// Returns the `len` bytes at `offset` of a lent buffer, for us to fill. `None` if the buffer
    /// is not lent or does not contain these bytes.
    ///
    /// # Safety
    /// Nobody else reads or writes the buffer while the room is borrowed.
    pub unsafe fn room(&mut self, offset: u64, len: usize) -> Option<&mut [u8]> {
        let (index, at) = self.place(offset)?;
        if !self.lent[index] || !self.holds(at, len) {
            return None;
        }
        // SAFETY: inside a lent buffer and after its header (`holds`); by contract exclusive.
        let room = unsafe {
            core::slice::from_raw_parts_mut(self.start.as_ptr().add(offset as usize), len)
        };
        Some(room)
    }

    /// Turn a lent buffer with `len` bytes at `offset` into an mbuf. `None` if the buffer was not
    /// lent, or if it does not contain these bytes; in the second case it becomes free.
    ///
    /// # Safety
    /// The borrower neither reads nor writes the buffer any more.
    #[inline]
    pub unsafe fn filled(&mut self, offset: u64, len: usize) -> Option<Mbuf> {
        let (index, at) = self.place(offset)?;
        if !core::mem::take(&mut self.lent[index]) {
            return None;
        }
        self.lent_count -= 1;
        let fits = self.holds(at, len);
        // SAFETY: by contract the buffer is ours again; its header always was.
        let mbuf = unsafe {
            let header = self.header(index);
            header.as_ref().begin(self.start.as_ptr().add(offset as usize), len);
            Mbuf { header, _owns: PhantomData }
        };
        if fits {
            return Some(mbuf);
        }
        self.free(mbuf);
        None
    }

    /// Free an mbuf. This is faster than dropping it if it is one of these buffers.
    #[inline]
    pub fn free(&mut self, mbuf: Mbuf) {
        if core::ptr::eq(mbuf.header().owner.as_ptr(), Arc::as_ptr(&self.shared)) {
            // SAFETY: the handle is unique, of this store, and is given up.
            unsafe { self.store.release(mbuf.into_raw()) };
        }
    }

    /// The index of the buffer that contains the byte at `offset`, and the offset in that buffer.
    #[inline(always)]
    fn place(&self, offset: u64) -> Option<(usize, usize)> {
        let (offset, stride) = (u32::try_from(offset).ok()?, self.layout.stride as u32);
        let (index, at) = ((offset / stride) as usize, (offset % stride) as usize);
        (index < self.lent.len()).then_some((index, at))
    }

    /// Are `len` bytes, beginning at `at`, inside a buffer and after its header?
    #[inline(always)]
    fn holds(&self, at: usize, len: usize) -> bool {
        let class = self.layout.class.stride();
        at >= Frames::RESERVED && at <= class && len <= class - at
    }

    /// # Safety
    /// There is a buffer with this index.
    unsafe fn header(&self, index: usize) -> NonNull<Header> {
        // SAFETY: by contract inside the memory.
        unsafe { self.start.add(index * self.layout.stride).cast() }
    }
}

impl Drop for Frames {
    /// Lent buffers become free: their borrowers must be gone.
    fn drop(&mut self) {
        for index in 0..self.lent.len() {
            if self.lent[index] {
                // SAFETY: a lent buffer has no handle but the one that is released here.
                unsafe {
                    let header = self.header(index);
                    header.as_ref().refs_or_private_end.set(1);
                    self.store.release(header);
                }
            }
        }
        self.shared.orphan(core::mem::take(&mut self.store));
    }
}
