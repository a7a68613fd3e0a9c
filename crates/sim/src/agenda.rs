//! The one event queue: what wants to be looked at next, and when.
//!
//! Called by: `world`. Must not know: what the entries mean.
//!
//! A world has a dozen sources of events, each with one next moment: looking through them all is
//! quicker than any heap, needs no memory, and ties go to the lowest number, always.

use base::Instant;

/// The next moment of each source.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    times: Vec<Instant>,
}

impl Agenda {
    /// One more source, with nothing to do.
    pub(crate) fn add(&mut self) -> usize {
        self.times.push(Instant::NEVER);
        self.times.len() - 1
    }

    /// A source is due at this moment, and not at the one it had before.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, at: Instant) {
        self.times[source] = at;
    }

    /// A source is due at this moment, or before if it was.
    #[inline]
    pub(crate) fn no_later(&mut self, source: usize, at: Instant) {
        self.times[source] = self.times[source].min(at);
    }

    /// Who is next, and when; `None` in an empty world.
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
