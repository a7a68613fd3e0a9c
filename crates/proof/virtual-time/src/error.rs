//! Why a run has no result.
//!
//! Called by: `world.rs`, `pump.rs`.

use core::fmt;
use core::time::Duration;
use std::io;

/// The end of a run whose main future did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The limit of the world, in virtual time.
    pub limit: Duration,
    /// When a stack had work for the last time: a packet, a call or a timer.
    pub since: Duration,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the main future has not ended at the limit of {:?} of virtual time, and no stack has \
             had work since {:?}: no packet was on its way. If that is long before the limit, look \
             for tasks that wait for each other and for waits without a timeout. If the program \
             needs more time, set `World::limit`",
            self.limit, self.since
        )
    }
}

impl core::error::Error for Stuck {}

/// Why a run has no result.
#[derive(Debug)]
pub enum RunError {
    /// All tasks wait forever, or the limit is too short.
    Stuck(Stuck),
    /// The caller runs inside a runtime of tokio, such as that of `#[tokio::test]`.
    Nested,
    /// The runtime cannot be made.
    Runtime(io::Error),
    /// A capture file could not be written.
    Capture(device::capture::CaptureError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Stuck(stuck) => stuck.fmt(f),
            RunError::Nested => f.write_str(
                "a world has a runtime of its own, and cannot run inside another one: call \
                 `World::run` from a plain `#[test]`, or from a thread of its own",
            ),
            RunError::Runtime(error) => write!(f, "tokio's runtime cannot be made: {error}"),
            RunError::Capture(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RunError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            RunError::Stuck(stuck) => Some(stuck),
            RunError::Nested => None,
            RunError::Runtime(error) => Some(error),
            RunError::Capture(error) => Some(error),
        }
    }
}

/// The error of a call for a host that has crashed.
pub(crate) fn down(name: &str) -> io::Error {
    let text = format!("host {name} has crashed: call `Host::restart` first");
    io::Error::new(io::ErrorKind::HostUnreachable, text)
}
