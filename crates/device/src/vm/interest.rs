//! What a driver sleeps at for the whole life of a port: one epoll instance, which is a descriptor
//! itself, readable when a socket in it has the news that are waited for.
//!
//! Called by: the files of `vm`.
//!
//! A driver knows descriptors by their numbers, and the kernel forgets those that are closed. Lent
//! themselves, the sockets of two machines would have one number, and the second would not be heard
//! of. Room is news as well here, without the driver having asked: it cannot know that bytes wait.
//! And whoever keeps a copy of what is lent, as a trunk does, keeps no connection open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::is_ready;

/// The sockets of a port that are listened to.
pub(super) struct Interest(OwnedFd);

impl Interest {
    pub(super) fn new() -> io::Result<Interest> {
        epoll::create(CreateFlags::CLOEXEC).map(Interest).map_err(io::Error::from)
    }

    /// Hear of these events at a socket that is not there yet.
    pub(super) fn add(&self, socket: &impl AsFd, events: EventFlags) -> io::Result<()> {
        epoll::add(&self.0, socket, EventData::new_u64(0), events).map_err(io::Error::from)
    }

    /// Hear of these events from now on. Those that are there already are news.
    pub(super) fn change(&self, socket: &impl AsFd, events: EventFlags) -> io::Result<()> {
        epoll::modify(&self.0, socket, EventData::new_u64(0), events).map_err(io::Error::from)
    }

    /// Hear of this socket no more. Closing it is not enough: a child of this process may have it
    /// for a moment longer.
    pub(super) fn remove(&self, socket: &impl AsFd) {
        // It fails if the socket is not there, which is what is wanted.
        let _ = epoll::delete(&self.0, socket);
    }

    /// Are there any of the events that are listened for?
    pub(super) fn has_news(&self) -> bool {
        is_ready(&self.0, PollFlags::IN)
    }
}

impl AsFd for Interest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
