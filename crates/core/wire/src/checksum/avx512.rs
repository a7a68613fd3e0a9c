//! The AVX-512 rung: sums with loads of 64 bytes and two vector operations for each.
//!
//! Called by: `Ladder` only, for long data. `choice` decides whether a machine should use it. Loads
//! are in bounds. RFC 1071 section 2(C), parallel summation.
//!
//! Copies with a sum stay with AVX2: they are limited by stores, and stores of 64 bytes were no
//! faster (docs/perf.md).

use core::arch::x86_64::{
    __m512i, _mm256_add_epi32, _mm512_add_epi32, _mm512_castsi512_si256, _mm512_cvtepi32_epi64,
    _mm512_dpwssd_epi32, _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_maskz_loadu_epi8,
    _mm512_reduce_add_epi64, _mm512_set1_epi16, _mm512_setzero_si512, _mm512_xor_si512,
};
use core::sync::atomic::{AtomicU8, Ordering};

use super::{Sum, fold};

/// Does this machine have every instruction used here? The answer is one load, because every sum
/// needs it.
#[inline(always)]
pub(super) fn is_here() -> bool {
    match HERE.load(Ordering::Relaxed) {
        UNKNOWN => find_out(),
        known => known == YES,
    }
}

static HERE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

#[cold]
#[inline(never)]
fn find_out() -> bool {
    let here = std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vnni");
    HERE.store(if here { YES } else { NO }, Ordering::Relaxed);
    here
}

/// The sum of at most [`PART_MAX`] bytes, or `None` on a machine without these instructions.
#[inline(always)]
pub(super) fn sum(data: &[u8]) -> Option<Sum> {
    if !is_here() {
        return None;
    }
    // SAFETY: the instructions were detected above.
    Some(unsafe { sum_detected(data) })
}

/// Data of up to this many bytes is summed exactly.
///
/// `vpdpwssd` adds two products of signed 16-bit words to a 32-bit lane. The words are unsigned, so
/// 2^15 is subtracted from each (its upper bit is flipped) before it is multiplied by one, and
/// added again at the end. A vector changes a lane by at most 2^16, and 2^13 vectors change the
/// combined lanes of a position by at most 2^29.
pub(super) const PART_MAX: usize = 1 << 19;

/// Bytes of a vector.
const WIDE: usize = 64;
const BLOCK: usize = 4 * WIDE;
/// Subtracted from every word, by flipping its upper bit.
const BIAS: i16 = i16::MIN;

/// Running sums of words, from each of which 2^15 was subtracted.
struct Lanes {
    blocks: [__m512i; 4],
    /// For vectors that do not fill a block. It is a separate sum, because additions to one lane
    /// depend on each other.
    few: __m512i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn zero() -> Lanes {
        Lanes { blocks: [_mm512_setzero_si512(); 4], few: _mm512_setzero_si512() }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn add_block(&mut self, [a, b, c, d]: [__m512i; 4]) {
        self.blocks[0] = add(self.blocks[0], a);
        self.blocks[1] = add(self.blocks[1], b);
        self.blocks[2] = add(self.blocks[2], c);
        self.blocks[3] = add(self.blocks[3], d);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn add_few(&mut self, words: __m512i) {
        self.few = add(self.few, words);
    }

    /// The sum of `vectors` vectors: exact, and zero only if all words are zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn total(self, vectors: usize) -> Sum {
        let [a, b, c, d] = self.blocks;
        let blocks = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
        let all = _mm512_add_epi32(blocks, self.few);
        let (low, high) = (_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
        let half = _mm512_cvtepi32_epi64(_mm256_add_epi32(low, high));
        let taken = (vectors * WIDE / 2) as i64 * -i64::from(BIAS);
        fold((_mm512_reduce_add_epi64(half) + taken) as u64)
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add(lane: __m512i, words: __m512i) -> __m512i {
    let biased = _mm512_xor_si512(words, _mm512_set1_epi16(BIAS));
    _mm512_dpwssd_epi32(lane, biased, _mm512_set1_epi16(1))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn load(from: &[u8; WIDE]) -> __m512i {
    // SAFETY: the array is 64 readable bytes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn load_block(from: &[u8; BLOCK]) -> [__m512i; 4] {
    let (from, _) = from.as_chunks::<WIDE>();
    [load(&from[0]), load(&from[1]), load(&from[2]), load(&from[3])]
}

/// Load up to 63 bytes, followed by zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn load_some(from: &[u8]) -> __m512i {
    debug_assert!(from.len() < WIDE, "a whole vector has no mask");
    // SAFETY: bytes outside the mask are not read.
    unsafe { _mm512_maskz_loadu_epi8((1 << from.len()) - 1, from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn sum_detected(data: &[u8]) -> Sum {
    // Loads that straddle cache lines cost twice, so align them. The first part is even, because
    // words are pairs of bytes from the first one on, even at an odd address.
    let head = (data.as_ptr().align_offset(WIDE) & (WIDE - 2)).min(data.len());
    let (first, mut rest) = data.split_at(head);
    // Partial vectors count as whole: the bias is subtracted from their zeros as well.
    let vectors = 2 + rest.len() / WIDE;
    let mut lanes = Lanes::zero();
    lanes.add_few(load_some(first));
    // One block at a time: the compiler would unroll a loop over blocks, and split every second
    // multiply-add in two.
    while let Some((block, after)) = rest.split_first_chunk() {
        lanes.add_block(load_block(block));
        rest = after;
    }
    while let Some((words, after)) = rest.split_first_chunk() {
        lanes.add_few(load(words));
        rest = after;
    }
    lanes.add_few(load_some(rest));
    lanes.total(vectors)
}
