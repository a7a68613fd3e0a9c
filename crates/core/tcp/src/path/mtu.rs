//! The state of a connection's search for its path MTU. Sizes are payloads of segments without
//! options, as in [`crate::Tcb::snd_mss`].
//!
//! Called by: tcb, which contains it; path, which makes segments smaller; probe, which tries larger
//! ones. Plain data.

use base::{Instant, Mss, SeqNumber};

use crate::rare::Clean;
use crate::recovery::ranges::Range;

/// State of the path MTU search (RFC 4821 section 7.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathMtu {
    /// The MSS that was known when the connection was created, and when that knowledge expires.
    pub(crate) known: Option<(Mss, Instant)>,
    /// The smallest size known not to arrive ("search_high").
    pub(crate) too_much: u16,
    /// The size to try next, if both ends take that much.
    pub(crate) ask: u16,
    /// How often a probe of this size was lost.
    pub(crate) failures: u8,
    /// No probe is sent before this time.
    pub(crate) next_search: Instant,
    /// The probe in flight.
    pub(crate) probe: Option<Range>,
    /// The bytes of a lost probe that are to be retransmitted: their loss is no sign of congestion.
    pub(crate) excused: Option<Range>,
    /// Large segments vanished, with this byte at the front. If this byte arrives in a small
    /// segment, the path dropped the large ones; neither the peer nor the link was down.
    pub(crate) unproved: Option<SeqNumber>,
    /// A report that is not believed yet: the segment at this byte is larger than this MSS.
    pub(crate) doubted: Option<(SeqNumber, Mss)>,
    /// The newly found size is less than was assumed.
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
    /// Forget which sizes are too large, and start the search over.
    pub(crate) fn forget_bounds(&mut self) {
        self.too_much = u16::MAX;
        self.ask = u16::MAX;
        self.failures = 0;
    }

    /// The next size to try, if segments of size `arrives` arrive and both ends accept `most`: it
    /// is `most`, or the middle between the sizes known to arrive and not to arrive.
    pub(crate) fn next_size(&self, arrives: u16, most: u16) -> u16 {
        if self.too_much > most {
            return most;
        }
        arrives + self.too_much.saturating_sub(arrives) / 2
    }
}
