//! The virtio-net header, which precedes each frame where offloads are used with the kernel.
//!
//! Called by: `tap` and `packet`; crate `virtio`. Only this file parses frames beyond the link
//! header, for the fields that it must fill in: IP version, TCP or UDP, and the TCP header's
//! length. Source: VIRTIO 1.2 section 5.1.6, Linux `uapi/linux/virtio_net.h`. Fields are in native
//! byte order, the default of tun.

use base::LinkKind;
use mbuf::{Flags, Mbuf};

/// Bytes of the header that we request.
pub const LEN: usize = 10;

/// Maximum bytes of an adopted descriptor's header, which may have a hash report and tunnel fields.
pub const LEN_MAX: usize = 32;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;

/// No super-segment.
pub const GSO_NONE: u8 = 0;
/// A super-segment of TCP over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// A super-segment of TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// Datagrams of one size after one UDP header (Linux's USO, since 6.2).
pub const GSO_UDP_L4: u8 = 5;
/// Beside the kind: the first segment has CWR (RFC 3168 section 6.1.2).
pub const GSO_ECN: u8 = 0x80;

/// Offset of the checksum in a TCP header (RFC 9293 section 3.1) and in a UDP header (RFC 768).
const TCP_CHECKSUM_AT: u16 = 16;
const UDP_CHECKSUM_AT: u16 = 6;
const UDP_HEADER_LEN: u16 = 8;
const UDP: u8 = 17;

/// Frame and header contradict each other, or need an offload that was not negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    segment_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl Header {
    /// The header of a frame that we send.
    ///
    /// # Errors
    /// The frame has an unfinished checksum and no transport header at the given offset, or it is a
    /// super-segment whose checksum is finished or whose TCP header is cut.
    #[inline]
    pub fn of(frame: &Mbuf, link: LinkKind) -> Result<Header, Contradiction> {
        if !frame.has(Flags::CSUM_PARTIAL) {
            // Segmentation requires an unfinished checksum: VIRTIO 1.2 section 5.1.6.2.
            return if frame.segment_size() == 0 {
                Ok(Header::default())
            } else {
                Err(Contradiction)
            };
        }
        let bytes = frame.as_slice();
        let start = usize::from(frame.csum());
        let (v6, protocol) = network(bytes, link).ok_or(Contradiction)?;
        let csum_offset = if protocol == UDP { UDP_CHECKSUM_AT } else { TCP_CHECKSUM_AT };
        if start + usize::from(csum_offset) + 2 > bytes.len() {
            return Err(Contradiction);
        }
        let plain = Header {
            flags: NEEDS_CSUM,
            csum_start: frame.csum(),
            csum_offset,
            ..Header::default()
        };
        if frame.segment_size() == 0 {
            return Ok(plain);
        }
        if protocol == UDP {
            let header_len = frame.csum().saturating_add(UDP_HEADER_LEN);
            let segment_size = frame.segment_size();
            return Ok(Header { gso_type: GSO_UDP_L4, header_len, segment_size, ..plain });
        }
        // Data offset in 32-bit words, and the flags; CWR belongs to the first segment only.
        let Some(&[offset, tcp_flags]) = bytes.get(start + 12..start + 14) else {
            return Err(Contradiction);
        };
        let ecn = if tcp_flags & 0x80 != 0 { GSO_ECN } else { 0 };
        Ok(Header {
            gso_type: ecn | if v6 { GSO_TCPV6 } else { GSO_TCPV4 },
            header_len: frame.csum() + u16::from(offset >> 4) * 4,
            segment_size: frame.segment_size(),
            ..plain
        })
    }

    /// The same header for a frame with `by` more bytes before its transport header.
    #[inline]
    pub fn moved(self, by: u16) -> Header {
        if self.flags & NEEDS_CSUM == 0 {
            return self;
        }
        Header { csum_start: self.csum_start.saturating_add(by), ..self }
    }

    /// If the checksum is unfinished, the offset at which the sum begins and the offset of its
    /// field. And the payload bytes of each segment if the frame is a super-segment, else 0.
    pub fn asked(&self) -> (Option<(u16, u16)>, u16) {
        let needs = self.flags & NEEDS_CSUM != 0;
        let sum =
            needs.then(|| (self.csum_start, self.csum_start.saturating_add(self.csum_offset)));
        let is_super = self.gso_type & !GSO_ECN != GSO_NONE;
        (sum, if is_super { self.segment_size } else { 0 })
    }

    /// The kind of super-segment: a `GSO_` constant, perhaps with [`GSO_ECN`].
    #[must_use]
    pub fn gso_type(&self) -> u8 {
        self.gso_type
    }

    /// Is the checksum unfinished?
    #[must_use]
    pub fn needs_checksum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// The header as bytes, in the order of the struct.
    #[inline]
    pub fn to_bytes(self) -> [u8; LEN] {
        let [h0, h1] = self.header_len.to_ne_bytes();
        let [s0, s1] = self.segment_size.to_ne_bytes();
        let [c0, c1] = self.csum_start.to_ne_bytes();
        let [o0, o1] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    /// Parse the first [`LEN`] bytes.
    #[inline]
    pub fn from_bytes(bytes: &[u8; LEN_MAX]) -> Header {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Header {
            flags: bytes[0],
            gso_type: bytes[1],
            header_len: word(2),
            segment_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Set the flags and fields of a received frame from its header. A frame with an unfinished
    /// checksum has never left this machine, so it counts as verified. The offset of its transport
    /// header is kept in case the frame is forwarded.
    ///
    /// # Errors
    /// The header does not fit the frame, or is of a kind of super-segment that was not requested.
    #[inline]
    pub fn describe(&self, frame: &mut Mbuf) -> Result<(), Contradiction> {
        if self.flags & NEEDS_CSUM != 0 {
            let end = usize::from(self.csum_start) + usize::from(self.csum_offset) + 2;
            if end > frame.len() {
                return Err(Contradiction);
            }
            frame.set(Flags::CSUM_PARTIAL | Flags::CSUM_VERIFIED);
            frame.set_csum(self.csum_start);
        } else if self.flags & DATA_VALID != 0 {
            frame.set(Flags::CSUM_VERIFIED);
        }
        match self.gso_type & !GSO_ECN {
            GSO_NONE => {}
            GSO_TCPV4 | GSO_TCPV6 | GSO_UDP_L4 if self.segment_size > 0 => {
                frame.set_segment_size(self.segment_size);
            }
            _ => return Err(Contradiction),
        }
        Ok(())
    }
}

/// Whether the packet is IPv6, and its protocol field. Extension headers would hide the transport
/// protocol; we do not send them with offloads.
#[inline]
fn network(frame: &[u8], link: LinkKind) -> Option<(bool, u8)> {
    let mut at = link.header_len();
    if link == LinkKind::Ethernet {
        // 802.1Q and 802.1ad tags, four bytes each.
        while let [0x81, 0x00] | [0x88, 0xa8] = *frame.get(at - 2..at)? {
            at += 4;
        }
    }
    let ip = frame.get(at..)?;
    let v6 = ip.first()? >> 4 == 6;
    Some((v6, *ip.get(if v6 { 6 } else { 9 })?))
}

#[cfg(test)]
mod tests;
