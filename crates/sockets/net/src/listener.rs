//! [`TcpListener`]: accepts connections, for tasks.
//!
//! Called by: programs. Accepted connections inherit the listener's settings. Dropping a listener
//! resets the connections that were not accepted.

use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::io;

use stack::ListenerHandle;

use crate::inner::{Inner, poll_at};
use crate::wait::wait;
use crate::waiting::Readiness;
use crate::{Net, TcpSocket, TcpStream, error};

/// The backlog of [`TcpListener::bind`]; [`TcpSocket::listen`] takes it as an argument.
const BACKLOG: usize = 1024;

/// A TCP listener, for tasks of any runtime.
///
/// ```
/// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
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
/// let stream = TcpStream::connect(&net, at).await?;
/// let (_accepted, from) = listener.accept().await?;
/// assert_eq!(from, stream.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener {
    net: Net,
    handle: ListenerHandle,
    local: SocketAddr,
}

impl TcpListener {
    pub(crate) fn new(net: Net, handle: ListenerHandle, local: SocketAddr) -> TcpListener {
        TcpListener { net, handle, local }
    }

    /// Listen. An unspecified address stands for all addresses of the stack, port 0 for any free
    /// port.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit was hit.
    pub fn bind(net: &Net, local: SocketAddr) -> io::Result<TcpListener> {
        TcpSocket::new(net).bind(local).listen(BACKLOG)
    }

    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    pub(crate) fn readiness(&self) -> Readiness {
        Readiness::Accept(self.handle)
    }

    /// A closure that accepts a waiting connection on the locked stack.
    pub(crate) fn look(
        &self,
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<(TcpStream, SocketAddr)>> + use<> {
        let (net, handle) = (self.net.clone(), self.handle);
        move |inner| {
            if !inner.listeners.contains_key(handle) {
                return Poll::Ready(Err(error::aborted()));
            }
            while let Some(connection) = inner.stack.tcp_accept(handle) {
                if let Some((_, remote)) = inner.stack.tcp_addresses(connection) {
                    inner.adopt(connection, false);
                    return Poll::Ready(Ok((TcpStream::new(net.clone(), connection), remote)));
                }
            }
            Poll::Pending
        }
    }

    /// Wait for a connection. Dropping the future loses no connection.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        wait(self.net.shared(), self.readiness(), self.look()).await
    }

    /// [`TcpListener::accept`] as a poll function. Only the task that polled last is woken.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        poll_at(self.net.shared(), self.readiness(), cx, self.look())
    }

    /// Accept a connection without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no connection waits.
    pub fn try_accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self.look()(&mut *self.net.shared().call()?) {
            Poll::Ready(accepted) => accepted,
            Poll::Pending => Err(error::would_block()),
        }
    }

    /// The address on which the listener listens.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        if let Ok(mut call) = self.net.shared().call() {
            call.unlisten(self.handle);
        }
    }
}
