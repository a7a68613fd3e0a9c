//! [`ShardsListener`]: listens at all shards, and accepts from any.
//!
//! Called by: programs. The shard to which a connection's flow belongs accepts the connection. Each
//! shard has its own queue, as long as the backlog.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;

use super::{PORTS_TRIED, Shards};
use crate::wait::{wait, wait_for_any};
use crate::{TcpListener, TcpSocket, TcpStream, error};

/// The backlog of each shard's listener in [`ShardsListener::bind`].
const BACKLOG: usize = 1024;

/// A TCP listener over several shards, for tasks of any runtime.
pub struct ShardsListener {
    each: Vec<TcpListener>,
    local: SocketAddr,
    /// Counts the calls, to choose the shard that is asked first.
    turn: AtomicUsize,
}

impl ShardsListener {
    /// Listen. An unspecified address stands for all addresses of the host, port 0 for any port
    /// that is free at all shards.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], [`io::ErrorKind::AddrNotAvailable`], or a limit was hit.
    pub fn bind(shards: &Shards, local: SocketAddr) -> io::Result<ShardsListener> {
        let mut socket = TcpSocket::new(&shards.nets()[0]);
        ShardsListener::new(shards, socket.bind(local), BACKLOG)
    }

    pub(super) fn new(
        shards: &Shards,
        socket: &TcpSocket,
        backlog: usize,
    ) -> io::Result<ShardsListener> {
        let is_free_choice = socket.local().is_some_and(|local| local.port() == 0);
        let mut tries = if is_free_choice { PORTS_TRIED } else { 1 };
        loop {
            tries -= 1;
            match ShardsListener::at_one_port(shards, socket, backlog) {
                Err(why) if why.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
                result => return result,
            }
        }
    }

    fn at_one_port(
        shards: &Shards,
        socket: &TcpSocket,
        backlog: usize,
    ) -> io::Result<ShardsListener> {
        let (mut each, mut socket) = (Vec::<TcpListener>::new(), socket.clone());
        for net in shards.nets() {
            let listener = socket.at(net).listen(backlog)?;
            socket.bind(listener.local_addr()?);
            each.push(listener);
        }
        let local =
            each.first().map_or_else(|| Err(error::no_address()), TcpListener::local_addr)?;
        Ok(ShardsListener { each, local, turn: AtomicUsize::new(0) })
    }

    /// The shard to ask first now.
    fn first(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Wait for a connection. Dropping the future loses no connection.
    ///
    /// # Errors
    /// A driver is gone.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let of = |listener: &TcpListener| listener.look();
        let each = self.each.iter();
        let waits = each.map(|l| wait(l.net().shared(), l.readiness(), of(l))).collect();
        wait_for_any(waits, self.first()).await
    }

    /// Accept a connection without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no connection waits.
    pub fn try_accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let first = self.first();
        for number in 0..self.each.len() {
            match self.each[(first + number) % self.each.len()].try_accept() {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
        Err(error::would_block())
    }

    /// The listeners of the shards, for programs with one thread for each shard.
    pub fn into_each(self) -> Vec<TcpListener> {
        self.each
    }

    /// The address on which the listener listens.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}
