//! The four rings of an AF_XDP socket, which pass the ownership of frames between us and the
//! kernel.
//!
//! Called by: `xdp.rs`. Source: Linux `Documentation/networking/af_xdp.rst`, `uapi/linux/if_xdp.h`.
//!
//! A ring has one producer and one consumer. The consumer reads the entries from the consumer index
//! to the producer index; the producer writes the other entries. Each side stores its own index
//! (release) after it is done with an entry, and loads the index of the other side (acquire) before
//! it touches one. A frame belongs to the side that last took the frame's address off a ring.
//! Addresses from the kernel are checked nevertheless.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::AsFd;

use mbuf::Memory;
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

/// A memory mapping, unmapped on drop.
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: this value owns the memory, and one thread at a time uses it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// New page-aligned memory. It is a mapping of its own, so that a kernel that still writes to
    /// it after it is unmapped does not write to other memory.
    pub(super) fn anonymous(len: usize) -> Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, wherever the kernel has room for it.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, len })
    }
}

// SAFETY: it is mapped until it is dropped, and its owner gives its address only to the kernel.
unsafe impl Memory for Mapping {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn bytes(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nobody refers to it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours");
    }
}

/// One ring, seen from our side: the producer of fill and transmit, the consumer of receive and
/// completion.
pub(super) struct Ring<T> {
    memory: Mapping,
    offsets: XdpRingOffset,
    size: u32,
    /// Our own index, and the index of the other side as last loaded.
    ours: u32,
    theirs: u32,
    _entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Map the ring at `page_offset` of a socket; `size` is its number of entries, a power of two.
    pub(super) fn map(
        fd: impl AsFd,
        page_offset: u64,
        offsets: XdpRingOffset,
        size: u32,
    ) -> Result<Ring<T>> {
        let len = offsets.desc as usize + size as usize * size_of::<T>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, wherever the kernel has room for it.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, flags, fd, page_offset) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        let memory = Mapping { start, len };
        Ok(Ring { memory, offsets, size, ours: 0, theirs: 0, _entries: PhantomData })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel gave this offset into this mapping, for a word that both sides touch
        // atomically.
        unsafe { AtomicU32::from_ptr(self.memory.start.as_ptr().add(offset as usize).cast()) }
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & (self.size - 1)) as usize * size_of::<T>();
        // SAFETY: the masked index is below the size that was mapped.
        unsafe { self.memory.start.as_ptr().add(at).cast() }
    }

    /// Producer: entries that can be written now.
    pub(super) fn room(&mut self) -> u32 {
        self.theirs = self.word(self.offsets.consumer).load(Ordering::Acquire);
        self.size - self.ours.wrapping_sub(self.theirs).min(self.size)
    }

    /// Producer: entries that the kernel has not taken yet.
    pub(super) fn untaken(&self) -> u32 {
        self.ours.wrapping_sub(self.word(self.offsets.consumer).load(Ordering::Acquire))
    }

    /// Producer: write an entry; [`Ring::room`] must have returned room for it.
    pub(super) fn put(&mut self, entry: T) {
        // SAFETY: the entry is ours (there was room) until `publish`.
        unsafe { self.entry(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// Producer: pass the written entries to the kernel.
    pub(super) fn publish(&self) {
        self.word(self.offsets.producer).store(self.ours, Ordering::Release);
    }

    /// Producer: does the kernel need a call before it reads the ring?
    pub(super) fn wants_waking(&self) -> bool {
        self.offsets.flags.is_none_or(|at| {
            let flags = self.word(at).load(Ordering::Relaxed);
            flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
        })
    }

    /// Consumer: is there an entry?
    pub(super) fn has_entry(&self) -> bool {
        self.ours != self.word(self.offsets.producer).load(Ordering::Acquire)
    }

    /// Consumer: the next entry.
    pub(super) fn take(&mut self) -> Option<T> {
        if self.ours == self.theirs {
            self.theirs = self.word(self.offsets.producer).load(Ordering::Acquire);
            if self.ours == self.theirs {
                return None;
            }
        }
        // SAFETY: between our index and the producer's, hence written and ours until `release`.
        let entry = unsafe { self.entry(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(entry)
    }

    /// Consumer: give back the entries that were taken.
    pub(super) fn release(&self) {
        self.word(self.offsets.consumer).store(self.ours, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
