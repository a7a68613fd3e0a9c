//! TCP connections of tools that work over the system's sockets, or with `--dev` over a stack of
//! their own: opened, read, written, and waited for in the same words.
//!
//! Called by: `telnet` and `telnetd`. Nagle's algorithm is off, urgent data stays in the stream
//! (RFC 6093), keepalive finds peers that are gone. `sockets/connect.rs` opens connections.

mod connect;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{SendFlags, send};
use wirespeed::tcp::{Config, Error};
use wirespeed::{CallError, Duration, Instant, ListenConfig, ListenerHandle, TcpHandle};

use crate::clock::{Clock, Interrupt};
use crate::network::{self, Network};

/// A peer that is silent for so long is asked whether it is there (RFC 9293 section 3.8.4).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(600);
/// How long the end of a connection may take before the stack ends.
const LAST: Duration = Duration::from_secs(2);

/// The system's sockets, or a stack on a device.
pub(crate) struct Sockets {
    stack: Option<Box<Network>>,
    clock: Clock,
}

/// Where connections are accepted.
pub(crate) enum Listener {
    System(TcpListener),
    Stack(ListenerHandle),
}

/// A connection; it is closed by [`Sockets::close`].
pub(crate) enum Connection {
    System(TcpStream),
    Stack(TcpHandle),
}

/// What connections of the stack are like.
fn config() -> Config {
    Config { no_delay: true, keepalive_idle: Some(KEEPALIVE_IDLE), ..Config::default() }
}

impl Sockets {
    /// The system's sockets, or with `--dev` a stack, which other tools see by `name`.
    /// `None` after Ctrl-C.
    ///
    /// # Errors
    /// As [`Network::open`].
    pub(crate) fn open(
        args: &network::Args,
        name: &'static str,
        interrupt: &Interrupt,
    ) -> Result<Option<Sockets>> {
        if args.dev.is_none() {
            return Ok(Some(Sockets { stack: None, clock: Clock::start() }));
        }
        let opened = Network::open(args, name, interrupt)?;
        Ok(opened.map(|network| Sockets { clock: network.clock, stack: Some(Box::new(network)) }))
    }

