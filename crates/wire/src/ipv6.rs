//! The IPv6 header, and the walk over extension headers to the upper-layer header.
//!
//! Called by: `inet::ip_input`, `inet::ip_output`, and `inet::icmp` for quoted headers. RFC 8200
//! sections 3 and 4, RFC 5095 (type 0 routing headers), RFC 6946 (atomic fragments).

use base::DropReason;
use core::net::Ipv6Addr;

use crate::bytes::{array, be16, be32, put};

/// Bytes of the header.
pub const HEADER_LEN: usize = 40;
/// Maximum number of extension headers in a packet (RFC 8504 section 5.3 allows a limit).
pub const EXTENSION_HEADERS_MAX: usize = 8;

/// Next header: hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Next header: routing.
pub const ROUTING: u8 = 43;
/// Next header: fragment.
pub const FRAGMENT: u8 = 44;
/// Next header: ICMPv6, RFC 4443.
pub const ICMPV6: u8 = 58;
/// Next header: nothing follows.
pub const NO_NEXT: u8 = 59;
/// Next header: destination options.
pub const DESTINATION_OPTIONS: u8 = 60;

/// An IPv6 header without the version, which parse verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DSCP in the upper six bits (RFC 2474), ECN in the lower two (RFC 3168).
    pub traffic_class: u8,
    /// 20 bits, RFC 6437.
    pub flow_label: u32,
    /// Bytes after the header, extension headers included.
    pub payload_len: u16,
    /// The next header: an extension header or a protocol.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Header {
    /// Parse the header at the start of `packet`. After `Ok`, `40 + payload_len <= packet.len()`.
    /// Jumbograms (RFC 2675) are not supported: a length of zero means that nothing follows.
    ///
    /// # Errors
    /// [`DropReason::Ipv6Short`], [`DropReason::Ipv6Version`], [`DropReason::Ipv6PayloadLength`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Header, DropReason> {
        let header = Header::parse_quoted(packet)?;
        if usize::from(header.payload_len) > packet.len() - HEADER_LEN {
            return Err(DropReason::Ipv6PayloadLength);
        }
        Ok(header)
    }

    /// Parse a header quoted in an ICMPv6 error; the payload may be cut (RFC 4443 section 2.4).
    ///
    /// # Errors
    /// [`DropReason::Ipv6Short`], [`DropReason::Ipv6Version`].
    #[inline]
    pub fn parse_quoted(quote: &[u8]) -> Result<Header, DropReason> {
        let b = quote.first_chunk::<HEADER_LEN>().ok_or(DropReason::Ipv6Short)?;
        let first = be32(b, 0);
        if first >> 28 != 6 {
            return Err(DropReason::Ipv6Version);
        }
        Ok(Header {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0x000f_ffff,
            payload_len: be16(b, 4),
            next_header: b[6],
            hop_limit: b[7],
            src: Ipv6Addr::from(array::<_, 16>(b, 8)),
            dst: Ipv6Addr::from(array::<_, 16>(b, 24)),
        })
    }

    /// Write the 40 bytes; `false` if `buf` is shorter or the flow label exceeds 20 bits.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let Some(b) = buf.first_chunk_mut::<HEADER_LEN>() else { return false };
        if self.flow_label >> 20 != 0 {
            return false;
        }
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        put(b, 0, first.to_be_bytes());
        put(b, 4, self.payload_len.to_be_bytes());
        b[6] = self.next_header;
        b[7] = self.hop_limit;
        put(b, 8, self.src.octets());
        put(b, 24, self.dst.octets());
        true
    }

    /// Explicit congestion notification field, RFC 3168 section 5.
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class & 3
    }
}

/// A fragment header, RFC 8200 section 4.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The next header of the whole datagram.
    pub next_header: u8,
    /// Offset of the data in the datagram, in bytes, a multiple of 8.
    pub fragment_offset: u16,
    /// Not the last fragment.
    pub more_fragments: bool,
    /// Identification of a datagram's fragments.
    pub id: u32,
}

impl Fragment {
    /// Bytes of a fragment header.
    pub const LEN: usize = 8;

    /// Parse the fragment header at the start of `bytes`; reserved bits are ignored.
    ///
    /// # Errors
    /// [`DropReason::Ipv6ExtensionHeader`] below 8 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Fragment, DropReason> {
        let b = bytes.first_chunk::<8>().ok_or(DropReason::Ipv6ExtensionHeader)?;
        let place = be16(b, 2);
        Ok(Fragment {
            next_header: b[0],
            fragment_offset: place & 0xfff8,
            more_fragments: place & 1 != 0,
            id: be32(b, 4),
        })
    }

    /// Write the 8 bytes; `false` if `buf` is shorter or the offset is not a multiple of 8.
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let Some(b) = buf.first_chunk_mut::<8>() else { return false };
        if !self.fragment_offset.is_multiple_of(8) {
            return false;
        }
        b[0] = self.next_header;
        b[1] = 0;
        put(b, 2, (self.fragment_offset | u16::from(self.more_fragments)).to_be_bytes());
        put(b, 4, self.id.to_be_bytes());
        true
    }
}

