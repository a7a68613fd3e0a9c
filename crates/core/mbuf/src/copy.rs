//! Payload copies.
//!
//! Called by: the code that copies data to and from users and devices. Copies of 256 bytes and more
//! use 32-byte vectors with aligned stores, if the machine has AVX2. The C library takes up to a
//! third longer for 1448 bytes, most if source and destination have nearly equal offsets in a page.
//! Above 4 KB it uses a string instruction that costs a tenth more (docs/perf.md).
#![allow(unsafe_code)]

/// Shorter copies use the C library.
const OWN_MIN: usize = 256;

/// Copy `from` to `to`.
///
/// # Panics
/// If their lengths differ.
#[inline(always)]
pub fn copy(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy has one length");
    #[cfg(target_arch = "x86_64")]
    if from.len() >= OWN_MIN && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was detected above.
        return unsafe { vectors::copy(from, to) };
    }
    to.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};

    const VECTOR: usize = 32;
    const BLOCK: usize = 4 * VECTOR;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(from: &[u8; VECTOR]) -> __m256i {
        // SAFETY: the array is 32 readable bytes, and the load needs no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(to: &mut [u8; VECTOR], words: __m256i) {
        // SAFETY: the array is 32 writable bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) }
    }

    /// Both slices must have equal length, at least a block. The first and the last vector may
    /// overlap the vectors between them, which are stored aligned.
    #[target_feature(enable = "avx2")]
    pub(super) fn copy(from: &[u8], to: &mut [u8]) {
        let ends = (from.first_chunk(), from.last_chunk());
        let (Some(first), Some(last)) = ends else { return to.copy_from_slice(from) };
        let (first, last) = (load(first), load(last));
        if let Some(to) = to.first_chunk_mut() {
            store(to, first);
        }
        let head = to.as_ptr().align_offset(VECTOR);
        let (blocks, mut rest) = from[head..].as_chunks::<BLOCK>();
        let (to_blocks, mut to_rest) = to[head..].as_chunks_mut::<BLOCK>();
        for (from, to) in blocks.iter().zip(to_blocks) {
            copy_block(from, to);
        }
        for _ in 0..3 {
            let pair = (rest.split_first_chunk(), to_rest.split_first_chunk_mut());
            let (Some((from, after)), Some((to, to_after))) = pair else { break };
            store(to, load(from));
            (rest, to_rest) = (after, to_after);
        }
        if let Some(to) = to.last_chunk_mut() {
            store(to, last);
        }
    }

    /// All loads precede all stores, so that no load is mistaken to depend on a store at the same
    /// page offset (4K aliasing).
    #[inline]
    #[target_feature(enable = "avx2")]
    fn copy_block(from: &[u8; BLOCK], to: &mut [u8; BLOCK]) {
        let (from, _) = from.as_chunks::<VECTOR>();
        let (to, _) = to.as_chunks_mut::<VECTOR>();
        let words = [load(&from[0]), load(&from[1]), load(&from[2]), load(&from[3])];
        for (to, words) in to.iter_mut().zip(words) {
            store(to, words);
        }
    }
}

#[cfg(test)]
mod tests;
