//! What is known of losses: the state of an episode of repair. Which bytes the peer holds and which
//! are lost is marked on the pieces of the send queue; here are the sums that run along.
//!
//! Called by: tcb, which holds it; recovery, sack and output, which change it; ack and info, which
//! read it. Plain data: must not know a Tcb. RFC 6675, RFC 6582.

use base::SeqNumber;

/// What is being repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing.
    #[default]
    Open,
    /// A loss that duplicate ACKs or SACKs told of.
    Fast,
    /// A loss that the timer told of.
    Loss,
}

/// State of an episode; all zero outside one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// The first retransmission of an episode leaves whatever the window says.
    pub(crate) resend_now: bool,
    pub(crate) duplicate_acks: u32,
    /// SND.NXT when the episode began: it ends when this is acknowledged.
    pub(crate) recover: SeqNumber,
    /// Bytes in flight that the peer holds; without SACK, a segment per duplicate ACK.
    pub(crate) sacked_bytes: u32,
    /// Bytes in flight deemed lost and not sent again.
    pub(crate) lost_bytes: u32,
    /// Everything before this has been judged: SACKed or lost.
    pub(crate) lost_to: SeqNumber,
    /// SACKed bytes before `lost_to`.
    pub(crate) sacked_below: u32,
    /// Lost segments before this have been sent again.
    pub(crate) resend_from: SeqNumber,
}
