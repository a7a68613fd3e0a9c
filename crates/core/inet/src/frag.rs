//! Fragments: reassembles received ones, and makes the headers of those that are sent.
//!
//! Called by: `stack/frag.rs` for received fragments, `stack/frag/output.rs` for those that are
//! sent. It depends on no transport, no device and no clock. RFC 791 section 3.2, RFC 1122 section
//! 3.3.2, RFC 8200 section 4.5, RFC 5722, RFC 6946, RFC 7112. Limits: `fragment_*`,
//! `fragments_per_datagram`; drop reasons: `fragment_*`.
//!
//! # Work and memory
//! A fragment costs look-ups in ordered trees of `fragment_datagrams` entries and a binary search
//! among at most `fragments_per_datagram`, whatever the order of arrival. The whole buffer of a
//! fragment is charged, so that tiny fragments in large buffers count as the memory that they hold.

mod datagram;
mod header;
mod join;
mod table;

use base::{DropReason, Duration};
pub use datagram::Datagram;
pub use header::FragmentHeader;
pub use join::Joined;
use mbuf::Mbuf;
pub use table::{Fragments, Key};
use wire::ipv6;

use crate::Ip;
use crate::flow::Addrs;
use crate::ip_input::Part;

/// An incomplete datagram is dropped this long after its first fragment has arrived: RFC 8200
/// section 4.5, and the shortest time that RFC 1122 section 3.3.2 recommends.
/// RFC 1122 3.3.2-a.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The contents of an ICMPv6 Parameter Problem about a fragment (RFC 8200 section 4.5).
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
    /// Why it was dropped.
    pub reason: DropReason,
    /// The problem to report to its sender, and the packet to quote.
    pub report: Option<(Problem, Mbuf)>,
}

impl Refused {
    fn silent(reason: DropReason) -> Refused {
        Refused { reason, report: None }
    }
}

/// A datagram that did not become complete in time.
#[derive(Debug)]
pub struct Expired {
    /// Its first fragment, from the IP header on, if that has arrived: the sender is to get an ICMP
    /// error (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
    pub first: Option<Mbuf>,
}

#[cfg(test)]
mod tests;

/// Offset of the payload length in an IPv6 header.
const PAYLOAD_LENGTH_AT: u32 = 4;

/// Check a fragment. `packet` begins with its IP header.
///
/// # Errors
/// [`DropReason::FragmentMalformed`], [`DropReason::FragmentTooBig`],
/// [`DropReason::FragmentHeaders`]; for IPv6 also the problem to report to the sender.
fn fragment<A: Addrs>(
    ip: &Ip<A>,
    part: &Part,
    packet: &[u8],
) -> Result<(), (DropReason, Option<Problem>)> {
    let is_v6 = ip.src().is_ipv6();
    let problem = |code, pointer| is_v6.then_some(Problem { code, pointer });
    let len = ip.transport_len;
    if len == 0 {
        return Err((DropReason::FragmentMalformed, None));
    }
    // RFC 8200 4.5-d.
    if part.more && !len.is_multiple_of(8) {
        return Err((DropReason::FragmentMalformed, problem(0, PAYLOAD_LENGTH_AT)));
    }
    // RFC 8200 4.5-e: the datagram would be longer than a length field can express ("ping of
    // death").
    let fragment_header = ip.transport_at.saturating_sub(ipv6::Fragment::LEN as u32);
    let headers = match is_v6 {
        true => fragment_header.saturating_sub(ipv6::HEADER_LEN as u32),
        false => ip.transport_at,
    };
    if headers + part.begin + len > u32::from(u16::MAX) {
        return Err((DropReason::FragmentTooBig, problem(0, fragment_header + 2)));
    }
    let data = packet.get(ip.transport_at as usize..).unwrap_or_default();
    let has_headers = match is_v6 {
        true => ipv6::has_all_headers(data, ip.protocol),
        false => ipv6::has_transport_header(data, ip.protocol),
    };
    // RFC 7112 5-a, RFC 8200 4.5-f.
    if part.begin == 0 && !has_headers {
        return Err((DropReason::FragmentHeaders, problem(3, 0)));
    }
    Ok(())
}
