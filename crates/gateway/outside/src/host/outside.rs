//! What the engine calls: each call is one or two of the kernel's.
//!
//! Called by: the engine, through [`gateway::Outside`].

use core::net::SocketAddr;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};

use gateway::{
    Ends, Failure, Incoming, Outcome, Outgoing, Outside, Problem, Received, SessionKey, Stop, Token,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::{Host, NO_PING_SOCKETS, Seen};
use crate::datagrams::{self, Socket};
use crate::errors::failure;
use crate::listen::Accepted;
use crate::tcp::{self, Tcp};
use crate::via::{NO_DATAGRAMS, Refused, Relayed, no_proxy};

impl Host {
    /// The next client that has connected to a listener of [`Host::listen`], for
    /// [`gateway::Gateway::accept_published`]. After 64 in a turn others have their turn.
    pub fn accept(&mut self) -> Option<Accepted> {
        while let Some((listener, fd, client)) = self.listeners.accept() {
            let tcp = Tcp::of(fd, Token(0));
            if self.open < self.open_max {
                self.open += 1;
                return Some(Accepted { listener, tcp, client });
            }
            self.counts.clients_reset += 1;
            tcp.abort();
        }
        None
    }

    /// A socket for datagrams that is bound already, for [`gateway::Gateway::publish_udp`]: one of
    /// [`crate::Bound::udp`], which another process may have made.
    ///
    /// # Errors
    /// It is no bound socket of IPv4 or IPv6 (EAFNOSUPPORT); EMFILE beyond the limit of
    /// [`Host::new`].
    pub fn adopt_udp(&mut self, fd: OwnedFd) -> io::Result<Socket> {
        self.admit().map_err(|_| Errno::MFILE)?;
        let socket = Socket::of(fd)?;
        self.open += 1;
        Ok(socket)
    }

    /// A socket for datagrams that a proxy relays, and its session; `None` if it carries none.
    pub(crate) fn begin_relay(
        &mut self,
        token: Token,
        key: &SessionKey,
    ) -> Option<Result<Relayed, Failure>> {
        let (via, at) = self.via.clone().filter(|(via, _)| via.has_datagrams())?;
        if !matches!(key, SessionKey::Udp(_)) {
            return None;
        }
        // The socket sends to the proxy alone.
        let any = match at {
            SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
        };
        let begin = |host: &mut Host| {
            host.admit()?;
            let socket = Socket::open(token, &SessionKey::Udp(any));
            let socket = socket.map_err(|error| failure(host.note(error)))?;
            let relayed = Relayed::begin(&via, at, socket);
            let relayed = relayed.map_err(|error| failure(host.note(error)))?;
            host.enlist(token, &relayed.socket, EventFlags::IN).map_err(failure)?;
            host.open += 1;
            Ok(relayed)
        };
        Some(begin(self))
    }

    /// Datagrams of a relay, with the host's buffer for control messages.
    pub(crate) fn receive_relayed(
        &mut self,
        relayed: &mut Relayed,
        into: &mut [u8],
        buffer: &mut [u8],
    ) -> Option<Incoming> {
        relayed.receive(into, buffer, &mut self.control)
    }

    /// Note what the user has to know of a refusal.
    pub(crate) fn refused(&mut self, refused: Refused) -> Failure {
        refused.notice.into_iter().for_each(|notice| self.notices.give(notice));
        refused.failure
    }

    /// Is there room for another socket?
    fn admit(&mut self) -> Result<(), Failure> {
        if self.open < self.open_max {
            return Ok(());
        }
        self.counts.without_descriptor += 1;
        Err(Failure::Full)
    }

    /// An error of a call that makes a socket; counts those without a descriptor.
    fn note(&mut self, error: Errno) -> Errno {
        if let Errno::MFILE | Errno::NFILE = error {
            self.counts.without_descriptor += 1;
        }
        error
    }

    fn enlist(&mut self, token: Token, fd: impl AsFd, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token.0), flags | EventFlags::ET)?;
        self.seen.insert(token, Seen::default());
        Ok(())
    }

    /// A socket is about to be closed.
    fn forget(&mut self, token: Token) {
        self.seen.remove(&token);
        self.open = self.open.saturating_sub(1);
    }
}

/// What is waited for at a connection.
const CONNECTION: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::PRI);

impl Outside for Host {
    type Tcp = Tcp;
    type Socket = Socket;

    fn tcp_connect(&mut self, token: Token, ends: &Ends, to: SocketAddr) -> Result<Tcp, Failure> {
        self.admit()?;
        // The gateway's own questions and this host are reached without a proxy.
        let is_own = ends.guest.ip().is_unspecified() && !self.asks_through;
        let is_direct = is_own || to.ip().to_canonical().is_loopback();
        let via = self.via.as_ref().filter(|_| !is_direct);
        let tcp = match via {
            None => tcp::connect(token, to).map_err(|e| tcp::connect_failure(self.note(e), to))?,
            Some((via, at)) => {
                let handshake = via.handshake(to);
                match tcp::connect(token, *at) {
                    Ok(tcp) => tcp.with(handshake),
                    Err(error) => {
                        let refused = no_proxy(tcp::connect_failure(self.note(error), to));
                        return Err(self.refused(refused));
                    }
                }
            }
        };
        // The report of what has happened so far comes with this.
        self.enlist(token, &tcp, CONNECTION).map_err(failure)?;
        self.open += 1;
        Ok(tcp)
    }

