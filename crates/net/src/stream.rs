//! [`TcpStream`]: a connection, for tasks. Its blocking twin and the halves are made of it.
//!
//! Called by: programs. Every method takes `&self`; each call takes the stack's lock once, and what
//! it writes leaves inside the call. Every future here may be dropped at any time: nothing is lost
//! but what it had not begun.
//!
//! # Readiness
//! `readable` and `writable` say how things are, not how they were: they resolve as long as there
//! is something. A task is woken by an edge (data after none, room after none), so read until
//! [`io::ErrorKind::WouldBlock`] before waiting for the next.

use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;

use stack::TcpHandle;
use tcp::State;

use crate::inner::{Inner, poll_at};
use crate::wait::wait;
use crate::waiting::Readiness;
use crate::{Net, TcpSocket, error};

/// A TCP connection, for tasks of any runtime. Dropping it closes it: what was written is still
/// sent, but with data unread the peer gets a RST, as from Linux (RFC 2525 section 2.17).
pub struct TcpStream {
    net: Net,
    handle: TcpHandle,
}

impl TcpStream {
    /// The stream of a connection that is in the table of sockets.
    pub(crate) fn new(net: Net, handle: TcpHandle) -> TcpStream {
        TcpStream { net, handle }
    }

    /// Connect, with the default settings; [`TcpSocket`] has others.
    ///
    /// # Errors
    /// As `std::net::TcpStream::connect`: refused, timed out, unreachable, ...
    pub async fn connect(net: &Net, remote: SocketAddr) -> io::Result<TcpStream> {
        TcpSocket::new(net).connect(remote).await
    }

    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    pub(crate) fn handle(&self) -> TcpHandle {
        self.handle
    }

    /// The readiness to wait for before reading.
    pub(crate) fn read_readiness(&self) -> Readiness {
        Readiness::Read(self.handle)
    }

    /// The readiness to wait for before writing.
    pub(crate) fn write_readiness(&self) -> Readiness {
        Readiness::Write(self.handle)
    }

    /// Take the lock for a call that does not wait.
    pub(crate) fn now<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> io::Result<T> {
        Ok(f(&mut *self.net.shared().call()?))
    }

    fn attempt<T>(&self, f: impl FnOnce(&mut Inner) -> Poll<io::Result<T>>) -> io::Result<T> {
        match self.now(f)? {
            Poll::Ready(done) => done,
            Poll::Pending => Err(error::would_block()),
        }
    }

    pub(crate) async fn connected(&self) -> io::Result<()> {
        let handle = self.handle;
        let connected = move |inner: &mut Inner| inner.poll_connected(handle);
        wait(self.net.shared(), self.write_readiness(), connected).await
    }

