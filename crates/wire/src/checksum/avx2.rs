//! The AVX2 rung: 32 bytes a load, three vector operations each, four independent accumulators.
//!
//! Called by: `Ladder` only, for data long enough to be worth it.
//! Must not know: headers, or when it is worth it. The only file of this crate with `unsafe`.
//! RFC 1071 section 2(C), parallel summation. Loads and stores are unaligned ones, in bounds.

use core::arch::x86_64::{
    __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_unpackhi_epi64, _mm256_add_epi64,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_setzero_si256,
    _mm256_slli_epi64, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_sub_epi64,
};

use super::{Sum, fold, portable};

/// The sum, or `None` on a machine without AVX2.
#[inline(always)]
pub(super) fn sum(data: &[u8]) -> Option<Sum> {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: AVX2 was detected on the line above.
    Some(unsafe { sum_detected(data) })
}

/// Copies `src` to the beginning of `dst`, which is at least as long, and sums it; or `None`, and
/// nothing done, on a machine without AVX2.
#[inline(always)]
pub(super) fn copy_sum(src: &[u8], dst: &mut [u8]) -> Option<Sum> {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: AVX2 was detected on the line above.
    Some(unsafe { copy_sum_detected(src, &mut dst[..src.len()]) })
}

/// Four 64-bit running sums each of whole words and of their upper halves (see `portable::Lane`).
#[derive(Clone, Copy)]
struct Lanes {
    all: __m256i,
    high: __m256i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero() -> Lanes {
        Lanes { all: _mm256_setzero_si256(), high: _mm256_setzero_si256() }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, words: __m256i) {
        self.all = _mm256_add_epi64(self.all, words);
        self.high = _mm256_add_epi64(self.high, _mm256_srli_epi64::<32>(words));
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn plus(self, other: Lanes) -> Lanes {
        Lanes {
            all: _mm256_add_epi64(self.all, other.all),
            high: _mm256_add_epi64(self.high, other.high),
        }
    }

    /// All lanes in one number; no overflow below 16 GB of data.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(self) -> u64 {
        let low = _mm256_sub_epi64(self.all, _mm256_slli_epi64::<32>(self.high));
        let both = _mm256_add_epi64(low, self.high);
        let two = _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
        let one = _mm_add_epi64(two, _mm_unpackhi_epi64(two, two));
        _mm_cvtsi128_si64(one) as u64
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[u8; 32]) -> __m256i {
    // SAFETY: the array is 32 readable bytes, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [u8; 32], words: __m256i) {
    // SAFETY: the array is 32 writable bytes, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) }
}

#[target_feature(enable = "avx2")]
fn sum_detected(data: &[u8]) -> Sum {
    let (vectors, tail) = data.as_chunks::<32>();
    let (fours, rest) = vectors.as_chunks::<4>();
    let mut lanes = [Lanes::zero(); 4];
    for [a, b, c, d] in fours {
        lanes[0].add(load(a));
        lanes[1].add(load(b));
        lanes[2].add(load(c));
        lanes[3].add(load(d));
    }
    for (vector, lanes) in rest.iter().zip(&mut lanes) {
        lanes.add(load(vector));
    }
    let [a, b, c, d] = lanes;
    fold(portable::accumulate(a.plus(b).plus(c.plus(d)).total(), tail))
}

#[target_feature(enable = "avx2")]
fn copy_sum_detected(src: &[u8], dst: &mut [u8]) -> Sum {
    let (vectors, tail) = src.as_chunks::<32>();
    let (to_vectors, to_tail) = dst.as_chunks_mut::<32>();
    let (fours, rest) = vectors.as_chunks::<4>();
    let (to_fours, to_rest) = to_vectors.as_chunks_mut::<4>();
    let mut lanes = [Lanes::zero(); 4];
    for ([a, b, c, d], [to_a, to_b, to_c, to_d]) in fours.iter().zip(to_fours) {
        let (a, b, c, d) = (load(a), load(b), load(c), load(d));
        store(to_a, a);
        store(to_b, b);
        store(to_c, c);
        store(to_d, d);
        lanes[0].add(a);
        lanes[1].add(b);
        lanes[2].add(c);
        lanes[3].add(d);
    }
    for ((vector, to), lanes) in rest.iter().zip(to_rest).zip(&mut lanes) {
        let words = load(vector);
        store(to, words);
        lanes.add(words);
    }
    to_tail.copy_from_slice(tail);
    let [a, b, c, d] = lanes;
    fold(portable::accumulate(a.plus(b).plus(c.plus(d)).total(), tail))
}
