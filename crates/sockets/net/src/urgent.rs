//! Urgent data: the peer announces it before this side has read up to it. The data stays in the
//! stream (RFC 6093), as if SO_OOBINLINE were always set.
//!
//! Called by: programs.

use core::task::Poll;
use std::io;

use crate::inner::Inner;
use crate::wait::wait;
use crate::{TcpStream, error};

impl Inner {
    fn poll_write_urgent(
        &mut self,
        handle: stack::TcpHandle,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.stack.tcp_write_urgent(handle, data) {
            Ok(n) => Poll::Ready(Ok(n)),
            Err(error) => self.no_room(handle, error),
        }
    }

    /// Ready with the number of bytes up to the end of urgent data, or with 0 if none can come any
    /// more.
    fn poll_urgent(&mut self, handle: stack::TcpHandle) -> Poll<io::Result<u64>> {
        match self.stack.tcp_urgent_left(handle) {
            Some(0) => {}
            left => return Poll::Ready(Ok(left.unwrap_or(0))),
        }
        let over = self.stack.tcp_readable(handle).is_none_or(|(_, finished)| finished);
        let failed = self.stack.tcp_state(handle).is_none_or(|(_, error)| error.is_some());
        if over || failed { Poll::Ready(Ok(0)) } else { Poll::Pending }
    }
}

impl TcpStream {
    /// Write all of `data`, whose last byte is urgent (MSG_OOB). The peer is notified at once, even
    /// if its window is closed. If the future is dropped, a part of the data may have been written
    /// without an urgent mark.
    ///
    /// # Errors
    /// As `write`.
    pub async fn send_urgent(&self, data: &[u8]) -> io::Result<()> {
        let (handle, mut done) = (self.handle(), 0);
        let look = move |inner: &mut Inner| {
            while done < data.len() {
                match inner.poll_write_urgent(handle, &data[done..]) {
                    Poll::Ready(Ok(n)) => done += n,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        };
        wait(self.net().shared(), self.write_readiness(), look).await
    }

    /// Write as much of `data` as there is room for, without waiting. The urgent byte is marked
    /// only if all of `data` was written.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], and as `write`.
    pub fn try_send_urgent(&self, data: &[u8]) -> io::Result<usize> {
        match self.now(|inner| inner.poll_write_urgent(self.handle(), data))? {
            Poll::Ready(done) => done,
            Poll::Pending => Err(error::would_block()),
        }
    }

    /// Wait until the peer announces urgent data, unless some is announced and not read yet.
    /// Returns the number of bytes up to its end, like [`TcpStream::urgent_pending`], or 0 if the
    /// peer has closed or the connection is over.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn urgent(&self) -> io::Result<u64> {
        let handle = self.handle();
        let look = move |inner: &mut Inner| inner.poll_urgent(handle);
        wait(self.net().shared(), self.read_readiness(), look).await
    }

    /// The number of bytes to read up to the end of the urgent data that the peer has announced,
    /// including bytes that were not received yet. 0 if no urgent data is announced.
    ///
    /// # Errors
    /// The driver is gone; the connection is over.
    pub fn urgent_pending(&self) -> io::Result<u64> {
        self.now(|inner| inner.stack.tcp_urgent_left(self.handle()))?.ok_or_else(error::aborted)
    }

    /// Is the next byte to read the last urgent one (sockatmark)? A read ends before that byte, so
    /// that the program can call this function there.
    ///
    /// # Errors
    /// The driver is gone; the connection is over.
    pub fn at_mark(&self) -> io::Result<bool> {
        self.now(|inner| inner.stack.tcp_at_mark(self.handle()))?.ok_or_else(error::aborted)
    }
}

impl crate::blocking::TcpStream {
    /// Write all of `data`, whose last byte is urgent. The call waits for room. See
    /// [`crate::TcpStream::send_urgent`].
    ///
    /// # Errors
    /// As `write`; then a part of the data may have been written without an urgent mark.
    pub fn send_urgent(&self, data: &[u8]) -> io::Result<()> {
        let (handle, mut done) = (self.handle(), 0);
        self.writing(|inner| {
            while done < data.len() {
                match inner.poll_write_urgent(handle, &data[done..]) {
                    Poll::Ready(Ok(n)) => done += n,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Wait until the peer announces urgent data, within the read time-out. See
    /// [`crate::TcpStream::urgent`].
    ///
    /// # Errors
    /// The driver is gone; [`io::ErrorKind::WouldBlock`] after the read time-out.
    pub fn wait_urgent(&self) -> io::Result<u64> {
        let handle = self.handle();
        self.reading(|inner| inner.poll_urgent(handle))
    }
}
