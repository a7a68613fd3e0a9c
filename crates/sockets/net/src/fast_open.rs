//! TCP Fast Open for programs (RFC 7413): a listener that accepts a connection at its SYN, and a
//! connect whose SYN carries the first data. Both are off by default.
//!
//! Called by: programs. `stack::FastOpenConfig` documents the costs of Fast Open, and which peers
//! are trusted.

use core::net::SocketAddr;
use std::io;
use std::time::Instant;

use stack::{FastConnect, FastOpenConfig};

use crate::inner::Inner;
use crate::{TcpSocket, TcpStream, blocking, wait};

impl TcpSocket {
    /// TCP Fast Open for a listener; off by default. With it on, two connections may both read the
    /// data of one SYN if the network delivers the SYN twice.
    pub fn set_fast_open(&mut self, fast_open: FastOpenConfig) -> &mut TcpSocket {
        self.fast_open = fast_open;
        self
    }

    /// Send a SYN, which carries data if the peer's cookie is known. Returns the stream, and the
    /// number of bytes that the SYN carries.
    fn start_with(&self, remote: SocketAddr, first: &[u8]) -> io::Result<(TcpStream, usize)> {
        let (handle, carried) = {
            let mut call = self.net().shared().call()?;
            let owner = self.owner_of(&call);
            let (local, config, ip) = self.ends();
            let connect =
                FastConnect { remote, local, config, owner, ip, first, without_cookie: false };
            call.connect_first(&connect)?
        };
        Ok((TcpStream::new(self.net().clone(), handle), carried))
    }

    /// Connect, with as much of `first` in the SYN as fits. The first connection to a peer carries
    /// no data in its SYN: this SYN asks for the cookie that later connections use. Returns the
    /// number of bytes that the SYN carried; the program writes the rest. The peer's program may
    /// get these bytes twice, so `first` must be a request that may be repeated (RFC 7413 section
    /// 2.1). Dropping the future ends the attempt.
    ///
    /// # Errors
    /// As [`TcpSocket::connect`].
    pub async fn connect_first(
        &self,
        remote: SocketAddr,
        first: &[u8],
    ) -> io::Result<(TcpStream, usize)> {
        let (stream, carried) = self.start_with(remote, first)?;
        stream.connected().await?;
        Ok((stream, carried))
    }
}

impl blocking::TcpStream {
    /// [`TcpSocket::connect_first`] for threads.
    ///
    /// # Errors
    /// As [`blocking::TcpStream::connect`].
    pub fn connect_first(
        socket: &TcpSocket,
        remote: SocketAddr,
        first: &[u8],
    ) -> io::Result<(blocking::TcpStream, usize)> {
        let (stream, carried) = socket.start_with(remote, first)?;
        let handle = stream.handle();
        let look = |inner: &mut Inner| inner.poll_connected(handle);
        let until: Option<Instant> = None;
        let connected =
            wait::block_on(socket.net().shared(), stream.write_readiness(), until, look)?;
        connected.ok_or_else(crate::error::connect_timed_out)?;
        Ok((stream.into(), carried))
    }
}
