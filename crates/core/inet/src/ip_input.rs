//! Checks a packet's IP header, of either version, and returns what the layers above need.
//!
//! Called by: `stack/rx.rs`. The stack decides whether the packet is for us, and which transport
//! takes it. RFC 791, 8200, 1122 section 3.2.1.

use core::net::{IpAddr, Ipv6Addr};

use base::DropReason;
use wire::checksum::Sum;
use wire::{ipv4, ipv6, protocol};

use crate::FlowKey;
use crate::flow::{Addrs, V4Addrs, V6Addrs};

/// The result of checking an IP header: plain integers, which stay in registers.
#[derive(Clone, Copy, Debug)]
pub struct Ip<A> {
    addrs: A,
    /// Where the transport header begins, from the start of the IP header, in bytes.
    pub transport_at: u32,
    /// Bytes of transport header and payload.
    pub transport_len: u32,
    /// Transport protocol.
    pub protocol: u8,
    /// Traffic class: DSCP and ECN.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

/// Parse the common IPv4 header, without options or fragmentation. `None`: the packet is another
/// one, or invalid; call [`ipv4_any`], which returns the error, if there is one.
#[inline(always)]
pub fn ipv4_plain(packet: &[u8]) -> Option<Ip<V4Addrs>> {
    let plain = ipv4::Plain::parse(packet)?;
    Some(Ip {
        addrs: V4Addrs(plain.addrs),
        transport_at: ipv4::HEADER_LEN as u32,
        transport_len: plain.total_len - ipv4::HEADER_LEN as u32,
        protocol: plain.protocol,
        tos: plain.tos,
        ttl: plain.ttl,
    })
}

/// Which part of a datagram a fragment carries. `transport_at` and `transport_len` of the
/// fragment's [`Ip`] are those of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Identification: 16 bits over IPv4, 32 over IPv6.
    pub id: u32,
    /// Offset of the fragment's data in the datagram, in bytes; a multiple of 8.
    pub begin: u32,
    /// The fragment is not the last one.
    pub more: bool,
}

/// Parse the IPv4 header of a packet that this host has assembled, so its fields are valid.
///
/// # Errors
/// Those of [`ipv4::Header::parse_quoted`].
#[inline]
pub fn ipv4_made(packet: &[u8]) -> Result<Ip<V4Addrs>, DropReason> {
    ipv4::Header::parse_quoted(packet).map(|h| of_v4(&h))
}

#[inline(always)]
fn of_v4(h: &ipv4::Header) -> Ip<V4Addrs> {
    Ip {
        addrs: V4Addrs::of(h.src, h.dst),
        transport_at: h.header_len as u32,
        transport_len: u32::from(h.total_len).saturating_sub(h.header_len as u32),
        protocol: h.protocol,
        tos: h.tos,
        ttl: h.ttl,
    }
}

/// Check any IPv4 header. Returns a [`Part`] too if the packet is a fragment.
///
/// # Errors
/// Those of [`ipv4::Header::parse`].
#[inline(always)]
pub fn ipv4_any(packet: &[u8]) -> Result<(Ip<V4Addrs>, Option<Part>), DropReason> {
    let h = ipv4::Header::parse(packet)?;
    let begin = u32::from(h.fragment_offset);
    let part = Part { id: u32::from(h.id), begin, more: h.more_fragments };
    Ok((of_v4(&h), h.is_fragment().then_some(part)))
}

/// Parse the common IPv6 header, which TCP, UDP or ICMPv6 follows directly. `None`: the packet is
/// another one, or invalid; call [`ipv6_within`], which walks extension headers and returns the
/// error, if there is one.
#[inline(always)]
pub fn ipv6_plain(packet: &[u8]) -> Option<Ip<V6Addrs>> {
    let plain = ipv6::Plain::parse(packet)?;
    Some(Ip {
        addrs: V6Addrs(plain.addrs),
        transport_at: ipv6::HEADER_LEN as u32,
        transport_len: plain.payload_len,
        protocol: plain.protocol,
        tos: plain.traffic_class,
        ttl: plain.hop_limit,
    })
}

