//! Checks a packet that is to be forwarded, and makes the changes that a router makes: to the hop
//! limit, and to the headers of the pieces of a packet that is too large.
//!
//! Called by: `stack/forward.rs`, which has the routes and ports. Only the IP header is read,
//! except to find out whether an error may be reported. RFC 1812 sections 5.2 and 5.3, RFC 8200
//! section 3, RFC 791 section 3.2, RFC 3927 section 2.7, RFC 4291 section 2.5.6.

mod merge;
mod plain;
mod super_segment;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{DropReason, Mtu};
pub use merge::{Run, is_sound};
pub use plain::{Plain, pass_v4, pass_v6, plain_v4, plain_v6};
pub use super_segment::{Inner, SEGMENTS_MAX, SuperSegment, finish_checksum};
use wire::{icmpv6, ipv4, ipv6, protocol};

use crate::ip_input::is_martian_source;
use crate::route::{flow_v4, flow_v6};

/// A packet that may be forwarded, by its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// Its source.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
    /// TTL or hop limit, before it is decremented.
    pub hops: u8,
    /// Bytes of the packet. Any bytes after them in a frame are padding.
    pub len: usize,
    /// The packet is IPv4 without don't-fragment.
    pub may_fragment: bool,
    /// The packet's source may get an ICMP error about it: the packet is neither an ICMP error
    /// itself nor a fragment other than the first (RFC 1812 section 4.3.2.7, RFC 4443 section
    /// 2.4(e)).
    pub may_report: bool,
    /// The hash of its flow; for an ICMP error, the hash of the flow that it is about.
    pub flow: u32,
}

/// The destination of a packet, unchecked; `None` if it is shorter than its header.
#[inline]
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        6 => {
            let bytes: &[u8; 16] = packet.get(24..)?.first_chunk()?;
            Some(Ipv6Addr::from(*bytes).into())
        }
        _ => {
            let bytes: &[u8; 4] = packet.get(16..)?.first_chunk()?;
            Some(Ipv4Addr::from(*bytes).into())
        }
    }
}

/// The source of a packet, unchecked; `None` if it is shorter than its header.
#[inline]
pub fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        6 => packet.get(8..)?.first_chunk::<16>().map(|&b| Ipv6Addr::from(b).into()),
        _ => packet.get(12..)?.first_chunk::<4>().map(|&b| Ipv4Addr::from(b).into()),
    }
}

/// Is the packet a message of neighbour discovery? Its hop limit proves that it was sent on this
/// link, and it concerns only this link.
pub fn is_neighbour_discovery(packet: &[u8]) -> bool {
    let Ok(h) = ipv6::Header::parse(packet) else { return false };
    let payload = packet.get(ipv6::HEADER_LEN..).unwrap_or_default();
    let kind = match ipv6::upper_layer(payload, h.next_header) {
        Ok((protocol::ICMPV6, at)) => payload.get(at),
        _ => None,
    };
    kind.is_some_and(|&kind| icmpv6::is_neighbour_discovery(kind))
}

/// Check a packet that is not for this host.
///
/// # Errors
/// Those of [`ipv4::Header::parse`], which refuses source routes, and of [`ipv6::Header::parse`];
/// [`DropReason::IpMartianSource`], [`DropReason::IpMartianDestination`],
/// [`DropReason::IpLinkLocal`].
/// RFC 1812 5.2.2-a, 5.3.7-a.
pub fn examine(packet: &[u8]) -> Result<Transit, DropReason> {
    let transit = match packet.first() {
        Some(first) if first >> 4 == 6 => examine_v6(packet)?,
        _ => examine_v4(packet)?,
    };
    if is_martian_source(transit.src) {
        return Err(DropReason::IpMartianSource);
    }
    if is_martian_destination(transit.dst) {
        return Err(DropReason::IpMartianDestination);
    }
    if is_link_local(transit.src) || is_link_local(transit.dst) {
        return Err(DropReason::IpLinkLocal);
    }
    Ok(transit)
}

/// Returns a packet that has a link-local source and would leave its link, if an error may be sent
/// to the source.
/// RFC 4443 3.1-c.
#[cold]
pub fn beyond_scope(packet: &[u8]) -> Option<Transit> {
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let transit = examine_v6(packet).ok().filter(|_| is_v6)?;
    let leaves = is_link_local(transit.src)
        && !is_link_local(transit.dst)
        && !is_martian_destination(transit.dst);
    (leaves && transit.may_report).then_some(transit)
}

fn examine_v4(packet: &[u8]) -> Result<Transit, DropReason> {
    let h = ipv4::Header::parse(packet)?;
    let is_error = h.protocol == protocol::ICMP
        && packet.get(h.header_len).is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12));
    Ok(Transit {
        src: h.src.into(),
        dst: h.dst.into(),
        hops: h.ttl,
        len: usize::from(h.total_len),
        may_fragment: !h.dont_fragment,
        may_report: h.fragment_offset == 0 && !is_error,
        flow: flow_of_error_v4(packet).unwrap_or_else(|| flow_v4(h.src, h.dst)),
    })
}

