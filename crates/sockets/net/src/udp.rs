//! [`UdpSocket`]: datagrams (RFC 768), for tasks.
//!
//! Called by: programs. A receive into a buffer that is shorter than the datagram drops the rest,
//! as in `std`. A send waits while the device is full.

mod groups;
mod many;
mod options;

use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::io;
use std::sync::OnceLock;

use base::Owner;
use stack::{Stack, UdpError, UdpHandle};

use crate::inner::{Inner, poll_at};
use crate::wait::wait;
use crate::waiting::{Readiness, WaitQueue};
use crate::{Net, error};

/// A UDP socket, for tasks of any runtime.
///
/// ```
/// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
/// # use wirespeed::net::Net;
/// use wirespeed::net::UdpSocket;
/// # use wirespeed::pair::{PairConfig, pair};
/// # let (client, server) = pair(&PairConfig::new([1, 2]));
/// # let at = std::net::SocketAddr::new(server.addr, 7);
/// # let (net, _driver) = Net::spawn_thread(client.stack)?;
/// # let (server, _other) = Net::spawn_thread(server.stack)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let there = UdpSocket::bind(&server, at)?;
/// let here = UdpSocket::bind(&net, (std::net::Ipv4Addr::UNSPECIFIED, 0).into())?;
/// here.send_to(b"hello", at).await?;
/// let mut room = [0; 64];
/// let (n, _from) = there.recv_from(&mut room).await?;
/// assert_eq!(&room[..n], b"hello");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSocket {
    net: Net,
    handle: UdpHandle,
    local: SocketAddr,
    peer: OnceLock<SocketAddr>,
}

impl UdpSocket {
    /// Bind to an address of the stack. An unspecified address stands for all addresses, port 0 for
    /// any free port. A socket may be bound to a broadcast address, to receive. Several sockets may
    /// be bound to the address of a group, which they still have to join.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit was hit.
    pub fn bind(net: &Net, local: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind_by(net, local, Stack::udp_bind)
    }

    /// [`UdpSocket::bind`] to an address that need not be the stack's (Linux's IP_TRANSPARENT). The
    /// socket also sends from this address.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], or a limit was hit.
    pub fn bind_transparent(net: &Net, local: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind_by(net, local, Stack::udp_bind_transparent)
    }

    fn bind_by(
        net: &Net,
        mut local: SocketAddr,
        bind: fn(&mut Stack, SocketAddr, Owner) -> Result<UdpHandle, UdpError>,
    ) -> io::Result<UdpSocket> {
        let mut call = net.shared().call()?;
        let owner = call.owner.clone();
        let handle = bind(&mut call.stack, local, owner).map_err(error::udp)?;
        local.set_port(call.stack.udp_local(handle).map_or(0, |(_, port)| port));
        call.udp.insert(handle, WaitQueue::default());
        drop(call);
        Ok(UdpSocket { net: net.clone(), handle, local, peer: OnceLock::new() })
    }

    /// Bind and connect in one step. Other sockets may be bound to the same address: any number
    /// with other peers, and one without a peer. The socket without a peer gets the datagrams whose
    /// sender is the peer of no other socket.
    ///
    /// # Errors
    /// As [`UdpSocket::bind`]; [`io::ErrorKind::AddrInUse`] if a socket with the same local address
    /// and peer exists.
    pub fn bind_connected(
        net: &Net,
        mut local: SocketAddr,
        peer: SocketAddr,
    ) -> io::Result<UdpSocket> {
        let mut call = net.shared().call()?;
        let owner = call.owner.clone();
        let bound = call.stack.udp_bind_connected(local, peer, owner);
        let handle = bound.map_err(error::udp)?;
        local.set_port(call.stack.udp_local(handle).map_or(0, |(_, port)| port));
        call.udp.insert(handle, WaitQueue::default());
        drop(call);
        Ok(UdpSocket { net: net.clone(), handle, local, peer: OnceLock::from(peer) })
    }

    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    pub(crate) fn readiness(&self) -> Readiness {
        Readiness::Datagram(self.handle)
    }

