//! Words as lanes of 16 bits, compared with one value at once.
//!
//! Called by: the filter's index of states, whose buckets have ten tags. x86-64 compares eight
//! lanes by one instruction of SSE2, which each of its processors has; others compare the four
//! lanes of a word by arithmetic, one word after the other.
#![allow(unsafe_code)]

/// The lanes that are equal to `value`: a bit for each of the twelve, the lowest lane of the first
/// word first. Higher bits mean nothing.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn equal_lanes(words: &[u64; 3], value: u16) -> u32 {
    use core::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set_epi64x, _mm_set1_epi16,
    };
    let [low, high, last] = words.map(u64::cast_signed);
    // SAFETY: SSE2 is part of x86-64, and these functions read no memory.
    let equal = unsafe {
        let value = _mm_set1_epi16(value.cast_signed());
        let first = _mm_cmpeq_epi16(_mm_set_epi64x(high, low), value);
        let last = _mm_cmpeq_epi16(_mm_set_epi64x(0, last), value);
        _mm_movemask_epi8(_mm_packs_epi16(first, last))
    };
    equal.cast_unsigned()
}

/// The lanes that are equal to `value`: a bit for each of the twelve, the lowest lane of the first
/// word first. Higher bits mean nothing.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn equal_lanes(words: &[u64; 3], value: u16) -> u32 {
    by_words(words, value)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn by_words(words: &[u64; 3], value: u16) -> u32 {
    const LANES: u64 = 0x0001_0001_0001_0001;
    const LOW_BITS: u64 = 0x7fff * LANES;
    let wanted = u64::from(value) * LANES;
    let equal = |word: u64| {
        let x = word ^ wanted;
        // The top bit of a lane stays 0 only if the lane is 0.
        let lanes = !((x & LOW_BITS).wrapping_add(LOW_BITS) | x | LOW_BITS) >> 15;
        // The bits of the four lanes meet in the top lane of a product.
        (lanes.wrapping_mul(0x0001_0002_0004_0008) >> 48) as u32 & 15
    };
    equal(words[0]) | equal(words[1]) << 4 | equal(words[2]) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(words: &[u64; 3], at: u32) -> u16 {
        (words[at as usize / 4] >> (at % 4 * 16)) as u16
    }

    #[test]
    fn all_lanes_are_compared() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            let words = core::array::from_fn(|_| {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(23) ^ 1;
                // Lanes of few bits, so that many are equal.
                random & 0x8003_0001_8001_0003
            });
            for value in (0..12).map(|at| lane(&words, at)).chain([0, 1, 0x8000, 0xffff]) {
                let equal = (0..12).filter(|at| lane(&words, *at) == value);
                let equal: u32 = equal.map(|at| 1 << at).sum();
                assert_eq!(equal_lanes(&words, value) & 0xfff, equal, "{words:x?} {value:x}");
                assert_eq!(by_words(&words, value), equal, "{words:x?} {value:x}");
            }
        }
    }
}
