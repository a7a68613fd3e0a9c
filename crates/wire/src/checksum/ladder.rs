//! The ladder of checksum rungs, and the lengths at which one hands over to another.
//!
//! Called by: whoever sums or copies payload; a stack chooses its rung once. RFC 1071. `cargo run
//! --release -p wirespeed-wire --example ladder` prints the measurements.

use super::{Choice, Sum, choice, portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// The rung chosen once per stack. All give equal sums; they differ in speed only.
///
/// Any value is safe to use anywhere: where the machine has no AVX2, [`Ladder::Avx2`] does the
/// 64-bit rung's work (detection is one cached load, and only for long data), and
/// [`Ladder::Avx512`] that of [`Ladder::Avx2`] where the machine lacks what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ladder {
    /// The plain loop of RFC 1071, a byte at a time: what the others are measured against.
    Byte,
    /// 16 bits at a time.
    Word16,
    /// 64 bits at a time, portable.
    Word64,
    /// 256 bits at a time.
    Avx2,
    /// 512 bits at a time where a sum is all that is asked for, 256 where bytes are copied as well.
    Avx512,
}

/// Sums of fewer bytes than this take the short loop, where they are made: no call. Measured on an
/// EPYC in ns, by the short loop, by AVX2 and by the 64-bit rung: 72 bytes 11.1, 12.7 and 15.7; 128
/// bytes 11.7, 13.0 and 19.7; 192 bytes 12.4, 13.0 and 22.2.
const SHORT_MAX: usize = 192;

/// Copies of fewer bytes than this are made by memcpy and summed after. Measured there in ns, fused
/// (by AVX2) against separate: 256 bytes 19 and 15; 512 bytes 23 and 24; 1448 bytes 34 and 45; 8 KB
/// 110 and 189; 16 KB 278 and 290; 64 KB 1552 and 2395, 1643 and 2349 with the destination 256
/// bytes ahead in its page (4 KB aliasing), 1624 and 2708 unaligned, cold 5923 and 9058. So
/// one cut-over is enough, and aliasing does not change it. memcpy alone: 1448 bytes 22, 8 KB 106,
/// 64 KB 1518.
const FUSED_MIN: usize = 512;

/// More than this is summed in parts, so that no accumulator can overflow: what the AVX2 rung can
/// do at once, and far below what the 64-bit one can. Even, so that every part begins a word.
const PART_MAX: usize = 1 << 19;
#[cfg(target_arch = "x86_64")]
const _: () = assert!(PART_MAX <= avx2::PART_MAX && PART_MAX <= avx512::PART_MAX);

impl Ladder {
    /// The fastest rung of this machine, found out at the first call: [`Ladder::choice`] says how.
    pub fn best() -> Ladder {
        Ladder::choice().rung
    }

    /// What [`Ladder::best`] is, and why.
    pub fn choice() -> &'static Choice {
        choice::made()
    }

    /// This rung, or the best one below it with no vectors wider than 256 bits.
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

    /// Every rung this machine has, slowest first, whether or not it is worth to be taken.
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

    /// The result of `work`, compiled anew for what the rung may use: loops over bytes get vectors
    /// as wide as its own.
    #[inline(always)]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self {
            #[cfg(target_arch = "x86_64")]
            Ladder::Avx2 | Ladder::Avx512 => avx2::run(work),
            _ => work(),
        }
    }

    /// Nothing here needs the stack, so that it costs a comparison or two and a jump.
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

    /// Copy `src` to the beginning of `dst` and sum it, touching each byte once if it is long
    /// enough for that to be the faster way.
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

    /// Copy first, then sum: the plain way, to compare with.
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

/// The rungs with vectors, each with what takes its place where it is missing.
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
