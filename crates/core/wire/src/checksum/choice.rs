//! Chooses the rung for a machine, by its instructions, its model and a measurement.
//!
//! Called by: `Ladder::best`, once in a process. 512-bit vectors lower the clock of some
//! processors, and with it the speed of all code between the sums (docs/decisions/0058). So they
//! are used only on models known not to do that, and only if a measurement of about half a
//! millisecond confirms it.
//!
//! The measurement reads the cycle counter. All rungs give equal sums, so nothing but speed depends
//! on it.

use core::fmt;
use std::sync::OnceLock;

use super::Ladder;

/// The chosen rung, and the reason.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The rung.
    pub rung: Ladder,
    /// The measurement of 512-bit vectors; `None` if they were not tried.
    pub measured: Option<Measured>,
}

/// Time stamp counts with 512-bit and with 256-bit vectors: lower quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Sums of a segment of 1448 bytes and its header.
    pub sums: [u64; 2],
    /// Scalar code right behind such sums.
    pub scalar: [u64; 2],
}

impl Measured {
    /// Are 512 bits worth it: are sums faster, and is nothing else slower?
    pub fn agrees(&self) -> bool {
        let ([wide, narrow], [beside_wide, beside_narrow]) = (self.sums, self.scalar);
        wide * 100 <= narrow * SUMS_PERCENT && beside_wide * 100 <= beside_narrow * SCALAR_PERCENT
    }
}

/// Maximum time of 512-bit sums relative to 256-bit sums, in percent.
const SUMS_PERCENT: u64 = 95;
/// The same for scalar code between them, which shows a lower clock. On Cascade Lake it was 130.
const SCALAR_PERCENT: u64 = 106;

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rung.name())?;
        let Some(Measured { sums, scalar }) = self.measured else { return Ok(()) };
        let ratio = |[wide, narrow]: [u64; 2]| wide as f64 / narrow.max(1) as f64;
        let (sums, scalar) = (ratio(sums), ratio(scalar));
        write!(f, " (512-bit sums {sums:.2} of 256-bit ones, code between them {scalar:.2})")
    }
}

/// The choice; made at the first call.
pub(super) fn made() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(make)
}

fn make() -> Choice {
    let all: Vec<Ladder> = Ladder::available().collect();
    let best = all.last().copied().unwrap_or(Ladder::Word64);
    let mut choice = Choice { rung: best.narrow(), measured: None };
    #[cfg(target_arch = "x86_64")]
    if best == Ladder::Avx512 && machine::keeps_its_clock() {
        let measured = machine::measure();
        choice.measured = Some(measured);
        if measured.agrees() {
            choice.rung = best;
        }
    }
    choice
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use core::arch::x86_64::{__cpuid, _rdtsc};
    use core::hint::black_box;

    use super::{Ladder, Measured};

    /// AMD's families with AVX-512: Zen 4 (19h) and Zen 5 (1Ah).
    const AMD: &[u32] = &[0x19, 0x1a];
    /// Models of Intel's family 6: Sapphire and Emerald Rapids, which have the same core. The first
    /// models with AVX-512 lower the clock (Cascade Lake); the models between were not measured.
    const INTEL: &[u32] = &[0x8f, 0xcf];

    /// Does this model run 512-bit vectors at its normal clock?
    pub(super) fn keeps_its_clock() -> bool {
        is_listed(vendor(), family_and_model())
    }

    pub(super) fn is_listed(vendor: [u8; 12], (family, model): (u32, u32)) -> bool {
        match &vendor {
            b"AuthenticAMD" => AMD.contains(&family),
            b"GenuineIntel" => family == 6 && INTEL.contains(&model),
            _ => false,
        }
    }

    fn vendor() -> [u8; 12] {
        let leaf = __cpuid(0);
        let mut name = [0; 12];
        for (to, word) in name.as_chunks_mut::<4>().0.iter_mut().zip([leaf.ebx, leaf.edx, leaf.ecx])
        {
            *to = word.to_le_bytes();
        }
        name
    }

    /// Base family and, where that is 15, the extended one; base and extended model (AMD64 manual
    /// volume 3, appendix E.3.2; Intel's manual volume 2, CPUID).
    fn family_and_model() -> (u32, u32) {
        let word = __cpuid(1).eax;
        let base = word >> 8 & 0xf;
        let family = if base == 0xf { base + (word >> 20 & 0xff) } else { base };
        (family, word >> 4 & 0xf | word >> 12 & 0xf0)
    }

    /// With a quarter of these rounds, half of the measurements on a Xeon chose 512 bits, because
    /// something else ran meanwhile.
    const ROUNDS: usize = 96;
    /// Sums in a round.
    const REPEATS: usize = 32;

    /// A segment of 1448 bytes with its header, which begins in the middle of a cache line.
    #[repr(C, align(64))]
    struct Segment([u8; 32], [u8; 1480]);

    /// All rounds with the narrow rung come first, because a lowered clock does not rise again
    /// within the time that the measurement takes.
    pub(super) fn measure() -> Measured {
        let Segment(_, segment) = &Segment([0; 32], [0x5a; 1480]);
        // Warms the caches.
        rounds(Ladder::Avx2, segment);
        let (narrow, beside_narrow) = rounds(Ladder::Avx2, segment);
        // A core takes a while to power its upper lanes.
        rounds(Ladder::Avx512, segment);
        let (wide, beside_wide) = rounds(Ladder::Avx512, segment);
        Measured { sums: [wide, narrow], scalar: [beside_wide, beside_narrow] }
    }

    /// Lower quartiles of the time for the sums of a round, and for scalar code behind them.
    fn rounds(rung: Ladder, segment: &[u8; 1480]) -> (u64, u64) {
        let (mut sums, mut scalar) = ([0; ROUNDS], [0; ROUNDS]);
        for (sums, scalar) in sums.iter_mut().zip(&mut scalar) {
            let start = now();
            for _ in 0..REPEATS {
                black_box(rung.sum(black_box(segment)));
            }
            let middle = now();
            for _ in 0..REPEATS / 4 {
                black_box(Ladder::Word64.sum(black_box(segment)));
            }
            let end = now();
            (*sums, *scalar) = (middle.wrapping_sub(start), end.wrapping_sub(middle));
        }
        (lower_quartile(sums), lower_quartile(scalar))
    }

    fn lower_quartile(mut of: [u64; ROUNDS]) -> u64 {
        of.sort_unstable();
        of[ROUNDS / 4]
    }

    fn now() -> u64 {
        // SAFETY: every x86-64 has the instruction, and it only reads the counter.
        unsafe { _rdtsc() }
    }
}

#[cfg(test)]
mod tests;
