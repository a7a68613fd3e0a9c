//! Forwarded super-segments: where their headers end, and how they are cut into packets for a port
//! that does not take super-segments. Also the checksum that a sender has left to its device.
//!
//! Called by: `stack/forward/plain/offloads.rs`. A super-segment comes from another program or a
//! virtual machine: every length is checked. RFC 9293 section 3.1, RFC 3168 section 6.1.2 (CWR),
//! RFC 6864 section 4.1 (identification), RFC 768.

use wire::checksum::{Ladder, Sum, sum_short};
use wire::tcp::Flags;
use wire::{ipv4, ipv6, protocol, tcp, udp};

use crate::forward::{destination, source};
use crate::ip_input::pseudo_sum;

/// The offset of the data offset field in a TCP header.
const OFFSET_AT: usize = 12;
/// The offset of the length in a UDP header.
const LENGTH_AT: usize = 4;

/// The most packets that a super-segment is cut into: 64 KB in segments of 48 bytes, the smallest
/// that Linux sends. Without a limit a virtual machine could request 60,000 packets by one frame.
pub const SEGMENTS_MAX: usize = 65_535 / 48;

/// The TCP segment or UDP datagram in a whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The packet is TCP; `false`: UDP.
    pub is_tcp: bool,
    /// The offset of the transport header from the packet's first byte.
    pub at: usize,
    /// The offset of the payload.
    pub payload_at: usize,
    /// Bytes of the packet.
    pub len: usize,
}

impl Inner {
    /// Find the headers of a packet. `None` for a fragment, for another protocol, and if lengths
    /// contradict each other.
    pub fn of(packet: &[u8]) -> Option<Inner> {
        let (protocol, at, len) = if packet.first()? >> 4 == 6 {
            let (header, rest) = packet.split_first_chunk::<{ ipv6::HEADER_LEN }>()?;
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let (protocol, at) = match header[6] {
                plain @ (protocol::TCP | protocol::UDP) => (plain, 0),
                next => ipv6::upper_layer(rest.get(..len)?, next).ok()?,
            };
            (protocol, ipv6::HEADER_LEN + at, ipv6::HEADER_LEN + len)
        } else {
            let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
            let is_fragment = (header[6] & 0x3f) | header[7] != 0;
            let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let at = usize::from(header[0] & 15) * 4;
            (!is_fragment && at >= ipv4::HEADER_LEN).then_some((header[9], at, len))?
        };
        let segment = packet.get(at..len)?;
        let (is_tcp, header_len) = match protocol {
            protocol::TCP => {
                let len = usize::from(segment.get(OFFSET_AT)? >> 4) * 4;
                (true, Some(len).filter(|&len| len >= tcp::HEADER_LEN)?)
            }
            protocol::UDP => (false, udp::HEADER_LEN),
            _ => return None,
        };
        let payload_at = at + header_len;
        (payload_at <= len).then_some(Inner { is_tcp, at, payload_at, len })
    }

    /// Does the transport header follow the IP header at once? Devices look for it there.
    pub fn is_direct(&self, packet: &[u8]) -> bool {
        match packet.first() {
            Some(first) if first >> 4 == 6 => self.at == ipv6::HEADER_LEN,
            _ => true,
        }
    }

    /// Bytes of the longest packet on the wire, if a device cuts the payload every `size` bytes. If
    /// `size` is 0, the payload is not cut.
    pub fn longest(&self, size: u16) -> usize {
        let payload = self.len - self.payload_at;
        self.payload_at + if size == 0 { payload } else { payload.min(size.into()) }
    }

    /// Is the payload at most [`SEGMENTS_MAX`] pieces of `size` bytes? Also `true` if `size` is 0,
    /// so that the payload is not cut.
    pub fn has_few_pieces(&self, size: u16) -> bool {
        size == 0 || (self.len - self.payload_at).div_ceil(size.into()) <= SEGMENTS_MAX
    }

    /// The sum of the pseudo-header, without the length.
    pub(super) fn pseudo(&self, packet: &[u8]) -> Sum {
        let protocol = if self.is_tcp { protocol::TCP } else { protocol::UDP };
        match (source(packet), destination(packet)) {
            (Some(src), Some(dst)) => pseudo_sum(src, dst, protocol),
            _ => Sum::ZERO,
        }
    }

    /// Write the checksum of a segment whose sum is `sum` while the checksum field is zero.
    fn put_checksum(&self, segment: &mut [u8], sum: Sum) {
        let (at, field) = match self.is_tcp {
            true => (tcp::CHECKSUM_OFFSET, sum.field()),
            false => (udp::CHECKSUM_OFFSET, udp::checksum_field(sum)),
        };
        if let Some(to) = segment.get_mut(at..at + 2) {
            to.copy_from_slice(&field);
        }
    }

    fn clear_checksum(&self, segment: &mut [u8]) {
        let at = if self.is_tcp { tcp::CHECKSUM_OFFSET } else { udp::CHECKSUM_OFFSET };
        if let Some(field) = segment.get_mut(at..at + 2) {
            field.fill(0);
        }
    }
}

/// Write the TCP or UDP checksum of a whole packet whose sender left it to a device. Packets of
/// other protocols have no checksum to finish.
pub fn finish_checksum(packet: &mut [u8], ladder: Ladder) {
    let Some(inner) = Inner::of(packet) else { return };
    let pseudo = inner.pseudo(packet);
    let Some(segment) = packet.get_mut(inner.at..inner.len) else { return };
    inner.clear_checksum(segment);
    let sum = pseudo.plus(Sum::of_be16(segment.len() as u16)).plus(ladder.sum(segment));
    inner.put_checksum(segment, sum);
}

