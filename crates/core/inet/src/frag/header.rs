//! The headers of a datagram's fragments, for output.
//!
//! Called by: `stack/frag/output.rs`. RFC 791 section 3.2, RFC 8200 section 4.5.

use core::net::IpAddr;

use base::Mtu;
use wire::checksum::Sum;
use wire::{ether, ipv4, ipv6, protocol};

use crate::HeaderTemplate;
use crate::flow::{Addrs, FlowKey, V4Addrs, V6Addrs};
use crate::ip_output::ETHERNET_V4;

/// Link header of 14 bytes, IPv6 header, fragment header.
const LEN_MAX: usize = 14 + ipv6::HEADER_LEN + ipv6::Fragment::LEN;

/// Link and IP header of the fragments of one datagram; offset, length and checksum are filled in
/// for each.
#[derive(Clone, Copy, Debug)]
pub struct FragmentHeader {
    bytes: [u8; LEN_MAX],
    link_len: u8,
    len: u8,
    /// The datagram's protocol, for the next-header field of a fragment header.
    protocol: u8,
    /// Source and destination. For IPv4 the protocol is in the place of the ports.
    flow: FlowKey,
    id: u32,
    /// The sum of the IPv4 header without the fields that differ between fragments.
    fixed_sum: Sum,
}

impl FragmentHeader {
    /// The headers for the fragments of a datagram that would leave with the headers of `template`
    /// if it were not fragmented. `None` as for [`FragmentHeader::new`].
    #[inline(always)]
    pub fn of(template: &HeaderTemplate) -> Option<FragmentHeader> {
        let Some((headers, sum)) = template.ethernet_v4() else {
            return FragmentHeader::new(template.headers(), template.link_len());
        };
        let mut bytes = [0; LEN_MAX];
        bytes[..ETHERNET_V4].copy_from_slice(headers);
        let ip = bytes[ether::HEADER_LEN..].first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
        // Clears don't-fragment, the only bit that is set in identification and flags.
        ip[6] = 0;
        let (protocol, addrs) = (ip[9], *ip.last_chunk::<8>()?);
        let flow = V4Addrs(u64::from_ne_bytes(addrs)).key(protocol.into());
        let fixed_sum = sum.minus(Sum::of_be16(ipv4::DONT_FRAGMENT));
        let (link_len, len) = (ether::HEADER_LEN as u8, ETHERNET_V4 as u8);
        Some(FragmentHeader { bytes, link_len, len, protocol, flow, id: 0, fixed_sum })
    }

    /// The headers for the fragments of a datagram with these headers, link header first, which
    /// have no options or extension headers. `None` for other headers.
    pub fn new(headers: &[u8], link_len: usize) -> Option<FragmentHeader> {
        let ip = headers.get(link_len..)?;
        let mut bytes = [0; LEN_MAX];
        bytes.get_mut(..headers.len())?.copy_from_slice(headers);
        let into = &mut bytes[link_len..];
        let (protocol, flow, ip_len, fixed_sum) = if ip.first()? >> 4 == 6 {
            let h = ipv6::Header::parse_quoted(ip).ok()?;
            into[6] = protocol::FRAGMENT;
            let flow = V6Addrs::of(h.src, h.dst).key(0);
            (h.next_header, flow, ipv6::HEADER_LEN + ipv6::Fragment::LEN, Sum::ZERO)
        } else {
            let h = ipv4::Header::parse_quoted(ip).ok()?;
            let into = into.first_chunk_mut::<{ ipv4::HEADER_LEN }>()?;
            // Length, identification, flags with offset, and the checksum.
            into[2..8].fill(0);
            into[10..12].fill(0);
            let flow = V4Addrs::of(h.src, h.dst).key(h.protocol.into());
            (h.protocol, flow, ipv4::HEADER_LEN, ipv4::header_sum(into))
        };
        let len = (link_len + ip_len) as u8;
        Some(FragmentHeader {
            bytes,
            link_len: link_len as u8,
            len,
            protocol,
            flow,
            id: 0,
            fixed_sum,
        })
    }

    /// The key of the datagram's identifications: source and destination, and for IPv4 the protocol
    /// in the place of the ports.
    #[inline]
    pub fn flow(&self) -> FlowKey {
        self.flow
    }

    /// The source of the datagram.
    pub fn src(&self) -> IpAddr {
        self.flow.remote().ip()
    }

    /// The destination of the datagram.
    #[inline]
    pub fn dst(&self) -> IpAddr {
        self.flow.local().ip()
    }

    /// Set the identification.
    pub fn set_id(&mut self, id: u32) {
        self.id = id;
    }

    /// Bytes that [`FragmentHeader::write`] writes.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.len.into()
    }

    /// Bytes of data in each fragment but the last, a multiple of 8, so that packets have at most
    /// `mtu` bytes.
    pub fn data_max(&self, mtu: Mtu) -> usize {
        // Never 0, even with the smallest MTU.
        (mtu.bytes() - usize::from(self.len - self.link_len)) & !7
    }

    /// Write link header, IP header and, for IPv6, fragment header to the start of `into`. They are
    /// for `data_len` bytes of data at offset `begin`, a multiple of 8; `more`: further fragments
    /// follow. `false`, with nothing useful written, if `into` is too short or a field cannot hold
    /// its value.
    #[inline(always)]
    pub fn write(&self, into: &mut [u8], begin: usize, data_len: usize, more: bool) -> bool {
        let (len, link_len) = (usize::from(self.len), usize::from(self.link_len));
        let (Some(into), Ok(fragment_offset)) = (into.get_mut(..len), u16::try_from(begin)) else {
            return false;
        };
        match into.first_chunk_mut::<ETHERNET_V4>() {
            // A copy of a constant length needs no call.
            Some(into) if len == ETHERNET_V4 => into.copy_from_slice(&self.bytes[..ETHERNET_V4]),
            _ => into.copy_from_slice(&self.bytes[..len]),
        }
        let ip = &mut into[link_len..];
        if !self.flow.is_v4() {
            let Ok(length) = u16::try_from(ipv6::Fragment::LEN + data_len) else { return false };
            ip[4..6].copy_from_slice(&length.to_be_bytes());
            let next_header = self.protocol;
            let fragment =
                ipv6::Fragment { next_header, fragment_offset, more_fragments: more, id: self.id };
            return fragment.emit(&mut ip[ipv6::HEADER_LEN..]);
        }
        let Ok(length) = u16::try_from(ipv4::HEADER_LEN + data_len) else { return false };
        // Don't-fragment is off: a router may fragment the fragment further.
        let field = fragment_offset >> 3 | if more { 0x2000 } else { 0 };
        let own = [length, self.id as u16, field];
        let sum = own.iter().fold(self.fixed_sum, |sum, &word| sum.plus(Sum::of_be16(word)));
        for (into, word) in ip[2..8].as_chunks_mut().0.iter_mut().zip(own) {
            *into = word.to_be_bytes();
        }
        ip[10..12].copy_from_slice(&sum.field());
        fragment_offset.is_multiple_of(8)
    }
}
