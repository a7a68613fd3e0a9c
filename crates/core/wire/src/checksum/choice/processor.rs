//! The processor's description of itself (CPUID), and what follows from it for the clock.
//!
//! Called by: `choice`, once in a process. A hypervisor may name another model than the machine's,
//! and may hide features, but cannot add one. So features decide first; the model decides where a
//! hypervisor hides all features.
//!
//! Sources: AMD64 manual volume 3, appendix E; Intel's manual volume 2, CPUID. The C library takes
//! AVX-VNNI beside AVX-512 as the sign that 512-bit loads and stores keep the clock
//! (`sysdeps/x86/cpu-features.c` of glibc).

use core::arch::x86_64::{__cpuid, __cpuid_count};

use super::{Evidence, Feature};

/// The processor by its vendor, family and model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Processor {
    /// The vendor's twelve letters.
    pub(super) vendor: [u8; 12],
    /// Family and model, each including its extension.
    pub(super) model: (u32, u32),
    /// The registers EAX to EDX of leaf 7, which lists the features, and of the leaf's second part.
    pub(super) leaf_7: [[u32; 4]; 2],
}

/// What 512-bit vectors do to the clock of a core that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// Nothing.
    Keeps(Evidence),
    /// Some cores with these features lower the clock, others do not, or nobody has measured all of
    /// them.
    Varies,
    /// 512-bit vectors lower it.
    Falls,
    /// The vendor is not known to make cores with AVX-512.
    Unknown,
}

/// Intel's first core with these features is that of Sapphire Rapids.
const INTEL_LATER: &[Feature] = &[Feature::Amx, Feature::Avx512Fp16, Feature::AvxVnni];
/// All of Intel's cores with AVX-512 from Ice Lake on have these; Cascade and Cooper Lake do not.
const INTEL_ICE_LAKE: &[Feature] = &[Feature::Vaes, Feature::Vpclmulqdq];
/// All of AMD's cores with AVX-512 have these: Zen 4 was the first.
const AMD: &[Feature] = &[Feature::Vaes, Feature::Vpclmulqdq];
/// AMD's families with AVX-512: Zen 4 (19h) and Zen 5 (1Ah).
const AMD_FAMILIES: &[u32] = &[0x19, 0x1a];
/// Models of Intel's family 6: Sapphire and Emerald Rapids, which have the same core.
const INTEL_MODELS: &[u32] = &[0x8f, 0xcf];

impl Processor {
    /// The processor of this machine, as a hypervisor may present it.
    pub(super) fn this() -> Processor {
        let (first, word) = (__cpuid(0), __cpuid(1).eax);
        let mut p = Processor { model: family_and_model(word), ..Processor::default() };
        let letters = [first.ebx, first.edx, first.ecx];
        for (to, word) in p.vendor.as_chunks_mut::<4>().0.iter_mut().zip(letters) {
            *to = word.to_le_bytes();
        }
        let registers = |part| {
            let leaf = __cpuid_count(7, part);
            [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]
        };
        // For a leaf or part past the last one, CPUID returns the data of another leaf.
        if first.eax >= 7 {
            p.leaf_7[0] = registers(0);
            if p.leaf_7[0][0] >= 1 {
                p.leaf_7[1] = registers(1);
            }
        }
        p
    }

    /// What 512-bit vectors do to the clock, if the core has them.
    pub(super) fn clock(&self) -> Clock {
        let by = |features: &[Feature]| {
            features.iter().find(|&&f| self.has(f)).map(|&f| Evidence::Feature(f))
        };
        let (family, model) = self.model;
        match &self.vendor {
            b"GenuineIntel" => {
                let listed = family == 6 && INTEL_MODELS.contains(&model);
                match by(INTEL_LATER).or(listed.then_some(Evidence::Model)) {
                    Some(evidence) => Clock::Keeps(evidence),
                    // With one core active, a laptop's Ice Lake lowers the clock by 100 MHz, and a
                    // Rocket Lake not at all (T. Downs, Ice Lake AVX-512 Downclocking, 2020).
                    // Servers of that generation were not measured.
                    None if by(INTEL_ICE_LAKE).is_some() => Clock::Varies,
                    None => Clock::Falls,
                }
            }
            b"AuthenticAMD" => {
                let listed = AMD_FAMILIES.contains(&family);
                let evidence = by(AMD).or(listed.then_some(Evidence::Model));
                evidence.map_or(Clock::Unknown, Clock::Keeps)
            }
            _ => Clock::Unknown,
        }
    }

    /// Does the processor have `feature`? The operating system may still have disabled it.
    pub(super) fn has(&self, feature: Feature) -> bool {
        let (part, register, bit) = place(feature);
        self.leaf_7[part][register] >> bit & 1 != 0
    }
}

/// The part of leaf 7, the register (0 to 3 for EAX to EDX), and the bit.
pub(super) fn place(feature: Feature) -> (usize, usize, u32) {
    match feature {
        Feature::Amx => (0, 3, 24),
        Feature::Avx512Fp16 => (0, 3, 23),
        Feature::AvxVnni => (1, 0, 4),
        Feature::Vaes => (0, 2, 9),
        Feature::Vpclmulqdq => (0, 2, 10),
    }
}

/// The processor's family (the base family plus, if that is 15, the extended one) and model (base
/// and extended model in one number), from the signature that CPUID leaf 1 returns.
pub(super) fn family_and_model(word: u32) -> (u32, u32) {
    let base = word >> 8 & 0xf;
    let family = if base == 0xf { base + (word >> 20 & 0xff) } else { base };
    (family, word >> 4 & 0xf | word >> 12 & 0xf0)
}
