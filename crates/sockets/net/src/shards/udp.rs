//! [`ShardsUdpSocket`]: a UDP socket that is bound at all shards and receives from any of them. RFC
//! 768.
//!
//! Called by: programs. Datagrams of one flow keep their order, because one shard handles them all.
//! Datagrams of different flows may overtake each other.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;

use super::{PORTS_TRIED, Shards};
use crate::wait::{wait, wait_for_any};
use crate::{UdpSocket, error};

/// A UDP socket over several shards, for tasks of any runtime. It has no peer.
pub struct ShardsUdpSocket {
    shards: Shards,
    each: Vec<UdpSocket>,
    local: SocketAddr,
    /// Counts the calls, to choose the shard that is asked first.
    turn: AtomicUsize,
}

impl ShardsUdpSocket {
    /// Bind. An unspecified address stands for all addresses of the host, port 0 for any port that
    /// is free at all shards.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit was hit.
    pub fn bind(shards: &Shards, local: SocketAddr) -> io::Result<ShardsUdpSocket> {
        let mut tries = if local.port() == 0 { PORTS_TRIED } else { 1 };
        loop {
            tries -= 1;
            match ShardsUdpSocket::at_one_port(shards, local) {
                Err(why) if why.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
                result => return result,
            }
        }
    }

    fn at_one_port(shards: &Shards, mut local: SocketAddr) -> io::Result<ShardsUdpSocket> {
        let mut each = Vec::new();
        for net in shards.nets() {
            let socket = UdpSocket::bind(net, local)?;
            local = socket.local_addr()?;
            each.push(socket);
        }
        Ok(ShardsUdpSocket { shards: shards.clone(), each, local, turn: AtomicUsize::new(0) })
    }

    /// The sockets of the shards, so that the program can set options and join groups. Groups are
    /// joined at the first socket, which receives the datagrams to them.
    pub fn each(&self) -> &[UdpSocket] {
        &self.each
    }

    /// Wait for a datagram; returns the number of bytes copied, and the sender.
    ///
    /// # Errors
    /// A driver is gone.
    pub async fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        loop {
            match self.try_recv_from(into) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            let each = self.each.iter();
            let waits = each.map(|s| wait(s.net().shared(), s.readiness(), s.look_readable()));
            wait_for_any(waits.collect(), 0).await?;
        }
    }

    /// Receive a datagram without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`].
    pub fn try_recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for number in 0..self.each.len() {
            match self.each[(first + number) % self.each.len()].try_recv_from(into) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
        Err(error::would_block())
    }

    /// Send a datagram by the shard to which its flow belongs. The call waits while the device is
    /// full.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`].
    pub async fn send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.towards(to).send_to(data, to).await
    }

    /// Send without waiting.
    ///
    /// # Errors
    /// As [`UdpSocket::try_send_to`].
    pub fn try_send_to(&self, data: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.towards(to).try_send_to(data, to)
    }

    /// The socket that sends datagrams to `to`: always the same one, so that they keep their order.
    /// Replies come to the socket of the shard to which their own flow belongs.
    fn towards(&self, to: SocketAddr) -> &UdpSocket {
        // The first shard is a member of the group, so only it can loop the datagram back.
        let index = if to.ip().is_multicast() { 0 } else { self.shards.index_of(self.local, to) };
        &self.each[index]
    }

    /// The address to which the socket is bound.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}
