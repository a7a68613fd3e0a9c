//! What a connection knows of the size of segments that its path carries. Sizes are payloads of
//! segments, options taken off, as in [`crate::Tcb::snd_mss`].
//!
//! Called by: tcb, which holds it; path, which makes segments smaller; probe, which tries larger
//! ones. Plain data.

use base::{Instant, Mss, SeqNumber};

use crate::rare::Clean;
use crate::recovery::ranges::Range;

/// State of the search for the path's MTU (RFC 4821 section 7.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathMtu {
    /// What was known when the connection was made, and until when that holds.
    pub(crate) known: Option<(Mss, Instant)>,
    /// Least size that is known not to arrive ("search_high").
    pub(crate) too_much: u16,
    /// The size to try next, if both ends take that much.
    pub(crate) ask: u16,
    /// How often it was lost.
    pub(crate) failures: u8,
    /// No larger segment is tried before.
    pub(crate) next_search: Instant,
    /// The one that is out.
    pub(crate) probe: Option<Range>,
    /// What one carried that is lost, to be sent again: its loss is no sign of congestion.
    pub(crate) excused: Option<Range>,
    /// Large segments vanished, with this byte at the head: if it arrives in a small one, it is the
    /// path that swallowed them, and not a peer or a link that was gone.
    pub(crate) unproved: Option<SeqNumber>,
    /// A message about the segment at this byte that was not believed yet, and what it said.
    pub(crate) doubted: Option<(SeqNumber, Mss)>,
    /// What was found out is less than was thought, not more.
    pub(crate) is_worse: bool,
}

impl Clean for PathMtu {
    const CLEAN: &'static PathMtu = &PathMtu {
        known: None,
        too_much: u16::MAX,
        ask: u16::MAX,
        failures: 0,
        next_search: Instant::NEVER,
        probe: None,
        excused: None,
        unproved: None,
        doubted: None,
        is_worse: false,
    };
}

impl PathMtu {
    /// Nothing is known to be too much: begin with all there may be.
    pub(crate) fn forget_bounds(&mut self) {
        self.too_much = u16::MAX;
        self.ask = u16::MAX;
        self.failures = 0;
    }

    /// The size to try when `arrives` arrives and both ends take `most`: all there may be, or what
    /// halves what is unknown.
    pub(crate) fn next_size(&self, arrives: u16, most: u16) -> u16 {
        if self.too_much > most {
            return most;
        }
        arrives + self.too_much.saturating_sub(arrives) / 2
    }
}
