//! The header nearly every segment has: 20 bytes, or 32 with timestamps. What the segments of one
//! run share (ports, ACK, window, timestamps) is put together and summed once; each segment then
//! costs four stores and a handful of additions.
//!
//! Called by: `tcp::output`. Must not know: connections. The sum is taken from registers: summing
//! stored bytes would load words just written in other sizes, which stalls.
//! RFC 9293 section 3.1, RFC 7323 appendix A.

use base::SeqNumber;

use super::{Flags, Timestamps};
use crate::checksum::Sum;

/// What becomes of the checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumField {
    /// The finished checksum.
    Full,
    /// The pseudo-header's sum, for a device to finish.
    Partial,
    /// Zero: checksums are turned off.
    Zero,
}

/// Headers that differ in sequence number, flags, length and payload alone.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    ports: u32,
    /// ACK, data offset and window; flags left out.
    word1: u64,
    /// TSval and TSecr.
    word3: u64,
    /// Sum of all of the above, of the options' fixed part and of the pseudo-header.
    sum: u64,
    checksum: ChecksumField,
    /// The pseudo-header's sum alone, without the length.
    pseudo: Sum,
    header_len: u8,
}

/// NOP, NOP, kind 8, length 10, behind a zero checksum and urgent pointer.
const WORD2: u64 = u64::from_ne_bytes([0, 0, 0, 0, 1, 1, 8, 10]);

/// Two words in memory order that stand one behind the other, as one.
#[inline(always)]
fn side_by_side(first: u32, second: u32) -> u64 {
    if cfg!(target_endian = "little") {
        u64::from(first) | u64::from(second) << 32
    } else {
        u64::from(first) << 32 | u64::from(second)
    }
}

/// Two big-endian fields that stand one behind the other, as one native word.
#[inline(always)]
fn word(first: u32, second: u32) -> u64 {
    side_by_side(first.to_be(), second.to_be())
}

impl Template {
    /// Put together what is the same; `ports` as they stand in the header, `pseudo` without the
    /// length.
    #[inline]
    pub fn new(
        ports: [u8; 4],
        ack: SeqNumber,
        window: u16,
        timestamps: Option<Timestamps>,
        pseudo: Sum,
        checksum: ChecksumField,
    ) -> Template {
        let header_len = if timestamps.is_some() { 32u8 } else { 20 };
        let ports = u32::from_ne_bytes(ports);
        let word1 = word(ack.0, u32::from(header_len) << 26 | u32::from(window));
        let word3 = timestamps.map_or(0, |ts| word(ts.value, ts.echo));
        let options = if timestamps.is_some() { WORD2 } else { 0 };
        let sum = Sum::from_u64s([word1, word3, options, u64::from(ports)]).plus(pseudo);
        let sum = u64::from(sum.0);
        Template { ports, word1, word3, sum, checksum, pseudo, header_len }
    }

    /// Bytes of each header.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        usize::from(self.header_len)
    }

    /// Write a header to the front of `buf` for a segment of `len` bytes, header included, whose
    /// payload sums to `payload`. A `buf` shorter than the header is left alone.
    #[inline(always)]
    pub fn emit(&self, buf: &mut [u8], seq: SeqNumber, flags: Flags, len: usize, payload: Sum) {
        let seq = seq.0.to_be();
        let word0 = side_by_side(self.ports, seq);
        let flags = u64::from_ne_bytes([0, 0, 0, 0, 0, flags.0, 0, 0]);
        let len = Sum::of_be16(len as u16);
        let field = match self.checksum {
            ChecksumField::Full => {
                // The flags' word, brought down to 16 bits by its place in memory.
                let flags = flags >> 32 | flags << 32 & 0xffff_ffff_0000_0000;
                let small = u64::from(seq) + u64::from(len.0) + u64::from(payload.0) + self.sum;
                !Sum::from_u64s([small, flags]).0
            }
            ChecksumField::Partial => self.pseudo.plus(len).0,
            ChecksumField::Zero => 0,
        };
        let [x, y] = field.to_ne_bytes();
        let word1 = self.word1 | flags;
        if self.header_len == 32 {
            let Some(b) = buf.first_chunk_mut::<32>() else { return };
            let word2 = WORD2 | u64::from_ne_bytes([x, y, 0, 0, 0, 0, 0, 0]);
            for (chunk, w) in b.chunks_exact_mut(8).zip([word0, word1, word2, self.word3]) {
                chunk.copy_from_slice(&w.to_ne_bytes());
            }
        } else if let Some(b) = buf.first_chunk_mut::<20>() {
            b[..8].copy_from_slice(&word0.to_ne_bytes());
            b[8..16].copy_from_slice(&word1.to_ne_bytes());
            b[16..].copy_from_slice(&[x, y, 0, 0]);
        }
    }
}

/// Store the checksum field into a header at the front of `buf`.
#[inline(always)]
pub fn set_checksum(buf: &mut [u8], field: [u8; 2]) {
    if let Some(at) = buf.get_mut(super::CHECKSUM_OFFSET..super::CHECKSUM_OFFSET + 2) {
        at.copy_from_slice(&field);
    }
}

#[cfg(test)]
mod tests;
