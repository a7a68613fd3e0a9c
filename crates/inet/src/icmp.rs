//! ICMP and ICMPv6 so far: echo requests are answered. RFC 792, RFC 4443, RFC 1122 3.2.2.6.
//!
//! Called by: `stack/rx.rs`. Must not know: routes, rate limits (the stack has them).

use core::net::IpAddr;

use base::DropReason;
use wire::checksum::{Ladder, Sum};

use crate::Ip;
use crate::flow::Addrs;

const V4_ECHO_REQUEST: u8 = 8;
const V4_ECHO_REPLY: u8 = 0;
const V6_ECHO_REQUEST: u8 = 128;
const V6_ECHO_REPLY: u8 = 129;
/// Type, code, checksum, identifier, sequence number.
const ECHO_HEADER_LEN: usize = 8;

/// Is `message` an echo request that may be answered?
///
/// # Errors
/// [`DropReason::IcmpMalformed`] for one that is short or wrongly summed,
/// [`DropReason::IcmpUnhandled`] for anything else.
pub fn echo_request<A: Addrs>(
    ip: &Ip<A>,
    message: &[u8],
    ladder: Ladder,
) -> Result<(), DropReason> {
    if message.len() < ECHO_HEADER_LEN {
        return Err(DropReason::IcmpMalformed);
    }
    let sum = ladder.sum(message);
    let sum = if ip.src().is_ipv4() { sum } else { ip.with_pseudo_header(sum) };
    if !sum.is_whole() {
        return Err(DropReason::IcmpMalformed);
    }
    let request = if ip.src().is_ipv4() { V4_ECHO_REQUEST } else { V6_ECHO_REQUEST };
    // Never an answer to a group: RFC 1122 section 3.2.2.6 (and Smurf).
    let to_group = match ip.dst() {
        IpAddr::V4(a) => a.is_multicast() || a.is_broadcast(),
        IpAddr::V6(a) => a.is_multicast(),
    };
    if message[0] != request || message[1] != 0 || to_group {
        return Err(DropReason::IcmpUnhandled);
    }
    Ok(())
}

/// Make an echo request into its reply: the type changes, and the checksum with it.
pub fn make_reply(message: &mut [u8], ipv4: bool) {
    let (request, reply) =
        if ipv4 { (V4_ECHO_REQUEST, V4_ECHO_REPLY) } else { (V6_ECHO_REQUEST, V6_ECHO_REPLY) };
    if let [kind, _code, a, b, ..] = message {
        *kind = reply;
        let old = Sum(u16::from_ne_bytes([request, 0]));
        let new = Sum(u16::from_ne_bytes([reply, 0]));
        [*a, *b] = Sum::updated([*a, *b], old, new);
    }
}
