//! The errors of a virtual machine's socket, each with advice for the user.
//!
//! Called by: the files of `vm`.

use core::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

/// Why a socket could not be made, or why frames do not pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum VmError {
    /// The system refused a call.
    Refused {
        /// What was tried.
        what: &'static str,
        /// The socket's path.
        place: String,
        /// The system's error.
        error: Arc<io::Error>,
    },
    /// At the path for the socket is a file that is not a socket. The file is not touched.
    NotASocket {
        /// The path.
        place: String,
    },
    /// At the path for the socket is another program's socket.
    InUse {
        /// The path.
        place: String,
    },
    /// No machine has connected yet, or the last one has gone.
    Waiting {
        /// Where it listens.
        place: String,
    },
    /// The other end has closed the connection, or sent an invalid length.
    Gone {
        /// The path at which it was.
        place: String,
    },
}

impl VmError {
    /// The error of a call about the socket at `path`; `what` describes the attempt.
    pub fn refused<E: Into<io::Error>>(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> VmError {
        let place = path.display().to_string();
        move |error| VmError::Refused { what, place, error: Arc::new(error.into()) }
    }

    /// The system's error number that says the same as far as a number can.
    pub fn raw_os_error(&self) -> i32 {
        let errno = match self {
            VmError::Refused { error, .. } => {
                return error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            }
            VmError::NotASocket { .. } => Errno::NOTSOCK,
            VmError::InUse { .. } => Errno::ADDRINUSE,
            VmError::Waiting { .. } => Errno::AGAIN,
            VmError::Gone { .. } => Errno::CONNRESET,
        };
        errno.raw_os_error()
    }
}

impl fmt::Display for VmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VmError::Refused { what, place, error } => write!(
                f,
                "{what} {place}: {error}. Is the folder there, may this user write to it, and is \
                 the other end running?"
            ),
            VmError::NotASocket { place } => write!(
                f,
                "{place} exists already and is no socket, so it stays: name another path, or \
                 remove it"
            ),
            VmError::InUse { place } => write!(
                f,
                "another program has the socket {place}: name another path, or end that program"
            ),
            VmError::Waiting { place } => write!(
                f,
                "no virtual machine is connected to {place}: start one with -netdev \
                 stream,server=off,addr.type=unix,addr.path={place}"
            ),
            VmError::Gone { place } => write!(
                f,
                "the virtual machine at {place} has closed its end, or sent data that is no frame: \
                 start it, then connect again"
            ),
        }
    }
}

impl core::error::Error for VmError {}
