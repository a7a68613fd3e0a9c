//! When something is due for a connection: one deadline each for what must happen by itself.
//!
//! Called by: tcb, which holds them; timer acts on them; ack, handshake, input, output, text and
//! usrreq set and clear them. Plain data: must not know a Tcb. RFC 9293 section 3.8.

use base::Instant;

/// Deadlines; [`Instant::NEVER`] when not set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// Retransmission, or persist while the peer's window is shut: never both.
    pub(crate) retransmit: Instant,
    /// Delayed ACK.
    pub(crate) ack: Instant,
    /// Keepalive while open, FIN-WAIT-2 after a close.
    pub(crate) idle: Instant,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { retransmit: Instant::NEVER, ack: Instant::NEVER, idle: Instant::NEVER }
    }
}
