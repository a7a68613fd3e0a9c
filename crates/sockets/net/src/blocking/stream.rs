//! [`TcpStream`] and [`TcpListener`] for threads.
//!
//! Called by: programs. `wait.rs` does the waiting.

use core::net::SocketAddr;
use core::ops::Deref;
use core::sync::atomic::Ordering;
use core::task::Poll;
use core::time::Duration;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Instant;

use super::{BlockingMode, set, value};
use crate::inner::Inner;
use crate::{Net, Received, TcpSocket, error, wait};

/// A TCP connection, for threads; options and addresses are those of [`crate::TcpStream`].
pub struct TcpStream(Arc<Open>);

struct Open {
    /// `None` only after `into_async` took it.
    stream: Option<crate::TcpStream>,
    mode: BlockingMode,
}

impl Open {
    fn stream(&self) -> &crate::TcpStream {
        self.stream.as_ref().expect("it is taken together with its last handle")
    }
}

impl Drop for Open {
    /// With SO_LINGER set, dropping the last handle waits for the peer's acknowledgments. Errors
    /// cannot be reported from here.
    fn drop(&mut self) {
        let Some(stream) = &self.stream else { return };
        let Ok(Some(time)) = stream.linger() else { return };
        if time.is_zero() || self.mode.nonblocking.load(Ordering::Relaxed) {
            return;
        }
        // With unread data, closing resets the connection, and nothing is sent after that.
        let handle = stream.handle();
        let unread = |inner: &mut Inner| inner.stack.tcp_readable(handle).is_some_and(|r| r.0 > 0);
        if stream.now(unread).unwrap_or(true) || stream.close_writing().is_err() {
            return;
        }
        let until = Instant::now().checked_add(time);
        let look = |inner: &mut Inner| inner.poll_closed(handle);
        let _ = wait::block_on(stream.net().shared(), stream.write_readiness(), until, look);
    }
}

impl TcpStream {
    /// Connect, with the default settings.
    ///
    /// # Errors
    /// As `std::net::TcpStream::connect`.
    pub fn connect(net: &Net, remote: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect_with(&TcpSocket::new(net), remote, None)
    }

    /// Connect within `timeout`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], and as `connect`.
    pub fn connect_timeout(
        net: &Net,
        remote: SocketAddr,
        timeout: Duration,
    ) -> io::Result<TcpStream> {
        TcpStream::connect_with(&TcpSocket::new(net), remote, Some(timeout))
    }

    /// Connect with the settings of `socket`.
    ///
    /// # Errors
    /// As `connect_timeout`.
    pub fn connect_with(
        socket: &TcpSocket,
        remote: SocketAddr,
        timeout: Option<Duration>,
    ) -> io::Result<TcpStream> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            let text = "a time-out of zero: use `connect` for none";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let stream = socket.start(remote)?;
        let handle = stream.handle();
        let look = |inner: &mut Inner| inner.poll_connected(handle);
        wait::block_on(socket.net().shared(), stream.write_readiness(), until, look)?
            .ok_or_else(error::connect_timed_out)?;
        Ok(stream.into())
    }

    /// The stream for tasks, if this is the only handle.
    ///
    /// # Errors
    /// The stream itself, if it has clones.
    pub fn into_async(self) -> Result<crate::TcpStream, TcpStream> {
        let mut open = Arc::try_unwrap(self.0).map_err(TcpStream)?;
        Ok(open.stream.take().expect("it is taken together with its last handle"))
    }

    /// Another handle of the same connection; both share its time-outs.
    ///
    /// # Errors
    /// None today.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(TcpStream(self.0.clone()))
    }

    /// The longest time that a read waits; `None`: without limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.mode.read_timeout_ns, timeout)
    }

    /// The longest time that a write waits; `None`: without limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.mode.write_timeout_ns, timeout)
    }

    /// See [`TcpStream::set_read_timeout`].
    ///
    /// # Errors
    /// None today.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(value(&self.0.mode.read_timeout_ns))
    }

    /// See [`TcpStream::set_write_timeout`].
    ///
    /// # Errors
    /// None today.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(value(&self.0.mode.write_timeout_ns))
    }

    /// Make the socket nonblocking, or blocking again. A call on a nonblocking socket that would
    /// have to wait returns [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// None today.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.0.mode.nonblocking.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// Shut down one direction, or both. After `Write` the peer's reads return the end of the
    /// stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] when the connection is over.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.shut_down(how)
    }

    /// Wait for data and copy it to `into`. The data also stays in the receive buffer.
    ///
    /// # Errors
    /// As `read`.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let handle = self.handle();
        self.reading(|inner| inner.poll_peek(handle, into))
    }

    /// Wait for data, and take the buffer that holds it; `None` is the end of the stream.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_loan(&self) -> io::Result<Option<Received>> {
        let handle = self.handle();
        let m = self.reading(|inner| inner.poll_read_mbuf(handle))?;
        Ok(m.map(Received::new))
    }

    pub(crate) fn reading<T>(
        &self,
        look: impl FnMut(&mut Inner) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        self.0.mode.read(self.net().shared(), self.read_readiness(), look)
    }

    pub(crate) fn writing<T>(
        &self,
        look: impl FnMut(&mut Inner) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        self.0.mode.write(self.net().shared(), self.write_readiness(), look)
    }
}

