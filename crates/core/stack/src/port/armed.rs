//! What a driver is told before it sleeps, and why a port's interrupt mitigation is refused.
//!
//! Called by: `port.rs` and `table.rs`, for drivers. Nothing here is on the packet path.

use core::fmt;

use base::{Duration, Instant};
use device::mitigation::{Level, Mitigation};

/// Polling interval of a device that cannot wake, while other devices have a deadline.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The result of [`crate::Stack::arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// Every device wakes.
    All,
    /// Every device wakes, or has a descriptor to wait on ([`crate::Stack::descriptors`]).
    Descriptors,
    /// There is something to poll for at once.
    Ready,
    /// Some device cannot wake: poll it at an interval.
    NotAll,
    /// Poll at this time: frames are coalesced until then, or will have come. Meanwhile wait only
    /// on the descriptors at which something is awaited ([`crate::Stack::descriptors`]): those
    /// are of ports that coalesce nothing. Every other device wakes, or can wait.
    Until(Instant),
}

/// What to wait for at the descriptor of a port's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Nothing: its frames are coalesced, and it is polled in time.
    Nothing,
    /// Frames.
    Frames,
    /// Frames, and room for what was pushed back.
    FramesAndRoom,
}

impl Armed {
    /// What holds for two ports together.
    pub(crate) fn and(self, other: Armed, now: Instant) -> Armed {
        match (self, other) {
            (Armed::Ready, _) | (_, Armed::Ready) => Armed::Ready,
            (Armed::Until(a), Armed::Until(b)) => Armed::Until(a.min(b)),
            (Armed::Until(at), Armed::NotAll) | (Armed::NotAll, Armed::Until(at)) => {
                Armed::Until(at.min(now + LOOK_INTERVAL))
            }
            (Armed::Until(at), _) | (_, Armed::Until(at)) => Armed::Until(at),
            (Armed::NotAll, _) | (_, Armed::NotAll) => Armed::NotAll,
            (Armed::Descriptors, _) | (_, Armed::Descriptors) => Armed::Descriptors,
            (Armed::All, Armed::All) => Armed::All,
        }
    }
}

/// Why a port's interrupt mitigation stays what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MitigationError {
    /// There is no such port.
    NoPort,
    /// Frames would be lost while a burst is handled.
    TooShallow {
        /// Frames that the port's receive queue holds.
        depth: usize,
        /// Frames that it would have to hold.
        least: usize,
    },
}

impl fmt::Display for MitigationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MitigationError::NoPort => f.write_str("there is no such port"),
            MitigationError::TooShallow { depth, least } => write!(
                f,
                "the receive queue holds {depth} frames, and this mitigation lets so many gather \
                 that it needs {least}: choose level {} or a deeper queue",
                highest_for(*depth).number()
            ),
        }
    }
}

impl core::error::Error for MitigationError {}

/// The highest level that a queue of so many frames is deep enough for; 0 suits any.
fn highest_for(depth: usize) -> Level {
    let mut levels = (0..=Level::MAX.number()).rev().filter_map(Level::new);
    levels.find(|&level| Mitigation::Level(level).least_depth() <= depth).unwrap_or_default()
}
