//! When a replay is over. A peer that connects again sends all of its routes again, and no end
//! mark.
//!
//! Called by: the router's worker, which sweeps then.

use base::{Duration, Instant};

/// The replay is not over while something comes within this time.
const SILENCE: Duration = Duration::from_secs(5);
/// The replay is not over before: protocols have to find their neighbours again.
const LEAST: Duration = Duration::from_secs(60);

/// A replay that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    began: Instant,
    heard: Instant,
}

impl Replay {
    /// The peer has connected.
    pub fn begin(now: Instant) -> Replay {
        Replay { began: now, heard: now }
    }

    /// The peer has sent something.
    pub fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The replay is over at this time, unless the peer sends something before.
    pub fn due(&self) -> Instant {
        (self.began + LEAST).max(self.heard + SILENCE)
    }
}
