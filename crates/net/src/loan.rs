//! Loaned buffers: bytes that are read where they were received, and written where they are sent
//! from. The cluster changes hands, its bytes do not move.
//!
//! Called by: programs. A loan may go to any thread and be dropped there; until then it counts
//! against the stack's `mbuf_bytes`, so do not keep them for long.

use core::ops::{Deref, DerefMut};
use core::task::Poll;
use std::io;

use mbuf::Mbuf;

use crate::inner::Inner;
use crate::wait::wait;
use crate::{TcpStream, error};

/// Received bytes, in the stack's own buffer.
pub struct Received(Mbuf);

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Received {
    pub(crate) fn new(mbuf: Mbuf) -> Received {
        Received(mbuf)
    }

    /// Have used `n` bytes from the front.
    pub fn advance(&mut self, n: usize) {
        self.0.trim_front(n.min(self.0.len()));
    }
}

/// An empty buffer of the stack, to fill and to hand to [`TcpStream::send_loan`].
pub struct Loan(stack::Loan);

impl Loan {
    /// Bytes that may still be added.
    pub fn room(&self) -> usize {
        self.0.room()
    }

    /// Add what there is room for, by one pass that copies and sums; returns how many bytes.
    pub fn append(&mut self, data: &[u8]) -> usize {
        self.0.append(data)
    }

    /// Let `fill` write into the free part and say how many bytes it wrote.
    pub fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.0.fill(fill)
    }
}

impl Deref for Loan {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl TcpStream {
    /// Take the oldest received buffer itself; `None` is the peer's end.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn read_loan(&self) -> io::Result<Option<Received>> {
        let handle = self.handle();
        let look = move |inner: &mut Inner| inner.poll_read_mbuf(handle);
        let m = wait(self.net().shared(), self.read_readiness(), look).await?;
        Ok(m.map(Received))
    }

    /// [`TcpStream::read_loan`] without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or how the connection ended.
    pub fn try_read_loan(&self) -> io::Result<Option<Received>> {
        match self.now(|inner| inner.poll_read_mbuf(self.handle()))? {
            Poll::Ready(m) => Ok(m?.map(Received)),
            Poll::Pending => Err(error::would_block()),
        }
    }

    /// A buffer to fill, as long as one segment (or super-segment) of this connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] at the limit `mbuf_bytes`; the connection is gone.
    pub fn loan(&self) -> io::Result<Loan> {
        let loaned = self.now(|inner| match inner.stack.tcp_info(self.handle()) {
            None => Err(error::not_connected()),
            Some(_) => Ok(inner.stack.tcp_loan(self.handle())),
        })??;
        let loan = loaned.ok_or_else(|| {
            let text = "no buffer is free: raise the limit `mbuf_bytes`, or hold fewer loans";
            io::Error::new(io::ErrorKind::OutOfMemory, text)
        })?;
        Ok(Loan(loan))
    }

    /// Send a buffer that was filled, whole; waits for room. Dropping the future drops the buffer,
    /// or has sent all of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`], or how the connection ended.
    pub async fn send_loan(&self, loan: Loan) -> io::Result<()> {
        let handle = self.handle();
        let mut waiting = Some(loan.0);
        let look = move |inner: &mut Inner| {
            let Some(loan) = waiting.take() else { return Poll::Ready(Ok(())) };
            match inner.stack.tcp_write_loan(handle, loan) {
                Ok(()) => Poll::Ready(Ok(())),
                Err((why, loan)) => {
                    waiting = Some(loan);
                    inner.no_room(handle, why).map_ok(|_| ())
                }
            }
        };
        wait(self.net().shared(), self.write_readiness(), look).await
    }
}
