//! TCP Fast Open for programs: a listener that accepts connections at their SYN, and a connect
//! whose SYN carries the first of the data. RFC 7413; both are off unless asked for.
//!
//! Called by: programs. What it costs and whom it trusts: `stack::FastOpenConfig`.

use core::net::SocketAddr;
use std::io;
use std::time::Instant;

use stack::{FastConnect, FastOpenConfig};

use crate::inner::Inner;
use crate::{TcpSocket, TcpStream, blocking, wait};

impl TcpSocket {
    /// What a listener does with TCP Fast Open. It is off without this. With it on, the data of a
    /// SYN may be read twice, by two connections, if the network delivers the SYN twice.
    pub fn set_fast_open(&mut self, fast_open: FastOpenConfig) -> &mut TcpSocket {
        self.fast_open = fast_open;
        self
    }

    /// Send a SYN, with data if the peer's cookie is known.
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

    /// Connect, with as much of `first` in the SYN as it can carry: nothing of it until a
    /// connection to this peer has brought its cookie, which the SYN asks for. Returns how many
    /// bytes went: write what is behind them. The peer's program may get them twice, so `first` is
    /// a request that may be repeated (RFC 7413 section 2.1). Dropping the future ends the attempt.
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
