//! [`Lender`]: a stream that lends the buffers that it will send, and those that it has received. A
//! service reads a file into the former and writes a file from the latter, without another copy.
//!
//! Called by: `arriving.rs`, `replies.rs`, `streams.rs`; `stack_sockets.rs` has the lender of a
//! stack of ours.

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

    /// Send a buffer, behind everything that was written before.
    fn send(&self, buffer: Self::Buffer) -> impl Future<Output = io::Result<()>> + Send;

    /// The next bytes of the stream, behind those read before, in the buffer that they arrived in;
    /// `None` at its end.
    fn receive(&self) -> impl Future<Output = io::Result<Option<Self::Arrived>>> + Send;
}

/// A buffer that a stream has received, not empty.
pub trait Arrived: Deref<Target = [u8]> + Send {
    /// Remove the first `bytes` bytes, at most all.
    fn advance(&mut self, bytes: usize);
}

/// A buffer that a stream sends.
pub trait Lent: Send {
    /// Bytes that may still be added.
    fn room(&self) -> usize;

    /// Let `fill` write into the free part; both return the number of bytes.
    fn fill(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> usize;

    /// Its bytes, for changes.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A lender without buffers.
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
    /// In buffers of the stream.
    Lent(Vec<B>),
}

impl<B> Body<B> {
    /// Is it so long that a connection should not hold many of them?
    pub(super) fn is_long(&self) -> bool {
        match self {
            Body::Bytes(bytes) => bytes.len() >= BUFFER_UNIT,
            Body::Lent(_) => true,
        }
    }
}

/// Buffers of a lender that a service fills: those of one reply.
pub(super) struct Filled<'a, L: Lender> {
    lender: Option<&'a L>,
    buffers: Vec<L::Buffer>,
    /// Bytes that are left free at the front of the first.
    head: usize,
    /// Bytes filled behind the head.
    bytes: usize,
}

impl<'a, L: Lender> Filled<'a, L> {
    pub(super) fn new(lender: Option<&'a L>) -> Filled<'a, L> {
        Filled { lender, buffers: Vec::new(), head: 0, bytes: 0 }
    }

    /// The reply that begins with `head`; if `head` is copied, its memory goes back to `spares`.
    pub(super) fn into_body(mut self, head: Vec<u8>, spares: &Spares) -> Body<L::Buffer> {
        let Some(first) = self.buffers.first_mut() else { return Body::Bytes(head) };
        debug_assert_eq!(self.head, head.len(), "the reply has grown behind its data");
        first.bytes_mut()[..self.head].copy_from_slice(&head[..self.head]);
        spares.put(head);
        Body::Lent(self.buffers)
    }

    /// Borrow another buffer; in the first one, leave room for the head.
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
