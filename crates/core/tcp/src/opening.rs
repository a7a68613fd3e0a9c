//! The values that the stack determines for a connection before its first segment.
//!
//! Called by: the stack, which fills it in; tcb, which copies it.

use base::{Instant, Mss, SeqNumber};
use wire::checksum::Sum;

/// Values that the stack determines when it creates a connection.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The MSS to offer: the port's MTU less the fixed headers.
    pub mss: Mss,
    /// The MSS that fits the MTUs of our link, of the route and of the neighbour. It may be less
    /// than `mss`, which the port can receive.
    pub link_mss: Mss,
    /// The known path MTU, if any: the MSS that fits it, and when that knowledge expires.
    pub path: Option<(Mss, Instant)>,
    /// The MSS to assume if the peer's SYN has no MSS option: the IP version's default, RFC 9293
    /// MUST-15.
    pub default_mss: Mss,
    /// Maximum payload of a super-segment that the port takes; 0 for none.
    pub super_max_bytes: u32,
    /// The device of this port finishes transport checksums.
    pub offload_checksum: bool,
    /// Sum of the pseudo-header without the length.
    pub pseudo_sum: Sum,
    /// Local and remote port.
    pub ports: (u16, u16),
    /// Keyed hash of the connection's addresses and ports, RFC 7323 section 5.4.
    pub ts_offset: u32,
    /// Initial sequence number, RFC 6528.
    pub iss: SeqNumber,
}

impl Opening {
    /// Both ports as in a TCP header.
    pub(crate) fn port_bytes(&self) -> [u8; 4] {
        let mut ports = [0; 4];
        ports[..2].copy_from_slice(&self.ports.0.to_be_bytes());
        ports[2..].copy_from_slice(&self.ports.1.to_be_bytes());
        ports
    }
}
