//! The world beyond the gateway: connections, datagrams and echoes that somebody else carries out.
//!
//! Called by: the engine. Implemented by sockets of the host, and in tests by another stack in
//! virtual time. No call waits. The owner of the event loop passes what is ready to
//! [`crate::Gateway::ready`], by the [`Token`] with which the thing was opened. Readiness is an
//! edge: after [`Stop::WouldBlock`] the engine does not try again before the next one.

use core::net::{IpAddr, SocketAddr};
use std::io::{IoSlice, IoSliceMut};

use stack::{ErrorKind, Unreachable};

use crate::datagrams::SessionKey;

/// Names a connection or a socket of the outside in reports of readiness: the user data of an
/// epoll entry. A token never means another thing later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The two ends of a flow as the guest sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    /// The guest's address and port.
    pub guest: SocketAddr,
    /// The address and port beyond the gateway.
    pub remote: SocketAddr,
}

/// What happened to a connection or a socket of the outside, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(pub u8);

impl Ready {
    /// There is something to receive, the end of the stream included (EPOLLIN, EPOLLRDHUP).
    pub const READABLE: Ready = Ready(1);
    /// There is room to send, or a connect has its result (EPOLLOUT).
    pub const WRITABLE: Ready = Ready(2);
    /// Urgent data was announced (EPOLLPRI).
    pub const URGENT: Ready = Ready(4);
    /// An error, or both halves are over (EPOLLERR, EPOLLHUP).
    pub const ERROR: Ready = Ready(8);

    /// Both.
    pub const fn and(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }

    /// Is any of these set?
    pub const fn has(self, other: Ready) -> bool {
        self.0 & other.0 != 0
    }
}

/// Why a connect did not succeed, or a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody listens (ECONNREFUSED).
    Refused,
    /// The peer has reset the connection (ECONNRESET, EPIPE).
    Reset,
    /// The network says why (ENETUNREACH, EHOSTUNREACH, EACCES).
    Unreachable(Unreachable),
    /// Nobody answered in time (ETIMEDOUT).
    TimedOut,
    /// The outside has no descriptor, port or memory left (EMFILE, ENOBUFS, EADDRNOTAVAIL): the
    /// guest may try again.
    Full,
}

/// The state of a connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not decided yet.
    Pending,
    /// The connection is open.
    Connected,
}

/// Why a send or a receive did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No room or no data now; readiness is reported when there is.
    WouldBlock,
    /// The connection is over.
    Failed(Failure),
}

/// Received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many; 0 is the end of the stream.
    pub bytes: usize,
    /// Nothing more can be received before the next readiness: a short read of a socket with edge
    /// triggering. `false` if it is not known.
    pub is_drained: bool,
}

/// A datagram or an echo request to send, or several of one size.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where to; the port of an echo request is 0.
    pub to: SocketAddr,
    /// The TTL or hop limit with which it came from the guest.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// The sequence number of an echo request.
    pub seq: u16,
    /// Bytes of each datagram in `payload` but the last (UDP_SEGMENT); 0 for one datagram.
    pub segment_size: u16,
    /// The payload.
    pub payload: &'a [u8],
}

/// A received datagram or echo reply, or several datagrams of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Where from; the port of an echo reply is 0.
    pub from: SocketAddr,
    /// The TTL or hop limit that the guest shall see.
    pub ttl: u8,
    /// The sequence number of an echo reply.
    pub seq: u16,
    /// Bytes of the payload.
    pub bytes: usize,
    /// Bytes of each datagram but the last (UDP_GRO); 0 for one datagram.
    pub segment_size: u16,
}

/// An error of the network about a datagram or an echo request that was sent (IP_RECVERR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was sent; the port of an echo request is 0.
    pub to: SocketAddr,
    /// The sequence number of an echo request.
    pub seq: u16,
    /// What went wrong.
    pub error: ErrorKind,
    /// The sender of the error: its source for the guest, as traceroute shows it.
    pub offender: IpAddr,
    /// Bytes of its payload.
    pub payload_len: usize,
}

/// Where the gateway's flows lead. See the head of the file.
pub trait Outside {
    /// A connection: a descriptor, or its number.
    type Tcp;

    /// A socket for datagrams or for echoes.
    type Socket;

