//! What a driver asks before it sleeps, and interrupt mitigation.
//!
//! Called by: drivers (`net`, the polled API's user). Nothing here is on the packet path.

use core::fmt;
use core::task::Waker;

use base::{Duration, Instant};
use device::mitigation::{Level, Mitigation};

use crate::{PortId, Stack};

/// Polling interval of a device that cannot wake, while other devices have a deadline.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The result of [`Stack::arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// Every device wakes.
    All,
    /// Every device wakes, or has a descriptor to wait on ([`Stack::descriptors`]).
    Descriptors,
    /// There is something to poll for at once.
    Ready,
    /// Some device cannot wake: poll it at an interval.
    NotAll,
    /// Poll at this time: frames are coalesced until then, or will have come. Meanwhile wait only
    /// on the descriptors at which something is awaited ([`Stack::descriptors`]): those are of
    /// ports that coalesce nothing. Every other device wakes, or can wait.
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

impl Stack {
    /// Has [`Stack::poll`] something to do right now: a frame to take, room for one that was pushed
    /// back, a peer's buffers to return? A driver asks this last before it sleeps.
    pub fn has_input(&self) -> bool {
        self.core.cx.pool.holds_foreign() || self.ports.has_input() || self.is_looping()
    }

    /// Does something wait for room that a device pushed back, or for the gaps of a destination?
    pub fn is_pushed_back(&self) -> bool {
        self.ports.is_pushed_back() || self.pace.is_awaited()
    }

    /// Did a device push something back since the last [`Stack::arm`]? A driver that sleeps since
    /// then does not wait for its room.
    pub fn is_newly_pushed_back(&self) -> bool {
        self.ports.is_newly_pushed_back()
    }

    /// Has any port had room again, since this was asked last, that had none for one more frame?
    /// Others may be pushed back all the while.
    pub fn found_room(&mut self) -> bool {
        self.pace.found_room() | self.ports.found_room()
    }

    /// Ask every port's device to wake `waker` once there is something for [`Stack::poll`]. The
    /// time of the last call decides whether frames still come.
    pub fn arm(&mut self, waker: &Waker) -> Armed {
        if self.is_looping() {
            return Armed::Ready;
        }
        match self.ports.arm(waker, self.core.cx.now) {
            known @ (Armed::All | Armed::Until(_)) => known,
            _ if self.core.cx.pool.holds_foreign() => Armed::Ready,
            other => other,
        }
    }

    /// Set the interrupt mitigation of a port, from the next time its driver goes idle.
    ///
    /// # Errors
    /// The port's receive queue is too short for that, or there is no such port. Level 0, which a
    /// port begins with, and whatever needs no deeper queue than what it has are never refused.
    pub fn set_mitigation(&mut self, id: PortId, to: Mitigation) -> Result<(), MitigationError> {
        self.ports.set_mitigation(id, to)
    }

    /// The setting of a port, and the level that counts now.
    pub fn mitigation(&self, id: PortId) -> Option<(Mitigation, Level)> {
        let moderation = &self.ports.get(id.0)?.moderation;
        Some((moderation.setting(), moderation.level()))
    }

    /// The descriptors to wait on: each with its port, and what for, as it was when the ports were
    /// last armed. What is readable, or writable then, is for [`Stack::poll`].
    #[cfg(unix)]
    pub fn descriptors(
        &self,
    ) -> impl Iterator<Item = (PortId, std::os::fd::BorrowedFd<'_>, Awaited)> {
        self.ports.iter().filter_map(|port| Some((port.id, port.device.as_fd()?, port.awaited())))
    }

    /// Moves whenever a port is added, removed or replaced.
    pub fn ports_epoch(&self) -> u64 {
        self.ports.epoch()
    }
}
