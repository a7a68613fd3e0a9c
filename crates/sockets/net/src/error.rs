//! The errors of sockets: the kinds that the standard library uses on Linux, and texts that say
//! what to do.
//!
//! Called by: all sockets.

use std::io::{Error, ErrorKind};

use base::DropReason;
use stack::{ConnectError, GroupError, ListenError, ReplaceError, UdpError, Unreachable};
use tcp::Error as TcpError;

/// The error of a connection that ended.
pub(crate) fn ended(error: TcpError) -> Error {
    match error {
        TcpError::Refused => Error::new(
            ErrorKind::ConnectionRefused,
            "the peer refused the connection: nobody listens on that port there",
        ),
        TcpError::Reset => Error::new(ErrorKind::ConnectionReset, "the peer reset the connection"),
        TcpError::TimedOut => Error::new(
            ErrorKind::TimedOut,
            "the peer did not answer in time: is it up, and is there a route both ways?",
        ),
        TcpError::NetUnreachable => Error::new(
            ErrorKind::NetworkUnreachable,
            "a router has no route to the peer's network: look at the routes on the way",
        ),
        TcpError::HostUnreachable => Error::new(
            ErrorKind::HostUnreachable,
            "the peer's host does not answer on its link: is it up, and is the address right?",
        ),
        TcpError::ProtocolUnreachable => Error::new(
            ErrorKind::ConnectionRefused,
            "the peer's host does not speak TCP: is the address right?",
        ),
        TcpError::Prohibited => Error::new(
            ErrorKind::HostUnreachable,
            "a router on the way forbids the connection: ask who runs it",
        ),
        TcpError::Aborted => {
            Error::new(ErrorKind::ConnectionAborted, "the connection was aborted on this side")
        }
        TcpError::NetworkDown => network_down(None),
    }
}

/// The error of a connection whose port is gone.
pub(crate) fn network_down(why: Option<&str>) -> Error {
    let why = why.unwrap_or("the port of the connection is gone");
    Error::new(ErrorKind::NetworkDown, why)
}

/// The error of a write after this side shut the direction down, or after the connection ended.
pub(crate) fn broken_pipe() -> Error {
    Error::new(ErrorKind::BrokenPipe, "the connection is closed for writing")
}

/// The error of a call that needs a peer, on a socket without one.
pub(crate) fn not_connected() -> Error {
    Error::new(ErrorKind::NotConnected, "the socket has no peer: connect it first")
}

/// The listener, or its connection, was closed on this side.
pub(crate) fn aborted() -> Error {
    Error::new(ErrorKind::ConnectionAborted, "the socket was closed on this side")
}

/// The error of a nonblocking call that would have to wait.
pub(crate) fn would_block() -> Error {
    ErrorKind::WouldBlock.into()
}

/// The error of a connect that did not succeed within its time-out.
pub(crate) fn connect_timed_out() -> Error {
    Error::new(ErrorKind::TimedOut, "the connection was not made within the time-out")
}

/// The error of a call with the id of a port that does not exist.
pub(crate) fn no_port() -> Error {
    Error::new(ErrorKind::NotFound, "the stack has no such port: it was removed already")
}

/// Why a device cannot replace that of a port.
pub(crate) fn not_replaceable(why: ReplaceError) -> Error {
    Error::new(ErrorKind::InvalidInput, why)
}

/// The error of a close that took longer than the linger time.
pub(crate) fn close_timed_out() -> Error {
    let text = "the peer has not acknowledged everything within the linger time; it is still sent";
    Error::new(ErrorKind::TimedOut, text)
}

/// The error of a call on a stack whose driver has ended.
pub(crate) fn driver_gone() -> Error {
    Error::other("the stack has ended: keep it open, and its driver running, for its sockets")
}

/// A panic left the stack in an unknown state.
pub(crate) fn poisoned() -> Error {
    Error::other("a thread panicked inside this stack: make a new one, and report the panic")
}

/// The error of a call that hit a limit.
pub(crate) fn limit(name: &str) -> Error {
    let text = format!("the limit `{name}` is reached: raise it in the stack's budget");
    Error::new(ErrorKind::QuotaExceeded, text)
}

/// The system's number of EMSGSIZE.
const MESSAGE_TOO_LONG: i32 = if cfg!(any(target_os = "linux", target_os = "android")) {
    90
} else if cfg!(windows) {
    10_040
} else {
    40
};

