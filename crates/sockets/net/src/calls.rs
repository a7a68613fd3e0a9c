//! TCP calls on a locked stack, with Linux's results, shared by all socket types of this crate.
//! `Pending` is "would block".
//!
//! Called by: all stream types. A connection that failed reports its error once, to the first read,
//! write or query. After that, reads return 0, and writes fail with a broken pipe. If a RST comes
//! after the peer's FIN, writes fail with a broken pipe, while reads return the end of the stream.
//! tests/same_errors.rs compares these results with the kernel's.

use core::task::Poll;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;

use mbuf::Mbuf;
use stack::{CallError, TcpHandle};
use tcp::Error as TcpError;
use tcp::State;

use crate::error;
use crate::inner::Inner;

impl Inner {
    /// Has the handshake ended?
    pub(crate) fn poll_connected(&mut self, handle: TcpHandle) -> Poll<io::Result<()>> {
        match self.stack.tcp_state(handle) {
            Some((State::SynSent | State::SynReceived, None)) => Poll::Pending,
            Some((_, Some(ended))) => Poll::Ready(Err(self.report(handle, ended))),
            Some((State::Closed, None)) | None => Poll::Ready(Err(error::aborted())),
            Some(_) => Poll::Ready(Ok(())),
        }
    }

    pub(crate) fn poll_read(
        &mut self,
        handle: TcpHandle,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        // A call with an empty buffer does not consume a pending error.
        if into.is_empty()
            && let Some((_, Some(ended))) = self.stack.tcp_state(handle)
        {
            return self.no_data(handle, CallError::Failed(ended));
        }
        match self.stack.tcp_read(handle, into) {
            Ok(n) => Poll::Ready(Ok(n)),
            Err(error) => self.no_data(handle, error),
        }
    }

