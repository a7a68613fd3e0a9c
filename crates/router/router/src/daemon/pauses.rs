//! How long forwarding waits while routes are programmed, and a lock that is fair to it.
//!
//! Called by: `engine.rs` around each batch of routes, which holds the stack's lock. The time is CPU
//! time of this thread, so that other programs on the machine do not count. A pause lasts from the
//! begin of a batch until a batch at whose end the forwarding thread does not wait for the lock.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How long the forwarding thread may take to wake up and take the lock.
const WAKE_UP: Duration = Duration::from_millis(1);

/// The pauses so far.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The longest one, in CPU time.
    pub(super) longest: Duration,
    /// The CPU time of earlier batches of the pause that goes on.
    before: Duration,
}

/// A batch that was begun, by the thread's CPU time.
pub(super) struct Batch(Duration);

impl Pauses {
    /// A batch begins.
    pub(super) fn begin(&self) -> Batch {
        Batch(cpu_time())
    }

    /// A batch is over, and the lock is free. Gives the forwarding thread time to take it.
    pub(super) fn end(&mut self, Batch(begun): Batch, forwarding_waits: impl Fn() -> bool) {
        self.note(cpu_time().saturating_sub(begun));
        if forwarding_waits() {
            let since = Instant::now();
            while forwarding_waits() && since.elapsed() < WAKE_UP {
                std::thread::yield_now();
            }
        }
        if !forwarding_waits() {
            self.before = Duration::ZERO;
        }
    }

    fn note(&mut self, batch: Duration) {
        self.before += batch;
        self.longest = self.longest.max(self.before);
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

    #[test]
    fn batches_are_one_pause_while_forwarding_waits() {
        let mut pauses = Pauses::default();
        let batch = |pauses: &mut Pauses, us, waits| {
            pauses.note(Duration::from_micros(us));
            pauses.end(Batch(Duration::MAX), || waits);
        };
        batch(&mut pauses, 30, false);
        assert_eq!(pauses.longest, Duration::from_micros(30));
        batch(&mut pauses, 20, true);
        batch(&mut pauses, 25, true);
        assert_eq!(pauses.longest, Duration::from_micros(45));
        batch(&mut pauses, 1, false);
        batch(&mut pauses, 40, false);
        assert_eq!(pauses.longest, Duration::from_micros(46));
    }

    #[test]
    fn the_lock_is_left_to_forwarding_until_it_has_it() {
        let asked = Cell::new(0);
        let waits = || {
            asked.set(asked.get() + 1);
            asked.get() < 5
        };
        Pauses::default().end(Batch(Duration::MAX), waits);
        assert!(asked.get() >= 5);
    }
}