impl From<crate::TcpStream> for TcpStream {
    fn from(stream: crate::TcpStream) -> TcpStream {
        TcpStream(Arc::new(Open { stream: Some(stream), mode: BlockingMode::default() }))
    }
}

impl Deref for TcpStream {
    type Target = crate::TcpStream;

    fn deref(&self) -> &crate::TcpStream {
        self.0.stream()
    }
}

impl Read for &TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let handle = self.handle();
        self.reading(|inner| inner.poll_read(handle, into))
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let handle = self.handle();
        self.reading(|inner| inner.poll_read_vectored(handle, into))
    }
}

impl Write for &TcpStream {
    /// A blocking write returns when the stack has taken all of `data`, as on Linux. After a
    /// time-out, or on a nonblocking socket, it may have taken less.
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let handle = self.handle();
        let mut done = 0;
        let written = self.writing(|inner| {
            loop {
                match inner.poll_write(handle, &data[done..]) {
                    Poll::Ready(Ok(n)) => {
                        done += n;
                        if done == data.len() {
                            return Poll::Ready(Ok(()));
                        }
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        match written {
            // Report the bytes that were taken; the next call reports the error.
            Err(error) if done > 0 => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    self.now(|inner| inner.untell(handle))?;
                }
                Ok(done)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(done),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let handle = self.handle();
        self.writing(|inner| inner.poll_write_vectored(handle, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(into)
    }
}

impl Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TCP listener, for threads.
pub struct TcpListener {
    listener: crate::TcpListener,
    mode: BlockingMode,
}

impl TcpListener {
    /// Listen. An unspecified address stands for all addresses of the stack, port 0 for any free
    /// port.
    ///
    /// # Errors
    /// As `std::net::TcpListener::bind`.
    pub fn bind(net: &Net, local: SocketAddr) -> io::Result<TcpListener> {
        Ok(crate::TcpListener::bind(net, local)?.into())
    }

    /// Wait for a connection.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let listener = &self.listener;
        let shared = listener.net().shared();
        let (stream, remote) = self.mode.read(shared, listener.readiness(), listener.look())?;
        Ok((stream.into(), remote))
    }

    /// Make the listener nonblocking, or blocking again.
    ///
    /// # Errors
    /// None today.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.mode.nonblocking.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// The address on which the listener listens.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl From<crate::TcpListener> for TcpListener {
    fn from(listener: crate::TcpListener) -> TcpListener {
        TcpListener { listener, mode: BlockingMode::default() }
    }
}
