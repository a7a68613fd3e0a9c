//! Chooses the rung for a machine, by its instructions, its core and a measurement.
//!
//! Called by: `Ladder::best`, once in a process. 512-bit vectors lower the clock of some
//! processors, and with it the speed of all code between the sums (docs/decisions/0058). So they
//! are used only on cores that may keep their clock (`processor`), and only if a measurement of
//! about half a millisecond confirms it (`measure`).
//!
//! All rungs give equal sums, so nothing but speed depends on the choice.

use core::fmt;
use std::sync::OnceLock;

use super::Ladder;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod measure;
#[cfg(target_arch = "x86_64")]
mod processor;

#[cfg(target_arch = "x86_64")]
use processor::{Clock, Processor};

/// The chosen rung, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The rung.
    pub rung: Ladder,
    /// The reason.
    pub why: Why,
}

/// Why a rung was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The processor does not have the instructions of a faster rung.
    Fastest,
    /// The core has 512-bit vectors, and lowers its clock for them.
    LowersClock,
    /// The core has 512-bit vectors, and nothing is known about its clock.
    UnknownCore,
    /// 512-bit vectors were measured, because of this evidence that the core may keep its clock.
    Measured(Evidence, Measured),
}

/// Why a core is expected to keep its clock with 512-bit vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Only cores that keep their clock have this feature. A hypervisor can hide a feature, but
    /// cannot add one.
    Feature(Feature),
    /// The model is known to keep its clock.
    Model,
    /// The clock had two milliseconds to fall before the measurement, because cores with these
    /// features differ.
    Settled,
}

/// A feature of later cores. It shows the age of a core even if a hypervisor names another model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Matrix tiles.
    Amx,
    /// Arithmetic on 16-bit floating-point numbers.
    Avx512Fp16,
    /// Dot products of 256 bits without AVX-512's encoding.
    AvxVnni,
    /// AES on vectors.
    Vaes,
    /// Carry-less products of vectors.
    Vpclmulqdq,
}

impl Feature {
    /// The name in the manuals.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Amx => "AMX",
            Feature::Avx512Fp16 => "AVX512-FP16",
            Feature::AvxVnni => "AVX-VNNI",
            Feature::Vaes => "VAES",
            Feature::Vpclmulqdq => "VPCLMULQDQ",
        }
    }
}

/// Time stamp counts with 512-bit vectors, and with 256-bit vectors; each is a lower quartile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Sums of a segment of 1448 bytes and its header.
    pub sums: [u64; 2],
    /// Scalar code that runs right after such sums.
    pub scalar: [u64; 2],
}

impl Measured {
    /// Are 512-bit vectors worth using: are sums faster, and is nothing else slower?
    pub fn agrees(&self) -> bool {
        let ([wide, narrow], [beside_wide, beside_narrow]) = (self.sums, self.scalar);
        wide * 100 <= narrow * SUMS_PERCENT && beside_wide * 100 <= beside_narrow * SCALAR_PERCENT
    }
}

/// Maximum time of 512-bit sums relative to 256-bit sums, in percent.
const SUMS_PERCENT: u64 = 95;
/// Maximum relative time of the scalar code between the sums; a longer time shows a lower clock. On
/// Cascade Lake it was 130.
const SCALAR_PERCENT: u64 = 106;

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.rung.name())?;
        match self.why {
            Why::Fastest if self.rung == Ladder::Avx2 => f.write_str("no AVX-512 with VNNI")?,
            Why::Fastest => f.write_str("no AVX2")?,
            Why::LowersClock => {
                f.write_str("512-bit vectors lower the clock of cores that have no VAES")?;
            }
            Why::UnknownCore => f.write_str("512-bit vectors are not tried on unknown cores")?,
            Why::Measured(evidence, measured) => write!(f, "{measured}; {evidence}")?,
        }
        f.write_str(")")
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = |[wide, narrow]: [u64; 2]| wide as f64 / narrow.max(1) as f64;
        let (sums, scalar) = (ratio(self.sums), ratio(self.scalar));
        write!(f, "512-bit sums {sums:.2} of 256-bit ones, code between them {scalar:.2}")?;
        f.write_str(if self.agrees() { "" } else { ": not worth it" })
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Feature(feature) => write!(f, "the core has {}", feature.name()),
            Evidence::Model => f.write_str("the model keeps its clock"),
            Evidence::Settled => f.write_str("the clock had 2 ms to fall"),
        }
    }
}

/// The choice, which is made at the first call.
pub(super) fn made() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(make)
}

fn make() -> Choice {
    let rung = Ladder::available().last().unwrap_or(Ladder::Word64);
    #[cfg(target_arch = "x86_64")]
    return decide(rung, Processor::this().clock(), measure::measure);
    #[cfg(not(target_arch = "x86_64"))]
    Choice { rung, why: Why::Fastest }
}

/// Choose a rung on a machine where `fastest` is the last rung whose instructions the processor
/// has. The argument of `measure` is the number of warm-ups.
#[cfg(target_arch = "x86_64")]
fn decide(fastest: Ladder, clock: Clock, measure: impl FnOnce(usize) -> Measured) -> Choice {
    if fastest != Ladder::Avx512 {
        return Choice { rung: fastest, why: Why::Fastest };
    }
    let narrow = |why| Choice { rung: Ladder::Avx2, why };
    let (evidence, warm_ups) = match clock {
        Clock::Keeps(evidence) => (evidence, 1),
        Clock::Varies => (Evidence::Settled, SETTLING),
        Clock::Falls => return narrow(Why::LowersClock),
        Clock::Unknown => return narrow(Why::UnknownCore),
    };
    let measured = measure(warm_ups);
    let why = Why::Measured(evidence, measured);
    if measured.agrees() { Choice { rung: Ladder::Avx512, why } } else { narrow(why) }
}

/// Warm-ups of an eighth of a millisecond each, two milliseconds together. A core may take 500 us
/// until it has a lower clock, and runs slowly until then (Intel's optimization manual, power
/// management of Skylake servers).
#[cfg(target_arch = "x86_64")]
const SETTLING: usize = 16;

#[cfg(test)]
mod tests;
