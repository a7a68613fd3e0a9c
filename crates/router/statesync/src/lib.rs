//! States of the firewall for the partner of a pair of routers: a keyed session over datagrams.
//!
//! Called by: the router, which owns the socket, the clock and the random numbers; this crate makes
//! and reads datagrams. Both routers send alike: each has a session with a random number, says what
//! has changed, and all of its states when the other one has none. Datagrams are encrypted and
//! authenticated with the key that both have (XChaCha20-Poly1305), belong to the present sessions
//! of both, and are taken in order, each once; what is missing is asked for. Nothing in a datagram
//! is trusted before its key was proven, and little after that. docs/decisions/0151.
//!
//! A datagram: version (1 byte), kind (1), the sender's session (16), its number (8), then the
//! encrypted body and its tag (16). Numbers are big-endian.

mod codec;
mod counts;
mod hello;
mod ports;
mod receive;
mod records;
mod seal;
mod send;
mod session;
#[cfg(test)]
mod tests;

pub use counts::{Counts, Refused};
pub use seal::{Key, SessionId};
pub use session::{Event, Session};

/// The UDP port of the protocol, unless the configuration says another one.
pub const PORT: u16 = 3_780;

/// The most bytes of a datagram, unless the configuration says another number: it fits the MTU of
/// Ethernet behind any headers of IP and UDP.
pub const DATAGRAM: usize = 1_400;

/// The fewest bytes that datagrams may have at most.
pub const DATAGRAM_MIN: usize = 512;
