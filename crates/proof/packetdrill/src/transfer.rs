//! The calls that read from sockets and write to them.
//!
//! Called by: `entry/bytes.rs`. Each function is one attempt of a call. A write adds the bytes it
//! took to `done`, and the next attempt continues from there.

use core::net::SocketAddr;
use std::os::fd::RawFd;

use libc::{MSG_FASTOPEN, MSG_MORE, MSG_PEEK};
use rustix::io::Errno;
use stack::{Follows, TcpHandle};
use tcp::State as TcpState;
use tcp::usrreq::CallError;

use super::control::udp_error;
use super::file::Endpoint;
use super::socket::{datagram_port, refusal};
use super::world::{State, Wait};
use super::{Call, fast_open, notifications, ready};

/// The result of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) bytes: usize,
    /// For a datagram: its source, and whether it was longer than the buffer.
    pub(super) from: Option<SocketAddr>,
    pub(super) truncated: bool,
    /// `MSG_ERRQUEUE`: the first and last number of the calls whose bytes were copied and are
    /// acknowledged.
    pub(super) copied: Option<(u32, u32)>,
    /// `TCP_INQ`: the number of bytes left to read; the end of the stream counts as one.
    pub(super) unread: Option<i32>,
}

/// One attempt of a read.
pub(super) fn read(state: &mut State, fd: RawFd, into: &mut [u8], flags: i32) -> Call<Found> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        ready::look(state, fd);
        let copied = state.socket(fd)?.notifications.take().ok_or(Errno::AGAIN)?;
        return Ok(Found { copied: Some(copied), ..Found::default() });
    }
    let socket = state.socket(fd)?;
    let (shut, tells) = (socket.shut_read, socket.reports_unread);
    let handle = match socket.endpoint {
        Endpoint::Connection(handle) => handle,
        Endpoint::Unbound | Endpoint::Datagram(_) => return receive(state, fd, into, flags),
        Endpoint::Fresh if socket.fast_open.deferred.is_some() => return Err(Errno::AGAIN),
        Endpoint::Fresh | Endpoint::Listening(_) => return Err(Errno::NOTCONN),
    };
    if flags & libc::MSG_OOB != 0 {
        let bytes = notifications::receive(state, fd, handle, into, flags)?;
        return Ok(Found { bytes, ..Found::default() });
    }
    if matches!(state.stack.tcp_state(handle), Some((TcpState::SynSent, None))) {
        return Err(Errno::AGAIN);
    }
    notifications::pass_over(state, fd, handle)?;
    if waits_for_more(state, fd, handle, into.len(), flags)? {
        return Err(Errno::AGAIN);
    }
    let outcome = if flags & MSG_PEEK != 0 {
        state.stack.tcp_peek(handle, into)
    } else {
        state.stack.tcp_read(handle, into)
    };
    let bytes = match outcome {
        Ok(bytes) => bytes,
        Err(CallError::WouldBlock | CallError::Closed) if shut => 0,
        Err(CallError::Closed) => 0,
        Err(error) => match refusal(state, fd, error, false) {
            Errno::NOTCONN => 0,
            errno => return Err(errno),
        },
    };
    let unread = tells.then(|| {
        let (left, over) = state.stack.tcp_readable(handle).unwrap_or((0, true));
        // As on Linux, the end of the stream counts as one when no data is left before it.
        let end = i32::from(left == 0 && over);
        i32::try_from(left).unwrap_or(i32::MAX).saturating_add(end)
    });
    Ok(Found { bytes, unread, ..Found::default() })
}

/// Does a blocking read wait for more, although there is something to read? It does not wait before
/// urgent data, where every read ends.
fn waits_for_more(
    state: &mut State,
    fd: RawFd,
    handle: TcpHandle,
    len: usize,
    flags: i32,
) -> Call<bool> {
    let least = state.socket(fd)?.least_read(len, flags);
    if least == 1 || state.wait_to_read(fd, flags) == Wait::No {
        return Ok(false);
    }
    let (unread, over) = state.stack.tcp_readable(handle).unwrap_or((0, true));
    let urgent = state.stack.tcp_urgent_left(handle).unwrap_or(0) > 0;
    Ok(unread > 0 && unread < least && !over && !urgent)
}

fn receive(state: &mut State, fd: RawFd, into: &mut [u8], flags: i32) -> Call<Found> {
    let handle = datagram_port(state, fd)?;
    let (bytes, from) = state.stack.udp_peek(handle, into).ok_or(Errno::AGAIN)?;
    let mut truncated = false;
    if flags & MSG_PEEK == 0
        && let Some(datagram) = state.stack.udp_receive(handle)
    {
        truncated = datagram.payload.len() > bytes;
        state.stack.give_back(datagram.payload);
    }
    Ok(Found { bytes, from: Some(from), truncated, ..Found::default() })
}

/// One attempt to write the bytes after `done`. `AGAIN` until all bytes are taken. A non-blocking
/// call returns how many bytes were taken.
pub(super) fn write(
    state: &mut State,
    fd: RawFd,
    bytes: &[u8],
    flags: i32,
    to: Option<SocketAddr>,
    done: &mut usize,
) -> Call<usize> {
    let socket = state.socket(fd)?;
    let handle = match socket.endpoint {
        Endpoint::Connection(handle) => handle,
        Endpoint::Unbound | Endpoint::Datagram(_) => {
            let remote = to.or(socket.peer).ok_or(Errno::DESTADDRREQ)?;
            let handle = datagram_port(state, fd)?;
            let now = state.now;
            state.stack.udp_send(handle, remote, bytes, now).map_err(udp_error)?;
            return Ok(bytes.len());
        }
        Endpoint::Fresh if flags & MSG_FASTOPEN != 0 || socket.fast_open.deferred.is_some() => {
            return fast_open::send(state, fd, bytes, flags, to, done);
        }
        Endpoint::Fresh | Endpoint::Listening(_) => return Err(Errno::PIPE),
    };
    if fast_open::go_on(state, fd, handle, flags, bytes.len() == *done)? {
        return Ok(*done);
    }
    if bytes.is_empty() {
        return Ok(0);
    }
    let follows = match flags & (MSG_MORE | libc::MSG_EOR) {
        0 => Follows::Anything,
        libc::MSG_EOR => Follows::Record,
        _ => Follows::More,
    };
    state.socket(fd)?.write_blocked = false;
    while *done < bytes.len() {
        let rest = &bytes[*done..];
        let written = if flags & libc::MSG_OOB != 0 {
            state.stack.tcp_write_urgent(handle, rest)
        } else {
            state.stack.tcp_write_part(handle, rest, follows)
        };
        match written {
            Ok(taken) => {
                *done += taken;
                let socket = state.socket(fd)?;
                let asked = flags & libc::MSG_ZEROCOPY != 0 && *done == bytes.len();
                let wants = asked && socket.zero_copy();
                socket.notifications.wrote(taken, wants);
            }
            Err(CallError::WouldBlock) => {
                state.socket(fd)?.write_blocked = true;
                return Err(Errno::AGAIN);
            }
            Err(_) if *done > 0 => return Ok(*done),
            Err(error) => return Err(refusal(state, fd, error, true)),
        }
    }
    Ok(*done)
}
