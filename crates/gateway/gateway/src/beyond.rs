//! The outside of a gateway as another stack: behind a tunnel, or in virtual time.
//!
//! Called by: the gateway's engine. `sockets.rs` has datagrams and echoes.

mod sockets;

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};

use base::{DropReason, Instant, Owner};
use stack::{CallError, ConnectError, Event, PingHandle, Stack, TcpHandle, UdpHandle, Unreachable};
use tcp::{Error, Events, State};

use crate::datagrams::SessionKey;
use crate::outside::{
    Ends, Failure, Incoming, Outcome, Outgoing, Outside, Problem, Ready, Received, Stop, Token,
};
pub use sockets::Socket;

/// A stack as the outside of a gateway.
pub struct Beyond<'a> {
    /// The stack.
    pub stack: &'a mut Stack,
    /// The tokens under which events are reported.
    pub tokens: &'a mut Tokens,
    /// Settings of its connections.
    pub tcp: &'a tcp::Config,
    /// The time.
    pub now: Instant,
}

/// What the connections and sockets of an outside are called by the engine.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Tokens of connections.
    pub tcp: BTreeMap<TcpHandle, Token>,
    /// Tokens of sockets for datagrams.
    pub udp: BTreeMap<UdpHandle, Token>,
    /// Tokens of sockets for echoes.
    pub ping: BTreeMap<PingHandle, Token>,
}

impl Tokens {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.tcp.len() + self.udp.len() + self.ping.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What an event of the stack is to the engine; `None` if it is about something else.
    pub fn ready(&self, event: &Event) -> Option<(Token, Ready)> {
        match event {
            Event::Tcp(own, what) => Some((*self.tcp.get(own)?, ready(*what))),
            Event::Udp(own) => Some((*self.udp.get(own)?, Ready::READABLE)),
            Event::Ping(own) => Some((*self.ping.get(own)?, Ready::READABLE)),
            _ => None,
        }
    }
}

/// What an event of a connection is to the engine.
fn ready(what: Events) -> Ready {
    let mut ready = Ready::default();
    for (event, bit) in [
        (Events::READABLE | Events::PEER_CLOSED, Ready::READABLE),
        (Events::WRITABLE | Events::CONNECTED, Ready::WRITABLE),
        (Events::URGENT, Ready::URGENT),
        (Events::CLOSED, Ready::ERROR),
    ] {
        if what.has(event) {
            ready = ready.and(bit);
        }
    }
    ready
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Refused | Error::ProtocolUnreachable => Failure::Refused,
        Error::Reset | Error::Aborted => Failure::Reset,
        Error::TimedOut => Failure::TimedOut,
        Error::NetworkDown | Error::NetUnreachable => Failure::Unreachable(Unreachable::Net),
        Error::HostUnreachable => Failure::Unreachable(Unreachable::Host),
        Error::Prohibited => Failure::Unreachable(Unreachable::Prohibited),
    }
}

fn stop(error: CallError) -> Stop {
    match error {
        CallError::WouldBlock => Stop::WouldBlock,
        CallError::Closed => Stop::Failed(Failure::Reset),
        CallError::Failed(error) => Stop::Failed(failure(error)),
    }
}

