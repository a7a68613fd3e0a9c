//! What a connection begins with.
//!
//! Called by: the stack, which settles it; tcb, which takes it over.

use base::{Instant, Mss, SeqNumber};
use wire::checksum::Sum;

/// What the stack settles when it makes a connection, before its first segment.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The MSS to offer: the port's MTU less fixed headers.
    pub mss: Mss,
    /// What is known of the path: the MSS that fits it, and until when that is taken for granted.
    pub path: Option<(Mss, Instant)>,
    /// What a peer means that offers no MSS: the IP version's default, RFC 9293 MUST-15.
    pub default_mss: Mss,
    /// Payload of the largest super-segment the port takes; 0 for none.
    pub super_max_bytes: u32,
    /// The port finishes transport checksums.
    pub offload_checksum: bool,
    /// Sum of the pseudo-header less the length.
    pub pseudo_sum: Sum,
    /// Local and remote port.
    pub ports: (u16, u16),
    /// Keyed hash of the connection's addresses and ports, RFC 7323 section 5.4.
    pub ts_offset: u32,
    /// Initial sequence number, RFC 6528.
    pub iss: SeqNumber,
}

impl Opening {
    /// Both ports as they stand in a header.
    pub(crate) fn port_bytes(&self) -> [u8; 4] {
        let mut ports = [0; 4];
        ports[..2].copy_from_slice(&self.ports.0.to_be_bytes());
        ports[2..].copy_from_slice(&self.ports.1.to_be_bytes());
        ports
    }
}
