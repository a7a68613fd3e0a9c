//! The scoreboard: which bytes in flight the peer holds, which are lost, which were retransmitted;
//! the news of an ACK; and the state of a recovery episode.
//!
//! Called by: tcb, which contains it; recovery and the files beside it, which change it; ack,
//! output and info, which read it. Plain data. RFC 6675, RFC 6582, RFC 8985.

use std::collections::VecDeque;

use base::{Duration, Instant, SeqNumber};

use crate::rare::Clean;
use crate::recovery::prr::Prr;
use crate::recovery::rack::Rack;
use crate::recovery::ranges::{Range, Ranges};

/// The kind of recovery in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// None.
    #[default]
    Open,
    /// A loss found by duplicate ACKs, by SACKs or by RACK.
    Fast,
    /// A loss found by the retransmission timer.
    Loss,
}

/// First the state of an episode, which is empty outside one, then the state that outlives it.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// The episode reduces cwnd.
    pub(crate) reducing: bool,
    /// The first retransmission of an episode is sent whatever cwnd is.
    pub(crate) resend_now: bool,
    pub(crate) duplicate_acks: u32,
    /// Without SACK: bytes that left the network, one segment for each duplicate ACK.
    pub(crate) duplicate_bytes: u32,
    /// SND.NXT when the episode began; it ends when this is acknowledged.
    pub(crate) recover: SeqNumber,
    /// The bytes in flight that the peer holds.
    pub(crate) sacked: Ranges,
    /// The bytes deemed lost and not retransmitted yet. Disjoint from `sacked`.
    pub(crate) lost: Ranges,
    /// Segments below this that were sent only once have been judged: SACKed or lost.
    pub(crate) judged_to: SeqNumber,
    /// Retransmissions in the order of sending; some may have arrived already.
    pub(crate) resent: VecDeque<Resent>,
    /// When the next segment is judged lost if no ACK arrives.
    pub(crate) reorder_due: Instant,
    /// The retransmission time-out; `reorder_due` may fire before it.
    pub(crate) timeout_due: Instant,
    pub(crate) prr: Prr,
    pub(crate) probe: Option<Probe>,
    /// SND.UNA, and how often the large segment there was retransmitted.
    pub(crate) large_resends: (SeqNumber, u8),
    /// End of the last large segment that arrived. Set back to SND.UNA once it has shown that the
    /// segment at SND.UNA was not lost because of its size.
    pub(crate) large_arrived_to: SeqNumber,
    /// Evidence on whether the last reduction was spurious.
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
    /// Begin with a window at `una`. Without signs of loss only `evidence` and `rack` are
    /// maintained.
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

    /// Unacknowledged bytes that have left the network: SACKed, lost, or counted by duplicate ACKs.
    #[inline(always)]
    pub(crate) fn gone_bytes(&self) -> u32 {
        self.sacked.bytes() + self.lost.bytes() + self.duplicate_bytes
    }

    /// Unacknowledged bytes that have arrived, in any order.
    pub(crate) fn arrived_bytes(&self) -> u32 {
        self.sacked.bytes() + self.duplicate_bytes
    }
}

/// A tail loss probe in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Just past its last byte ("TLP.end_seq").
    pub(crate) end: SeqNumber,
    /// The probe is a retransmission, not new data.
    pub(crate) repeats: bool,
    pub(crate) sent_at: Instant,
}

/// Evidence about the losses of an episode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// cwnd was reduced, and that can be undone.
    pub(crate) reduced: bool,
    /// SND.UNA when cwnd was reduced.
    pub(crate) from: SeqNumber,
    /// Bytes retransmitted since the reduction.
    pub(crate) resent: u32,
    /// How many of these bytes arrived at the first transmission, as an echoed timestamp shows.
    pub(crate) by_echo: u32,
    /// How many of these bytes arrived twice, as a D-SACK reports.
    pub(crate) by_duplicate: u32,
    /// State of F-RTO.
    pub(crate) frto: Frto,
}

/// RFC 5682 section 3: is a time-out genuine?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Not active.
    Off,
    /// The first segment was retransmitted; the next ACK decides.
    First,
    /// That ACK advanced SND.UNA: send new data instead of further retransmissions.
    NewData,
}

impl Evidence {
    pub(crate) const NONE: Evidence = Evidence {
        reduced: false,
        from: SeqNumber(0),
        resent: 0,
        by_echo: 0,
        by_duplicate: 0,
        frto: Frto::Off,
    };

    /// The evidence just after cwnd was reduced.
    pub(crate) fn begin(una: SeqNumber) -> Evidence {
        Evidence { reduced: true, from: una, ..Evidence::NONE }
    }

    /// Count retransmitted bytes.
    pub(crate) fn resent(&mut self, bytes: u32) {
        self.resent = self.resent.saturating_add(bytes);
    }

    /// Bytes retransmitted in this episode.
    pub(crate) fn resent_bytes(&self) -> u32 {
        self.resent
    }
}

/// The news of one ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Bytes by which SND.UNA advanced.
    pub(crate) acked: u32,
    /// Bytes newly known to have arrived.
    pub(crate) delivered: u32,
    /// When the newest delivered segment that was sent only once was sent.
    pub(crate) sent_at: Option<Instant>,
    /// The peer reports this range as a duplicate (D-SACK, RFC 2883).
    pub(crate) duplicate: Option<Range>,
    /// Bytes at SND.UNA that had been retransmitted, but whose original transmission arrived.
    pub(crate) original_bytes: u32,
    /// Data has arrived that was sent before a time-out and not retransmitted since.
    pub(crate) from_before: bool,
    /// A duplicate ACK: it repeats the last one, without data or a window change.
    pub(crate) repeats: bool,
}

impl News {
    /// Round trip of the newest segment that was sent only once.
    pub(crate) fn rtt(&self, now: Instant) -> Option<Duration> {
        self.sent_at.map(|sent_at| now.since(sent_at))
    }
}
