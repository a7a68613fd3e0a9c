//! The world beyond the gateway: connections, datagrams and echoes that somebody else carries out.
//!
//! Called by: the engine. Implemented by sockets of the host, and in tests by another stack in
//! virtual time. No call waits. The owner of the event loop passes what is ready to
//! [`crate::Gateway::ready`], by the [`Token`] with which the thing was opened. Readiness is an
//! edge: after [`Stop::WouldBlock`] the engine does not try again before the next one.

use core::net::SocketAddr;
use std::io::{IoSlice, IoSliceMut};

use stack::Unreachable;

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

/// Where the gateway's flows lead. See the head of the file.
pub trait Outside {
    /// A connection: a descriptor, or its number.
    type Tcp;

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
}
