//! A packet's IP header, either version: checked, with what the layers above ask of it.
//!
//! Called by: `stack/rx.rs`. Must not know: whether the packet is for us (the stack has the
//! addresses), what a transport does with it. RFC 791, 8200, 1122 section 3.2.1.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::DropReason;
use wire::checksum::Sum;
use wire::{ipv4, ipv6};

/// What is known of a packet after its IP header. Offsets and lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ip {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Where the transport header begins, from the start of the IP header.
    pub transport_at: usize,
    /// Bytes of transport header and payload.
    pub transport_len: usize,
    /// Transport protocol.
    pub protocol: u8,
    /// Traffic class: DSCP and ECN.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

/// Check an IPv4 header. Whole packets only: a fragment is refused.
///
/// # Errors
/// As [`ipv4::Header::parse`], and [`DropReason::Ipv4Fragment`].
#[inline(always)]
pub fn ipv4_input(packet: &[u8]) -> Result<Ip, DropReason> {
    let h = ipv4::Header::parse(packet)?;
    if h.is_fragment() {
        return Err(DropReason::Ipv4Fragment);
    }
    Ok(Ip {
        src: IpAddr::V4(h.src),
        dst: IpAddr::V4(h.dst),
        transport_at: h.header_len,
        transport_len: usize::from(h.total_len) - h.header_len,
        protocol: h.protocol,
        tos: h.tos,
        ttl: h.ttl,
    })
}

/// Check an IPv6 header and walk its extension headers.
///
/// # Errors
/// As [`ipv6::Header::parse`] and [`ipv6::upper_layer`].
#[inline(always)]
pub fn ipv6_input(packet: &[u8]) -> Result<Ip, DropReason> {
    let h = ipv6::Header::parse(packet)?;
    let len = usize::from(h.payload_len);
    let (protocol, offset) = match h.next_header {
        ipv4::TCP | ipv4::UDP | ipv6::ICMPV6 => (h.next_header, 0),
        next => {
            let end = ipv6::HEADER_LEN + len;
            let payload = packet.get(ipv6::HEADER_LEN..end).unwrap_or_default();
            ipv6::upper_layer(payload, next)?
        }
    };
    Ok(Ip {
        src: IpAddr::V6(h.src),
        dst: IpAddr::V6(h.dst),
        transport_at: ipv6::HEADER_LEN + offset,
        transport_len: len - offset.min(len),
        protocol,
        tos: h.traffic_class,
        ttl: h.hop_limit,
    })
}

impl Ip {
    /// The pseudo-header's sum with the transport length: RFC 9293 section 3.1, RFC 8200 8.1.
    #[inline(always)]
    pub fn pseudo_sum(&self) -> Sum {
        pseudo_sum(self.src, self.dst, self.protocol)
            .plus(Sum::of_be16(self.transport_len as u16))
            .plus(Sum::of_be16((self.transport_len >> 16) as u16))
    }
}

/// The pseudo-header's sum without the length; addresses of two versions sum to zero.
#[inline(always)]
pub fn pseudo_sum(src: IpAddr, dst: IpAddr, protocol: u8) -> Sum {
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => Sum::pseudo_v4(s, d, protocol),
        (IpAddr::V6(s), IpAddr::V6(d)) => Sum::pseudo_v6(s, d, protocol),
        _ => Sum::ZERO,
    }
}

/// Can this never be one host's address: a group, broadcast, this network, or loopback on a wire?
/// RFC 1122 section 3.2.1.3, RFC 4291 section 2.7.
pub fn is_martian_source(src: IpAddr) -> bool {
    match src {
        IpAddr::V4(a) => {
            a.is_multicast()
                || a.is_loopback()
                || a == Ipv4Addr::BROADCAST
                || a.octets()[0] == 0
                || a.octets()[0] >= 240
        }
        IpAddr::V6(a) => a.is_multicast() || a == Ipv6Addr::LOCALHOST || a.is_unspecified(),
    }
}
