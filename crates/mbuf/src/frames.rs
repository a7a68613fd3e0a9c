//! Buffers at addresses that somebody else knows and fills: a kernel or a device that writes
//! received frames straight into memory it shares with us.
//!
//! Called by: devices, which bring such memory, lend buffers of it and get them back filled, as
//! mbufs that are like any others: they may be held, shared and given back anywhere. The memory
//! stays until the last mbuf of it is gone.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::Arc;

use crate::class::{Class, LINE};
use crate::mbuf::Mbuf;
use crate::memory::Memory;
use crate::store::{Header, Shared, Store};

/// How the buffers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// What a buffer holds.
    pub class: Class,
    /// Bytes from one to the next, whole lines. An odd number of them spreads headers over the
    /// sets of a cache; [`FrameLayout::of`] has that.
    pub stride: usize,
}

impl FrameLayout {
    /// Buffers of a class, side by side.
    pub const fn of(class: Class) -> FrameLayout {
        FrameLayout { class, stride: class.stride() }
    }
}

/// A fixed number of buffers in one piece of memory. A buffer is free, lent, or out as an mbuf.
pub struct Frames {
    store: Store,
    shared: Arc<Shared>,
    layout: FrameLayout,
    start: NonNull<u8>,
    lent: Vec<bool>,
    lent_count: usize,
}

// SAFETY: as for a pool: whoever has it has the free and the lent buffers alone.
unsafe impl Send for Frames {}

impl Frames {
    /// Bytes at the beginning of each buffer that are ours alone, lent or not.
    pub const RESERVED: usize = LINE;

    /// As many buffers as the memory has room for, all free; `None` where that is none, or where
    /// they cannot lie like that.
    pub fn new(layout: FrameLayout, memory: impl Memory) -> Option<Frames> {
        let FrameLayout { class, stride } = layout;
        let (start, bytes) = (memory.start(), memory.bytes());
        let is_aligned = (start.as_ptr() as usize).is_multiple_of(LINE);
        if stride < class.stride() || !stride.is_multiple_of(LINE) || !is_aligned {
            return None;
        }
        // Offsets into it fit 32 bits.
        let count = bytes.min(u32::MAX as usize) / stride;
        if count == 0 {
            return None;
        }
        let (mut store, shared) = (Store::default(), Shared::new());
        store.keep(Box::new(memory), bytes);
        // SAFETY: by the trait's contract the memory is there and ours; `count` strides fit.
        unsafe { store.lay(start, class, count, stride, &shared) };
        Some(Frames { store, shared, layout, start, lent: vec![false; count], lent_count: 0 })
    }

    /// Where the memory begins.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.store.held_bytes
    }

    /// Buffers that are free, after [`Frames::collect`].
    pub fn idle(&self) -> usize {
        self.lent.len() - self.store.outstanding
    }

    /// Buffers that are out as mbufs, after [`Frames::collect`].
    pub fn held(&self) -> usize {
        self.store.outstanding - self.lent_count
    }

    /// Take in mbufs that were given back elsewhere.
    #[inline]
    pub fn collect(&mut self) {
        let head = self.shared.take_returned();
        // SAFETY: the list is of handles of this store, which owns every one on it.
        unsafe { self.store.release_list(head) };
    }

    /// Lend a free buffer: how many bytes behind the beginning of the memory it begins. What is
    /// behind its first [`Frames::RESERVED`] bytes is whoever's it is lent to.
    #[inline]
    pub fn lend(&mut self) -> Option<u64> {
        let header = self.store.take(self.layout.class)?;
        let offset = header.as_ptr() as usize - self.start.as_ptr() as usize;
        self.lent[offset / self.layout.stride] = true;
        self.lent_count += 1;
        Some(offset as u64)
    }

    /// `len` bytes at `offset` of a lent buffer, as whoever it is lent to has filled it, and where
    /// the buffer begins, for lending it on. `None` where it is not lent or has no such bytes.
    ///
    /// # Safety
    /// Nobody else writes to the buffer while the bytes are borrowed.
    #[inline]
    pub unsafe fn look(&self, offset: u64, len: usize) -> Option<(&[u8], u64)> {
        let (index, at) = self.place(offset)?;
        if !self.lent[index] || !self.holds(at, len) {
            return None;
        }
        // SAFETY: inside a lent buffer and behind its header (`holds`); by contract it stays as it
        // is.
        let bytes =
            unsafe { core::slice::from_raw_parts(self.start.as_ptr().add(offset as usize), len) };
        Some((bytes, offset - at as u64))
    }

    /// Room of a lent buffer for `len` bytes from `offset` on, to be filled by ourselves; `None`
    /// where it is not lent or has no such room.
    ///
    /// # Safety
    /// Nobody else reads or writes the buffer while the room is borrowed.
    pub unsafe fn room(&mut self, offset: u64, len: usize) -> Option<&mut [u8]> {
        let (index, at) = self.place(offset)?;
        if !self.lent[index] || !self.holds(at, len) {
            return None;
        }
        // SAFETY: inside a lent buffer and behind its header (`holds`); by contract ours alone.
        let room = unsafe {
            core::slice::from_raw_parts_mut(self.start.as_ptr().add(offset as usize), len)
        };
        Some(room)
    }

    /// A lent buffer comes back with `len` bytes at `offset`, anywhere in it, as an mbuf. `None`
    /// where it was not lent, or where the bytes are not all in it; then it is free again.
    ///
    /// # Safety
    /// Whoever it was lent to neither reads nor writes it any more.
    #[inline]
    pub unsafe fn filled(&mut self, offset: u64, len: usize) -> Option<Mbuf> {
        let (index, at) = self.place(offset)?;
        if !core::mem::take(&mut self.lent[index]) {
            return None;
        }
        self.lent_count -= 1;
        let fits = self.holds(at, len);
        // SAFETY: by contract the buffer is ours again, and its header has been all the time.
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

    /// Give back an mbuf, faster than by dropping it if it is one of these.
    #[inline]
    pub fn free(&mut self, mbuf: Mbuf) {
        if core::ptr::eq(mbuf.header().owner.as_ptr(), Arc::as_ptr(&self.shared)) {
            // SAFETY: the handle is unique, of this store, and given up.
            unsafe { self.store.release(mbuf.into_raw()) };
        }
    }

    /// The buffer in which the byte at `offset` is, and where in it.
    #[inline(always)]
    fn place(&self, offset: u64) -> Option<(usize, usize)> {
        let (offset, stride) = (u32::try_from(offset).ok()?, self.layout.stride as u32);
        let (index, at) = ((offset / stride) as usize, (offset % stride) as usize);
        (index < self.lent.len()).then_some((index, at))
    }

    /// Are `len` bytes from `at` on in a buffer, its header left out?
    #[inline(always)]
    fn holds(&self, at: usize, len: usize) -> bool {
        let class = self.layout.class.stride();
        at >= Frames::RESERVED && at <= class && len <= class - at
    }

    /// # Safety
    /// There is a buffer of this number.
    unsafe fn header(&self, index: usize) -> NonNull<Header> {
        // SAFETY: by contract inside the memory.
        unsafe { self.start.add(index * self.layout.stride).cast() }
    }
}

impl Drop for Frames {
    /// Whoever buffers were lent to must be gone: they are free.
    fn drop(&mut self) {
        for index in 0..self.lent.len() {
            if self.lent[index] {
                // SAFETY: a lent buffer has no handle but the one that is given up here.
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
