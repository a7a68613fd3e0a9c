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
        let pause = pause(batch, since.map(|since| since.elapsed()));
        self.longest = self.longest.max(pause);
        leave(waits, WAKE_UP);
    }
}

/// The pause of a batch that took so much CPU time, if forwarding may have waited for so long.
fn pause(batch: Duration, waited: Option<Duration>) -> Duration {
    waited.map_or(batch, |waited| batch.min(waited))
}

/// Give the forwarding thread so much time at most to take the lock, if it waits.
fn leave(waits: impl Fn() -> bool, most: Duration) {
    if waits() {
        let begun = Instant::now();
        while waits() && begun.elapsed() < most {
            std::thread::yield_now();
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

    #[test]
    fn what_was_before_forwarding_waited_does_not_count() {
        let [short, long] = [1, 2].map(Duration::from_millis);
        assert_eq!(pause(long, Some(short)), short);
        // Other programs had the processor meanwhile.
        assert_eq!(pause(short, Some(long)), short);
        assert_eq!(pause(long, None), long);
    }

    #[test]
    fn the_lock_is_left_to_forwarding_until_it_has_it() {
        let asked = Cell::new(0);
        let waits = |times| {
            asked.set(asked.get() + 1);
            asked.get() < times
        };
        leave(|| waits(5), Duration::MAX);
        assert_eq!(asked.take(), 5);
        leave(|| waits(1), Duration::MAX);
        assert_eq!(asked.take(), 1);
        leave(|| waits(u32::MAX), Duration::ZERO);
        assert_eq!(asked.take(), 2);
    }
}
