//! The AVX2 rung: loads of 32 bytes, and nine vector operations for each four loads.
//!
//! Called by: `Ladder` only, for long data. Loads and stores are unaligned and in bounds. RFC 1071
//! section 2(C), parallel summation.
//!
//! Copies with a sum use no wider vectors: `vpdpbusd` on 64 bytes copies and sums 8 KB in 0.65 of
//! memcpy's time, but on Cascade Lake it lowers the clock, and scalar code between calls ran 1.30
//! times slower (1.18 times if `vpdpbusd` worked on 32 bytes; AVX2 did not slow it). A stack is
//! mostly scalar code.

use core::arch::x86_64::{
    __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_unpackhi_epi64, _mm256_add_epi64,
    _mm256_and_si256, _mm256_avg_epu16, _mm256_castsi256_si128, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_sub_epi64,
};

use super::{Sum, fold, portable};

/// The sum of at most [`PART_MAX`] bytes, or `None` on a machine without AVX2.
#[inline(always)]
pub(super) fn sum(data: &[u8]) -> Option<Sum> {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: AVX2 was detected above.
    Some(unsafe { sum_detected(data) })
}

/// Copies `src`, at most [`PART_MAX`] bytes, to the start of `dst`, which is at least as long, and
/// returns its sum; `None`, with nothing done, on a machine without AVX2.
#[inline(always)]
pub(super) fn copy_sum(src: &[u8], dst: &mut [u8]) -> Option<Sum> {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: AVX2 was detected above.
    Some(unsafe { copy_sum_detected(src, &mut dst[..src.len()]) })
}

/// Run `work`, which is compiled for AVX2, if the machine has AVX2; otherwise as usual.
#[inline(always)]
pub(super) fn run<R>(work: impl FnOnce() -> R) -> R {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return work();
    }
    // SAFETY: AVX2 was detected above.
    unsafe { run_detected(work) }
}

#[target_feature(enable = "avx2")]
fn run_detected<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Minimum length for which the copy aligns its stores.
const ALIGN_MIN: usize = 256;

/// Running sums of 64-bit words modulo 2^64, four to a vector, and an estimate of the carries lost.
///
/// The sum is wanted modulo 2^16 - 1, where 2^64 counts 1. So it is `all` plus the number of times
/// that `all` wrapped. An approximate sum is enough to know that number exactly: `tops` adds, for
/// every four words, the average of their upper 16 bits. That takes 2.25 operations a vector.
/// Adding the upper halves separately, as the portable rung does, takes 3: 8 KB then took 103 ns
/// instead of 95, and 127 instead of 110 with the copy, where memcpy alone takes 106.
///
/// The estimate: a unit of `tops` is 2^50. Cutting 48 bits off N words loses less than `N * 2^48`;
/// rounding the averages adds at most as much. Rounding to multiples of 2^64 is exact while the
/// error is below 2^63, that is for N below 2^15; [`PART_MAX`] limits N to a quarter of that in a
/// lane.
#[derive(Clone, Copy)]
struct Lanes {
    all: [__m256i; 4],
    tops: __m256i,
}

/// Data of up to this many bytes is summed exactly: 2^14 vectors.
pub(super) const PART_MAX: usize = 1 << 19;

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero() -> Lanes {
        Lanes { all: [_mm256_setzero_si256(); 4], tops: _mm256_setzero_si256() }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, [a, b, c, d]: [__m256i; 4]) {
        self.all[0] = _mm256_add_epi64(self.all[0], a);
        self.all[1] = _mm256_add_epi64(self.all[1], b);
        self.all[2] = _mm256_add_epi64(self.all[2], c);
        self.all[3] = _mm256_add_epi64(self.all[3], d);
        let average = _mm256_avg_epu16(_mm256_avg_epu16(a, b), _mm256_avg_epu16(c, d));
        self.tops = _mm256_add_epi64(self.tops, _mm256_srli_epi64::<48>(average));
    }

    /// Combine all lanes: the sum modulo 2^16 - 1, and zero only if all words are zero.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(self) -> u64 {
        let [a, b, c, d] = self.all;
        let all = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
        let off = _mm256_sub_epi64(self.tops, _mm256_srli_epi64::<50>(all));
        let wraps = _mm256_srli_epi64::<14>(_mm256_add_epi64(off, _mm256_set1_epi64x(1 << 13)));
        let low = _mm256_and_si256(all, _mm256_set1_epi64x(0xffff_ffff));
        let halves = _mm256_add_epi64(low, _mm256_srli_epi64::<32>(all));
        let four = _mm256_add_epi64(halves, wraps);
        let two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
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

