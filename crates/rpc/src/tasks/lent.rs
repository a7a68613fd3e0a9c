//! [`Lender`]: a stream that lends the buffers that it sends. A service reads a file into them, and
//! nothing copies its bytes again.
//!
//! Called by: `streams.rs`, `replies.rs`; `stack_sockets.rs` has the lender of a stack of ours.

use core::convert::Infallible;
use core::future::Future;
use std::io;

use super::spares::Spares;
use crate::limits::BUFFER_UNIT;
use crate::server::Bulk;

/// A stream that lends the buffers that it sends.
pub trait Lender: Send + Sync {
    /// What it lends.
    type Buffer: Lent + 'static;

    /// An empty buffer; `None` if there is none.
    fn lend(&self) -> Option<Self::Buffer>;

    /// Send a buffer, behind all that was written before.
    fn send(&self, buffer: Self::Buffer) -> impl Future<Output = io::Result<()>> + Send;
}

/// A buffer of a stream.
pub trait Lent: Send {
    /// Bytes that may still be added.
    fn room(&self) -> usize;

    /// Let `fill` write into the free part and say how many bytes it wrote.
    fn fill(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> usize;

    /// What is in it, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A lender that has nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct LendsNothing;

impl Lender for LendsNothing {
    type Buffer = Infallible;

    fn lend(&self) -> Option<Infallible> {
        None
    }

    async fn send(&self, buffer: Infallible) -> io::Result<()> {
        match buffer {}
    }
}

impl Lent for Infallible {
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

/// Where a reply lies.
pub(super) enum Body<B> {
    Bytes(Vec<u8>),
    /// In buffers of the stream.
    Lent(Vec<B>),
}

impl<B> Body<B> {
    /// Is it one of which a connection should not hold many?
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
    /// Bytes behind these.
    bytes: usize,
}

impl<'a, L: Lender> Filled<'a, L> {
    pub(super) fn new(lender: Option<&'a L>) -> Filled<'a, L> {
        Filled { lender, buffers: Vec::new(), head: 0, bytes: 0 }
    }

    /// The reply that begins with `head`, whose memory goes back if it is copied.
    pub(super) fn into_body(mut self, head: Vec<u8>, spares: &Spares) -> Body<L::Buffer> {
        let Some(first) = self.buffers.first_mut() else { return Body::Bytes(head) };
        debug_assert_eq!(self.head, head.len(), "the reply has grown behind its data");
        first.bytes_mut()[..self.head].copy_from_slice(&head[..self.head]);
        spares.put(head);
        Body::Lent(self.buffers)
    }

    /// Another buffer, with room behind the head if it is the first.
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
