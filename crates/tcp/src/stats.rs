//! Counters of one connection.
//!
//! Called by: tcb, which holds them; the files that count; info. Plain data.

use base::SeqNumber;

use crate::rare::{Clean, Rare};

/// Totals of one connection, for [`crate::Info`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) segments_out: u32,
    pub(crate) segments_in: u32,
    pub(crate) rare: Rare<RareStats>,
}

/// Counters that stay 0 on most connections.
#[derive(Clone, Debug)]
pub(crate) struct RareStats {
    /// Not a counter, but as rare, so it takes no pointer of its own in each connection.
    pub(crate) fast_open: Option<Box<crate::fast_open::Kept>>,
    /// Maximum bytes in flight in this round, and the round's end; only for
    /// [`crate::Config::growth_when_half_used`].
    pub(crate) used_bytes: u32,
    pub(crate) used_until: SeqNumber,
    pub(crate) retransmits: u32,
    pub(crate) timeouts: u32,
    pub(crate) fast_recoveries: u32,
    pub(crate) tail_probes: u32,
    pub(crate) undone: u32,
    pub(crate) duplicate_acks: u32,
    pub(crate) out_of_order: u32,
    pub(crate) ce_marks: u32,
    pub(crate) ecn_reductions: u32,
}

impl Clean for RareStats {
    const CLEAN: &'static RareStats = &RareStats {
        fast_open: None,
        used_bytes: 0,
        used_until: SeqNumber(0),
        retransmits: 0,
        timeouts: 0,
        fast_recoveries: 0,
        tail_probes: 0,
        undone: 0,
        duplicate_acks: 0,
        out_of_order: 0,
        ce_marks: 0,
        ecn_reductions: 0,
    };
}
