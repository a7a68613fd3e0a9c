//! Ephemeral ports. Where the next port of another connection can be predicted,
//! his connections can be attacked blindly, and his questions answered by forgers (RFC 6056).
//!
//! Called by: `open.rs` for connections; `net` for listeners and datagrams.

use crate::stack::Stack;

/// Ports that are given to those who ask for none in particular: Linux's range.
pub const EPHEMERAL_PORTS: core::ops::Range<u16> = 32_768..61_000;

/// Sets these draws apart from what else the secret determines.
const KIND: u64 = 3;
/// The same for [`Stack::derived_secret`].
const DERIVED: u64 = 5;

impl Stack {
    /// Ephemeral ports in the order to try them, each once: RFC 6056 section 3.3.1, algorithm 1
    /// ("simple port randomization"), in which the random number is a keyed hash of how many were
    /// drawn. So no port tells of the one before or behind it, to whomever they go; the counters
    /// of algorithms 3 and 4 tell who sees one of them how many others there were.
    pub fn ports_to_try(&mut self) -> impl Iterator<Item = u16> + use<> {
        const COUNT: u64 = (EPHEMERAL_PORTS.end - EPHEMERAL_PORTS.start) as u64;
        self.ports_drawn = self.ports_drawn.wrapping_add(1);
        let first = self.core.secret.hash([KIND, self.ports_drawn]) % COUNT;
        (first..first + COUNT).map(|at| EPHEMERAL_PORTS.start + (at % COUNT) as u16)
    }

    /// A secret for a protocol beside the stack, determined by the stack's own: `purpose` sets the
    /// protocols apart, and none tells of another.
    pub fn derived_secret(&self, purpose: u64) -> [u64; 2] {
        [0, 1].map(|half| self.core.secret.hash_2_4([DERIVED, purpose, half]))
    }
}
