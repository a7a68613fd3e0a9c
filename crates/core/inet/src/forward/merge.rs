//! Merges consecutive segments of a flow into one super-segment (GRO), for a device to which one
//! super-segment costs less than the segments.
//!
//! Called by: `stack/forward/burst/merge.rs`. The rules are the reverse of those by which
//! [`super::SuperSegment`] cuts: a super-segment that is cut again gives the same segments, byte
//! for byte. So nothing is merged across a change of flags, options, window or acknowledgment, and
//! nothing after PSH or FIN. RFC 9293 section 3.1, RFC 3168 section 6.1.2, RFC 6864 section 4.1.

use wire::checksum::{Ladder, Sum, sum_short};
use wire::tcp::Flags;
use wire::{ipv4, ipv6, tcp};

use super::super_segment::Inner;

/// The longest IP packet, in bytes.
const PACKET_MAX: usize = 65_535;

/// Don't-fragment, in the seventh byte of an IPv4 header.
const DF: u8 = 0x40;

/// Consecutive segments of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The first packet.
    first: &'a [u8],
    inner: Inner,
    /// Bytes of payload of each segment but the last.
    size: usize,
    payload_len: usize,
    count: usize,
    /// Flags that only the last segment may have.
    last: Flags,
    is_ended: bool,
}

impl<'a> Run<'a> {
    /// A run that begins with this packet, which is cut to its length and whose IP header is valid.
    /// `None` if nothing may be merged with the packet.
    pub fn begin(packet: &'a [u8]) -> Option<Run<'a>> {
        let inner = Inner::of(packet).filter(|inner| inner.is_tcp && inner.len == packet.len())?;
        let is_v4 = packet.first()? >> 4 == 4;
        let has_no_options = inner.at == if is_v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let flags = Flags(*packet.get(inner.at + tcp::FLAGS_OFFSET)?);
        let size = inner.len - inner.payload_at;
        let may_begin = has_no_options && size > 0 && flags.without(Flags::ECE) == Flags::ACK;
        let (count, last) = (1, Flags::NONE);
        let run =
            Run { first: packet, inner, size, payload_len: size, count, last, is_ended: false };
        may_begin.then_some(run)
    }

    /// The number of packets in the run.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of payload of each segment but the last.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the super-segment, IP header included.
    pub fn packet_len(&self) -> usize {
        self.inner.payload_at + self.payload_len
    }

    /// Where the transport header and the payload of each packet begin.
    pub fn inner(&self) -> Inner {
        self.inner
    }

    /// Add `packet` to the run, if it is the next one; `false` if not. `packet` is cut to its
    /// length and has a valid IP header. The super-segment may have at most `most` bytes.
    #[inline]
    pub fn take(&mut self, packet: &[u8], most: usize) -> bool {
        let (at, payload_at) = (self.inner.at, self.inner.payload_at);
        let len = packet.len().saturating_sub(payload_at);
        let fits = len > 0 && len <= self.size && self.packet_len() + len <= most.min(PACKET_MAX);
        if self.is_ended || !fits || !self.has_next_ip(packet) {
            return false;
        }
        let (Some(old), Some(new)) = (self.first.get(at..payload_at), packet.get(at..payload_at))
        else {
            return false;
        };
        let (old_flags, new_flags) = (old[tcp::FLAGS_OFFSET], new[tcp::FLAGS_OFFSET]);
        let last = Flags(new_flags ^ old_flags);
        let seq = |tcp: &[u8]| u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let is_next = old[..4] == new[..4]
            && seq(new) == seq(old).wrapping_add(self.payload_len as u32)
            && old[8..13] == new[8..13]
            && last.without(Flags::PSH | Flags::FIN) == Flags::NONE
            && old[14..16] == new[14..16]
            && old[18..] == new[18..];
        if is_next {
            self.count += 1;
            self.payload_len += len;
            self.last = last;
            self.is_ended = len < self.size || last != Flags::NONE;
        }
        is_next
    }

    /// Does a packet have the IP header that the run's next packet would have if the super-segment
    /// were cut?
    #[inline]
    fn has_next_ip(&self, packet: &[u8]) -> bool {
        let (old, new) = (self.first, packet);
        if old[0] >> 4 == 6 {
            let header = ipv6::HEADER_LEN;
            return new.len() >= header && old[..4] == new[..4] && old[6..header] == new[6..header];
        }
        let id = |ip: &[u8]| u16::from_be_bytes([ip[4], ip[5]]);
        let is_numbered = id(old) != 0 || old[6] & DF == 0;
        let next = if is_numbered { id(old).wrapping_add(self.count as u16) } else { 0 };
        new.len() >= ipv4::HEADER_LEN
            && old[..2] == new[..2]
            && id(new) == next
            && old[6..10] == new[6..10]
            && old[12..ipv4::HEADER_LEN] == new[12..ipv4::HEADER_LEN]
    }

    /// Write the super-segment's headers to the first [`Inner::payload_at`] bytes of `to`. The
    /// checksum field gets the sum of the pseudo-header; the device finishes it.
    pub fn write_headers(&self, to: &mut [u8]) {
        let Some(headers) = to.get_mut(..self.inner.payload_at) else { return };
        headers.copy_from_slice(&self.first[..self.inner.payload_at]);
        let (ip, tcp) = headers.split_at_mut(self.inner.at);
        let segment_len = (tcp.len() + self.payload_len) as u16;
        if ip[0] >> 4 == 6 {
            ip[4..6].copy_from_slice(&segment_len.to_be_bytes());
        } else {
            let total = (self.packet_len() as u16).to_be_bytes();
            ip[2..4].copy_from_slice(&total);
            ip[ipv4::CHECKSUM_OFFSET..ipv4::CHECKSUM_OFFSET + 2].fill(0);
            let field = sum_short(ip).field();
            ip[ipv4::CHECKSUM_OFFSET..ipv4::CHECKSUM_OFFSET + 2].copy_from_slice(&field);
        }
        tcp[tcp::FLAGS_OFFSET] |= self.last.0;
        let sum = self.inner.pseudo(self.first).plus(Sum::of_be16(segment_len));
        // The field of an unfinished checksum is the sum itself, not its complement.
        let field = sum.0.to_ne_bytes();
        tcp[tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2].copy_from_slice(&field);
    }
}

/// Is the checksum of a packet with this TCP segment right? The packet is cut to its length.
pub fn is_sound(packet: &[u8], inner: &Inner, ladder: Ladder) -> bool {
    let Some(segment) = packet.get(inner.at..) else { return false };
    let len = Sum::of_be16(segment.len() as u16);
    inner.pseudo(packet).plus(len).plus(ladder.sum(segment)).is_whole()
}

#[cfg(test)]
mod tests;
