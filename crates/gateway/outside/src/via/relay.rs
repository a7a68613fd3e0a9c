//! Datagrams through a proxy: UDP ASSOCIATE of SOCKS5. Each session has a connection to the proxy,
//! which says where datagrams go, and ends the relay when it ends.
//!
//! Called by: `egress.rs`. What is sent before the proxy has answered waits, [`WAITING_MAX`]
//! datagrams of a session. RFC 1928 section 7.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use gateway::{
    Failure, Incoming, Outcome, Outgoing, Problem, Ready, Token, datagram_from, datagram_header,
};
use rustix::io::Errno;
use slab::Slab;
use stack::{ErrorKind, Unreachable};

use super::{Handshake, NO_DATAGRAMS, Refused, Via};
use crate::datagrams::Socket;
use crate::tcp::{self, Tcp};

/// Datagrams that wait for the proxy's answer.
const WAITING_MAX: usize = 16;
/// Control connections are watched with the numbers from here on.
pub(crate) const RELAYS: u32 = 1 << 30;
/// The longest datagram with its header.
const DATAGRAM_MAX: usize = 65_535 + 22;

/// What a session knows of the proxy.
enum State {
    Connecting(Box<Handshake>),
    /// Datagrams go there.
    Open(SocketAddr),
    Refused,
}

/// A session.
pub(crate) struct Relayed {
    control: Tcp,
    pub(crate) socket: Socket,
    token: Token,
    state: State,
    /// The address of the proxy, for a relay that says none.
    proxy: IpAddr,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Destinations about which the guest has to hear.
    failed: VecDeque<(SocketAddr, usize)>,
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Relays {
    pub(crate) all: Slab<Relayed>,
    /// The proxy carries no datagrams.
    pub(crate) are_refused: bool,
    buffer: Vec<u8>,
}

/// What became of a session when its control connection was ready.
pub(crate) enum Turn {
    /// It waits for something to read, or for room to write.
    Waits { writes: bool },
    /// The engine has to look at it.
    Wakes(Token, Ready, Option<Refused>),
}

impl Relayed {
    /// Begin: a connection to the proxy at `at`, beside a socket for datagrams.
    pub(crate) fn begin(via: &Via, at: SocketAddr, socket: Socket) -> Result<Relayed, Errno> {
        // The datagrams of one call would have one header.
        socket.take_one_by_one();
        let token = socket.token();
        Ok(Relayed {
            control: tcp::connect(token, at)?,
            socket,
            token,
            state: State::Connecting(Box::new(via.association())),
            proxy: at.ip(),
            waiting: VecDeque::new(),
            failed: VecDeque::new(),
        })
    }

    /// The control connection, to wait for it.
    pub(crate) fn control(&self) -> &Tcp {
        &self.control
    }

    /// Its control connection is ready.
    pub(crate) fn turn(&mut self, ready: Ready) -> Turn {
        let result = match &mut self.state {
            State::Connecting(handshake) => {
                match self.control.outcome(ready.has(Ready::WRITABLE)) {
                    Ok(Outcome::Connected) => self.control.shake_hands(handshake),
                    outcome => outcome,
                }
            }
            // The proxy has nothing to say any more: it ends the relay.
            State::Open(_) | State::Refused => Err(NO_DATAGRAMS),
        };
        match (result, &self.state) {
            (Ok(Outcome::Pending), State::Connecting(handshake)) => {
                Turn::Waits { writes: !handshake.unsent().is_empty() }
            }
            (Ok(_), State::Connecting(handshake)) => {
                let at = handshake.bound().unwrap_or(SocketAddr::new(self.proxy, 0));
                let ip = if at.ip().is_unspecified() { self.proxy } else { at.ip() };
                self.state = State::Open(SocketAddr::new(ip, at.port()));
                Turn::Wakes(self.token, Ready::WRITABLE, None)
            }
            (result, _) => {
                self.state = State::Refused;
                self.failed.extend(self.waiting.drain(..).map(|(to, bytes)| (to, bytes.len())));
                // Without another reason it is the proxy that does not carry them.
                let refused = result.err().filter(|refused| refused.notice.is_some());
                let ready = Ready::READABLE.and(Ready::ERROR);
                Turn::Wakes(self.token, ready, Some(refused.unwrap_or(NO_DATAGRAMS)))
            }
        }
    }

    /// Send datagrams, or keep them until the proxy has answered.
    pub(crate) fn send(
        &mut self,
        what: &Outgoing<'_>,
        mut emit: impl FnMut(&mut Socket, &Outgoing<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let relay = match self.state {
            State::Open(relay) => relay,
            State::Refused => return Err(NO_DATAGRAMS.failure),
            State::Connecting(_) if self.waiting.len() == WAITING_MAX => return Err(Failure::Full),
            State::Connecting(_) => {
                let size = size_of_each(what);
                let parts = what.payload.chunks(size).map(|part| (what.to, part.to_vec()));
                self.waiting.extend(parts.take(WAITING_MAX));
                return Ok(());
            }
        };
        for part in what.payload.chunks(size_of_each(what)) {
            let payload = &[&datagram_header(what.to), part].concat()[..];
            emit(&mut self.socket, &Outgoing { to: relay, segment_size: 0, payload, ..*what })?;
        }
        Ok(())
    }

    /// Those that have waited, once the proxy has answered.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<(SocketAddr, Vec<u8>)> {
        match self.state {
            State::Open(_) => core::mem::take(&mut self.waiting),
            State::Connecting(_) | State::Refused => VecDeque::new(),
        }
    }

    /// Receive a datagram of the relay into `into`; others are dropped.
    pub(crate) fn receive(
        &mut self,
        into: &mut [u8],
        buffer: &mut [u8],
        control: &mut [u8],
    ) -> Option<Incoming> {
        loop {
            let got = self.socket.receive(buffer, control)?;
            let State::Open(relay) = self.state else { continue };
            let all = buffer.get(..got.bytes).unwrap_or(&[]);
            let Some((from, at)) = datagram_from(all).filter(|_| got.from == relay) else {
                continue;
            };
            let payload = all.get(at..).unwrap_or(&[]);
            let bytes = payload.len().min(into.len());
            into[..bytes].copy_from_slice(&payload[..bytes]);
            return Some(Incoming { from, ttl: got.ttl, seq: 0, bytes, segment_size: 0 });
        }
    }

    /// The next datagram that the proxy did not carry.
    pub(crate) fn take_error(&mut self) -> Option<Problem> {
        let (to, payload_len) = self.failed.pop_front()?;
        let error = ErrorKind::Unreachable(Unreachable::Prohibited);
        Some(Problem { to, seq: 0, error, offender: to.ip(), payload_len })
    }

    /// End.
    pub(crate) fn end(self) -> Socket {
        self.control.abort();
        self.socket
    }
}

impl Relays {
    /// The buffer in which datagrams with headers are received.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = core::mem::take(&mut self.buffer);
        buffer.resize(DATAGRAM_MAX, 0);
        buffer
    }

    /// Give it back.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }
}

fn size_of_each(what: &Outgoing<'_>) -> usize {
    match usize::from(what.segment_size) {
        0 => what.payload.len().max(1),
        size => size,
    }
}