fn examine_v6(packet: &[u8]) -> Result<Transit, DropReason> {
    let h = ipv6::Header::parse(packet)?;
    let len = ipv6::HEADER_LEN + usize::from(h.payload_len);
    let payload = packet.get(ipv6::HEADER_LEN..len).unwrap_or_default();
    let may_report = match ipv6::upper_layer(payload, h.next_header) {
        // Errors have types below 128; 137 is a redirect.
        Ok((protocol::ICMPV6, at)) => {
            payload.get(at).is_some_and(|&kind| kind >= 128 && kind != 137)
        }
        Ok((protocol::FRAGMENT, at)) => {
            let fragment = ipv6::Fragment::parse(payload.get(at..).unwrap_or_default());
            fragment.is_ok_and(|f| f.fragment_offset == 0 && f.next_header != protocol::ICMPV6)
        }
        Ok(_) => true,
        Err(_) => false,
    };
    let flow = flow_of_error_v6(packet);
    Ok(Transit {
        src: h.src.into(),
        dst: h.dst.into(),
        hops: h.hop_limit,
        len,
        may_fragment: false,
        may_report,
        flow: flow.unwrap_or_else(|| flow_v6(h.src, h.dst)),
    })
}

/// Is this an address to which no packet is forwarded: this network, loopback, a multicast group
/// (there is no multicast routing), or the limited broadcast?
fn is_martian_destination(dst: IpAddr) -> bool {
    is_martian_source(dst)
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

/// Decrement TTL or hop limit of a packet that [`examine`] admitted, and update IPv4's checksum.
/// `false` if no hop is left: the packet must not be forwarded.
/// RFC 1812 5.3.1-a, RFC 8200 3-a.
pub fn hop(packet: &mut [u8]) -> bool {
    if packet.first().is_some_and(|b| b >> 4 == 4) {
        return ipv4::decrement_ttl(packet).is_some_and(|left| left > 0);
    }
    let Some(hops) = packet.get_mut(7) else { return false };
    *hops = hops.saturating_sub(1);
    *hops > 0
}

/// A piece of a packet that is too large for the next link.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    header: [u8; ipv4::HEADER_LEN_MAX],
    header_len: usize,
    /// The data of the piece.
    pub data: &'a [u8],
}

impl<'a> Piece<'a> {
    /// The piece whose data begins at byte `begin`, a multiple of 8, of the data of `packet`.
    /// `packet` is an IPv4 packet that [`examine`] admitted, and may be a fragment itself. `None`
    /// after the last piece.
    /// RFC 1812 5.2.6-a.
    pub fn at(packet: &'a [u8], begin: usize, mtu: Mtu) -> Option<Piece<'a>> {
        let h = ipv4::Header::parse_quoted(packet).ok()?;
        let rest = packet.get(h.header_len + begin..usize::from(h.total_len))?;
        // Never 0: even the smallest MTU of 68 bytes holds the longest header and 8 more bytes.
        let most = mtu.bytes().saturating_sub(h.header_len) & !7;
        if rest.is_empty() || most == 0 {
            return None;
        }
        let data = rest.get(..most).unwrap_or(rest);
        let mut piece = Piece { header: [0; ipv4::HEADER_LEN_MAX], header_len: h.header_len, data };
        piece.header.get_mut(..h.header_len)?.copy_from_slice(packet.get(..h.header_len)?);
        if begin > 0 {
            blank_options(&mut piece.header[ipv4::HEADER_LEN..h.header_len]);
        }
        let offset = usize::from(h.fragment_offset) + begin;
        let header = ipv4::Header {
            total_len: u16::try_from(h.header_len + data.len()).ok()?,
            more_fragments: h.more_fragments || data.len() < rest.len(),
            fragment_offset: u16::try_from(offset).ok()?,
            ..h
        };
        header.emit(&mut piece.header).then_some(piece)
    }

    /// The IP header of the piece.
    pub fn header(&self) -> &[u8] {
        &self.header[..self.header_len]
    }
}

/// Replace options that only the first fragment has (RFC 791 section 3.1, the copied flag) by No
/// Operation options.
fn blank_options(mut options: &mut [u8]) {
    const COPIED: u8 = 0x80;
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => return,
            1 => 1,
            // The header was checked, so the option's length is there, and fits.
            _ => usize::from(options.get(1).copied().unwrap_or(0)).clamp(1, options.len()),
        };
        let (option, rest) = options.split_at_mut(len);
        if kind & COPIED == 0 {
            option.fill(1);
        }
        options = rest;
    }
}

#[cfg(test)]
mod tests;

// Finds the flow that an ICMP error is about. With several next hops (ECMP), an error must take the
// next hop of its flow: a host beyond another next hop does not have the connection, and path MTU
// discovery would end in a black hole.
//
// RFC 792, RFC 4443 section 3, RFC 7690.

/// Bytes of an ICMP header of either version; the quoted packet follows.
const ICMP_LEN: usize = 8;

/// The flow hash of the packet that an IPv4 packet quotes, with source and destination exchanged,
/// as in packets to the host that gets the error. `None` if the IPv4 packet is no ICMP error, or
/// quotes no addresses.
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

/// The flow hash of a quoted IPv4 packet, with source and destination exchanged.
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

/// The flow hash of a quoted IPv6 packet, with source and destination exchanged.
pub fn quoted_v6(quoted: &[u8]) -> Option<u32> {
    let b = quoted.first_chunk::<{ ipv6::HEADER_LEN }>().filter(|b| b[0] >> 4 == 6)?;
    let addr = |at: usize| b[at..].first_chunk::<16>().map(|a| Ipv6Addr::from(*a));
    Some(flow_v6(addr(24)?, addr(8)?))
}
