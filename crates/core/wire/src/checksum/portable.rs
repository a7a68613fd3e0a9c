//! The portable rungs: 8, 16 and 64 bits at a time; and the sum of short data.
//!
//! Called by: `Ladder`, and the AVX2 rung for the remaining bytes. No `unsafe`: the compiler
//! removes the bounds checks. RFC 1071 sections 1 and 4. The tests compare all other rungs with the
//! byte rung.

use super::{Sum, add_carry, fold};

/// The plain loop, one byte at a time, as RFC 1071 describes it. (The alternating shift also keeps
/// the compiler from vectorising it.)
#[inline(never)]
pub(super) fn sum_bytes(data: &[u8]) -> Sum {
    let (mut sum, mut shift) = (0u64, FIRST);
    for &byte in data {
        sum += u64::from(byte) << shift;
        shift ^= 8;
    }
    fold(sum)
}

/// Shift of the first byte of a 16-bit word in a native word; the second byte has the other shift.
const FIRST: u32 = if cfg!(target_endian = "little") { 0 } else { 8 };

/// 16 bits at a time.
#[inline(never)]
pub(super) fn sum_words16(data: &[u8]) -> Sum {
    let (words, tail) = data.as_chunks::<2>();
    let mut sum: u64 = words.iter().map(|&w| u64::from(u16::from_ne_bytes(w))).sum();
    if let [last] = *tail {
        sum += u64::from(u16::from_ne_bytes([last, 0]));
    }
    fold(sum)
}

/// Copy and sum, byte by byte.
#[inline(never)]
pub(super) fn copy_sum_bytes(src: &[u8], dst: &mut [u8]) -> Sum {
    let (mut sum, mut shift) = (0u64, FIRST);
    for (to, &byte) in dst.iter_mut().zip(src) {
        *to = byte;
        sum += u64::from(byte) << shift;
        shift ^= 8;
    }
    fold(sum)
}