impl Outside for Beyond<'_> {
    type Tcp = TcpHandle;
    type Socket = Socket;

    fn tcp_connect(
        &mut self,
        token: Token,
        _: &Ends,
        to: SocketAddr,
    ) -> Result<TcpHandle, Failure> {
        match self.stack.tcp_connect(to, None, self.tcp, Owner::program(), self.now) {
            Ok(handle) => {
                self.tokens.tcp.insert(handle, token);
                Ok(handle)
            }
            Err(ConnectError::Unreachable(DropReason::IpNoRoute) | ConnectError::NoAddress) => {
                Err(Failure::Unreachable(Unreachable::Net))
            }
            // Memory, most likely: the guest may try again.
            Err(_) => Err(Failure::Full),
        }
    }

    fn tcp_outcome(&mut self, tcp: &mut TcpHandle) -> Result<Outcome, Failure> {
        match self.stack.tcp_state(*tcp) {
            None => Err(Failure::Reset),
            Some((_, Some(error))) => Err(failure(error)),
            Some((State::SynSent | State::SynReceived, None)) => Ok(Outcome::Pending),
            Some(_) => Ok(Outcome::Connected),
        }
    }

    fn tcp_adopt(&mut self, token: Token, tcp: &mut TcpHandle) {
        self.tokens.tcp.insert(*tcp, token);
    }

    fn tcp_send(&mut self, tcp: &mut TcpHandle, parts: &[IoSlice<'_>]) -> Result<usize, Stop> {
        self.stack.tcp_write_vectored(*tcp, parts).map_err(stop)
    }

    fn tcp_send_urgent(&mut self, tcp: &mut TcpHandle, byte: u8) -> Result<(), Stop> {
        match self.stack.tcp_write_urgent(*tcp, &[byte]) {
            Ok(1) => Ok(()),
            Ok(_) => Err(Stop::WouldBlock),
            Err(error) => Err(stop(error)),
        }
    }

    fn tcp_receive(
        &mut self,
        tcp: &mut TcpHandle,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<Received, Stop> {
        let mut bytes = 0;
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            let mut filled = 0;
            while filled < part.len() {
                // A read passes the mark if it begins there.
                if bytes > 0 && self.stack.tcp_at_mark(*tcp) == Some(true) {
                    return Ok(Received { bytes, is_drained: false });
                }
                match self.stack.tcp_read(*tcp, &mut part[filled..]) {
                    Ok(0) => return Ok(Received { bytes, is_drained: false }),
                    Ok(n) => (filled, bytes) = (filled + n, bytes + n),
                    Err(CallError::WouldBlock) if bytes > 0 => {
                        return Ok(Received { bytes, is_drained: true });
                    }
                    Err(_) if bytes > 0 => return Ok(Received { bytes, is_drained: false }),
                    Err(error) => return Err(stop(error)),
                }
            }
        }
        Ok(Received { bytes, is_drained: false })
    }

    fn tcp_at_mark(&mut self, tcp: &mut TcpHandle) -> Option<bool> {
        match self.stack.tcp_urgent_left(*tcp) {
            None | Some(0) => None,
            Some(_) => self.stack.tcp_at_mark(*tcp),
        }
    }

    fn tcp_shutdown(&mut self, tcp: &mut TcpHandle) {
        self.stack.tcp_shutdown_write(*tcp);
    }

    fn tcp_close(&mut self, tcp: TcpHandle) {
        self.tokens.tcp.remove(&tcp);
        self.stack.tcp_close(tcp);
    }

    fn tcp_abort(&mut self, tcp: TcpHandle) {
        self.tokens.tcp.remove(&tcp);
        self.stack.tcp_abort(tcp);
    }

    fn open(&mut self, token: Token, key: &SessionKey) -> Result<Socket, Failure> {
        let socket = sockets::open(self.stack, key)?;
        match socket.handle {
            sockets::Handle::Udp(own) => self.tokens.udp.insert(own, token),
            sockets::Handle::Ping(own) => self.tokens.ping.insert(own, token),
        };
        Ok(socket)
    }

    fn adopt(&mut self, token: Token, _: &SessionKey, socket: &mut Socket) -> Option<bool> {
        let sockets::Handle::Udp(own) = socket.handle else { return None };
        self.tokens.udp.insert(own, token);
        Some(true)
    }

    fn send(&mut self, socket: &mut Socket, what: &Outgoing<'_>) -> Result<(), Failure> {
        sockets::send(self.stack, socket, what, self.now)
    }

    fn receive(&mut self, socket: &mut Socket, into: &mut [u8]) -> Option<Incoming> {
        sockets::receive(self.stack, socket, into)
    }

    fn take_error(&mut self, socket: &mut Socket) -> Option<Problem> {
        sockets::take_error(self.stack, socket)
    }

    fn close(&mut self, socket: Socket) {
        match socket.handle {
            sockets::Handle::Udp(own) => self.tokens.udp.remove(&own),
            sockets::Handle::Ping(own) => self.tokens.ping.remove(&own),
        };
        sockets::close(self.stack, socket);
    }

    fn flush(&mut self) {}
}
