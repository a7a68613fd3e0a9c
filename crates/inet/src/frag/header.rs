//! The headers of a datagram's fragments, for output.
//!
//! Called by: `stack/frag/output.rs`. RFC 791 section 3.2, RFC 8200 section 4.5.

use core::net::IpAddr;

use base::Mtu;
use wire::checksum::{Sum, sum_short};
use wire::{ipv4, ipv6};

/// Link header of 14 bytes, IPv6 header, fragment header.
const LEN_MAX: usize = 14 + ipv6::HEADER_LEN + ipv6::Fragment::LEN;

/// Link and IP header of the fragments of one datagram; offset, length and checksum are filled in
/// for each.
#[derive(Clone, Copy, Debug)]
pub struct FragmentHeader {
    bytes: [u8; LEN_MAX],
    link_len: usize,
    len: usize,
    /// Source, destination and protocol of the datagram.
    flow: (IpAddr, IpAddr, u8),
    id: u32,
    /// Of the IPv4 header, without what differs from one fragment to the next.
    fixed_sum: Sum,
}

impl FragmentHeader {
    /// Of a datagram that has these headers, link header first, without options or extension
    /// headers. `None` if they are not such.
    pub fn new(headers: &[u8], link_len: usize) -> Option<FragmentHeader> {
        let ip = headers.get(link_len..)?;
        let mut bytes = [0; LEN_MAX];
        bytes.get_mut(..headers.len())?.copy_from_slice(headers);
        let (flow, len) = if ip.first()? >> 4 == 6 {
            let h = ipv6::Header::parse_quoted(ip).ok()?;
            bytes[link_len + 6] = ipv6::FRAGMENT;
            let flow = (IpAddr::V6(h.src), IpAddr::V6(h.dst), h.next_header);
            (flow, link_len + ipv6::HEADER_LEN + ipv6::Fragment::LEN)
        } else {
            let h = ipv4::Header::parse_quoted(ip).ok()?;
            ((IpAddr::V4(h.src), IpAddr::V4(h.dst), h.protocol), link_len + ipv4::HEADER_LEN)
        };
        if flow.0.is_ipv4() {
            // Length, identification, flags with offset, and the checksum.
            bytes[link_len + 2..link_len + 8].fill(0);
            bytes[link_len + 10..link_len + 12].fill(0);
        }
        let fixed_sum = sum_short(&bytes[link_len..len]);
        Some(FragmentHeader { bytes, link_len, len, flow, id: 0, fixed_sum })
    }

    /// Source, destination and protocol of the datagram.
    pub fn flow(&self) -> (IpAddr, IpAddr, u8) {
        self.flow
    }

    /// Set the identification.
    pub fn set_id(&mut self, id: u32) {
        self.id = id;
    }

    /// Bytes that [`FragmentHeader::write`] writes.
    pub fn header_len(&self) -> usize {
        self.len
    }

    /// Bytes of data in each fragment but the last, so that packets have `mtu` bytes at most: a
    /// multiple of 8.
    pub fn data_max(&self, mtu: Mtu) -> usize {
        // No MTU is so small that this is nothing.
        (mtu.bytes() - (self.len - self.link_len)) & !7
    }

    /// Write link header, IP header and, for IPv6, fragment header for `data_len` bytes of data at
    /// `begin`, a multiple of 8, to the start of `into`; `more`: others come behind.
    /// `false`, with nothing of use written, if `into` is shorter or a field cannot hold its value.
    pub fn write(&self, into: &mut [u8], begin: usize, data_len: usize, more: bool) -> bool {
        let (Some(into), Ok(fragment_offset)) = (into.get_mut(..self.len), u16::try_from(begin))
        else {
            return false;
        };
        into.copy_from_slice(&self.bytes[..self.len]);
        let ip = &mut into[self.link_len..];
        if self.flow.1.is_ipv6() {
            let Ok(length) = u16::try_from(ipv6::Fragment::LEN + data_len) else { return false };
            ip[4..6].copy_from_slice(&length.to_be_bytes());
            let next_header = self.flow.2;
            let fragment =
                ipv6::Fragment { next_header, fragment_offset, more_fragments: more, id: self.id };
            return fragment.emit(&mut ip[ipv6::HEADER_LEN..]);
        }
        let Ok(length) = u16::try_from(ipv4::HEADER_LEN + data_len) else { return false };
        // Don't-fragment is off: a router may cut it further.
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
