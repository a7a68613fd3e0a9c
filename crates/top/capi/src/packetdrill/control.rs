//! `fcntl` and `ioctl`.
//!
//! Called by: `entry/mod.rs`.

use std::os::fd::RawFd;

use libc::{F_GETFL, F_SETFL, FIONREAD, O_NONBLOCK, O_RDWR, TIOCOUTQ};
use rustix::io::Errno;

use super::file::Endpoint;
use super::world::State;
use super::{Call, urgent};

/// Linux's `SIOCOUTQNSD`: the bytes not sent yet.
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

/// `ioctl`: the number to store where the third argument points.
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
    let inline = urgent::is_inline(state.socket(fd)?);
    let bytes = if request == FIONREAD {
        urgent::readable(state, handle, inline, info.unread)
    } else if request == TIOCOUTQ {
        info.unsent + info.in_flight as usize
    } else if request == UNSENT {
        info.unsent
    } else {
        return Err(Errno::NOTTY);
    };
    Ok(i32::try_from(bytes).unwrap_or(i32::MAX))
}
