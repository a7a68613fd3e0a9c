//! Fragments: reassembly of received ones, headers of sent ones.
//!
//! Called by: `stack/frag.rs` for what arrives, `stack/frag/output.rs` for what is sent. It knows
//! no transport, no device and no clock. RFC 791 section 3.2, RFC 1122 section 3.3.2, RFC 8200
//! section 4.5, RFC 5722, RFC 6946, RFC 7112. Limits: `fragment_*`, `fragments_per_datagram`; drop
//! reasons: `fragment_*`.
//!
//! # Work and memory
//! A fragment costs a look into ordered trees of `fragment_datagrams` entries and a binary search
//! in at most `fragments_per_datagram`, whatever the order of arrival. Buffers are charged whole,
//! so that tiny fragments in large buffers count as what they hold.

mod check;
mod datagram;
mod header;
mod join;
mod table;

pub use datagram::Datagram;
pub use header::FragmentHeader;
pub use join::Joined;
pub use table::{Fragments, Key};

use base::{DropReason, Duration};
use mbuf::Mbuf;

/// An incomplete datagram is dropped so long after its first fragment arrived: RFC 8200 section
/// 4.5, and the least of what RFC 1122 section 3.3.2 recommends.
/// RFC 1122 3.3.2-a.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// What an ICMPv6 Parameter Problem is to say about a fragment (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 0: a field is wrong; 3: the first fragment lacks headers (RFC 7112).
    pub code: u8,
    /// Offset of the wrong field in the packet, in bytes.
    pub pointer: u32,
}

/// A fragment that was dropped.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub reason: DropReason,
    /// What to report to its sender, with the packet to quote.
    pub report: Option<(Problem, Mbuf)>,
}

impl Refused {
    fn silent(reason: DropReason) -> Refused {
        Refused { reason, report: None }
    }
}

/// A datagram whose time is up.
#[derive(Debug)]
pub struct Expired {
    /// Its first fragment from the IP header on, if that arrived: the sender is to be told (RFC
    /// 1122 section 3.3.2, RFC 8200 section 4.5).
    pub first: Option<Mbuf>,
}

#[cfg(test)]
mod tests;