/// Check any IPv6 header and walk its extension headers within `limits`. Returns a [`Part`] too if
/// the packet is a fragment; the protocol is then the next header of its fragment header.
///
/// # Errors
/// Those of [`ipv6::Header::parse`] and [`ipv6::chain`].
pub fn ipv6_within(
    packet: &[u8],
    limits: &ipv6::ChainLimits,
) -> Result<(Ip<V6Addrs>, Option<Part>), ipv6::Refused> {
    let h = ipv6::Header::parse(packet).map_err(ipv6::Refused::silent)?;
    let end = ipv6::HEADER_LEN + usize::from(h.payload_len);
    let payload = packet.get(ipv6::HEADER_LEN..end).unwrap_or_default();
    let (protocol, offset) = ipv6::chain(payload, h.next_header, limits)?;
    if protocol != protocol::FRAGMENT {
        return Ok((with_upper_layer(&h, protocol, offset), None));
    }
    let rest = payload.get(offset..).unwrap_or_default();
    let fragment = ipv6::Fragment::parse(rest).map_err(ipv6::Refused::silent)?;
    let ip = with_upper_layer(&h, fragment.next_header, offset + ipv6::Fragment::LEN);
    let begin = u32::from(fragment.fragment_offset);
    Ok((ip, Some(Part { id: fragment.id, begin, more: fragment.more_fragments })))
}

/// [`ipv6_within`] with the default limits.
///
/// # Errors
/// The reason of [`ipv6_within`].
pub fn ipv6_any(packet: &[u8]) -> Result<(Ip<V6Addrs>, Option<Part>), DropReason> {
    ipv6_within(packet, &ipv6::ChainLimits::default()).map_err(|refused| refused.reason)
}

#[inline(always)]
fn with_upper_layer(h: &ipv6::Header, protocol: u8, offset: usize) -> Ip<V6Addrs> {
    Ip {
        addrs: V6Addrs::of(h.src, h.dst),
        transport_at: (ipv6::HEADER_LEN + offset) as u32,
        transport_len: u32::from(h.payload_len).saturating_sub(offset as u32),
        protocol,
        tos: h.traffic_class,
        ttl: h.hop_limit,
    }
}

impl<A: Addrs> Ip<A> {
    /// Source address.
    pub fn src(&self) -> IpAddr {
        self.addrs.src()
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        self.addrs.dst()
    }

    /// The key of the packet's flow, with the packet's destination as the local end. `raw_ports`
    /// are the first four bytes of the transport header, in memory order.
    #[inline(always)]
    pub fn flow(&self, raw_ports: u32) -> FlowKey {
        self.addrs.key(raw_ports)
    }

    /// Is the packet marked CE, congestion experienced (RFC 3168 section 5)?
    #[inline(always)]
    pub fn is_ce(&self) -> bool {
        self.tos & 3 == 3
    }

    /// Add the pseudo-header, length included, to `transport`, the sum of transport header and
    /// payload (RFC 9293 section 3.1, RFC 8200 section 8.1). If [`Sum::is_whole`] of the result,
    /// the checksum is correct.
    #[inline(always)]
    pub fn with_pseudo_header(&self, transport: Sum) -> Sum {
        let len = Sum::of_be16(self.transport_len as u16);
        let protocol = Sum::of_be16(u16::from(self.protocol));
        // Three 16-bit sums cannot overflow 64 bits.
        let rest = u64::from(len.0) + u64::from(protocol.0) + u64::from(transport.0);
        self.addrs.sum_with(rest)
    }
}

/// The pseudo-header's sum without the length; zero if the addresses differ in version.
#[inline(always)]
pub fn pseudo_sum(src: IpAddr, dst: IpAddr, protocol: u8) -> Sum {
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => Sum::pseudo_v4(s, d, protocol),
        (IpAddr::V6(s), IpAddr::V6(d)) => Sum::pseudo_v6(s, d, protocol),
        _ => Sum::ZERO,
    }
}

/// Is this source address invalid on a link: multicast, broadcast, 0.0.0.0/8, `::`, or loopback?
/// 240.0.0.0/4 counts as unicast, as in other stacks. RFC 1122 section 3.2.1.3, RFC 4291 section
/// 2.7.
/// RFC 4291 2.5.2-a, 2.5.3-a, 2.7-a.
#[inline]
pub fn is_martian_source(src: IpAddr) -> bool {
    match src {
        IpAddr::V4(a) => matches!(a.octets()[0], 0 | 127 | 224..=239) || a.is_broadcast(),
        IpAddr::V6(a) => a.is_multicast() || a == Ipv6Addr::LOCALHOST || a.is_unspecified(),
    }
}
