//! The header nearly every segment has: 20 bytes, or 32 with timestamps, put together in
//! registers and stored as whole words, its sum taken on the way.
//!
//! Called by: `tcp::output`. Must not know: connections. Summing the stored bytes instead would
//! load words just written in other sizes, which stalls. RFC 9293 section 3.1, RFC 7323 appendix A.

use base::SeqNumber;

use super::{CHECKSUM_OFFSET, Flags, Timestamps};
use crate::checksum::Sum;

/// Two halves that stand one behind the other in memory, as one native word.
#[inline(always)]
fn word(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_be_bytes());
    bytes[4..].copy_from_slice(&second.to_be_bytes());
    u64::from_ne_bytes(bytes)
}

/// Write the header of an established connection, checksum field zero, to the front of `buf`: 32
/// bytes with `timestamps`, else 20. Returns its sum; `buf` shorter than that is left alone.
#[inline(always)]
pub fn emit_established(
    buf: &mut [u8],
    ports: [u8; 4],
    seq: SeqNumber,
    ack: SeqNumber,
    flags: Flags,
    window: u16,
    timestamps: Option<Timestamps>,
) -> Sum {
    let offset: u32 = if timestamps.is_some() { 8 } else { 5 };
    let w0 = word(u32::from_be_bytes(ports), seq.0);
    let fields = offset << 28 | u32::from(flags.0) << 16 | u32::from(window);
    let w1 = word(ack.0, fields);
    match timestamps {
        Some(ts) => {
            let Some(b) = buf.first_chunk_mut::<32>() else { return Sum::ZERO };
            let w2 = word(0, 0x0101_080a);
            let w3 = word(ts.value, ts.echo);
            for (chunk, w) in b.chunks_exact_mut(8).zip([w0, w1, w2, w3]) {
                chunk.copy_from_slice(&w.to_ne_bytes());
            }
            Sum::from_u64s([w0, w1, w2, w3])
        }
        None => {
            let Some(b) = buf.first_chunk_mut::<20>() else { return Sum::ZERO };
            b[..8].copy_from_slice(&w0.to_ne_bytes());
            b[8..16].copy_from_slice(&w1.to_ne_bytes());
            b[16..].fill(0);
            Sum::from_u64s([w0, w1])
        }
    }
}

/// Store the checksum field into a header at the front of `buf`.
#[inline(always)]
pub fn set_checksum(buf: &mut [u8], field: [u8; 2]) {
    if let Some(at) = buf.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2) {
        at.copy_from_slice(&field);
    }
}

#[cfg(test)]
mod tests;
