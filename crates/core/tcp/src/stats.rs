//! Counters of one connection, and its Fast Open state.
//!
//! Called by: tcb, which contains them; the files that count; info. Plain data.

use base::SeqNumber;
use wire::tcp::FastOpen;

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
    /// Not a counter, but as rare. Here it needs no pointer of its own in each connection.
    pub(crate) fast_open: Option<Box<Kept>>,
    /// Maximum bytes in flight in this round, and the round's end; only for
    /// [`crate::Compat::growth_when_half_used`].
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

/// How a connection takes part in Fast Open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The handshake is an ordinary one in which we send the peer a cookie.
    Grants,
    /// The peer's SYN opened the connection with a valid cookie.
    Server,
    /// Our SYN carries a cookie, or requests one.
    Client,
}

/// Fast Open state of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) role: Role,
    /// The option in our SYN or SYN-ACK.
    pub(crate) says: Option<FastOpen>,
    /// The option in the peer's SYN-ACK.
    pub(crate) heard: Option<FastOpen>,
    /// The MSS that the peer offered.
    pub(crate) peer_mss: u16,
    /// Payload bytes of the SYN, ours or the peer's.
    pub(crate) syn_bytes: u32,
    /// How many of these bytes were accepted.
    pub(crate) taken_bytes: u32,
}
