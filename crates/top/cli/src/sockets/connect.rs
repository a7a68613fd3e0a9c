//! Opens connections: names, then one address after the other, until Ctrl-C.
//!
//! Called by: `telnet`.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use anyhow::{Context, Result, anyhow};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use wirespeed::tcp::State;
use wirespeed::{CallError, Instant, IpVersion, Owner, TcpHandle};

use super::{Connection, Sockets, config, io_error, prepared};
use crate::clock::Interrupt;
use crate::names;
use crate::network;

impl Sockets {
    /// The addresses of a host, of one version of IP if asked for. `None` after Ctrl-C.
    ///
    /// # Errors
    /// As [`names::resolve`]; of the system, that it knows no such name.
    pub(crate) fn addresses(
        &mut self,
        args: (&network::Args, &names::Args),
        (host, port): (&str, u16),
        version: Option<IpVersion>,
        interrupt: &Interrupt,
    ) -> Result<Option<Vec<SocketAddr>>> {
        if let Some(network) = &mut self.stack {
            let address = names::resolve(network, args, host, version, interrupt)?;
            return Ok(address.map(|address| vec![SocketAddr::new(address, port)]));
        }
        let host = wirespeed::control::text::plain(host);
        let all = (host.as_str(), port).to_socket_addrs();
        let all = all.with_context(|| {
            format!("the system knows no address of '{host}': is the name right? `getent hosts`")
        })?;
        let of = |at: &SocketAddr| version.is_none_or(|v| IpVersion::of(&at.ip()) == v);
        let all: Vec<SocketAddr> = all.filter(of).collect();
        if all.is_empty() {
            return Err(anyhow!(
                "'{host}' has no address of that version of IP: ask without -4, -6"
            ));
        }
        Ok(Some(all))
    }

    /// A connection to an address. `None` after Ctrl-C.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn connect(
        &mut self,
        to: SocketAddr,
        interrupt: &Interrupt,
    ) -> Result<Option<Connection>> {
        let now = self.now();
        if let Some(network) = &mut self.stack {
            let handle = network.stack.tcp_connect(to, None, &config(), Owner::program(), now);
            let handle = handle.map_err(|error| anyhow!("no connection: {error}"))?;
            return self.opened(handle, interrupt);
        }
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let stream = TcpStream::from(socket);
        loop {
            let connection = Connection::System(stream.try_clone()?);
            let fd = connection.descriptor().map(|fd| (fd, PollFlags::OUT));
            let asked: Vec<_> = fd.into_iter().chain([interrupt.descriptor()]).collect();
            let ready = self.wait(Instant::NEVER, &asked)?;
            if interrupt.noted() {
                return Ok(None);
            }
            if !ready[0].is_empty() {
                break;
            }
        }
        socket_error(&stream)?.map_err(io::Error::from)?;
        Ok(Some(prepared(stream)?))
    }

    /// Wait for a connection of the stack.
    fn opened(&mut self, handle: TcpHandle, interrupt: &Interrupt) -> Result<Option<Connection>> {
        loop {
            self.turn();
            let Some(network) = &mut self.stack else { return Ok(None) };
            match network.stack.tcp_state(handle) {
                Some((State::SynSent | State::SynReceived, None)) => {}
                Some((_, Some(error))) => return Err(io_error(CallError::Failed(error)).into()),
                Some((_, None)) => return Ok(Some(Connection::Stack(handle))),
                None => return Err(anyhow!("the connection is gone")),
            }
            if interrupt.noted() {
                network.stack.tcp_abort(handle);
                return Ok(None);
            }
            self.wait(Instant::NEVER, &[interrupt.descriptor()])?;
        }
    }
}
