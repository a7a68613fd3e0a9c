//! What the engine calls: each call is one or two of the kernel's.
//!
//! Called by: the engine, through [`gateway::Outside`].

use core::net::SocketAddr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;

use gateway::{
    Ends, Failure, Incoming, Outcome, Outgoing, Outside, Problem, Received, SessionKey, Stop, Token,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::{Host, Notice, Seen};
use crate::datagrams::{self, Socket};
use crate::errors::failure;
use crate::listen::Accepted;
use crate::tcp::{self, Tcp};

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

    fn tcp_connect(&mut self, token: Token, _: &Ends, to: SocketAddr) -> Result<Tcp, Failure> {
        self.admit()?;
        let tcp = tcp::connect(token, to).map_err(|e| tcp::connect_failure(self.note(e), to))?;
        // The report of what has happened so far comes with this.
        self.enlist(token, &tcp, CONNECTION).map_err(failure)?;
        self.open += 1;
        Ok(tcp)
    }

    fn tcp_outcome(&mut self, tcp: &mut Tcp) -> Result<Outcome, Failure> {
        let is_open = self.seen.get(&tcp.token()).is_some_and(|seen| seen.is_open);
        tcp.outcome(is_open)
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
        self.admit()?;
        let socket = match Socket::open(token, key) {
            Ok(socket) => socket,
            Err(error) => {
                let is_denied = matches!(error, Errno::ACCESS | Errno::PERM);
                if is_denied && matches!(key, SessionKey::Echo(..)) && self.notice == Notice::None {
                    self.notice = Notice::Due;
                }
                return Err(failure(self.note(error)));
            }
        };
        self.enlist(token, &socket, EventFlags::IN).map_err(failure)?;
        self.open += 1;
        Ok(socket)
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
