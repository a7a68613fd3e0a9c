//! The TCP header: ports, sequence numbers, flags, window. Options are in `tcp/options.rs`.
//!
//! Called by: `stack/rx.rs`, `stack/tx.rs`, `tcp::header`, `tcp::urgent`. The caller verifies and
//! computes the checksum, because it has the addresses and maybe the sum already. RFC 9293 section
//! 3.1, RFC 3168.

mod established;
mod options;

pub use established::{ChecksumField, Established, set_checksum};
pub use options::{FastOpen, OPTIONS_LEN_MAX, Options, SackBlocks, Timestamps, timestamps_only};

use base::{DropReason, SeqNumber};
use core::fmt;
use core::ops::BitOr;

use crate::bytes::{be16, be32, put};
use crate::checksum::Sum;

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const HEADER_LEN_MAX: usize = 60;
/// Offset of the sequence number in the header, in bytes.
pub const SEQ_OFFSET: usize = 4;
/// Offset of the checksum in the header, for devices that finish it.
pub const CHECKSUM_OFFSET: usize = 16;
/// Offset of the control bits in the header, in bytes.
pub const FLAGS_OFFSET: usize = 13;

/// The control bits, RFC 9293 section 3.1, with ECE and CWR of RFC 3168.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// The sender has no more data.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push function.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is significant.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo, RFC 3168 section 6.1.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced, RFC 3168 section 6.1.
    pub const CWR: Flags = Flags(0x80);

    /// Are all of `other` set?
    #[inline(always)]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is any of `other` set?
    #[inline(always)]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both, usable in constants.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These without `other`.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline(always)]
    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let mut separator = "";
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 >> bit & 1 != 0 {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

/// A TCP header without the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// The next sequence number expected, if ACK is set.
    pub ack: SeqNumber,
    /// Bytes of header with options: 20 to 60, a multiple of 4.
    pub header_len: usize,
    /// The control bits.
    pub flags: Flags,
    /// The window field as sent, unscaled.
    pub window: u16,
    /// Distance from `seq` to the end of urgent data, if URG is set.
    pub urgent: u16,
}

/// Set URG and the urgent pointer in a finished header: urgent data ends `ahead` bytes after its
/// sequence number. Both fields must have been zero. If the checksum is `whole`, it is updated as
/// in RFC 1624 section 3; a checksum that a device finishes does not cover these fields yet.
pub fn set_urgent(header: &mut [u8], ahead: u16, whole: bool) {
    let Some(header) = header.first_chunk_mut::<HEADER_LEN>() else { return };
    let before = Sum::of_be16(be16(header, 12)).plus(Sum::of_be16(be16(header, 18)));
    header[13] |= Flags::URG.0;
    header[18..].copy_from_slice(&ahead.to_be_bytes());
    if whole {
        let after = Sum::of_be16(be16(header, 12)).plus(Sum::of_be16(ahead));
        let sum = Sum(!u16::from_ne_bytes([header[16], header[17]])).minus(before).plus(after);
        set_checksum(header, sum.field());
    }
}

impl Header {
    /// Parse the header at the start of `segment`. After `Ok`, `20 <= header_len <= segment.len()`.
    /// The four reserved bits are ignored, as RFC 9293 section 3.1 requires.
    ///
    /// # Errors
    /// [`DropReason::TcpShort`], [`DropReason::TcpDataOffset`].
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Header, DropReason> {
        let b = segment.first_chunk::<HEADER_LEN>().ok_or(DropReason::TcpShort)?;
        // Data offset, flags and window in one load.
        let fields = be32(b, 12);
        let header_len = (fields >> 28) as usize * 4;
        if header_len < HEADER_LEN || header_len > segment.len() {
            return Err(DropReason::TcpDataOffset);
        }
        Ok(Header {
            src_port: be16(b, 0),
            dst_port: be16(b, 2),
            seq: SeqNumber(be32(b, 4)),
            ack: SeqNumber(be32(b, 8)),
            header_len,
            flags: Flags((fields >> 16) as u8),
            window: fields as u16,
            urgent: be16(b, 18),
        })
    }

    /// Write the 20 bytes, with a checksum field of zero. The caller writes the options to
    /// `buf[20..header_len]`, before or after this call.
    ///
    /// Returns `false`, with nothing written, if `buf` is shorter than `header_len`, or if
    /// `header_len` is not a multiple of 4 from 20 to 60.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let encodes = self.header_len.is_multiple_of(4)
            && (HEADER_LEN..=HEADER_LEN_MAX).contains(&self.header_len);
        if !encodes || buf.len() < self.header_len {
            return false;
        }
        let Some(b) = buf.first_chunk_mut::<HEADER_LEN>() else { return false };
        put(b, 0, self.src_port.to_be_bytes());
        put(b, 2, self.dst_port.to_be_bytes());
        put(b, 4, self.seq.0.to_be_bytes());
        put(b, 8, self.ack.0.to_be_bytes());
        b[12] = (self.header_len as u8) << 2;
        b[13] = self.flags.0;
        put(b, 14, self.window.to_be_bytes());
        put(b, CHECKSUM_OFFSET, [0, 0]);
        put(b, 18, self.urgent.to_be_bytes());
        true
    }

    /// Both ports of a segment in memory order, for keys that are only compared.
    #[inline(always)]
    pub fn raw_ports(segment: &[u8]) -> u32 {
        segment.first_chunk::<4>().map_or(0, |b| u32::from_ne_bytes(*b))
    }

    /// The options of the segment that this header was parsed from; empty if `segment` is too
    /// short.
    #[inline(always)]
    pub fn options<'a>(&self, segment: &'a [u8]) -> &'a [u8] {
        segment.get(HEADER_LEN..self.header_len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
