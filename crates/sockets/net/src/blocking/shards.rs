//! [`ShardsListener`] and [`ShardsUdpSocket`] for threads.
//!
//! Called by: programs. A thread that waits for several shards does not drive them; their drivers
//! do.

use core::net::SocketAddr;
use core::ops::Deref;
use core::time::Duration;
use std::io;
use std::time::Instant;

use super::{BlockingMode, TcpStream, set, value};
use crate::wait::block_on_future;
use crate::{Shards, error};

/// A TCP listener over several shards, for threads.
pub struct ShardsListener(crate::ShardsListener);

impl ShardsListener {
    /// Listen: [`crate::ShardsListener::bind`].
    ///
    /// # Errors
    /// As `std::net::TcpListener::bind`.
    pub fn bind(shards: &Shards, local: SocketAddr) -> io::Result<ShardsListener> {
        Ok(crate::ShardsListener::bind(shards, local)?.into())
    }

    /// Wait for a connection.
    ///
    /// # Errors
    /// A driver is gone.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = block_on_future(None, self.0.accept())?;
        let (stream, remote) = accepted.ok_or_else(error::would_block)?;
        Ok((stream.into(), remote))
    }
}

impl From<crate::ShardsListener> for ShardsListener {
    fn from(listener: crate::ShardsListener) -> ShardsListener {
        ShardsListener(listener)
    }
}

impl Deref for ShardsListener {
    type Target = crate::ShardsListener;

    fn deref(&self) -> &crate::ShardsListener {
        &self.0
    }
}

/// A UDP socket over several shards, for threads.
pub struct ShardsUdpSocket {
    socket: crate::ShardsUdpSocket,
    mode: BlockingMode,
}

impl ShardsUdpSocket {
    /// Bind: [`crate::ShardsUdpSocket::bind`].
    ///
    /// # Errors
    /// As `std::net::UdpSocket::bind`.
    pub fn bind(shards: &Shards, local: SocketAddr) -> io::Result<ShardsUdpSocket> {
        let socket = crate::ShardsUdpSocket::bind(shards, local)?;
        Ok(ShardsUdpSocket { socket, mode: BlockingMode::default() })
    }

    /// Wait for a datagram; returns the number of bytes copied, and the sender.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the time-out.
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let timeout = value(&self.mode.read_timeout_ns);
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        block_on_future(until, self.socket.recv_from(into))?.ok_or_else(error::would_block)
    }

    /// Send one datagram. The call waits while the device is full.
    ///
    /// # Errors
    /// `to` is unreachable, or the datagram is longer than an IP packet can be.
    pub fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        block_on_future(None, self.socket.send_to(data, to))?.ok_or_else(error::would_block)
    }

    /// The longest time that a receive waits; `None` is no limit.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.mode.read_timeout_ns, timeout)
    }
}

impl Deref for ShardsUdpSocket {
    type Target = crate::ShardsUdpSocket;

    fn deref(&self) -> &crate::ShardsUdpSocket {
        &self.socket
    }
}
