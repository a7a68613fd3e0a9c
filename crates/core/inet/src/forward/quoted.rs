//! The flow that an ICMP error is about. Of several next hops (ECMP) an error has to take the one
//! that its flow takes: behind another one nobody knows the connection, and path MTU discovery ends
//! in a black hole.
//!
//! Called by: `forward.rs` and `stack/forward/look.rs` for errors that are forwarded,
//! `stack/icmp.rs` for our own. RFC 792, RFC 4443 section 3, RFC 7690.

use core::net::{Ipv4Addr, Ipv6Addr};

use wire::{ipv4, ipv6, protocol};

use crate::route::{flow_v4, flow_v6};

/// Bytes of an ICMP header of either version; the quoted packet follows.
const ICMP_LEN: usize = 8;

/// The flow hash of the packet that an IPv4 packet quotes, turned round: as of packets to the host
/// that the error is sent to. `None` if it is no ICMP error, or one that quotes no addresses.
#[cold]
pub fn flow_of_error_v4(packet: &[u8]) -> Option<u32> {
    let b = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let is_later_fragment = (b[6] & 0x1f) | b[7] != 0;
    if b[9] != protocol::ICMP || is_later_fragment {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([b[2], b[3]]));
    let message = packet.get(usize::from(b[0] & 15).max(5) * 4..len.min(packet.len()))?;
    // Unreachable, source quench, redirect, time exceeded, parameter problem.
    let is_error = matches!(message.first()?, 3 | 4 | 5 | 11 | 12);
    let quoted = message.get(ICMP_LEN..).filter(|_| is_error)?;
    quoted_v4(quoted)
}

/// The flow hash of a quoted IPv4 packet, turned round.
pub fn quoted_v4(quoted: &[u8]) -> Option<u32> {
    let b = quoted.first_chunk::<{ ipv4::HEADER_LEN }>().filter(|b| b[0] >> 4 == 4)?;
    let addr = |at: usize| Ipv4Addr::new(b[at], b[at + 1], b[at + 2], b[at + 3]);
    Some(flow_v4(addr(16), addr(12)))
}

/// [`flow_of_error_v4`] for IPv6: errors have types below 128.
#[cold]
pub fn flow_of_error_v6(packet: &[u8]) -> Option<u32> {
    let (header, payload) = packet.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload = payload.get(..len.min(payload.len()))?;
    let (protocol::ICMPV6, at) = ipv6::upper_layer(payload, header[6]).ok()? else { return None };
    let message = payload.get(at..)?;
    let is_error = *message.first()? < 128;
    let quoted = message.get(ICMP_LEN..).filter(|_| is_error)?;
    quoted_v6(quoted)
}

/// The flow hash of a quoted IPv6 packet, turned round.
pub fn quoted_v6(quoted: &[u8]) -> Option<u32> {
    let b = quoted.first_chunk::<{ ipv6::HEADER_LEN }>().filter(|b| b[0] >> 4 == 6)?;
    let addr = |at: usize| b[at..].first_chunk::<16>().map(|a| Ipv6Addr::from(*a));
    Some(flow_v6(addr(24)?, addr(8)?))
}