/// A super-segment of TCP, or a super-datagram of UDP, that is to be cut.
#[derive(Clone, Copy, Debug)]
pub struct SuperSegment<'a> {
    headers: &'a [u8],
    payload: &'a [u8],
    inner: Inner,
    /// Bytes of payload of each piece but the last.
    size: usize,
    pseudo: Sum,
}

impl<'a> SuperSegment<'a> {
    /// The super-segment in `packet`, which is to be cut every `size` bytes of payload. `None` if
    /// `size` is 0, if there are more than [`SEGMENTS_MAX`] pieces, or if [`Inner::of`] returns
    /// `None`.
    pub fn new(packet: &'a [u8], size: u16) -> Option<SuperSegment<'a>> {
        let inner = Inner::of(packet).filter(|inner| size > 0 && inner.has_few_pieces(size))?;
        let (headers, payload) = packet.get(..inner.len)?.split_at_checked(inner.payload_at)?;
        let pseudo = inner.pseudo(packet);
        Some(SuperSegment { headers, payload, inner, size: size.into(), pseudo })
    }

    /// The number of packets into which it is cut; at least 1.
    pub fn count(&self) -> usize {
        self.payload.len().div_ceil(self.size).max(1)
    }

    fn part(&self, number: usize) -> &'a [u8] {
        let rest = number.checked_mul(self.size).and_then(|from| self.payload.get(from..));
        let rest = rest.unwrap_or_default();
        rest.get(..self.size).unwrap_or(rest)
    }

    /// Bytes of packet `number`, which is less than [`SuperSegment::count`].
    pub fn len_of(&self, number: usize) -> usize {
        self.headers.len() + self.part(number).len()
    }

    /// Write packet `number` into `to`, which has [`SuperSegment::len_of`] bytes. The payload is
    /// copied and summed in one pass, and both checksums are finished. The hop limit is that of the
    /// super-segment.
    pub fn write(&self, number: usize, ladder: Ladder, to: &mut [u8]) {
        let part = self.part(number);
        let Some((headers, data)) = to.split_at_mut_checked(self.headers.len()) else { return };
        if data.len() != part.len() {
            return;
        }
        headers.copy_from_slice(self.headers);
        let sum = ladder.copy_sum(part, data);
        let (ip, transport) = headers.split_at_mut(self.inner.at);
        let len = (transport.len() + part.len()) as u16;
        self.write_ip(ip, number, len);
        if self.inner.is_tcp {
            self.write_tcp(transport, number);
        } else if let Some(field) = transport.get_mut(LENGTH_AT..LENGTH_AT + 2) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        self.inner.clear_checksum(transport);
        let header = ladder.sum(transport);
        let sum = self.pseudo.plus(Sum::of_be16(len)).plus(header).plus(sum);
        self.inner.put_checksum(transport, sum);
    }

    /// Set the length, the identification and the checksum of an IP header that `len` bytes follow.
    fn write_ip(&self, ip: &mut [u8], number: usize, len: u16) {
        if ip.first().is_some_and(|first| first >> 4 == 6) {
            let extensions = (ip.len() - ipv6::HEADER_LEN) as u16;
            ip[4..6].copy_from_slice(&(extensions + len).to_be_bytes());
            return;
        }
        let total = ip.len() as u16 + len;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        let id = u16::from_be_bytes([ip[4], ip[5]]);
        // Identifications count up, as in Linux. If the sender sets DF and leaves the field 0, as
        // our stack does (docs/decisions/0009-following.md), the field stays 0: RFC 6864 section
        // 4.1.
        if id != 0 || ip[6] & 0x40 == 0 {
            let field = ip.get_mut(ipv4::ID_OFFSET..ipv4::ID_OFFSET + 2);
            let id = id.wrapping_add(number as u16).to_be_bytes();
            field.into_iter().for_each(|field| field.copy_from_slice(&id));
        }
        ip[ipv4::CHECKSUM_OFFSET..ipv4::CHECKSUM_OFFSET + 2].fill(0);
        let field = sum_short(ip).field();
        ip[ipv4::CHECKSUM_OFFSET..ipv4::CHECKSUM_OFFSET + 2].copy_from_slice(&field);
    }

    /// Set sequence number and flags: only the last piece has FIN and PSH, only the first has CWR.
    fn write_tcp(&self, tcp: &mut [u8], number: usize) {
        let ahead = number.wrapping_mul(self.size) as u32;
        if let Some(seq) = tcp.get_mut(tcp::SEQ_OFFSET..).and_then(|b| b.first_chunk_mut::<4>()) {
            *seq = u32::from_be_bytes(*seq).wrapping_add(ahead).to_be_bytes();
        }
        let is_last = number.wrapping_add(1) == self.count();
        if let Some(flags) = tcp.get_mut(tcp::FLAGS_OFFSET) {
            let mut kept = Flags(*flags);
            if !is_last {
                kept = kept.without(Flags::FIN | Flags::PSH);
            }
            if number > 0 {
                kept = kept.without(Flags::CWR);
            }
            *flags = kept.0;
        }
    }
}

#[cfg(test)]
mod tests;
