//! When something is due for a connection: one deadline each for what must happen by itself.
//!
//! Called by: tcb, which holds them; timer acts on them; ack, handshake, input, output, text and
//! usrreq set and clear them. Plain data. RFC 9293 section 3.8.

use base::Instant;

/// Deadlines; [`Instant::NEVER`] when not set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// Retransmission, or persist while the peer's window is shut: never both.
    pub(crate) retransmit: Instant,
    /// Delayed ACK.
    pub(crate) ack: Instant,
    /// Since when the peer owes an answer, as far as time-outs have shown; no deadline itself.
    pub(crate) silent_since: Instant,
    /// Keepalive while open, FIN-WAIT-2 after a close.
    pub(crate) idle: Instant,
    /// More may be given a departure time.
    pub(crate) pace: Instant,
}

impl Default for Timers {
    fn default() -> Timers {
        let never = Instant::NEVER;
        Timers { retransmit: never, ack: never, silent_since: never, idle: never, pace: never }
    }
}
