//! The ladder: the implementations (rungs) of the checksum, and the lengths from which each is
//! used.
//!
//! Called by: code that sums or copies payload; a stack chooses its rung once. RFC 1071. `cargo run
//! --release -p wirespeed-wire --example ladder` prints the measurements.

use super::{Choice, Sum, choice, portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// An implementation of the checksum, chosen once per stack. All give equal sums and differ only in
/// speed.
///
/// Any value is safe on any machine: without AVX2, [`Ladder::Avx2`] does what the 64-bit rung does
/// (detection is one cached load, for long data only), and without AVX-512, [`Ladder::Avx512`] does
/// what [`Ladder::Avx2`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ladder {
    /// The plain loop of RFC 1071, a byte at a time; the reference in tests.
    Byte,
    /// 16 bits at a time.
    Word16,
    /// 64 bits at a time, portable.
    Word64,
    /// 256 bits at a time.
    Avx2,
    /// 512 bits at a time for sums, 256 bits for copies with a sum.
    Avx512,
}

/// Shorter data is summed by the short loop, inlined. Measured on an EPYC in ns, for the short
/// loop, AVX2 and the 64-bit rung: 72 bytes 11.1, 12.7 and 15.7; 128 bytes 11.7, 13.0 and 19.7; 192
/// bytes 12.4, 13.0 and 22.2.
const SHORT_MAX: usize = 192;

/// Shorter copies use memcpy and are summed afterwards. Measured on the same machine in ns, fused
/// (AVX2) against separate: 256 bytes 19 and 15; 512 bytes 23 and 24; 1448 bytes 34 and 45; 8 KB
/// 110 and 189; 16 KB 278 and 290; 64 KB 1552 and 2395; 64 KB 1643 and 2349 with the destination
/// 256 bytes ahead in its page (4K aliasing), 1624 and 2708 unaligned, 5923 and 9058 cold. So one
/// threshold is enough, even with aliasing. memcpy without a sum: 1448 bytes 22, 8 KB 106, 64 KB
/// 1518.
const FUSED_MIN: usize = 512;

/// Longer data is summed in parts of this many bytes, so that no accumulator overflows: the limit
/// of the AVX2 rung, and far below that of the 64-bit rung. The number is even, so that every part
/// begins with a whole word.
const PART_MAX: usize = 1 << 19;
#[cfg(target_arch = "x86_64")]
const _: () = assert!(PART_MAX <= avx2::PART_MAX && PART_MAX <= avx512::PART_MAX);

impl Ladder {
    /// The fastest rung of this machine, determined at the first call; see [`Ladder::choice`].
    pub fn best() -> Ladder {
        Ladder::choice().rung
    }

