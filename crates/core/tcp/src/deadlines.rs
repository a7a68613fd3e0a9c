//! A connection's deadlines, one per timer.
//!
//! Called by: tcb, which contains them; timer, which acts on them; ack, handshake, input, output,
//! text and usrreq, which set and clear them. Plain data. RFC 9293 section 3.8.

use base::Instant;

/// Deadlines; [`Instant::NEVER`] when not set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// Retransmission, or persist while the peer's window is zero; never both.
    pub(crate) retransmit: Instant,
    /// Delayed ACK.
    pub(crate) ack: Instant,
    /// When the peer's silence began: at the first of consecutive time-outs. Not a deadline.
    pub(crate) silent_since: Instant,
    /// Keepalive while open; FIN-WAIT-2 timeout after a close.
    pub(crate) idle: Instant,
    /// When the pacing timer makes more segments.
    pub(crate) pace: Instant,
}

impl Default for Timers {
    fn default() -> Timers {
        let never = Instant::NEVER;
        Timers { retransmit: never, ack: never, silent_since: never, idle: never, pace: never }
    }
}
