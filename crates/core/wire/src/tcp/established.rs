//! The usual TCP header: 20 bytes, or 32 with timestamps; written and summed as words.
//!
//! Called by: `tcp::header` and `inet::ip_output`. The sum is computed from registers: summing the
//! stored bytes would load words of another size than was just stored, which stalls. RFC 9293
//! section 3.1, RFC 7323 appendix A.

use base::SeqNumber;

use super::{Flags, Timestamps};
use crate::checksum::Sum;

/// How to fill the checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumField {
    /// The finished checksum.
    Full,
    /// The pseudo-header's sum, for a device to finish.
    Partial,
    /// Zero: checksums are turned off.
    Zero,
}

/// The fields of the usual header.
#[derive(Clone, Copy, Debug)]
pub struct Established {
    /// Both ports in memory order.
    pub ports: [u8; 4],
    /// Sequence number of the first byte.
    pub seq: SeqNumber,
    /// The next byte expected.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// The window field, already scaled.
    pub window: u16,
    /// The timestamps option, if it was negotiated.
    pub timestamps: Option<Timestamps>,
}

/// A zero checksum and urgent pointer, followed by the options NOP, NOP, kind 8, length 10.
const WORD2: u64 = u64::from_ne_bytes([0, 0, 0, 0, 1, 1, 8, 10]);

/// Two adjacent 32-bit words in memory order as one 64-bit word.
#[inline(always)]
fn side_by_side(first: u32, second: u32) -> u64 {
    if cfg!(target_endian = "little") {
        u64::from(first) | u64::from(second) << 32
    } else {
        u64::from(first) << 32 | u64::from(second)
    }
}

/// Two adjacent big-endian fields as one native word.
#[inline(always)]
fn word(first: u32, second: u32) -> u64 {
    side_by_side(first.to_be(), second.to_be())
}

impl Established {
    /// Bytes of the header with timestamps.
    pub const LEN_MAX: usize = 32;

    /// Bytes of the header.
    #[inline(always)]
    pub fn len(&self) -> usize {
        if self.timestamps.is_some() { 32 } else { 20 }
    }

    /// Never empty; a header has at least 20 bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Write the header to the start of `buf`, for a segment of `len` bytes, header included.
    /// `payload` is the sum of its payload, `pseudo` that of the pseudo-header without the length.
    /// If `buf` is shorter than the header, nothing is written.
    #[inline(always)]
    pub fn emit(
        &self,
        buf: &mut [u8],
        len: usize,
        pseudo: Sum,
        payload: Sum,
        checksum: ChecksumField,
    ) {
        let word0 = side_by_side(u32::from_ne_bytes(self.ports), self.seq.0.to_be());
        let bits = (self.len() as u32) << 26 | u32::from(self.flags.0) << 16;
        let word1 = word(self.ack.0, bits | u32::from(self.window));
        let (word2, word3) = match self.timestamps {
            Some(ts) => (WORD2, word(ts.value, ts.echo)),
            None => (0, 0),
        };
        let len = Sum::of_be16(len as u16);
        let [x, y] = match checksum {
            ChecksumField::Full => {
                // Three 16-bit sums cannot overflow the word.
                let small = u64::from(len.0) + u64::from(pseudo.0) + u64::from(payload.0);
                Sum::from_u64s([word0, word1, word2, word3, small]).field()
            }
            ChecksumField::Partial => pseudo.plus(len).0.to_ne_bytes(),
            ChecksumField::Zero => [0, 0],
        };
        if self.timestamps.is_some() {
            let Some(b) = buf.first_chunk_mut::<32>() else { return };
            let word2 = word2 | u64::from_ne_bytes([x, y, 0, 0, 0, 0, 0, 0]);
            for (chunk, w) in b.chunks_exact_mut(8).zip([word0, word1, word2, word3]) {
                chunk.copy_from_slice(&w.to_ne_bytes());
            }
        } else if let Some(b) = buf.first_chunk_mut::<20>() {
            b[..8].copy_from_slice(&word0.to_ne_bytes());
            b[8..16].copy_from_slice(&word1.to_ne_bytes());
            b[16..].copy_from_slice(&[x, y, 0, 0]);
        }
    }
}

/// Store the checksum field in a header at the start of `buf`.
#[inline(always)]
pub fn set_checksum(buf: &mut [u8], field: [u8; 2]) {
    if let Some(at) = buf.get_mut(super::CHECKSUM_OFFSET..super::CHECKSUM_OFFSET + 2) {
        at.copy_from_slice(&field);
    }
}

#[cfg(test)]
mod tests;