    /// The result of [`Ladder::best`], with its reason.
    pub fn choice() -> &'static Choice {
        choice::made()
    }

    /// This rung, or the best one below it with vectors of at most 256 bits.
    #[must_use]
    pub fn narrow(self) -> Ladder {
        if self == Ladder::Avx512 { Ladder::Avx2 } else { self }
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Ladder::Byte => "byte",
            Ladder::Word16 => "word16",
            Ladder::Word64 => "word64",
            Ladder::Avx2 => "avx2",
            Ladder::Avx512 => "avx512",
        }
    }

    /// Every rung that this machine supports, slowest first, even those that are not worth using.
    pub fn available() -> impl Iterator<Item = Ladder> {
        [Ladder::Byte, Ladder::Word16, Ladder::Word64, Ladder::Avx2, Ladder::Avx512]
            .into_iter()
            .filter(|rung| match rung {
                Ladder::Avx2 => has_avx2(),
                Ladder::Avx512 => has_avx512(),
                _ => true,
            })
    }

    /// The sum of `data`.
    #[inline(always)]
    pub fn sum(self, data: &[u8]) -> Sum {
        match self {
            Ladder::Byte | Ladder::Word16 => self.sum_long(data),
            _ if data.len() < SHORT_MAX => portable::sum_short(data),
            _ => self.sum_long(data),
        }
    }

    /// Run `work`, compiled for the instruction set of the rung, so that its loops over bytes use
    /// vectors of that width.
    #[inline(always)]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self {
            #[cfg(target_arch = "x86_64")]
            Ladder::Avx2 | Ladder::Avx512 => avx2::run(work),
            _ => work(),
        }
    }

    /// Uses no stack, so that it costs a comparison or two and a jump.
    #[inline(never)]
    fn sum_long(self, data: &[u8]) -> Sum {
        match self {
            _ if data.len() > PART_MAX => self.sum_in_parts(data),
            Ladder::Avx512 => sum_avx512(data),
            Ladder::Avx2 => sum_avx2(data),
            Ladder::Word64 => portable::sum_words64(data),
            Ladder::Word16 => portable::sum_words16(data),
            Ladder::Byte => portable::sum_bytes(data),
        }
    }

    /// Copy `src` to the start of `dst` and return the sum of `src`, in one pass over the bytes if
    /// that is faster.
    ///
    /// # Panics
    /// If `dst` is shorter than `src`.
    #[inline]
    pub fn copy_sum(self, src: &[u8], dst: &mut [u8]) -> Sum {
        assert!(dst.len() >= src.len(), "destination shorter than source");
        match self {
            _ if src.len() > PART_MAX => self.copy_sum_in_parts(src, dst),
            Ladder::Byte => portable::copy_sum_bytes(src, dst),
            Ladder::Word16 => portable::copy_sum_words16(src, dst),
            _ if src.len() < FUSED_MIN => self.copy_sum_short(src, dst),
            Ladder::Avx2 | Ladder::Avx512 => copy_sum_avx2(src, dst),
            Ladder::Word64 => portable::copy_sum_words64(src, dst),
        }
    }

    /// Copy `src`, then sum it. This is the simple way, for comparison.
    ///
    /// # Panics
    /// If `dst` is shorter than `src`.
    #[inline]
    pub fn copy_then_sum(self, src: &[u8], dst: &mut [u8]) -> Sum {
        assert!(dst.len() >= src.len(), "destination shorter than source");
        let dst = &mut dst[..src.len()];
        dst.copy_from_slice(src);
        self.sum(dst)
    }

    #[inline(never)]
    fn copy_sum_short(self, src: &[u8], dst: &mut [u8]) -> Sum {
        self.copy_then_sum(src, dst)
    }

    #[cold]
    #[inline(never)]
    fn sum_in_parts(self, data: &[u8]) -> Sum {
        data.chunks(PART_MAX).fold(Sum::ZERO, |sum, part| sum.plus(self.sum(part)))
    }

    #[cold]
    #[inline(never)]
    fn copy_sum_in_parts(self, src: &[u8], dst: &mut [u8]) -> Sum {
        src.chunks(PART_MAX)
            .zip(dst.chunks_mut(PART_MAX))
            .fold(Sum::ZERO, |sum, (src, dst)| sum.plus(self.copy_sum(src, dst)))
    }
}

#[cfg(not(target_arch = "x86_64"))]
use elsewhere::{copy_sum_avx2, has_avx2, has_avx512, sum_avx2, sum_avx512};
#[cfg(target_arch = "x86_64")]
use here::{copy_sum_avx2, has_avx2, has_avx512, sum_avx2, sum_avx512};

/// The vector rungs. On machines without their instructions, other rungs replace them.
#[cfg(target_arch = "x86_64")]
mod here {
    use super::{Sum, avx2, avx512, portable};

    #[inline(always)]
    pub(super) fn has_avx2() -> bool {
        std::arch::is_x86_feature_detected!("avx2")
    }

    pub(super) use avx512::is_here as has_avx512;

    #[inline(always)]
    pub(super) fn sum_avx2(data: &[u8]) -> Sum {
        avx2::sum(data).unwrap_or_else(|| portable::sum_words64(data))
    }

    #[inline(always)]
    pub(super) fn copy_sum_avx2(src: &[u8], dst: &mut [u8]) -> Sum {
        avx2::copy_sum(src, dst).unwrap_or_else(|| portable::copy_sum_words64(src, dst))
    }

    #[inline(always)]
    pub(super) fn sum_avx512(data: &[u8]) -> Sum {
        avx512::sum(data).unwrap_or_else(|| sum_avx2(data))
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use super::portable;

    pub(super) fn has_avx2() -> bool {
        false
    }

    pub(super) use has_avx2 as has_avx512;
    pub(super) use portable::{copy_sum_words64 as copy_sum_avx2, sum_words64 as sum_avx2};
    pub(super) use sum_avx2 as sum_avx512;
}
