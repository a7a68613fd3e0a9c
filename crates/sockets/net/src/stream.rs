//! [`TcpStream`]: a TCP connection as async tasks use it. The blocking stream and the read and
//! write halves wrap it.
//!
//! Called by: programs. All methods take `&self`. Each call takes the stack's lock once, and the
//! packets that it caused are sent before it returns. Any future may be dropped at any time; no
//! data is lost.
//!
//! # Readiness
//! `readable` and `writable` report the current state: they resolve while there is data or room. A
//! task that waits is woken only by a change (data after there was none, room after there was
//! none), so read until [`io::ErrorKind::WouldBlock`] before you wait again.

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

/// A TCP connection, for tasks of any runtime. Dropping it closes it: written data is still sent,
/// but with unread data the peer gets a RST, as from Linux (RFC 2525 section 2.17).
///
/// With tokio's traits, which need feature `tokio`:
/// ```
/// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// # use wirespeed::net::Net;
/// use wirespeed::net::{TcpListener, TcpStream};
/// # use wirespeed::pair::{PairConfig, pair};
/// # let (client, server) = pair(&PairConfig::new([1, 2]));
/// # let at = std::net::SocketAddr::new(server.addr, 7);
/// # let (net, _driver) = Net::spawn_thread(client.stack)?;
/// # let (server, _other) = Net::spawn_thread(server.stack)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let listener = TcpListener::bind(&server, at)?;
/// let mut stream = TcpStream::connect(&net, at).await?;
/// let (mut accepted, _from) = listener.accept().await?;
/// stream.write_all(b"hello").await?;
/// stream.close().await?; // the peer has acknowledged all of it
/// let mut text = String::new();
/// accepted.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpStream {
    net: Net,
    handle: TcpHandle,
}

impl TcpStream {
    /// The stream of a connection that already has an entry in the table of sockets.
    pub(crate) fn new(net: Net, handle: TcpHandle) -> TcpStream {
        TcpStream { net, handle }
    }

    /// Connect, with the default settings. A [`TcpSocket`] connects with other settings.
    ///
    /// # Errors
    /// As `std::net::TcpStream::connect`: the connection was refused, timed out, the peer is
    /// unreachable, and others.
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

    /// Take the lock for a call that does not wait, and call `f`.
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

    /// Has the handshake ended, of a stream that [`TcpSocket::start`] or
    /// [`crate::Request::answer`] made? Only the task that polled last for writing is woken.
    ///
    /// # Errors
    /// The error that ended the handshake.
    pub fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let look = |inner: &mut Inner| inner.poll_connected(self.handle);
        poll_at(self.net.shared(), self.write_readiness(), cx, look)
    }

    /// Wait until there is data, the end of the stream, or an error to report.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn readable(&self) -> io::Result<()> {
        let handle = self.handle;
        let look = move |inner: &mut Inner| inner.poll_readable(handle);
        wait(self.net.shared(), self.read_readiness(), look).await
    }

    /// Wait until there is room to write, or an error to report.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn writable(&self) -> io::Result<()> {
        let handle = self.handle;
        let look = move |inner: &mut Inner| inner.poll_writable(handle);
        wait(self.net.shared(), self.write_readiness(), look).await
    }

    /// [`TcpStream::readable`] as a poll function. Only the task that polled last is woken.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let look = |inner: &mut Inner| inner.poll_readable(self.handle);
        poll_at(self.net.shared(), self.read_readiness(), cx, look)
    }

    /// [`TcpStream::writable`] as a poll function. Only the task that polled last is woken.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let look = |inner: &mut Inner| inner.poll_writable(self.handle);
        poll_at(self.net.shared(), self.write_readiness(), cx, look)
    }

    /// Read without waiting; 0 is the end of the stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or the error with which the connection ended.
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

    /// Write as much as there is room for, without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], [`io::ErrorKind::BrokenPipe`], or the error with which the
    /// connection ended.
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

    /// Wait for data and copy it to `into`. The data also stays in the receive buffer.
    ///
    /// # Errors
    /// The error with which the connection ended.
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

    /// Read, as the traits of the async runtimes define it. Only the task that polled last is
    /// woken.
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

    /// Write, as the traits of the async runtimes define it. Only the task that polled last is
    /// woken.
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

    /// Shut down one direction, or both. After `Write` the peer's reads return the end of the
    /// stream. The method is not called `shutdown`, because the runtimes' traits have a method of
    /// that name, which shuts down the write direction.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] when the connection is over.
    pub fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        self.now(|inner| inner.shut_down(self.handle, how))?
    }

    /// Close, and wait until the peer has acknowledged all data and the FIN, for at most the time
    /// of [`TcpStream::set_linger`] if one is set. Dropping the future closes without waiting. An
    /// acknowledgment does not mean that the peer's program has read the data; only an answer from
    /// that program does.
    ///
    /// # Errors
    /// The error with which the connection ended, if it ended before everything was acknowledged;
    /// [`io::ErrorKind::TimedOut`] after the linger time (the stack goes on sending).
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

    /// Shut down the write direction. If the connection is over, this is not an error: the traits
    /// of the runtimes require that.
    pub(crate) fn close_writing(&self) -> io::Result<()> {
        match self.shut_down(Shutdown::Write) {
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Err(error),
            _ => Ok(()),
        }
    }

    /// The local address.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addresses = self.now(|inner| inner.stack.tcp_addresses(self.handle))?;
        addresses.map(|(local, _)| local).ok_or_else(error::not_connected)
    }

    /// The peer's address.
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

    /// Take the error that no call has reported yet (SO_ERROR).
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
