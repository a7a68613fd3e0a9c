//! The event queue of a world: which source is due next, and when.
//!
//! Called by: `world`.
//!
//! A world has a dozen sources of events, each with one next time. A linear scan is faster than a
//! heap at that size, and ties always go to the lowest number.

use base::Instant;

/// The next time of each source.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    times: Vec<Instant>,
}

impl EventQueue {
    /// Add a source that is not due. Returns its number.
    pub(crate) fn add(&mut self) -> usize {
        self.times.push(Instant::NEVER);
        self.times.len() - 1
    }

    /// Set the time of a source.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, at: Instant) {
        self.times[source] = at;
    }

    /// Set the time of a source, unless it is due earlier.
    #[inline]
    pub(crate) fn no_later(&mut self, source: usize, at: Instant) {
        self.times[source] = self.times[source].min(at);
    }

    /// The source that is due next, and its time; `None` in an empty world.
    #[inline]
    pub(crate) fn next(&self) -> Option<(usize, Instant)> {
        let mut best = (0, *self.times.first()?);
        for (source, &at) in self.times.iter().enumerate() {
            if at < best.1 {
                best = (source, at);
            }
        }
        Some(best)
    }
}
