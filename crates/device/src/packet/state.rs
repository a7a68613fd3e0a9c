//! What has become of the interface that a socket is bound to.
//!
//! Called by: `packet.rs` and `watch.rs`, when the kernel says that something has. Source:
//! packet(7).

use core::ffi::c_int;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

use super::sys;
use crate::interface;

/// An interface, as its socket finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    Down,
    /// The socket's is gone; there is another one of its name, of this number.
    Another(c_int),
    /// There is none of that name.
    Missing,
}

impl State {
    /// Ask the kernel. The socket's error, which tells of a change, is taken off it: who polls the
    /// socket sleeps until the next one.
    pub(super) fn of(fd: &OwnedFd, name: &str) -> State {
        // First the error, then what there is: a change in between leaves an error again.
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
