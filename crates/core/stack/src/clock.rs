//! A clock that stands still until its owner advances it.
//!
//! Called by: code that runs stacks in virtual time: tests, the lab, and `net` for programs.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use base::Instant;
use device::nic;

/// The time of stacks and of the links between them. Nothing but its owner advances it. Copies show
/// the same time.
#[derive(Clone, Debug)]
pub struct VirtualClock(Arc<AtomicU64>);

impl Default for VirtualClock {
    fn default() -> VirtualClock {
        VirtualClock(Arc::new(AtomicU64::new(1)))
    }
}

impl VirtualClock {
    /// The time; one nanosecond at the beginning.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Advance the time to `at`. A time that has passed changes nothing: the clock never goes back.
    pub fn advance_to(&self, at: Instant) {
        self.0.fetch_max(at.as_nanos(), Ordering::Relaxed);
    }

    /// The clock as devices read it.
    pub fn of_devices(&self) -> nic::Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}