    fn tcp_outcome(&mut self, tcp: &mut Tcp) -> Result<Outcome, Failure> {
        let is_open = self.seen.get(&tcp.token()).is_some_and(|seen| seen.is_open);
        tcp.outcome(is_open).map_err(|refused| self.refused(refused))
    }

    fn tcp_adopt(&mut self, token: Token, tcp: &mut Tcp) {
        tcp.set_token(token);
        if self.enlist(token, &*tcp, CONNECTION).is_err() {
            // Nothing would ever be reported of it. The engine finds it closed.
            tcp.give_up();
        }
    }

    fn tcp_send(&mut self, tcp: &mut Tcp, parts: &[IoSlice<'_>]) -> Result<usize, Stop> {
        tcp.send(parts)
    }

    fn tcp_send_urgent(&mut self, tcp: &mut Tcp, byte: u8) -> Result<(), Stop> {
        tcp.send_urgent(byte)
    }

    fn tcp_receive(
        &mut self,
        tcp: &mut Tcp,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<Received, Stop> {
        let mut received = tcp.receive(parts)?;
        if received.is_drained && self.seen.get(&tcp.token()).is_none_or(|seen| seen.has_ended) {
            // The end was reported together with the bytes, and is still to be received.
            received.is_drained = false;
        }
        Ok(received)
    }

    fn tcp_at_mark(&mut self, tcp: &mut Tcp) -> Option<bool> {
        tcp.at_mark()
    }

    fn tcp_shutdown(&mut self, tcp: &mut Tcp) {
        tcp.shut_down();
    }

    fn tcp_close(&mut self, tcp: Tcp) {
        self.forget(tcp.token());
    }

    fn tcp_abort(&mut self, tcp: Tcp) {
        self.forget(tcp.token());
        tcp.abort();
    }

    fn open(&mut self, token: Token, key: &SessionKey) -> Result<Socket, Failure> {
        if self.via.is_some() && (self.asks_through || !matches!(key, SessionKey::Names(_))) {
            return Err(self.refused(NO_DATAGRAMS));
        }
        self.admit()?;
        let socket = match Socket::open(token, key) {
            Ok(socket) => socket,
            Err(error) => {
                let is_denied = matches!(error, Errno::ACCESS | Errno::PERM);
                if is_denied && matches!(key, SessionKey::Echo(..)) {
                    self.notices.give(NO_PING_SOCKETS);
                }
                return Err(failure(self.note(error)));
            }
        };
        self.enlist(token, &socket, EventFlags::IN).map_err(failure)?;
        self.open += 1;
        Ok(socket)
    }

    fn open_beside(
        &mut self,
        token: Token,
        tcp: &mut Tcp,
    ) -> Result<(Socket, SocketAddr), Failure> {
        self.admit()?;
        let made = tcp.local().and_then(Socket::beside);
        let mut socket = made.map_err(|error| failure(self.note(error)))?;
        self.enlist(token, &socket, EventFlags::IN).map_err(failure)?;
        self.open += 1;
        socket.set_token(token);
        let at = socket.local().ok_or(Failure::Full)?;
        Ok((socket, at))
    }

    fn adopt(&mut self, token: Token, key: &SessionKey, socket: &mut Socket) -> Option<bool> {
        let own = socket.local()?;
        self.enlist(token, &*socket, EventFlags::IN).ok()?;
        socket.set_token(token);
        let is_v4 = matches!(key, SessionKey::Udp(guest) if guest.is_ipv4());
        Some(own.is_ipv4() == is_v4 && !own.ip().is_loopback() && self.via.is_none())
    }

    fn send(&mut self, socket: &mut Socket, what: &Outgoing<'_>) -> Result<(), Failure> {
        socket.send(what, &mut self.gather, &mut self.counts).map_err(failure)
    }

    fn receive(&mut self, socket: &mut Socket, into: &mut [u8]) -> Option<Incoming> {
        socket.receive(into, &mut self.control)
    }

    fn take_error(&mut self, socket: &mut Socket) -> Option<Problem> {
        let seen = self.seen.get_mut(&socket.token()).filter(|seen| seen.has_error)?;
        let problem = datagrams::next_problem(socket, &mut self.control, &mut self.counts);
        seen.has_error = problem.is_some();
        problem
    }

    fn close(&mut self, socket: Socket) {
        self.gather.leave(&socket, &mut self.counts);
        self.forget(socket.token());
    }

    fn flush(&mut self) {
        self.gather.send(&mut self.counts);
    }
}
