//! What is known of the bytes in flight: which the peer holds, which are lost, which were sent
//! again; and the state of an episode of repair.
//!
//! Called by: tcb, which holds it; recovery and the files beside it, which change it; ack, output
//! and info, which read it. Plain data. RFC 6675, RFC 6582, RFC 8985.

use std::collections::VecDeque;

use base::{Instant, SeqNumber};

use crate::rare::Clean;
use crate::recovery::prr::Prr;
use crate::recovery::rack::Rack;
use crate::recovery::ranges::{Range, Ranges};
use crate::recovery::tlp::Probe;
use crate::recovery::undo::Evidence;

/// What is being repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    #[default]
    Open,
    /// A loss found by duplicate ACKs, by SACKs or by their absence.
    Fast,
    /// A loss found by the retransmission timer.
    Loss,
}

/// State of an episode, all empty outside one; then what outlives it.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// The episode reduces the window.
    pub(crate) reducing: bool,
    /// The first retransmission of an episode leaves whatever the window says.
    pub(crate) resend_now: bool,
    pub(crate) duplicate_acks: u32,
    /// Without SACK: bytes that have left the network, a segment for each duplicate ACK.
    pub(crate) duplicate_bytes: u32,
    /// SND.NXT when the episode began: it ends when this is acknowledged.
    pub(crate) recover: SeqNumber,
    /// What the peer holds of what is in flight.
    pub(crate) sacked: Ranges,
    /// What is deemed lost and not sent again. No byte is in both.
    pub(crate) lost: Ranges,
    /// What was sent once only and lies before this has been judged: SACKed or lost.
    pub(crate) judged_to: SeqNumber,
    /// What was sent again, in the order of sending; those that arrived may still be there.
    pub(crate) resent: VecDeque<Resent>,
    /// When the next segment would be judged if nothing more were heard.
    pub(crate) reorder_due: Instant,
    /// The retransmission time-out that `reorder_due` stands before.
    pub(crate) timeout_due: Instant,
    pub(crate) prr: Prr,
    pub(crate) probe: Option<Probe>,
    /// SND.UNA and how often the large segment there was sent again.
    pub(crate) large_resends: (SeqNumber, u8),
    /// Behind the last large segment that arrived, unless that has excused the one at SND.UNA.
    pub(crate) large_arrived_to: SeqNumber,
    /// What the last episode did may still prove to have been for nothing.
    pub(crate) evidence: Evidence,
    pub(crate) rack: Rack,
}

/// A retransmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resent {
    pub(crate) range: Range,
    pub(crate) sent_at: Instant,
}

impl Clean for Recovery {
    const CLEAN: &'static Recovery = &Recovery {
        phase: Phase::Open,
        reducing: false,
        resend_now: false,
        duplicate_acks: 0,
        duplicate_bytes: 0,
        recover: SeqNumber(0),
        sacked: Ranges::EMPTY,
        lost: Ranges::EMPTY,
        judged_to: SeqNumber(0),
        resent: VecDeque::new(),
        reorder_due: Instant::NEVER,
        timeout_due: Instant::NEVER,
        prr: Prr::CLEAN,
        probe: None,
        large_resends: (SeqNumber(0), 0),
        large_arrived_to: SeqNumber(0),
        evidence: Evidence::NONE,
        rack: Rack::CLEAN,
    };
}

impl Recovery {
    /// Trouble begins, with a window that begins at `una`. Nothing here was kept up while all was
    /// well.
    pub(crate) fn begin(&mut self, una: SeqNumber) {
        let (evidence, mut rack) = (self.evidence, self.rack);
        rack.begin(una);
        *self = Recovery {
            recover: una,
            judged_to: una,
            large_arrived_to: una,
            evidence,
            rack,
            ..Recovery::CLEAN.clone()
        };
    }

    /// Bytes in flight that are on the way no more.
    #[inline(always)]
    pub(crate) fn gone_bytes(&self) -> u32 {
        self.sacked.bytes() + self.lost.bytes() + self.duplicate_bytes
    }

    /// Bytes of the window that have arrived, in any order.
    pub(crate) fn arrived_bytes(&self) -> u32 {
        self.sacked.bytes() + self.duplicate_bytes
    }
}
