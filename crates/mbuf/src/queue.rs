//! A first-in-first-out list of mbufs, linked through their own headers: it allocates nothing.
//!
//! Called by: socket buffers, send queues, device rings' overflow. Must not know: any protocol.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::Pool;
use crate::mbuf::{Header, Mbuf};

/// Mbufs in order, with their number and their bytes.
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

    /// Add at the end.
    #[inline(always)]
    pub fn push_back(&mut self, mbuf: Mbuf) {
        self.bytes += mbuf.header().len;
        self.count += 1;
        let mut header = mbuf.into_raw();
        // SAFETY: the queue holds both handles.
        unsafe {
            header.as_mut().next = None;
            match self.tail {
                Some(mut tail) => tail.as_mut().next = Some(header),
                None => self.head = Some(header),
            }
        }
        self.tail = Some(header);
    }

    /// Put back at the front.
    pub fn push_front(&mut self, mbuf: Mbuf) {
        self.bytes += mbuf.header().len;
        self.count += 1;
        let mut header = mbuf.into_raw();
        // SAFETY: the queue holds the handle.
        unsafe { header.as_mut().next = self.head };
        self.tail = self.tail.or(Some(header));
        self.head = Some(header);
    }

    /// Take from the front.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<Mbuf> {
        let mut header = self.head?;
        // SAFETY: the queue holds the handle and gives it up here.
        unsafe {
            self.head = header.as_mut().next.take();
            self.bytes -= header.as_ref().len;
        }
        if self.head.is_none() {
            self.tail = None;
        }
        self.count -= 1;
        Some(Mbuf { header, _owns: PhantomData })
    }

    /// Look at the first.
    #[inline]
    pub fn front(&self) -> Option<&Mbuf> {
        // SAFETY: `Mbuf` is a transparent view of the pointer: one non-null field and a marker.
        self.head.as_ref().map(|h| unsafe { &*core::ptr::from_ref(h).cast::<Mbuf>() })
    }

    /// Change the first; its length is followed.
    #[inline]
    pub fn with_front<R>(&mut self, change: impl FnOnce(&mut Mbuf) -> R) -> Option<R> {
        Self::with(&mut self.bytes, self.head?, change)
    }

    /// Change the last; its length is followed.
    #[inline]
    pub fn with_back<R>(&mut self, change: impl FnOnce(&mut Mbuf) -> R) -> Option<R> {
        Self::with(&mut self.bytes, self.tail?, change)
    }

    #[inline]
    fn with<R>(
        bytes: &mut u32,
        header: NonNull<Header>,
        change: impl FnOnce(&mut Mbuf) -> R,
    ) -> Option<R> {
        let mut mbuf = core::mem::ManuallyDrop::new(Mbuf { header, _owns: PhantomData });
        let before = mbuf.header().len;
        let result = change(&mut mbuf);
        *bytes = *bytes - before + mbuf.header().len;
        Some(result)
    }

    /// How many mbufs.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// How many bytes of data.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Nothing queued.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Give everything back to its pool.
    pub fn clear(&mut self, pool: &mut Pool) {
        while let Some(mbuf) = self.pop_front() {
            pool.free(mbuf);
        }
    }
}

impl Drop for MbufQueue {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}