/// Find the upper-layer protocol behind the extension headers, and its offset in `payload` (the
/// bytes after the IPv6 header, cut to `payload_len`). `next_header` is that of the IPv6 header.
///
/// A real fragment is returned as ([`FRAGMENT`], offset of the fragment header) for reassembly; an
/// atomic one (RFC 6946) is walked through. [`NO_NEXT`], ESP and AH are returned like protocols.
///
/// # Errors
/// [`DropReason::Ipv6ExtensionHeader`]: a header past the end, more than [`EXTENSION_HEADERS_MAX`],
/// hop-by-hop options not in first place (RFC 8200 section 4.1), an unknown option that must not be
/// skipped (section 4.2), a routing header with segments left, or any routing header of type 0,
/// which RFC 5095 permits to skip if no segments are left.
#[inline]
pub fn upper_layer(payload: &[u8], next_header: u8) -> Result<(u8, usize), DropReason> {
    match next_header {
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => walk(payload, next_header),
        protocol => Ok((protocol, 0)),
    }
}

/// Does `data`, which begins with a `next_header`, hold all extension headers and the whole header
/// of TCP, UDP or ICMPv6 behind them? The first fragment of a datagram must (RFC 7112 section 5).
/// Only lengths are looked at: [`upper_layer`] checks what the headers say.
pub fn has_all_headers(data: &[u8], mut next_header: u8) -> bool {
    let mut at = 0;
    for _ in 0..=EXTENSION_HEADERS_MAX {
        let rest = data.get(at..).unwrap_or_default();
        let len = match (next_header, rest) {
            (FRAGMENT, _) => Fragment::LEN,
            (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS, [_, units, ..]) => {
                (usize::from(*units) + 1) * 8
            }
            (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS, _) => return false,
            (protocol, rest) => return has_transport_header(rest, protocol),
        };
        match rest.get(..len) {
            Some([next, ..]) => next_header = *next,
            _ => return false,
        }
        at += len;
    }
    true
}

/// Has `packet`, whose headers [`upper_layer`] admitted, a fragment header among them?
pub fn has_fragment_header(packet: &[u8]) -> bool {
    let Ok(header) = Header::parse_quoted(packet) else { return false };
    let (mut next_header, mut at) = (header.next_header, HEADER_LEN);
    while let (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS, Some(&[next, units])) =
        (next_header, packet.get(at..at + 2))
    {
        next_header = next;
        at += (usize::from(units) + 1) * 8;
    }
    next_header == FRAGMENT
}

/// Does `data` hold the whole header of `protocol`? Of a protocol that is unknown here, always.
pub fn has_transport_header(data: &[u8], protocol: u8) -> bool {
    match protocol {
        crate::ipv4::TCP => {
            data.get(12).is_some_and(|b| data.len() >= usize::from(b >> 4).max(5) * 4)
        }
        crate::ipv4::UDP | crate::ipv4::ICMP | ICMPV6 => data.len() >= 8,
        _ => true,
    }
}

#[cold]
fn walk(payload: &[u8], mut next_header: u8) -> Result<(u8, usize), DropReason> {
    const REFUSED: DropReason = DropReason::Ipv6ExtensionHeader;
    let mut at = 0;
    for place in 0..EXTENSION_HEADERS_MAX {
        let rest = payload.get(at..).ok_or(REFUSED)?;
        match next_header {
            FRAGMENT => {
                let fragment = Fragment::parse(rest)?;
                if fragment.more_fragments || fragment.fragment_offset != 0 {
                    return Ok((FRAGMENT, at));
                }
                next_header = fragment.next_header;
                at += Fragment::LEN;
                continue;
            }
            HOP_BY_HOP if place > 0 => return Err(REFUSED),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {}
            protocol => return Ok((protocol, at)),
        }
        let [next, units, ..] = *rest else { return Err(REFUSED) };
        let len = (usize::from(units) + 1) * 8;
        let body = rest.get(2..len).ok_or(REFUSED)?;
        if next_header == ROUTING {
            let [kind, segments_left, ..] = *body else { return Err(REFUSED) };
            if kind == 0 || segments_left != 0 {
                return Err(REFUSED);
            }
        } else {
            check_options(body)?;
        }
        next_header = next;
        at += len;
    }
    match next_header {
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS => Err(REFUSED),
        protocol => Ok((protocol, at)),
    }
}

/// Check the options of a hop-by-hop or destination options header, RFC 8200 section 4.2.
fn check_options(mut options: &[u8]) -> Result<(), DropReason> {
    const PAD1: u8 = 0;
    while let [kind, rest @ ..] = options {
        if *kind == PAD1 {
            options = rest;
            continue;
        }
        // The two highest bits say how to treat an unknown option: 00 skips it.
        if kind >> 6 != 0 {
            return Err(DropReason::Ipv6ExtensionHeader);
        }
        let [len, data @ ..] = rest else { return Err(DropReason::Ipv6ExtensionHeader) };
        options = data.get(usize::from(*len)..).ok_or(DropReason::Ipv6ExtensionHeader)?;
    }
    Ok(())
}

/// A hop-by-hop options header with the Router Alert option of value 0 (RFC 2711: an MLD message),
/// in front of ICMPv6.
pub const ROUTER_ALERT: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Has `packet`, whose headers [`upper_layer`] admitted, that option?
pub fn has_router_alert(packet: &[u8]) -> bool {
    let is_first = Header::parse_quoted(packet).is_ok_and(|h| h.next_header == HOP_BY_HOP);
    let Some([_, units, ..]) = packet.get(HEADER_LEN..).filter(|_| is_first) else { return false };
    let end = HEADER_LEN + (usize::from(*units) + 1) * 8;
    let mut options = packet.get(HEADER_LEN + 2..end).unwrap_or_default();
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (0, rest) => rest,
            (5, [2, 0, 0, ..]) => return true,
            (_, [len, data @ ..]) => data.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        };
    }
    false
}

#[cfg(test)]
mod tests;
