//! The kernel's error numbers, for programs in other languages: C and Python have them in place of
//! kinds. Called by: the C library, the Python package.

use std::io::{Error, ErrorKind};

use rustix::io::Errno;

/// The number that the kernel returns in the case of `error`, from errno(3). It is the number that
/// the error came with, or that of its kind; EIO for kinds without a number.
pub fn errno(error: &Error) -> i32 {
    error.raw_os_error().unwrap_or_else(|| of_kind(error.kind()).raw_os_error())
}

fn of_kind(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        ErrorKind::ConnectionReset => Errno::CONNRESET,
        ErrorKind::ConnectionAborted => Errno::CONNABORTED,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::NetworkUnreachable => Errno::NETUNREACH,
        ErrorKind::HostUnreachable => Errno::HOSTUNREACH,
        ErrorKind::NetworkDown => Errno::NETDOWN,
        ErrorKind::BrokenPipe => Errno::PIPE,
        ErrorKind::NotConnected => Errno::NOTCONN,
        ErrorKind::AddrInUse => Errno::ADDRINUSE,
        ErrorKind::AddrNotAvailable => Errno::ADDRNOTAVAIL,
        ErrorKind::PermissionDenied => Errno::ACCESS,
        ErrorKind::NotFound => Errno::NOENT,
        ErrorKind::InvalidInput => Errno::INVAL,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        // A limit of the stack's budget.
        ErrorKind::QuotaExceeded => Errno::NOBUFS,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_has_the_same_kinds_for_these_numbers() {
        let kinds = [
            ErrorKind::WouldBlock,
            ErrorKind::ConnectionRefused,
            ErrorKind::ConnectionReset,
            ErrorKind::ConnectionAborted,
            ErrorKind::TimedOut,
            ErrorKind::NetworkUnreachable,
            ErrorKind::HostUnreachable,
            ErrorKind::NetworkDown,
            ErrorKind::BrokenPipe,
            ErrorKind::NotConnected,
            ErrorKind::AddrInUse,
            ErrorKind::AddrNotAvailable,
            ErrorKind::PermissionDenied,
            ErrorKind::NotFound,
            ErrorKind::InvalidInput,
            ErrorKind::OutOfMemory,
            ErrorKind::Unsupported,
        ];
        for kind in kinds {
            assert_eq!(Error::from_raw_os_error(errno(&Error::from(kind))).kind(), kind);
        }
        assert_eq!(errno(&Error::from_raw_os_error(71)), 71, "the number that it came with");
        assert_eq!(errno(&Error::from(ErrorKind::QuotaExceeded)), Errno::NOBUFS.raw_os_error());
        assert_eq!(errno(&Error::other("why")), Errno::IO.raw_os_error());
    }
}
