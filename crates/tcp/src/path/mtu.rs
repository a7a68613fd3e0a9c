//! What a connection knows of the size of segments that its path carries. Sizes are payloads of
//! segments, options taken off, as in [`crate::Tcb::snd_mss`].
//!
//! Called by: tcb, which holds it; path, which makes segments smaller; probe, which tries larger
//! ones. Plain data: must not know a Tcb.

use base::{Instant, Mss, SeqNumber};

use crate::recovery::ranges::Range;

/// State of the search for the path's MTU (RFC 4821 section 7.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathMtu {
    /// What was known when the connection was made, and until when that holds.
    pub(crate) known: Option<(Mss, Instant)>,
    /// What both ends agreed on: never more.
    pub(crate) most: u16,
    /// Least size that is known not to arrive; more than `most` if none is ("search_high").
    pub(crate) too_much: u16,
    /// The size to try next.
    pub(crate) ask: u16,
    /// How often it was lost.
    pub(crate) failures: u8,
    /// No larger segment is tried before.
    pub(crate) next_search: Instant,
    /// The one that is out.
    pub(crate) probe: Option<Range>,
    /// What one carried that is lost, to be sent again: its loss is no sign of congestion.
    pub(crate) excused: Option<Range>,
    /// SND.UNA and how often the large segment there was lost.
    pub(crate) resends: (SeqNumber, u8),
    /// Behind the last large segment that arrived while something was missing.
    pub(crate) arrived_to: SeqNumber,
    /// Large segments vanished, with this byte at the head: if it arrives in a small one, it is the
    /// path that swallowed them, and not a peer or a link that was gone.
    pub(crate) unproved: Option<SeqNumber>,
    /// What was found out is less than was thought, not more.
    pub(crate) is_worse: bool,
}

impl PathMtu {
    pub(crate) fn new(known: Option<(Mss, Instant)>) -> PathMtu {
        PathMtu {
            known,
            most: 0,
            too_much: 0,
            ask: 0,
            failures: 0,
            next_search: Instant::NEVER,
            probe: None,
            excused: None,
            resends: (SeqNumber(0), 0),
            arrived_to: SeqNumber(0),
            unproved: None,
            is_worse: false,
        }
    }

    /// Nothing up to `most` is known to be too much: begin with that.
    pub(crate) fn forget_bounds(&mut self) {
        self.too_much = self.most.saturating_add(1);
        self.ask = self.most;
        self.failures = 0;
    }

    /// The size to try when `arrives` arrives: all there may be, or what halves what is unknown.
    pub(crate) fn next_size(&self, arrives: u16) -> u16 {
        if self.too_much > self.most {
            return self.most;
        }
        arrives + self.too_much.saturating_sub(arrives) / 2
    }
}
