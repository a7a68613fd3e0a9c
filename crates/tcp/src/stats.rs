//! What a connection counts of itself.
//!
//! Called by: tcb, which holds it; whoever has something to count; info. Plain data.

/// Totals of one connection, for [`crate::Info`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) segments_out: u32,
    pub(crate) segments_in: u32,
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