    pub(crate) fn poll_read_vectored(
        &mut self,
        handle: TcpHandle,
        into: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut done = 0;
        for part in into.iter_mut().filter(|part| !part.is_empty()) {
            match self.poll_read(handle, part) {
                Poll::Ready(Ok(n)) => {
                    done += n;
                    // A read ends at the mark of urgent data.
                    if n < part.len() || self.stack.tcp_at_mark(handle) == Some(true) {
                        break;
                    }
                }
                // Bytes were read, so this call succeeds, and the next call has to return this
                // result. An error counts as reported now: mark it as not reported.
                other if done == 0 => return other,
                Poll::Ready(Err(_)) => {
                    self.untell(handle);
                    break;
                }
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(done))
    }

    pub(crate) fn poll_peek(
        &mut self,
        handle: TcpHandle,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.stack.tcp_peek(handle, into) {
            Ok(n) => Poll::Ready(Ok(n)),
            Err(error) => self.no_data(handle, error),
        }
    }

    /// Take the oldest received buffer; `None` is the end of the stream.
    pub(crate) fn poll_read_mbuf(&mut self, handle: TcpHandle) -> Poll<io::Result<Option<Mbuf>>> {
        match self.stack.tcp_read_mbuf(handle) {
            Ok(m) => Poll::Ready(Ok(m)),
            Err(error) => self.no_data(handle, error).map_ok(|_| None),
        }
    }

    /// Is the socket readable: data, the end of the stream, or an error?
    pub(crate) fn poll_readable(&mut self, handle: TcpHandle) -> Poll<io::Result<()>> {
        match self.stack.tcp_peek(handle, &mut [0]) {
            Err(CallError::WouldBlock) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Is the socket writable: room, or an error?
    pub(crate) fn poll_writable(&mut self, handle: TcpHandle) -> Poll<io::Result<()>> {
        match self.stack.tcp_writable(handle) {
            Err(CallError::WouldBlock) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    fn no_data(&mut self, handle: TcpHandle, why: CallError) -> Poll<io::Result<usize>> {
        match why {
            CallError::WouldBlock => Poll::Pending,
            CallError::Closed => Poll::Ready(Ok(0)),
            CallError::Failed(ended) => {
                if self.is_finished(handle) || self.was_reported(handle) {
                    Poll::Ready(Ok(0))
                } else {
                    Poll::Ready(Err(self.report(handle, ended)))
                }
            }
        }
    }

    pub(crate) fn poll_write(&mut self, handle: TcpHandle, data: &[u8]) -> Poll<io::Result<usize>> {
        match self.stack.tcp_write(handle, data) {
            Ok(n) => Poll::Ready(Ok(n)),
            Err(error) => self.no_room(handle, error),
        }
    }

    pub(crate) fn poll_write_vectored(
        &mut self,
        handle: TcpHandle,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.stack.tcp_write_vectored(handle, parts) {
            Ok(n) => Poll::Ready(Ok(n)),
            Err(error) => self.no_room(handle, error),
        }
    }

    pub(crate) fn no_room(&mut self, handle: TcpHandle, why: CallError) -> Poll<io::Result<usize>> {
        match why {
            CallError::WouldBlock => Poll::Pending,
            CallError::Closed => Poll::Ready(Err(error::broken_pipe())),
            CallError::Failed(ended) if !self.was_reported(handle) => {
                Poll::Ready(Err(self.report(handle, ended)))
            }
            CallError::Failed(_) => Poll::Ready(Err(error::broken_pipe())),
        }
    }

    fn was_reported(&self, handle: TcpHandle) -> bool {
        self.tcp.get(handle).is_none_or(|socket| socket.error_reported)
    }

    fn report(&mut self, handle: TcpHandle, ended: TcpError) -> io::Error {
        if let Some(socket) = self.tcp.get_mut(handle) {
            socket.error_reported = true;
        }
        match ended {
            TcpError::Reset if self.is_finished(handle) => error::broken_pipe(),
            TcpError::NetworkDown => error::network_down(self.stack.tcp_failure(handle)),
            _ => error::ended(ended),
        }
    }

    /// Has the peer's FIN arrived?
    fn is_finished(&self, handle: TcpHandle) -> bool {
        self.stack.tcp_readable(handle).is_none_or(|(_, finished)| finished)
    }

    /// Mark an error as not reported: the next call reports it.
    pub(crate) fn untell(&mut self, handle: TcpHandle) {
        if let Some(socket) = self.tcp.get_mut(handle) {
            socket.error_reported = false;
        }
    }

    /// SO_ERROR: the error that was not reported yet.
    pub(crate) fn take_error(&mut self, handle: TcpHandle) -> Option<io::Error> {
        match self.stack.tcp_state(handle)?.1 {
            Some(ended) if !self.was_reported(handle) => Some(self.report(handle, ended)),
            _ => None,
        }
    }

    /// Has the peer acknowledged everything, our FIN included, or is the connection over?
    pub(crate) fn poll_closed(&mut self, handle: TcpHandle) -> Poll<io::Result<()>> {
        match self.stack.tcp_state(handle) {
            Some((State::Closed, Some(ended))) if !self.was_reported(handle) => {
                Poll::Ready(Err(self.report(handle, ended)))
            }
            Some((State::Closed | State::TimeWait | State::FinWait2, _)) | None => {
                Poll::Ready(Ok(()))
            }
            Some(_) => Poll::Pending,
        }
    }

    pub(crate) fn shut_down(&mut self, handle: TcpHandle, how: Shutdown) -> io::Result<()> {
        match self.stack.tcp_state(handle) {
            Some((State::Closed | State::TimeWait, _)) | None => {
                return Err(error::not_connected());
            }
            Some(_) => {}
        }
        if how != Shutdown::Write {
            self.stack.tcp_shutdown_read(handle);
        }
        if how != Shutdown::Read {
            self.stack.tcp_shutdown_write(handle);
        }
        Ok(())
    }
}