/// Adds 128 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn add_128(lanes: &mut Lanes, from: &[u8; 128]) {
    let (from, _) = from.as_chunks::<32>();
    lanes.add([load(&from[0]), load(&from[1]), load(&from[2]), load(&from[3])]);
}

/// Copies 128 bytes and adds them. All loads precede all stores, so that no load is mistaken to
/// depend on a store at the same page offset (4K aliasing).
#[inline]
#[target_feature(enable = "avx2")]
fn copy_128(lanes: &mut Lanes, from: &[u8; 128], to: &mut [u8; 128]) {
    let (from, _) = from.as_chunks::<32>();
    let (to, _) = to.as_chunks_mut::<32>();
    let words = [load(&from[0]), load(&from[1]), load(&from[2]), load(&from[3])];
    for (to, words) in to.iter_mut().zip(words) {
        store(to, words);
    }
    lanes.add(words);
}

#[target_feature(enable = "avx2")]
fn sum_detected(data: &[u8]) -> Sum {
    let mut lanes = Lanes::zero();
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
    // Up to three more vectors; missing ones are zero.
    let mut last = [_mm256_setzero_si256(); 4];
    if let Some((two, after)) = rest.split_first_chunk::<64>() {
        let (two, _) = two.as_chunks::<32>();
        (last[0], last[1]) = (load(&two[0]), load(&two[1]));
        rest = after;
    }
    if let Some((one, after)) = rest.split_first_chunk::<32>() {
        last[2] = load(one);
        rest = after;
    }
    lanes.add(last);
    finish(lanes, rest)
}

/// Combine the lanes and the last bytes, fewer than 32.
#[inline]
#[target_feature(enable = "avx2")]
fn finish(lanes: Lanes, rest: &[u8]) -> Sum {
    fold(portable::accumulate(lanes.total(), rest))
}

/// Both slices must have the same length.
#[target_feature(enable = "avx2")]
fn copy_sum_detected(src: &[u8], dst: &mut [u8]) -> Sum {
    // Stores that straddle cache lines cost twice, loads less: so align the stores.
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
    // The end is copied first, with one store that overlaps the last whole vector.
    match (src.last_chunk::<32>(), dst.last_chunk_mut::<32>()) {
        (Some(from), Some(to)) => store(to, load(from)),
        _ => {
            dst.copy_from_slice(src);
            return portable::sum_short(src);
        }
    }
    let mut lanes = Lanes::zero();
    let (blocks, mut rest) = src.as_chunks::<256>();
    let (to_blocks, to_rest) = dst.as_chunks_mut::<256>();
    for (block, to) in blocks.iter().zip(to_blocks) {
        let (halves, _) = block.as_chunks::<128>();
        let (to, _) = to.as_chunks_mut::<128>();
        copy_128(&mut lanes, &halves[0], &mut to[0]);
        copy_128(&mut lanes, &halves[1], &mut to[1]);
    }
    let (mut at, mut last) = (0, [_mm256_setzero_si256(); 4]);
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
        (last[0], last[1]) = (load(&from[0]), load(&from[1]));
        store(&mut to[0], last[0]);
        store(&mut to[1], last[1]);
        (rest, at) = (after, at + 64);
    }
    if let (Some((from, after)), Some(to)) =
        (rest.split_first_chunk::<32>(), to_rest[at..].first_chunk_mut::<32>())
    {
        last[2] = load(from);
        store(to, last[2]);
        rest = after;
    }
    lanes.add(last);
    finish(lanes, rest)
}
