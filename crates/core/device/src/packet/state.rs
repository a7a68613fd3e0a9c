//! The state of the interface that a socket is bound to.
//!
//! Called by: `packet.rs` and `watch.rs`, after the kernel reported a change. Source: packet(7).

use core::ffi::c_int;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

use super::sys;
use crate::interface;

/// The state of an interface, seen from its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    Down,
    /// The socket's interface is gone; there is another one of its name, with this index.
    Another(c_int),
    /// There is no interface of that name.
    Missing,
}

impl State {
    /// Ask the kernel. This clears the socket's error, which reported the change, so that a poll of
    /// the socket sleeps until the next one.
    pub(super) fn of(fd: &OwnedFd, name: &str) -> State {
        // First clear the error, then look: a change in between leaves an error again.
        let _ = sockopt::socket_error(fd);
        let Ok(index) = interface::index(fd, name) else { return State::Missing };
        if sys::bound_to(fd) != Ok(index) {
            State::Another(index)
        } else if interface::is_up(fd, name) == Ok(true) {
            State::Up
        } else {
            State::Down
        }
    }
}
