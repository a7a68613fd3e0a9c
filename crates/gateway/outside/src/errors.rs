//! Errors of system calls as the engine names them.
//!
//! Called by: `tcp.rs`, `datagrams.rs`.

use gateway::{Failure, Stop};
use rustix::io::Errno;
use stack::Unreachable;

/// Why a connect or a send failed.
pub(crate) fn failure(error: Errno) -> Failure {
    match error {
        Errno::CONNREFUSED => Failure::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::NOTCONN => Failure::Reset,
        Errno::TIMEDOUT => Failure::TimedOut,
        Errno::HOSTUNREACH | Errno::HOSTDOWN => Failure::Unreachable(Unreachable::Host),
        Errno::ACCESS | Errno::PERM => Failure::Unreachable(Unreachable::Prohibited),
        Errno::PROTO | Errno::NOPROTOOPT => Failure::Unreachable(Unreachable::Protocol),
        Errno::MFILE
        | Errno::NFILE
        | Errno::NOBUFS
        | Errno::NOMEM
        | Errno::NOSPC
        | Errno::AGAIN
        | Errno::MSGSIZE
        | Errno::ADDRINUSE
        | Errno::ADDRNOTAVAIL => Failure::Full,
        // ENETUNREACH, ENETDOWN; EAFNOSUPPORT where IPv6 is switched off; EINVAL for addresses to
        // which nothing can be sent.
        _ => Failure::Unreachable(Unreachable::Net),
    }
}

/// Why a call of a connection did nothing.
pub(crate) fn stop(error: Errno) -> Stop {
    match error {
        Errno::AGAIN => Stop::WouldBlock,
        error => Stop::Failed(failure(error)),
    }
}

/// The same number in the words of the other crate.
pub(crate) fn errno(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}