    /// Have we a stack of our own?
    pub(crate) fn is_stack(&self) -> bool {
        self.stack.is_some()
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Listen at an address.
    ///
    /// # Errors
    /// The address or the port cannot be had.
    pub(crate) fn listen(&mut self, at: SocketAddr) -> Result<Listener> {
        if let Some(network) = &mut self.stack {
            let listen = ListenConfig { tcp: config(), ..ListenConfig::default() };
            let listener = network.stack.tcp_listen(at, listen);
            return listener
                .map(Listener::Stack)
                .map_err(|e| anyhow!("cannot listen at {at}: {e}"));
        }
        let listener = TcpListener::bind(at).with_context(|| match at.port() {
            ..1024 => format!("cannot listen at {at}: ports below 1024 are root's, take another"),
            _ => format!("cannot listen at {at}: take another --listen ADDR:PORT"),
        })?;
        listener.set_nonblocking(true).context("cannot use the listener")?;
        Ok(Listener::System(listener))
    }

    /// A connection that waits, and who it is from.
    pub(crate) fn accept(&mut self, listener: &Listener) -> Option<(Connection, SocketAddr)> {
        match (listener, &mut self.stack) {
            (Listener::System(listener), _) => {
                let (stream, peer) = listener.accept().ok()?;
                prepared(stream).ok().map(|connection| (connection, peer))
            }
            (Listener::Stack(listener), Some(network)) => {
                let handle = network.stack.tcp_accept(*listener)?;
                let (_, peer) = network.stack.tcp_addresses(handle)?;
                Some((Connection::Stack(handle), peer))
            }
            (Listener::Stack(_), None) => None,
        }
    }

    /// Read received bytes; 0 if the peer has closed. A read ends before the last urgent byte.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if nothing is there; else the connection is over.
    pub(crate) fn read(&mut self, from: &mut Connection, into: &mut [u8]) -> io::Result<usize> {
        match (from, &mut self.stack) {
            (Connection::System(stream), _) => stream.read(into),
            (Connection::Stack(handle), Some(network)) => {
                network.stack.tcp_read(*handle, into).map_err(io_error)
            }
            (Connection::Stack(_), None) => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// Write, the last byte as urgent data if asked for; returns how much was taken.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if there is no room; else the connection is over.
    pub(crate) fn write(
        &mut self,
        to: &mut Connection,
        bytes: &[u8],
        is_urgent: bool,
    ) -> io::Result<usize> {
        match (to, &mut self.stack) {
            (Connection::System(stream), _) if is_urgent => {
                Ok(send(stream, bytes, SendFlags::OOB | SendFlags::NOSIGNAL)?)
            }
            (Connection::System(stream), _) => stream.write(bytes),
            (Connection::Stack(handle), Some(network)) => {
                let written = match is_urgent {
                    true => network.stack.tcp_write_urgent(*handle, bytes),
                    false => network.stack.tcp_write(*handle, bytes),
                };
                written.map_err(io_error)
            }
            (Connection::Stack(_), None) => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// Is urgent data ahead of what was read?
    pub(crate) fn is_urgent(&self, connection: &Connection) -> bool {
        match (connection, &self.stack) {
            (Connection::System(stream), _) => {
                let mut asked = [PollFd::new(stream, PollFlags::PRI)];
                let is_ready = poll(&mut asked, Some(&Timespec::default())).is_ok();
                is_ready && asked[0].revents().contains(PollFlags::PRI)
            }
            (Connection::Stack(handle), Some(network)) => {
                network.stack.tcp_urgent_left(*handle).is_some_and(|left| left > 0)
            }
            (Connection::Stack(_), None) => false,
        }
    }

    /// Was the connection reset, though perhaps not all was read?
    pub(crate) fn is_gone(&self, connection: &Connection) -> bool {
        match (connection, &self.stack) {
            (Connection::System(stream), _) => {
                let mut asked = [PollFd::new(stream, PollFlags::empty())];
                let is_ready = poll(&mut asked, Some(&Timespec::default())).is_ok();
                is_ready && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
            }
            (Connection::Stack(handle), Some(network)) => {
                network.stack.tcp_state(*handle).is_none_or(|(_, error)| error.is_some())
            }
            (Connection::Stack(_), None) => true,
        }
    }

    /// No more will be written.
    pub(crate) fn shutdown_write(&mut self, connection: &Connection) {
        match (connection, &mut self.stack) {
            (Connection::System(stream), _) => {
                // It fails only on a connection that is over.
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            (Connection::Stack(handle), Some(network)) => {
                network.stack.tcp_shutdown_write(*handle);
            }
            (Connection::Stack(_), None) => {}
        }
    }

    /// Close a connection; written data is still sent. Received data is read and dropped first,
    /// because a close with unread data is a reset.
    pub(crate) fn close(&mut self, mut connection: Connection) {
        let mut room = [0; 4096];
        for _ in 0..64 {
            if !matches!(self.read(&mut connection, &mut room), Ok(1..)) {
                break;
            }
        }
        if let (Connection::Stack(handle), Some(network)) = (connection, &mut self.stack) {
            network.stack.tcp_close(handle);
        }
    }

    /// Close the last connection of a tool. A stack of ours first has [`LAST`] to send its data.
    pub(crate) fn finish(&mut self, connection: Connection) {
        self.shutdown_write(&connection);
        let until = self.now() + LAST;
        while let Connection::Stack(handle) = &connection {
            self.turn();
            let Some(network) = &mut self.stack else { break };
            let is_over = network.stack.tcp_is_sent(*handle) || self.clock.now() >= until;
            if is_over || network.rest(until, []).is_err() {
                break;
            }
        }
        self.close(connection);
        self.turn();
    }

    /// Have the stack work, if there is one.
    pub(crate) fn turn(&mut self) {
        let Some(network) = &mut self.stack else { return };
        network.turn();
        // Events are not needed: a tool examines its connections in each turn.
        while network.stack.next_event().is_some() {}
    }

    /// Sleep until one of `asked` is ready, the stack has something to do, or `until`; what each of
    /// `asked` is ready for.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn wait(
        &mut self,
        until: Instant,
        asked: &[(BorrowedFd<'_>, PollFlags)],
    ) -> Result<Vec<PollFlags>> {
        let mut timeout = timeout(until, self.now());
        if let Some(network) = &mut self.stack {
            network.rest(until, asked.iter().copied())?;
            timeout = Some(Timespec::default());
        }
        let all = asked.iter().map(|&(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
        let mut all: Vec<PollFd<'_>> = all.collect();
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) => Ok(all.iter().map(PollFd::revents).collect()),
            Err(Errno::INTR) => Ok(vec![PollFlags::empty(); asked.len()]),
            Err(error) => Err(error).context("cannot wait for connections"),
        }
    }
}

impl Connection {
    /// For poll(2), if the system has it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Connection::System(stream) => Some(stream.as_fd()),
            Connection::Stack(_) => None,
        }
    }
}

impl Listener {
    /// For poll(2), if the system has it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Listener::System(listener) => Some(listener.as_fd()),
            Listener::Stack(_) => None,
        }
    }
}

/// A connection of the system that never waits.
fn prepared(stream: TcpStream) -> io::Result<Connection> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_oobinline(&stream, true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE.into())?;
    Ok(Connection::System(stream))
}

fn io_error(error: CallError) -> io::Error {
    let kind = match error {
        CallError::WouldBlock => ErrorKind::WouldBlock,
        CallError::Closed => ErrorKind::NotConnected,
        CallError::Failed(Error::Refused) => ErrorKind::ConnectionRefused,
        CallError::Failed(Error::Reset) => ErrorKind::ConnectionReset,
        CallError::Failed(Error::TimedOut) => ErrorKind::TimedOut,
        CallError::Failed(Error::NetUnreachable) => ErrorKind::NetworkUnreachable,
        CallError::Failed(Error::HostUnreachable) => ErrorKind::HostUnreachable,
        CallError::Failed(Error::NetworkDown) => ErrorKind::NetworkDown,
        CallError::Failed(_) => ErrorKind::ConnectionAborted,
    };
    kind.into()
}

/// The time-out of poll(2); `None` if nothing is due.
fn timeout(due: Instant, now: Instant) -> Option<Timespec> {
    let nanos = (due != Instant::NEVER).then(|| due.since(now).as_nanos())?;
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Some(Timespec { tv_sec: seconds as i64, tv_nsec: rest as i64 })
}
