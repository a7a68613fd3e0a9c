//! How long forwarding waits while routes are programmed, and a lock that is fair to it.
//!
//! Called by: `engine.rs` around each batch of routes, which holds the stack's lock. The time is
//! CPU time of this thread, so that other programs on the machine do not count. A pause lasts from
//! the first moment at which the forwarding thread may have waited until the lock is free. Both
//! clocks bound the time: the CPU time of the batch, and the time since that moment.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How long the forwarding thread may take to wake up and take the lock.
const WAKE_UP: Duration = Duration::from_millis(1);

/// The pauses so far.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The longest one, in CPU time.
    pub(super) longest: Duration,
}

/// A batch that was begun, by the thread's CPU time.
pub(super) struct Batch(Duration);

impl Pauses {
    /// A batch begins.
    pub(super) fn begin(&self) -> Batch {
        Batch(cpu_time())
    }

    /// A batch is over, and the lock is free; forwarding may have waited `since` then. Gives the
    /// forwarding thread time to take the lock.
    pub(super) fn end(
        &mut self,
        Batch(begun): Batch,
        since: Option<Instant>,
        waits: impl Fn() -> bool,
    ) {
        let batch = cpu_time().saturating_sub(begun);
        let pause = since.map_or(batch, |since| batch.min(since.elapsed()));
        self.longest = self.longest.max(pause);
        if waits() {
            let begun = Instant::now();
            while waits() && begun.elapsed() < WAKE_UP {
                std::thread::yield_now();
            }
        }
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    // This clock exists since Linux 2.6.12, and its values are not negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A batch that began so long ago, without CPU time since.
    fn batch(us: u64) -> Batch {
        Batch(cpu_time().saturating_sub(Duration::from_micros(us)))
    }

    #[test]
    fn what_was_before_forwarding_waited_does_not_count() {
        let mut pauses = Pauses::default();
        while cpu_time() < Duration::from_millis(3) {}
        pauses.end(batch(2_000), Some(Instant::now()), || false);
        assert!(pauses.longest < Duration::from_millis(2), "{pauses:?}");
        pauses.end(batch(2_000), None, || false);
        assert!(pauses.longest >= Duration::from_millis(2), "{pauses:?}");
    }

    #[test]
    fn the_lock_is_left_to_forwarding_until_it_has_it() {
        let asked = Cell::new(0);
        let waits = || {
            asked.set(asked.get() + 1);
            asked.get() < 5
        };
        Pauses::default().end(batch(0), None, waits);
        assert!(asked.get() >= 5);
    }
}
