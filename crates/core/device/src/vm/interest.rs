//! The descriptor that a driver sleeps on for a port's whole life: an epoll instance, readable when
//! a socket in it has an awaited event.
//!
//! Called by: the files of `vm`.
//!
//! A driver registers a descriptor by its number, and the kernel drops the registration when it is
//! closed. If the sockets themselves were lent, a second machine's socket could reuse the number,
//! and its events would be missed. The epoll instance also reports room, which the driver would not
//! wait for: it cannot know that bytes are waiting. And a duplicate of it, such as a trunk keeps,
//! does not keep a connection open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::is_ready;

/// The events that a port waits for at its sockets.
pub(super) struct Interest(OwnedFd);

impl Interest {
    pub(super) fn new() -> io::Result<Interest> {
        epoll::create(CreateFlags::CLOEXEC).map(Interest).map_err(io::Error::from)
    }

    /// Wait for these events at a new socket.
    pub(super) fn add(&self, socket: &impl AsFd, events: EventFlags) -> io::Result<()> {
        epoll::add(&self.0, socket, EventData::new_u64(0), events).map_err(io::Error::from)
    }

    /// Wait for these events from now on. Pending ones count.
    pub(super) fn change(&self, socket: &impl AsFd, events: EventFlags) -> io::Result<()> {
        epoll::modify(&self.0, socket, EventData::new_u64(0), events).map_err(io::Error::from)
    }

    /// Remove a socket. Closing it is not enough: a child of this process may hold it for a moment
    /// longer.
    pub(super) fn remove(&self, socket: &impl AsFd) {
        // An error means that the socket is not registered, which is what the caller wants.
        let _ = epoll::delete(&self.0, socket);
    }

    /// Is an awaited event pending?
    pub(super) fn has_news(&self) -> bool {
        is_ready(&self.0, PollFlags::IN)
    }
}

impl AsFd for Interest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
