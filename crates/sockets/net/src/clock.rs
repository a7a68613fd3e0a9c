//! The clock of a stack with sockets: the system's, or one that the program advances.
//!
//! Called by: `inner.rs`, which asks it in each call, and the makers of stacks with sockets.

use core::time::Duration;

use base::Instant;
use stack::VirtualClock;

/// The clock of a stack.
#[derive(Clone)]
pub(crate) enum Clock {
    /// The system's clock, and its time when the stack's time was zero.
    System(std::time::Instant),
    /// A clock that the program advances.
    Virtual(VirtualClock),
}

impl Clock {
    /// The system's clock, such that the stack's time is `now` at present.
    pub(crate) fn from_now(now: Instant) -> Clock {
        let system = std::time::Instant::now();
        let since = Duration::from_nanos(now.as_nanos());
        Clock::System(system.checked_sub(since).unwrap_or(system))
    }

    pub(crate) fn now(&self) -> Instant {
        match self {
            Clock::System(epoch) => Instant::from_nanos(epoch.elapsed().as_nanos() as u64 + 1),
            Clock::Virtual(clock) => clock.now(),
        }
    }

    /// The time `at` on the system's clock; `None` for `Instant::NEVER` and for a virtual clock.
    pub(crate) fn system_time(&self, at: Instant) -> Option<std::time::Instant> {
        match self {
            Clock::System(epoch) if at != Instant::NEVER => {
                epoch.checked_add(Duration::from_nanos(at.as_nanos()))
            }
            _ => None,
        }
    }
}