/// Copy and sum, 16 bits at a time.
#[inline(never)]
pub(super) fn copy_sum_words16(src: &[u8], dst: &mut [u8]) -> Sum {
    let dst = &mut dst[..src.len()];
    let (words, tail) = src.as_chunks::<2>();
    let (to, to_tail) = dst.as_chunks_mut::<2>();
    let mut sum = 0u64;
    for (to, &word) in to.iter_mut().zip(words) {
        *to = word;
        sum += u64::from(u16::from_ne_bytes(word));
    }
    if let ([last], [to]) = (tail, to_tail) {
        *to = *last;
        sum += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    fold(sum)
}

/// The sum of short data: 64-bit loads with end-around carry. The remaining bytes are loaded by one
/// load that overlaps the last one. A TCP header takes three loads.
#[inline]
pub(super) fn sum_short(data: &[u8]) -> Sum {
    fold(accumulate(0, data))
}

/// Add the words of `data`, which begins at an even offset, to `sum`.
#[inline(always)]
pub(super) fn accumulate(mut sum: u64, data: &[u8]) -> u64 {
    // 128 bits wide, so that the carries are added once at the end.
    let mut wide = u128::from(sum);
    let mut add = |eight: &[u8; 8]| wide += u128::from(u64::from_ne_bytes(*eight));
    let (blocks, mut tail) = data.as_chunks::<32>();
    for block in blocks {
        block.as_chunks::<8>().0.iter().for_each(&mut add);
    }
    if let Some((two, rest)) = tail.split_first_chunk::<16>() {
        two.as_chunks::<8>().0.iter().for_each(&mut add);
        tail = rest;
    }
    if let Some((one, rest)) = tail.split_first_chunk::<8>() {
        add(one);
        tail = rest;
    }
    sum = add_carry(wide as u64, (wide >> 64) as u64);
    if tail.is_empty() {
        return sum;
    }
    let last = match data.last_chunk::<8>() {
        Some(&last) => keep_last(u64::from_ne_bytes(last), tail.len()),
        None => load_under_8(tail),
    };
    add_carry(sum, last)
}

/// Move the last `n` (1 to 7) bytes of a word to its start in memory, followed by zeros.
#[inline(always)]
fn keep_last(word: u64, n: usize) -> u64 {
    let unwanted = (8 - n as u32) * 8;
    if cfg!(target_endian = "little") { word >> unwanted } else { word << unwanted }
}

/// Load 0 to 7 bytes as a word, followed by zeros.
#[inline(always)]
fn load_under_8(data: &[u8]) -> u64 {
    let mut word = [0u8; 8];
    if let Some(&four) = data.first_chunk::<4>() {
        // Two overlapping halves of 4 bytes, the second shifted into place.
        let last = data.last_chunk::<4>().copied().unwrap_or(four);
        word[..4].copy_from_slice(&four);
        let first = u64::from_ne_bytes(word);
        word = [0; 8];
        word[4..].copy_from_slice(&last);
        return if data.len() == 4 { first } else { first | keep_tail(word, data.len() - 4) };
    }
    for (to, &byte) in word.iter_mut().zip(data) {
        *to = byte;
    }
    u64::from_ne_bytes(word)
}

/// Move the last `n` (1 to 3) bytes of a word, whose second half has overlapping bytes, to its
/// middle.
#[inline(always)]
fn keep_tail(word: [u8; 8], n: usize) -> u64 {
    let [.., a, b, c] = word;
    let tail = match n {
        1 => [c, 0, 0],
        2 => [b, c, 0],
        _ => [a, b, c],
    };
    u64::from_ne_bytes([0, 0, 0, 0, tail[0], tail[1], tail[2], 0])
}

/// Running sums of 64-bit words without carries: `all` adds the words modulo 2^64, `high` their
/// upper halves. The sum of the lower halves is then exactly `all - (high << 32)`, as long as fewer
/// than 2^32 words were added. That takes three operations a word without a chain of carries, and
/// the compiler vectorises it to two (SSE2) or four words.
#[derive(Clone, Copy, Default)]
struct Lane {
    all: u64,
    high: u64,
}

impl Lane {
    #[inline(always)]
    fn add(&mut self, word: u64) {
        self.all = self.all.wrapping_add(word);
        self.high += word >> 32;
    }

    #[inline(always)]
    fn total(lanes: [Lane; LANES]) -> u64 {
        let mut sum = 0;
        for lane in lanes {
            sum = add_carry(sum, lane.all.wrapping_sub(lane.high << 32));
            sum = add_carry(sum, lane.high);
        }
        sum
    }
}

/// Words that the 64-bit rung processes at once.
const LANES: usize = 8;

/// 64 bits at a time.
pub(super) fn sum_words64(data: &[u8]) -> Sum {
    let (blocks, rest) = data.as_chunks::<{ LANES * 8 }>();
    let mut lanes = [Lane::default(); LANES];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, &word) in lanes.iter_mut().zip(words) {
            lane.add(u64::from_ne_bytes(word));
        }
    }
    fold(accumulate(Lane::total(lanes), rest))
}

/// Copy and sum, 64 bits at a time.
pub(super) fn copy_sum_words64(src: &[u8], dst: &mut [u8]) -> Sum {
    let dst = &mut dst[..src.len()];
    let (blocks, rest) = src.as_chunks::<{ LANES * 8 }>();
    let (to_blocks, to_rest) = dst.as_chunks_mut::<{ LANES * 8 }>();
    let mut lanes = [Lane::default(); LANES];
    for (to, block) in to_blocks.iter_mut().zip(blocks) {
        let (words, _) = block.as_chunks::<8>();
        let (to, _) = to.as_chunks_mut::<8>();
        for ((lane, &word), to) in lanes.iter_mut().zip(words).zip(to) {
            *to = word;
            lane.add(u64::from_ne_bytes(word));
        }
    }
    to_rest.copy_from_slice(rest);
    fold(accumulate(Lane::total(lanes), rest))
}