    /// Set the peer. From now on the socket sends to the peer, and receives from it alone. The peer
    /// cannot be changed.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the socket has another peer already; the driver is gone.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        if *self.peer.get_or_init(|| peer) != peer {
            let text = "the socket has another peer: bind a new one";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut call = self.net.shared().call()?;
        call.stack.udp_connect(self.handle, peer).map_err(error::udp)
    }

    pub(crate) fn look_receive(
        &self,
        into: &mut [u8],
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<(usize, SocketAddr)>> {
        let (handle, connected) = (self.handle, self.peer.get().is_some());
        move |inner| {
            if !inner.udp.contains_key(handle) {
                return Poll::Ready(Err(error::aborted()));
            }
            if let Some(error) = refused(inner, handle, connected) {
                return Poll::Ready(Err(error));
            }
            let Some(datagram) = inner.stack.udp_receive(handle) else { return Poll::Pending };
            let payload = datagram.payload.as_slice();
            let n = payload.len().min(into.len());
            into[..n].copy_from_slice(&payload[..n]);
            let from = datagram.from;
            inner.stack.give_back(datagram.payload);
            Poll::Ready(Ok((n, from)))
        }
    }

    pub(crate) fn look_peek(
        &self,
        into: &mut [u8],
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<(usize, SocketAddr)>> {
        let handle = self.handle;
        move |inner| match inner.stack.udp_peek(handle, into) {
            Some(peeked) => Poll::Ready(Ok(peeked)),
            None => Poll::Pending,
        }
    }

    pub(crate) fn look_send(
        &self,
        data: &[u8],
        to: SocketAddr,
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<usize>> {
        let (handle, connected) = (self.handle, self.peer.get().is_some());
        move |inner| {
            if let Some(error) = refused(inner, handle, connected) {
                return Poll::Ready(Err(error));
            }
            match inner.stack.udp_send(handle, to, data, base::Instant::ZERO) {
                Ok(()) => Poll::Ready(Ok(data.len())),
                Err(UdpError::WouldBlock) => Poll::Pending,
                Err(other) => Poll::Ready(Err(error::udp(other))),
            }
        }
    }

    fn attempt<T>(&self, mut look: impl FnMut(&mut Inner) -> Poll<io::Result<T>>) -> io::Result<T> {
        match look(&mut *self.net.shared().call()?) {
            Poll::Ready(done) => done,
            Poll::Pending => Err(error::would_block()),
        }
    }

    /// The peer that [`UdpSocket::connect`] set.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.peer.get().copied().ok_or_else(error::not_connected)
    }

    /// The address to which the socket is bound.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    /// Wait for a datagram; returns the number of bytes copied, and the sender.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        wait(self.net.shared(), self.readiness(), self.look_receive(into)).await
    }

    /// [`UdpSocket::recv_from`] on a connected socket.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub async fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.peer_addr()?;
        Ok(self.recv_from(into).await?.0)
    }

    /// [`UdpSocket::recv_from`], but the datagram also stays in the queue.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        wait(self.net.shared(), self.readiness(), self.look_peek(into)).await
    }

    /// [`UdpSocket::recv_from`] as a poll function. Only the task that polled last is woken.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        poll_at(self.net.shared(), self.readiness(), cx, self.look_receive(into))
    }

    /// Receive a datagram without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no datagram waits.
    pub fn try_recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.attempt(self.look_receive(into))
    }

    /// [`UdpSocket::try_recv_from`], but the datagram also stays in the queue.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no datagram waits.
    pub fn try_peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.attempt(self.look_peek(into))
    }

    /// Send a datagram, in fragments if it is larger than the path's MTU. The call waits while the
    /// device is full.
    ///
    /// # Errors
    /// `to` is unreachable, or the datagram is longer than an IP packet can be (the system's
    /// EMSGSIZE).
    pub async fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        wait(self.net.shared(), Readiness::Room, self.look_send(data, to)).await
    }

    /// [`UdpSocket::send_to`] to the connected peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub async fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.send_to(data, self.peer_addr()?).await
    }

    /// Send without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], unreachable, or longer than an IP packet can be.
    pub fn try_send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.attempt(self.look_send(data, to))
    }

    /// Wait until a datagram can be received.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn readable(&self) -> io::Result<()> {
        wait(self.net.shared(), self.readiness(), self.look_readable()).await
    }

    /// [`UdpSocket::readable`] as a poll function. Only the task that polled last is woken.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_at(self.net.shared(), self.readiness(), cx, self.look_readable())
    }

    pub(crate) fn look_readable(&self) -> impl FnMut(&mut Inner) -> Poll<io::Result<()>> + use<> {
        let handle = self.handle;
        move |inner| match inner.udp.contains_key(handle) {
            true if inner.stack.udp_readable(handle) => Poll::Ready(Ok(())),
            true => Poll::Pending,
            false => Poll::Ready(Err(error::aborted())),
        }
    }
}

/// The pending ICMP error of a connected socket, which the next call reports, once. An unconnected
/// socket gets none, as on Linux, because the error could be about any datagram that the socket
/// ever sent. A socket with an error queue learns which datagram it is about.
fn refused(inner: &mut Inner, handle: UdpHandle, connected: bool) -> Option<io::Error> {
    let asks = || inner.stack.udp_options(handle).is_some_and(|options| options.error_queue);
    if !connected && !asks() {
        return None;
    }
    inner.stack.udp_take_error(handle).map(|(_, why)| error::undelivered(why))
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        if let Ok(mut call) = self.net.shared().call() {
            call.stack.udp_close(self.handle);
            if let Some(wait_queue) = call.udp.remove(self.handle) {
                call.forget(wait_queue);
            }
        }
    }
}
