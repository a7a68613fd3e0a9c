//! The AVX2 rung: 32 bytes a load, three vector operations each, four independent accumulators.
//!
//! Called by: `Ladder` only, for data long enough to be worth it.
//! Must not know: headers, or when it is worth it. The only file of this crate with `unsafe`.
//! RFC 1071 section 2(C), parallel summation. Loads and stores are unaligned ones, in bounds.
//!
//! There is no AVX-512 rung, and it was tried: `vpdpbusd` on 64 bytes copies and sums 8 KB in 0.65
//! of memcpy's time, but on Cascade Lake it lowers the clock, and scalar code between calls ran
//! 1.30 times slower (1.18 on 32 bytes; with AVX2 not at all). A stack is mostly scalar code.

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

/// From this length on the copy aligns its stores.
const ALIGN_MIN: usize = 256;

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

/// Adds 128 bytes to the four lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn add_128(lanes: &mut [Lanes; 4], from: &[u8; 128]) {
    let (from, _) = from.as_chunks::<32>();
    for (lane, from) in lanes.iter_mut().zip(from) {
        lane.add(load(from));
    }
}

/// Copies 128 bytes and adds them: all loads before all stores, so that a store in flight is not
/// mistaken for the source of a load 4 KB away.
#[inline]
#[target_feature(enable = "avx2")]
fn copy_128(lanes: &mut [Lanes; 4], from: &[u8; 128], to: &mut [u8; 128]) {
    let (from, _) = from.as_chunks::<32>();
    let (to, _) = to.as_chunks_mut::<32>();
    let words = [load(&from[0]), load(&from[1]), load(&from[2]), load(&from[3])];
    for ((lane, words), to) in lanes.iter_mut().zip(words).zip(to) {
        store(to, words);
        lane.add(words);
    }
}

#[target_feature(enable = "avx2")]
fn sum_detected(data: &[u8]) -> Sum {
    let mut lanes = [Lanes::zero(); 4];
    let (blocks, mut rest) = data.as_chunks::<256>();
    for block in blocks {
        let (halves, _) = block.as_chunks::<128>();
        add_128(&mut lanes, &halves[0]);
        add_128(&mut lanes, &halves[1]);
    }
    if let Some((four, after)) = rest.split_first_chunk::<128>() {
        add_128(&mut lanes, four);
        rest = after;
    }
    if let Some((two, after)) = rest.split_first_chunk::<64>() {
        let (two, _) = two.as_chunks::<32>();
        lanes[0].add(load(&two[0]));
        lanes[1].add(load(&two[1]));
        rest = after;
    }
    if let Some((one, after)) = rest.split_first_chunk::<32>() {
        lanes[2].add(load(one));
        rest = after;
    }
    fold(portable::accumulate(total(lanes), rest))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total([a, b, c, d]: [Lanes; 4]) -> u64 {
    a.plus(b).plus(c.plus(d)).total()
}

/// `dst` is as long as `src`.
#[target_feature(enable = "avx2")]
fn copy_sum_detected(src: &[u8], dst: &mut [u8]) -> Sum {
    // Stores that straddle cache lines cost twice, loads less: align the stores.
    let head = dst.as_ptr().align_offset(32);
    if head == 0 || src.len() < ALIGN_MIN {
        return copy_sum_forward(src, dst);
    }
    if let (Some(from), Some(to)) = (src.first_chunk::<32>(), dst.first_chunk_mut::<32>()) {
        store(to, load(from));
    }
    let (first, rest) = src.split_at(head);
    let rest = copy_sum_forward(rest, &mut dst[head..]);
    fold(portable::accumulate(0, first)).plus_at(rest, head)
}

#[inline]
#[target_feature(enable = "avx2")]
fn copy_sum_forward(src: &[u8], dst: &mut [u8]) -> Sum {
    // What is left at the end is copied first, by one store that overlaps the last whole one.
    match (src.last_chunk::<32>(), dst.last_chunk_mut::<32>()) {
        (Some(from), Some(to)) => store(to, load(from)),
        _ => {
            dst.copy_from_slice(src);
            return portable::sum_short(src);
        }
    }
    let mut lanes = [Lanes::zero(); 4];
    let (blocks, mut rest) = src.as_chunks::<256>();
    let (to_blocks, to_rest) = dst.as_chunks_mut::<256>();
    for (block, to) in blocks.iter().zip(to_blocks) {
        let (halves, _) = block.as_chunks::<128>();
        let (to, _) = to.as_chunks_mut::<128>();
        copy_128(&mut lanes, &halves[0], &mut to[0]);
        copy_128(&mut lanes, &halves[1], &mut to[1]);
    }
    let mut at = 0;
    if let (Some((from, after)), Some(to)) =
        (rest.split_first_chunk::<128>(), to_rest.first_chunk_mut::<128>())
    {
        copy_128(&mut lanes, from, to);
        (rest, at) = (after, 128);
    }
    if let (Some((from, after)), Some(to)) =
        (rest.split_first_chunk::<64>(), to_rest[at..].first_chunk_mut::<64>())
    {
        let ((from, _), (to, _)) = (from.as_chunks::<32>(), to.as_chunks_mut::<32>());
        let (a, b) = (load(&from[0]), load(&from[1]));
        store(&mut to[0], a);
        store(&mut to[1], b);
        lanes[0].add(a);
        lanes[1].add(b);
        (rest, at) = (after, at + 64);
    }
    if let (Some((from, after)), Some(to)) =
        (rest.split_first_chunk::<32>(), to_rest[at..].first_chunk_mut::<32>())
    {
        let words = load(from);
        store(to, words);
        lanes[2].add(words);
        rest = after;
    }
    fold(portable::accumulate(total(lanes), rest))
}
