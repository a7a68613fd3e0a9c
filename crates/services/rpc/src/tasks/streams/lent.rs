//! [`Lender`]: a stream that lends buffers to send, and buffers that it has received. A service
//! reads a file into the first kind and writes a file from the second kind, without another copy.
//!
//! Called by: `arriving.rs`, `replies.rs`, `streams.rs`. The lender for a stack of ours is in
//! `stack_sockets.rs`.

use core::future::Future;
use core::ops::Deref;
use std::io;

use crate::limits::BUFFER_UNIT;
use crate::server::Bulk;
use crate::tasks::Spares;

/// A stream that lends its buffers.
pub trait Lender: Send + Sync {
    /// A buffer to send.
    type Buffer: Lent + 'static;
    /// A received buffer.
    type Arrived: Arrived + 'static;

    /// An empty buffer; `None` if there is none.
    fn lend(&self) -> Option<Self::Buffer>;

    /// Send a buffer after everything that was written before.
    fn send(&self, buffer: Self::Buffer) -> impl Future<Output = io::Result<()>> + Send;

    /// The next bytes of the stream, in the buffer in which they arrived; `None` at the end of the
    /// stream.
    fn receive(&self) -> impl Future<Output = io::Result<Option<Self::Arrived>>> + Send;
}

/// A buffer that a stream has received; it is not empty.
pub trait Arrived: Deref<Target = [u8]> + Send {
    /// Remove the first `bytes` bytes, or all if there are fewer.
    fn advance(&mut self, bytes: usize);
}

/// A buffer that a stream will send.
pub trait Lent: Send {
    /// How many bytes may still be added.
    fn room(&self) -> usize;

    /// Let `fill` write into the free part of the buffer. `fill` and this function return the
    /// number of bytes written.
    fn fill(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> usize;

    /// The bytes written so far, so that they can be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A lender that has no buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct LendsNothing;

impl Lender for LendsNothing {
    type Buffer = Nothing;
    type Arrived = Nothing;

    fn lend(&self) -> Option<Nothing> {
        None
    }

    async fn send(&self, buffer: Nothing) -> io::Result<()> {
        match buffer {}
    }

    async fn receive(&self) -> io::Result<Option<Nothing>> {
        Ok(None)
    }
}

/// The buffer type of a lender without buffers: it has no values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Nothing {}

impl Deref for Nothing {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match *self {}
    }
}

impl Arrived for Nothing {
    fn advance(&mut self, _: usize) {
        match *self {}
    }
}

impl Lent for Nothing {
    fn room(&self) -> usize {
        match *self {}
    }

    fn fill(&mut self, _: &mut dyn FnMut(&mut [u8]) -> usize) -> usize {
        match *self {}
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match *self {}
    }
}

/// The bytes of a reply.
pub(super) enum Body<B> {
    Bytes(Vec<u8>),
    /// In the stream's own buffers.
    Lent(Vec<B>),
}

impl<B> Body<B> {
    /// Is the reply so long that a connection should not hold many like it?
    pub(super) fn is_long(&self) -> bool {
        match self {
            Body::Bytes(bytes) => bytes.len() >= BUFFER_UNIT,
            Body::Lent(_) => true,
        }
    }
}

/// Buffers of a lender that a service fills with the data of one reply.
pub(super) struct Filled<'a, L: Lender> {
    lender: Option<&'a L>,
    buffers: Vec<L::Buffer>,
    /// How many bytes are left free at the front of the first buffer, for the head.
    head: usize,
    /// How many bytes were filled after the head.
    bytes: usize,
}

impl<'a, L: Lender> Filled<'a, L> {
    pub(super) fn new(lender: Option<&'a L>) -> Filled<'a, L> {
        Filled { lender, buffers: Vec::new(), head: 0, bytes: 0 }
    }

    /// The reply that begins with `head`. If `head` is copied, its memory goes back to `spares`.
    pub(super) fn into_body(mut self, head: Vec<u8>, spares: &Spares) -> Body<L::Buffer> {
        let Some(first) = self.buffers.first_mut() else { return Body::Bytes(head) };
        debug_assert_eq!(self.head, head.len(), "the reply grew after its data was filled");
        first.bytes_mut()[..self.head].copy_from_slice(&head[..self.head]);
        spares.put(head);
        Body::Lent(self.buffers)
    }

    /// Borrow another buffer. If it is the first one, leave room for the head.
    fn borrow(&mut self, head: usize) -> Option<()> {
        let mut buffer = self.lender?.lend()?;
        if self.buffers.is_empty() {
            if buffer.room() <= head {
                return None;
            }
            self.head = buffer.fill(&mut |room| head.min(room.len()));
        }
        self.buffers.push(buffer);
        Some(())
    }
}

impl<L: Lender> Bulk for Filled<'_, L> {
    fn fill(&mut self, head: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<usize> {
        if self.buffers.last().is_none_or(|buffer| buffer.room() == 0) {
            self.borrow(head)?;
        }
        let bytes = self.buffers.last_mut()?.fill(fill);
        self.bytes += bytes;
        Some(bytes)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn clear(&mut self) {
        self.buffers.clear();
        (self.head, self.bytes) = (0, 0);
    }
}