    /// Begin to connect to `to`, which is where `ends.remote` leads; readiness reports that
    /// [`Outside::tcp_outcome`] has something to say.
    ///
    /// # Errors
    /// The connect fails at once.
    fn tcp_connect(
        &mut self,
        token: Token,
        ends: &Ends,
        to: SocketAddr,
    ) -> Result<Self::Tcp, Failure>;

    /// What has become of a connect.
    ///
    /// # Errors
    /// It has failed.
    fn tcp_outcome(&mut self, tcp: &mut Self::Tcp) -> Result<Outcome, Failure>;

    /// Reports about a connection that the outside has accepted bear this token from now on.
    fn tcp_adopt(&mut self, token: Token, tcp: &mut Self::Tcp);

    /// Send the parts in order, one behind the other; returns how many bytes were taken, not 0. If
    /// it did not take all, readiness is reported once there is room again.
    ///
    /// # Errors
    /// [`Stop`].
    fn tcp_send(&mut self, tcp: &mut Self::Tcp, parts: &[IoSlice<'_>]) -> Result<usize, Stop>;

    /// Send a byte as urgent data (MSG_OOB).
    ///
    /// # Errors
    /// [`Stop`].
    fn tcp_send_urgent(&mut self, tcp: &mut Self::Tcp, byte: u8) -> Result<(), Stop>;

    /// Receive into the parts, in order; never past the byte that is urgent.
    ///
    /// # Errors
    /// [`Stop`].
    fn tcp_receive(
        &mut self,
        tcp: &mut Self::Tcp,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<Received, Stop>;

    /// After [`Ready::URGENT`]: is the next byte to receive the urgent one (sockatmark(3))? `None`:
    /// no urgent byte is to come.
    fn tcp_at_mark(&mut self, tcp: &mut Self::Tcp) -> Option<bool>;

    /// No more will be sent.
    fn tcp_shutdown(&mut self, tcp: &mut Self::Tcp);

    /// Let go of a connection whose halves are both over; what was taken is still sent.
    fn tcp_close(&mut self, tcp: Self::Tcp);

    /// Reset a connection, or give up a connect.
    fn tcp_abort(&mut self, tcp: Self::Tcp);

    /// Open a socket for a session; for datagrams on the port that the guest has, if it is free
    /// (RFC 4787 REQ-3).
    ///
    /// # Errors
    /// [`Failure::Full`], or for echoes `Unreachable(Prohibited)` where ping sockets are not
    /// permitted.
    fn open(&mut self, token: Token, key: &SessionKey) -> Result<Self::Socket, Failure>;

    /// Open a socket for datagrams of a client, at the address to which this connection of its
    /// leads and on a port of its own, and say where that is. An outside without clients has none.
    ///
    /// # Errors
    /// [`Failure::Full`], or the outside cannot.
    fn open_beside(
        &mut self,
        token: Token,
        tcp: &mut Self::Tcp,
    ) -> Result<(Self::Socket, SocketAddr), Failure> {
        let _ = (token, tcp);
        Err(Failure::Unreachable(Unreachable::Prohibited))
    }

    /// Reports about a socket for datagrams that the owner has made bear this token from now on.
    /// Returns whether datagrams to anybody may leave by it, or only answers: it has the wrong
    /// address for others, for instance a loopback one. `None`: nothing would be reported of it.
    fn adopt(&mut self, token: Token, key: &SessionKey, socket: &mut Self::Socket) -> Option<bool>;

    /// Send; the call may gather until [`Outside::flush`].
    ///
    /// # Errors
    /// It was not sent; [`Failure::Full`] without room.
    fn send(&mut self, socket: &mut Self::Socket, what: &Outgoing<'_>) -> Result<(), Failure>;

    /// Receive into the beginning of `into`; `None` if nothing waits, and readiness is reported
    /// when something does.
    fn receive(&mut self, socket: &mut Self::Socket, into: &mut [u8]) -> Option<Incoming>;

    /// The next error about something that was sent. One error is not the end of a socket, which
    /// may have other peers.
    fn take_error(&mut self, socket: &mut Self::Socket) -> Option<Problem>;

    /// Close a socket.
    fn close(&mut self, socket: Self::Socket);

    /// Send what was gathered. Called at the end of each turn.
    fn flush(&mut self);
}