    pub(crate) fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let look = |inner: &mut Inner| inner.poll_connected(self.handle);
        poll_at(self.net.shared(), self.write_readiness(), cx, look)
    }

    /// Wait until there is something to read, the end included, or an error to be told.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn readable(&self) -> io::Result<()> {
        let handle = self.handle;
        let look = move |inner: &mut Inner| inner.poll_readable(handle);
        wait(self.net.shared(), self.read_readiness(), look).await
    }

    /// Wait until there is room to write, or an error to be told.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn writable(&self) -> io::Result<()> {
        let handle = self.handle;
        let look = move |inner: &mut Inner| inner.poll_writable(handle);
        wait(self.net.shared(), self.write_readiness(), look).await
    }

    /// [`TcpStream::readable`] as a poll function; the last task that polled is woken.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let look = |inner: &mut Inner| inner.poll_readable(self.handle);
        poll_at(self.net.shared(), self.read_readiness(), cx, look)
    }

    /// [`TcpStream::writable`] as a poll function; the last task that polled is woken.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let look = |inner: &mut Inner| inner.poll_writable(self.handle);
        poll_at(self.net.shared(), self.write_readiness(), cx, look)
    }

    /// Read what is there; 0 is the peer's end.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or how the connection ended.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.attempt(|inner| inner.poll_read(self.handle, into))
    }

    /// [`TcpStream::try_read`] into several buffers.
    ///
    /// # Errors
    /// As `try_read`.
    pub fn try_read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.attempt(|inner| inner.poll_read_vectored(self.handle, into))
    }

    /// Write what there is room for.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], [`io::ErrorKind::BrokenPipe`], or how the connection ended.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        self.attempt(|inner| inner.poll_write(self.handle, data))
    }

    /// [`TcpStream::try_write`] from several buffers.
    ///
    /// # Errors
    /// As `try_write`.
    pub fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.attempt(|inner| inner.poll_write_vectored(self.handle, parts))
    }

    /// Copy what waits, and leave it to be read; waits until there is something.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let handle = self.handle;
        let look = move |inner: &mut Inner| inner.poll_peek(handle, into);
        wait(self.net.shared(), self.read_readiness(), look).await
    }

    /// [`TcpStream::peek`] as a poll function.
    pub fn poll_peek(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let look = |inner: &mut Inner| inner.poll_peek(self.handle, into);
        poll_at(self.net.shared(), self.read_readiness(), cx, look)
    }

    /// Read, as the traits of every runtime want it: the last task that polled is woken.
    pub fn poll_read(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let look = |inner: &mut Inner| inner.poll_read(self.handle, into);
        poll_at(self.net.shared(), self.read_readiness(), cx, look)
    }

    /// [`TcpStream::poll_read`] into several buffers.
    pub fn poll_read_vectored(
        &self,
        cx: &mut Context<'_>,
        into: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let look = |inner: &mut Inner| inner.poll_read_vectored(self.handle, into);
        poll_at(self.net.shared(), self.read_readiness(), cx, look)
    }

    /// Write, as the traits of every runtime want it: the last task that polled is woken.
    pub fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let look = |inner: &mut Inner| inner.poll_write(self.handle, data);
        poll_at(self.net.shared(), self.write_readiness(), cx, look)
    }

    /// [`TcpStream::poll_write`] from several buffers.
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let look = |inner: &mut Inner| inner.poll_write_vectored(self.handle, parts);
        poll_at(self.net.shared(), self.write_readiness(), cx, look)
    }

    /// Close one direction, or both. After `Write` the peer reads the end. Not `shutdown`, which
    /// is a method of the runtimes' traits and closes the writing direction.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] when the connection is over.
    pub fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        self.now(|inner| inner.shut_down(self.handle, how))?
    }

    /// Close, and wait until the peer has acknowledged all that was written, and the end of it:
    /// as long as [`TcpStream::set_linger`] says, or until it is so. Dropping the future closes
    /// without waiting. That the peer's program has read it, only its answer can say.
    ///
    /// # Errors
    /// How the connection ended, if it was before that; [`io::ErrorKind::TimedOut`] when the time
    /// is over (what is left is still sent).
    pub async fn close(self) -> io::Result<()> {
        self.close_writing()?;
        let (shared, handle) = (self.net.shared(), self.handle);
        let until = match self.linger()? {
            Some(time) if time.is_zero() => return Ok(()),
            time => time.map(|time| shared.now() + base::Duration::from(time)),
        };
        let mut alarm = crate::wait::Alarm::new(shared, until);
        let closed = wait(shared, self.write_readiness(), move |inner: &mut Inner| {
            inner.poll_closed(handle)
        });
        let mut closed = core::pin::pin!(closed);
        core::future::poll_fn(|cx| match closed.as_mut().poll(cx) {
            Poll::Pending => alarm.poll(cx).map(|at| at.and(Err(error::close_timed_out()))),
            ready => ready,
        })
        .await
    }

    /// What `poll_shutdown` of the runtimes' traits wants: over already is as good as closed.
    pub(crate) fn close_writing(&self) -> io::Result<()> {
        match self.shut_down(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        }
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addresses = self.now(|inner| inner.stack.tcp_addresses(self.handle))?;
        addresses.map(|(local, _)| local).ok_or_else(error::not_connected)
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] when the connection is over.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.now(|inner| match inner.stack.tcp_state(self.handle) {
            Some((State::Closed | State::TimeWait, _)) | None => Err(error::not_connected()),
            Some(_) => {
                let addresses = inner.stack.tcp_addresses(self.handle);
                addresses.map(|(_, remote)| remote).ok_or_else(error::not_connected)
            }
        })?
    }

    /// The error that no call has reported yet (SO_ERROR), once.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.now(|inner| inner.take_error(self.handle))
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if let Ok(mut call) = self.net.shared().call() {
            call.close_tcp(self.handle);
        }
    }
}

impl core::fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TcpStream").field("handle", &self.handle).finish_non_exhaustive()
    }
}
