//! The readiness of a socket, and `poll`.
//!
//! Called by: `entry/watch.rs`, `epoll.rs`, `transfer.rs`.

use std::os::fd::RawFd;

use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP, POLLRDNORM, POLLWRNORM};
use rustix::io::Errno;
use tcp::State as TcpState;

use super::file::{Endpoint, File};
use super::world::State;
use super::{Call, notifications};

/// A socket is writable if 1/`ROOM_PART` of its send buffer is free: a third, as on Linux.
const ROOM_PART: usize = 3;

/// The events of poll(2) that hold for a descriptor now. Epoll uses the same bits.
pub(super) fn events(state: &mut State, fd: RawFd) -> i16 {
    look(state, fd);
    let Some(File::Socket(socket)) = state.files.get(&fd) else { return POLLNVAL };
    let told_of_copies = if socket.notifications.any() { POLLERR } else { 0 };
    let seen = Seen {
        told: socket.error_reported,
        shut_read: socket.shut_read,
        inline: notifications::is_inline(socket),
        urgent_taken: socket.urgent_taken,
        least: socket.least_read(usize::MAX, 0),
    };
    match socket.endpoint {
        Endpoint::Fresh if socket.fast_open.deferred.is_some() => POLLOUT | POLLWRNORM,
        Endpoint::Fresh => POLLOUT | POLLHUP,
        Endpoint::Unbound => POLLOUT | POLLWRNORM,
        Endpoint::Datagram(handle) => {
            let input = if state.stack.udp_readable(handle) { POLLIN | POLLRDNORM } else { 0 };
            input | POLLOUT | POLLWRNORM
        }
        Endpoint::Listening(listener) => {
            if state.stack.tcp_waiting(listener) > 0 {
                POLLIN | POLLRDNORM
            } else {
                0
            }
        }
        Endpoint::Connection(handle) => connection(state, handle, &seen) | told_of_copies,
    }
}

/// Update a socket's completions of `MSG_ZEROCOPY`. A new completion is an edge for epoll.
pub(super) fn look(state: &mut State, fd: RawFd) {
    let Ok(socket) = state.socket(fd) else { return };
    let Endpoint::Connection(handle) = socket.endpoint else { return };
    if socket.notifications.is_idle() {
        return;
    }
    let acked = state.stack.tcp_info(handle).map_or(u64::MAX, |info| info.bytes_acked);
    if let Ok(socket) = state.socket(fd)
        && socket.notifications.acknowledged(acked)
    {
        socket.edges += 1;
    }
}

/// The state of a socket that is not part of its connection's state.
struct Seen {
    told: bool,
    shut_read: bool,
    inline: bool,
    urgent_taken: Option<u64>,
    /// `SO_RCVLOWAT`.
    least: usize,
}

fn connection(state: &mut State, handle: stack::TcpHandle, seen: &Seen) -> i16 {
    let Some((stage, error)) = state.stack.tcp_state(handle) else { return POLLHUP };
    if stage == TcpState::SynSent {
        return 0;
    }
    let (unread, over) = state.stack.tcp_readable(handle).unwrap_or((0, true));
    let closed = matches!(stage, TcpState::Closed | TcpState::TimeWait);
    let over = over || closed || seen.shut_read;
    let mut events = 0;
    // If only the urgent byte has arrived, there is nothing to read in the stream.
    let alone = !seen.inline && state.stack.tcp_at_mark(handle) == Some(true);
    if unread.saturating_sub(usize::from(alone)) >= seen.least || over {
        events |= POLLIN | POLLRDNORM;
    }
    if over {
        events |= POLLRDHUP;
    }
    if notifications::is_pending(state, handle, seen.urgent_taken) {
        events |= libc::POLLPRI;
    }
    if error.is_some() && !seen.told {
        events |= POLLERR;
    }
    let sending =
        matches!(stage, TcpState::SynReceived | TcpState::Established | TcpState::CloseWait);
    if closed || (over && !sending) {
        events |= POLLHUP;
    }
    if !sending || has_room(state, handle) {
        events |= POLLOUT | POLLWRNORM;
    }
    events
}

/// Should a writer wake up? It should if a third of the buffer is free, and the unsent bytes have
/// fallen below half of their limit.
fn has_room(state: &mut State, handle: stack::TcpHandle) -> bool {
    let Some(info) = state.stack.tcp_info(handle) else { return true };
    let limit = state.stack.tcp_config(handle).map_or(u32::MAX, |c| c.unsent_limit_bytes) as usize;
    let queued = info.in_flight as usize + info.unsent;
    let room = info.send_buffer_bytes.saturating_sub(queued);
    room >= info.send_buffer_bytes / ROOM_PART && info.unsent.saturating_mul(2) < limit.max(2)
}

/// One attempt of `poll`: the number of ready descriptors, or `AGAIN`.
pub(super) fn poll(state: &mut State, fds: &mut [libc::pollfd]) -> Call<usize> {
    let mut ready = 0;
    for entry in fds.iter_mut() {
        entry.revents = 0;
        if entry.fd < 0 {
            continue;
        }
        let always = POLLERR | POLLHUP | POLLNVAL;
        entry.revents = events(state, entry.fd) & (entry.events | always);
        ready += usize::from(entry.revents != 0);
    }
    if ready == 0 { Err(Errno::AGAIN) } else { Ok(ready) }
}
