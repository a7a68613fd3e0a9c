//! `fcntl` and `ioctl`.
//!
//! Called by: `entry/mod.rs`.

use std::os::fd::RawFd;

use libc::{F_GETFL, F_SETFL, FIONREAD, O_NONBLOCK, O_RDWR, TIOCOUTQ};
use rustix::io::Errno;
use stack::{ConnectError, UdpError};
use tcp::Error;

use super::file::Endpoint;
use super::world::State;
use super::{Call, notifications};

/// Linux's `SIOCOUTQNSD`: the number of bytes that were not sent yet.
const UNSENT: u64 = 0x894B;
/// `SIOCATMARK`: whether the next byte to read is the urgent one.
const AT_MARK: u64 = 0x8905;

/// `fcntl`: the status flags of a socket. Only `O_NONBLOCK` has an effect.
pub(super) fn fcntl(state: &mut State, fd: RawFd, command: i32, value: i32) -> Call<i32> {
    let socket = state.socket(fd)?;
    match command {
        F_GETFL => Ok(O_RDWR | if socket.nonblocking { O_NONBLOCK } else { 0 }),
        F_SETFL => {
            socket.nonblocking = value & O_NONBLOCK != 0;
            Ok(0)
        }
        libc::F_GETFD | libc::F_SETFD => Ok(0),
        _ => Err(Errno::INVAL),
    }
}

/// `ioctl`: returns the number that the third argument's target gets.
pub(super) fn ioctl(state: &mut State, fd: RawFd, request: u64) -> Call<i32> {
    let endpoint = state.socket(fd)?.endpoint;
    let Endpoint::Connection(handle) = endpoint else {
        return Err(if matches!(endpoint, Endpoint::Listening(_)) {
            Errno::INVAL
        } else {
            Errno::NOTTY
        });
    };
    if request == AT_MARK {
        return Ok(i32::from(state.stack.tcp_at_mark(handle).ok_or(Errno::BADF)?));
    }
    let info = state.stack.tcp_info(handle).ok_or(Errno::BADF)?;
    let inline = notifications::is_inline(state.socket(fd)?);
    let bytes = if request == FIONREAD {
        notifications::readable(state, handle, inline, info.unread)
    } else if request == TIOCOUTQ {
        info.unsent + info.in_flight as usize
    } else if request == UNSENT {
        info.unsent
    } else {
        return Err(Errno::NOTTY);
    };
    Ok(i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// The `errno` for the way in which a connection ended.
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