/// A datagram that was not delivered, according to an ICMP error.
pub(crate) fn undelivered(why: Unreachable) -> Error {
    match why {
        Unreachable::Port | Unreachable::Protocol => Error::new(
            ErrorKind::ConnectionRefused,
            "the peer's host says that nobody is on that port: start the program there",
        ),
        Unreachable::Net => Error::new(
            ErrorKind::NetworkUnreachable,
            "a router has no route to the peer's network: look at the routes on the way",
        ),
        Unreachable::Host => Error::new(
            ErrorKind::HostUnreachable,
            "the peer's host does not answer on its link: is it up, and is the address right?",
        ),
        Unreachable::Prohibited => Error::new(
            ErrorKind::HostUnreachable,
            "a router on the way forbids the datagram: ask who runs it",
        ),
    }
}

/// A packet that could not be sent: no route, or another reason to drop it.
pub(crate) fn unreachable(reason: DropReason) -> Error {
    if reason == DropReason::IpTooBig {
        // `ErrorKind` has no stable kind for EMSGSIZE; only the system's number expresses it.
        return Error::from_raw_os_error(MESSAGE_TOO_LONG);
    }
    let kind = match reason {
        DropReason::IpNoNeighbour => ErrorKind::HostUnreachable,
        DropReason::DeviceLinkDown => ErrorKind::NetworkDown,
        DropReason::MbufExhausted => ErrorKind::OutOfMemory,
        _ => ErrorKind::NetworkUnreachable,
    };
    Error::new(kind, reason.meaning())
}

fn address_in_use() -> Error {
    Error::new(ErrorKind::AddrInUse, "the address is in use: choose another port, or 0 for any")
}

/// The error of a local address that the stack does not have.
pub(crate) fn no_address() -> Error {
    Error::new(
        ErrorKind::AddrNotAvailable,
        "none of the stack's ports has such an address: give one to a port, or ask for another",
    )
}

/// The error of a connect that could not begin. `bound`: the program chose the local port.
pub(crate) fn connect(error: ConnectError, bound: bool) -> Error {
    match error {
        ConnectError::Unreachable(reason) => unreachable(reason),
        ConnectError::NoAddress => no_address(),
        ConnectError::AddressInUse if bound => address_in_use(),
        ConnectError::AddressInUse => Error::new(
            ErrorKind::AddrNotAvailable,
            "no local port is free for that destination: close connections to it, wait a minute \
             until closed ones have left TIME-WAIT, or connect from another address",
        ),
        ConnectError::LimitReached => limit("connections"),
    }
}

/// The error of a listener that could not be made.
pub(crate) fn listen(error: ListenError) -> Error {
    match error {
        ListenError::AddressInUse => address_in_use(),
        ListenError::LimitReached => limit("sockets"),
        ListenError::NoAddress => no_address(),
    }
}

/// The error of a change of a group membership that failed.
pub(crate) fn group(error: GroupError) -> Error {
    let kind = match error {
        GroupError::Closed => return aborted(),
        GroupError::LimitReached(name) => return limit(name.name()),
        GroupError::AlreadyMember => ErrorKind::AddrInUse,
        GroupError::NoPort | GroupError::NotAMember => ErrorKind::AddrNotAvailable,
        GroupError::NotAGroup | GroupError::NotASource | GroupError::OtherMode => {
            ErrorKind::InvalidInput
        }
    };
    Error::new(kind, error)
}

/// The error of a TTL above 255.
pub(crate) fn ttl_too_large() -> Error {
    Error::new(ErrorKind::InvalidInput, "a TTL is 255 at most")
}

/// The error of a UDP call that failed.
pub(crate) fn udp(error: UdpError) -> Error {
    match error {
        UdpError::AddressInUse => address_in_use(),
        UdpError::LimitReached => limit("sockets"),
        UdpError::Closed => aborted(),
        UdpError::NoAddress => no_address(),
        UdpError::WouldBlock => would_block(),
        UdpError::Broadcast => Error::new(
            ErrorKind::PermissionDenied,
            "the destination is a broadcast address: call set_broadcast(true) first",
        ),
        UdpError::Group => Error::new(
            ErrorKind::InvalidInput,
            "the members of a group have a path each: send the probe to a host",
        ),
        UdpError::TooBig(_) => unreachable(DropReason::IpTooBig),
        UdpError::InvalidSegments => Error::new(
            ErrorKind::InvalidInput,
            "segments have a byte at least, and a call has 64 of them and 65,535 bytes at most",
        ),
        UdpError::Unsendable(reason) => unreachable(reason),
    }
}
