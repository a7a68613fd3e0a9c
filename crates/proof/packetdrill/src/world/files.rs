//! The open files of a script: the numbers of real descriptors, and the objects for which they
//! stand.
//!
//! Called by: `entry/`, and calls that make or look up a socket.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use base::Duration;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::{State, Wait};
use crate::Call;
use crate::file::{File, Socket};

/// Maximum open files of a script.
const FILES_MAX: usize = 4096;

impl State {
    /// Add a file. Its number is that of a descriptor made for it.
    pub(crate) fn add(&mut self, file: File) -> Call<RawFd> {
        if self.files.len() >= FILES_MAX {
            return Err(Errno::MFILE);
        }
        let fd = eventfd(0, EventfdFlags::CLOEXEC)?.into_raw_fd();
        // If packetdrill has closed an older descriptor of this number itself, this file replaces
        // the old one.
        self.files.insert(fd, file);
        Ok(fd)
    }

    /// Remove a file and close its descriptor.
    #[allow(unsafe_code)]
    pub(crate) fn remove(&mut self, fd: RawFd) -> Call<File> {
        let file = self.files.remove(&fd).ok_or(Errno::BADF)?;
        // SAFETY: the table holds numbers of descriptors that `add` made and nobody else owns; the
        // number was taken out of the table, so it is closed once.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(file)
    }

    /// Does a read or `accept` on this socket wait, and until when (`SO_RCVTIMEO`)?
    pub(crate) fn wait_to_read(&self, fd: RawFd, flags: i32) -> Wait {
        self.wait_mode(fd, flags, |socket| socket.timeouts.0)
    }

    /// Does a write or `connect` on this socket wait, and until when (`SO_SNDTIMEO`)?
    pub(crate) fn wait_to_write(&self, fd: RawFd, flags: i32) -> Wait {
        self.wait_mode(fd, flags, |socket| socket.timeouts.1)
    }

    fn wait_mode(
        &self,
        fd: RawFd,
        flags: i32,
        timeout: impl FnOnce(&Socket) -> Option<Duration>,
    ) -> Wait {
        let Some(File::Socket(socket)) = self.files.get(&fd) else { return Wait::No };
        if socket.nonblocking || flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE) != 0 {
            return Wait::No;
        }
        timeout(socket).map_or(Wait::Forever, |time| Wait::Until(self.now + time))
    }

    /// The socket behind a descriptor.
    pub(crate) fn socket(&mut self, fd: RawFd) -> Call<&mut Socket> {
        match self.files.get_mut(&fd) {
            Some(File::Socket(socket)) => Ok(socket),
            Some(_) => Err(Errno::NOTSOCK),
            None => Err(Errno::BADF),
        }
    }
}
