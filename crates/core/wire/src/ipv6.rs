//! The IPv6 header and the fragment header; `extension.rs` walks over the other extension headers.
//!
//! Called by: `inet::ip_input`, `inet::ip_output`, and `inet::icmp` for quoted headers. RFC 8200
//! sections 3 and 4.5.

mod extension;

pub use extension::{ChainLimits, Problem, Refused, chain, upper_layer};
pub use extension::{has_all_headers, has_fragment_header, last_header};

use base::DropReason;
use core::net::Ipv6Addr;

use crate::bytes::{array, be16, be32, put};
use crate::protocol::{HOP_BY_HOP, ICMP, ICMPV6, TCP, UDP};

/// Bytes of the header.
pub const HEADER_LEN: usize = 40;

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

/// The usual header: TCP, UDP or ICMPv6 follows it directly. Addresses are in memory order, because
/// they are only compared or summed.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    /// Two words of source, two of destination, in memory order.
    pub addrs: [u64; 4],
    /// Bytes after the header, at most as many as the packet has.
    pub payload_len: u32,
    /// Protocol of the payload.
    pub protocol: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Hops left.
    pub hop_limit: u8,
}

impl Plain {
    /// Parse the header at the start of `packet` if it is plain; [`Header::parse`] and [`chain`]
    /// handle any other.
    #[inline(always)]
    pub fn parse(packet: &[u8]) -> Option<Plain> {
        let b = packet.first_chunk::<HEADER_LEN>()?;
        let first = u64::from_be_bytes(array(b, 0));
        let (payload_len, protocol) = ((first >> 16) as u16, (first >> 8) as u8);
        let plain = first >> 60 == 6
            && usize::from(payload_len) <= packet.len() - HEADER_LEN
            && matches!(protocol, TCP | UDP | ICMPV6);
        let word = |at| u64::from_ne_bytes(array(b, at));
        plain.then_some(Plain {
            addrs: [word(8), word(16), word(24), word(32)],
            payload_len: u32::from(payload_len),
            protocol,
            traffic_class: (first >> 52) as u8,
            hop_limit: first as u8,
        })
    }
}

/// A fragment header, RFC 8200 section 4.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The next header of the whole datagram.
    pub next_header: u8,
    /// Offset of the data in the datagram, in bytes, a multiple of 8.
    pub fragment_offset: u16,
    /// The packet is not the last fragment.
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

/// Does `data` contain the whole header of `protocol`? Always `true` for a protocol that is unknown
/// here.
pub fn has_transport_header(data: &[u8], protocol: u8) -> bool {
    match protocol {
        TCP => data.get(12).is_some_and(|b| data.len() >= usize::from(b >> 4).max(5) * 4),
        UDP | ICMP | ICMPV6 => data.len() >= 8,
        _ => true,
    }
}

/// A hop-by-hop options header with the Router Alert option of value 0 (RFC 2711: an MLD message),
/// which ICMPv6 follows.
pub const ROUTER_ALERT: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Does `packet`, whose headers [`upper_layer`] accepted, have that option?
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
