//! [`UdpSocket`] for threads.
//!
//! Called by: programs. `wait.rs` does the waiting.

use core::net::{IpAddr, SocketAddr};
use core::ops::Deref;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::io::{self, IoSliceMut};

use stack::UdpReceived;

use super::{BlockingMode, set};
use crate::Net;
use crate::waiting::Readiness;

/// A UDP socket, for threads. `connect`, `peer_addr` and `local_addr` are those of
/// [`crate::UdpSocket`].
pub struct UdpSocket {
    socket: crate::UdpSocket,
    mode: BlockingMode,
}

impl UdpSocket {
    /// Bind. An unspecified address stands for all addresses of the stack, port 0 for any free
    /// port.
    ///
    /// # Errors
    /// As `std::net::UdpSocket::bind`.
    pub fn bind(net: &Net, local: SocketAddr) -> io::Result<UdpSocket> {
        let socket = crate::UdpSocket::bind(net, local)?;
        Ok(UdpSocket { socket, mode: BlockingMode::default() })
    }

    /// Bind and connect in one step: [`crate::UdpSocket::bind_connected`].
    ///
    /// # Errors
    /// As `bind`; [`io::ErrorKind::AddrInUse`] if a socket with the same local address and peer
    /// exists.
    pub fn bind_connected(net: &Net, local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
        let socket = crate::UdpSocket::bind_connected(net, local, peer)?;
        Ok(UdpSocket { socket, mode: BlockingMode::default() })
    }

    /// Wait for a datagram; returns the number of bytes copied, and the sender.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the time-out.
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let shared = self.socket.net().shared();
        self.mode.read(shared, self.socket.readiness(), self.socket.look_receive(into))
    }

    /// [`UdpSocket::recv_from`] on a connected socket.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.peer_addr()?;
        Ok(self.recv_from(into)?.0)
    }

    /// [`UdpSocket::recv_from`], but the datagram also stays in the queue.
    ///
    /// # Errors
    /// As `recv_from`.
    pub fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let shared = self.socket.net().shared();
        self.mode.read(shared, self.socket.readiness(), self.socket.look_peek(into))
    }

    /// Send one datagram. The call waits while the device is full.
    ///
    /// # Errors
    /// `to` is unreachable, or the datagram is longer than an IP packet can be.
    pub fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        let shared = self.socket.net().shared();
        self.mode.write(shared, Readiness::Room, self.socket.look_send(data, to))
    }

    /// [`UdpSocket::send_to`] to the connected peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.send_to(data, self.socket.peer_addr()?)
    }

    /// Wait for a datagram, and take all that have arrived: [`crate::UdpSocket::recv_many`].
    ///
    /// # Errors
    /// As `recv_from`.
    pub fn recv_many(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut Vec<UdpReceived>,
    ) -> io::Result<usize> {
        let shared = self.socket.net().shared();
        let look = self.socket.look_receive_many(bufs, received);
        self.mode.read(shared, self.socket.readiness(), look)
    }

    /// Send datagrams in order: [`crate::UdpSocket::send_many`].
    ///
    /// # Errors
    /// As `send_to`; reported only if the first datagram could not be sent.
    pub fn send_many(&self, datagrams: &[(SocketAddr, &[u8])]) -> io::Result<usize> {
        let look = self.socket.look_send_many(datagrams);
        self.mode.write(self.socket.net().shared(), Readiness::Room, look)
    }

    /// Send `data` in datagrams of `segment_size` bytes: [`crate::UdpSocket::send_segments`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]; others as `send_to`.
    pub fn send_segments(
        &self,
        data: &[u8],
        segment_size: usize,
        to: SocketAddr,
    ) -> io::Result<usize> {
        let look = self.socket.look_send_segments(data, segment_size, to);
        self.mode.write(self.socket.net().shared(), Readiness::Room, look)
    }

    /// Send one datagram with the source address `from`, one of the stack's.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`]; others as `send_to`.
    pub fn send_from(&self, data: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<usize> {
        let look = self.socket.look_send_from(data, from, to);
        self.mode.write(self.socket.net().shared(), Readiness::Room, look)
    }

    /// The longest time that a receive waits; `None` is no limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.mode.read_timeout_ns, timeout)
    }

    /// The longest time that a send waits; `None` is no limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.mode.write_timeout_ns, timeout)
    }

    /// Make the socket nonblocking, or blocking again.
    ///
    /// # Errors
    /// None today.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.mode.nonblocking.store(on, Ordering::Relaxed);
        Ok(())
    }
}

impl Deref for UdpSocket {
    type Target = crate::UdpSocket;

    fn deref(&self) -> &crate::UdpSocket {
        &self.socket
    }
}
