//! Maps the errors of the stack's calls to `errno` values.
//!
//! Called by: `socket.rs`, `transfer.rs`, `options.rs`, `fast_open.rs`.

use rustix::io::Errno;
use stack::{ConnectError, UdpError};
use tcp::Error;

/// The `errno` for the way a connection ended.
pub(super) fn tcp_error(error: Error) -> Errno {
    match error {
        Error::Refused => Errno::CONNREFUSED,
        Error::Reset => Errno::CONNRESET,
        Error::TimedOut => Errno::TIMEDOUT,
        Error::Aborted => Errno::CONNABORTED,
        Error::NetworkDown => Errno::NETDOWN,
        Error::NetUnreachable => Errno::NETUNREACH,
        Error::HostUnreachable | Error::Prohibited => Errno::HOSTUNREACH,
        Error::ProtocolUnreachable => Errno::NOPROTOOPT,
    }
}

pub(super) fn connect_error(error: ConnectError) -> Errno {
    match error {
        ConnectError::Unreachable(_) => Errno::NETUNREACH,
        ConnectError::NoAddress => Errno::ADDRNOTAVAIL,
        ConnectError::AddressInUse => Errno::ADDRINUSE,
        ConnectError::LimitReached => Errno::NOBUFS,
    }
}

pub(super) fn udp_error(error: UdpError) -> Errno {
    match error {
        UdpError::AddressInUse => Errno::ADDRINUSE,
        UdpError::LimitReached => Errno::NOBUFS,
        UdpError::WouldBlock => Errno::AGAIN,
        UdpError::NoAddress => Errno::ADDRNOTAVAIL,
        UdpError::Broadcast => Errno::ACCESS,
        UdpError::Unsendable(base::DropReason::IpTooBig) | UdpError::TooBig(_) => Errno::MSGSIZE,
        UdpError::InvalidSegments | UdpError::Group => Errno::INVAL,
        UdpError::Unsendable(_) => Errno::NETUNREACH,
        UdpError::Closed => Errno::BADF,
    }
}
