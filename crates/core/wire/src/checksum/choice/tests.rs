//! The choice of the checksum implementation by instructions, core and measurement.

use super::{Choice, Evidence, Feature, Ladder, Measured, Why};

const AGREES: Measured = Measured { sums: [800, 1000], scalar: [1010, 1000] };
const REFUSES: Measured = Measured { sums: [650, 1000], scalar: [1300, 1000] };

#[test]
fn wide_vectors_are_taken_when_they_are_faster_and_nothing_else_slower() {
    let measured = |wide, beside| Measured { sums: [wide, 1000], scalar: [beside, 1000] };
    assert!(measured(800, 1000).agrees());
    assert!(measured(950, 1060).agrees());
    assert!(!measured(960, 1000).agrees(), "a gain that is too small was accepted");
    assert!(!measured(650, 1300).agrees(), "a lower clock, as on Cascade Lake, was accepted");
}

#[test]
fn a_choice_stays_and_says_why() {
    let choice = Ladder::choice();
    assert_eq!(choice.rung, Ladder::best());
    let agrees = matches!(choice.why, Why::Measured(_, m) if m.agrees());
    assert_eq!(choice.rung == Ladder::Avx512, agrees, "{choice}");
    // Vectors of 512 bits are measured only where the processor has them.
    let has_wide = Ladder::available().any(|rung| rung == Ladder::Avx512);
    assert_eq!(choice.why == Why::Fastest, !has_wide, "{choice}");
}

#[test]
fn every_reason_is_a_sentence_for_people() {
    let told = |rung, why| Choice { rung, why }.to_string();
    let amx = Evidence::Feature(Feature::Amx);
    for (rung, why, text) in [
        (Ladder::Word64, Why::Fastest, "word64 (no AVX2)"),
        (Ladder::Avx2, Why::Fastest, "avx2 (no AVX-512 with VNNI)"),
        (
            Ladder::Avx2,
            Why::LowersClock,
            "avx2 (512-bit vectors lower the clock of cores that have no VAES)",
        ),
        (Ladder::Avx2, Why::UnknownCore, "avx2 (512-bit vectors are not tried on unknown cores)"),
        (
            Ladder::Avx512,
            Why::Measured(amx, AGREES),
            "avx512 (512-bit sums 0.80 of 256-bit ones, code between them 1.01; the core has AMX)",
        ),
        (
            Ladder::Avx2,
            Why::Measured(Evidence::Settled, REFUSES),
            "avx2 (512-bit sums 0.65 of 256-bit ones, code between them 1.30: not worth it; \
             the clock had 2 ms to fall)",
        ),
        (
            Ladder::Avx512,
            Why::Measured(Evidence::Model, AGREES),
            "avx512 (512-bit sums 0.80 of 256-bit ones, code between them 1.01; \
             the model keeps its clock)",
        ),
    ] {
        assert_eq!(told(rung, why), text);
    }
}

#[cfg(target_arch = "x86_64")]
mod cores {
    use super::super::processor::{Clock, Processor, family_and_model, place};
    use super::super::{SETTLING, decide, measure};
    use super::{AGREES, Choice, Evidence, Feature, Ladder, REFUSES, Why};
    use Feature::{Amx, Avx512Fp16, AvxVnni, Vaes, Vpclmulqdq};

    const INTEL: [u8; 12] = *b"GenuineIntel";
    const AMD: [u8; 12] = *b"AuthenticAMD";

    fn processor(vendor: [u8; 12], model: (u32, u32), features: &[Feature]) -> Processor {
        let mut processor = Processor { vendor, model, ..Processor::default() };
        for &feature in features {
            let (part, register, bit) = place(feature);
            processor.leaf_7[part][register] |= 1 << bit;
        }
        processor
    }

    fn keeps(feature: Feature) -> Clock {
        Clock::Keeps(Evidence::Feature(feature))
    }

    #[test]
    fn cores_are_known_by_their_features_whatever_model_a_hypervisor_names() {
        let sapphire: &[Feature] = &[Amx, Avx512Fp16, AvxVnni, Vaes, Vpclmulqdq];
        let (ice, zen_5): (&[Feature], &[Feature]) =
            (&[Vaes, Vpclmulqdq], &[AvxVnni, Vaes, Vpclmulqdq]);
        for (name, vendor, model, features, clock) in [
            ("Cascade Lake", INTEL, (6, 0x55), &[][..], Clock::Falls),
            ("Ice Lake for servers", INTEL, (6, 0x6a), ice, Clock::Varies),
            ("Rocket Lake", INTEL, (6, 0xa7), ice, Clock::Varies),
            (
                "a later Xeon that is said to be a Rocket Lake",
                INTEL,
                (6, 0xa7),
                sapphire,
                keeps(Amx),
            ),
            ("Alder Lake", INTEL, (6, 0x97), &sapphire[1..], keeps(Avx512Fp16)),
            ("Sapphire Rapids", INTEL, (6, 0x8f), sapphire, keeps(Amx)),
            ("the same without AMX and FP16", INTEL, (6, 0x8f), &sapphire[2..], keeps(AvxVnni)),
            ("all hidden", INTEL, (6, 0x8f), &[], Clock::Keeps(Evidence::Model)),
            ("all later ones hidden", INTEL, (6, 0xcf), ice, Clock::Keeps(Evidence::Model)),
            ("Granite Rapids", INTEL, (6, 0xad), sapphire, keeps(Amx)),
            ("a model of another family", INTEL, (0x19, 0xcf), &[], Clock::Falls),
            ("Genoa", AMD, (0x19, 0x11), ice, keeps(Vaes)),
            ("Turin", AMD, (0x1a, 0x02), zen_5, keeps(Vaes)),
            ("Genoa without VAES", AMD, (0x19, 0x11), &ice[1..], keeps(Vpclmulqdq)),
            ("Genoa without both", AMD, (0x19, 0x11), &[], Clock::Keeps(Evidence::Model)),
            ("said to be a Rome", AMD, (0x17, 0x31), ice, keeps(Vaes)),
            ("said to be a Rome, without both", AMD, (0x17, 0x31), &[], Clock::Unknown),
            ("another vendor", *b"CentaurHauls", (6, 0x8f), sapphire, Clock::Unknown),
        ] {
            assert_eq!(processor(vendor, model, features).clock(), clock, "{name}");
        }
    }

    #[test]
    fn only_cores_that_may_keep_their_clock_are_measured() {
        for (clock, why) in [(Clock::Falls, Why::LowersClock), (Clock::Unknown, Why::UnknownCore)] {
            let choice = decide(Ladder::Avx512, clock, |_| unreachable!("measured"));
            assert_eq!(choice, Choice { rung: Ladder::Avx2, why });
        }
        for (clock, evidence, settling) in [
            (keeps(Amx), Evidence::Feature(Amx), 1),
            (Clock::Keeps(Evidence::Model), Evidence::Model, 1),
            (Clock::Varies, Evidence::Settled, SETTLING),
        ] {
            for (measured, rung) in [(AGREES, Ladder::Avx512), (REFUSES, Ladder::Avx2)] {
                let choice = decide(Ladder::Avx512, clock, |warm_ups| {
                    assert_eq!(warm_ups, settling);
                    measured
                });
                assert_eq!(choice, Choice { rung, why: Why::Measured(evidence, measured) });
            }
        }
    }

    /// An EPYC of family 19h whose hypervisor hides AVX-512, and a machine without vectors.
    #[test]
    fn without_the_instructions_the_core_does_not_matter() {
        for rung in [Ladder::Avx2, Ladder::Word64] {
            let clock = processor(AMD, (0x19, 0x11), &[Vaes, Vpclmulqdq]).clock();
            assert_eq!(clock, keeps(Vaes));
            let choice = decide(rung, clock, |_| unreachable!("measured"));
            assert_eq!(choice, Choice { rung, why: Why::Fastest });
        }
    }

    /// CPUID bits that the standard library has names for: it and this crate read the same
    /// processor.
    #[test]
    fn features_are_read_from_their_bits() {
        let this = Processor::this();
        if std::arch::is_x86_feature_detected!("avx") {
            let (vaes, product) = (
                std::arch::is_x86_feature_detected!("vaes"),
                std::arch::is_x86_feature_detected!("vpclmulqdq"),
            );
            assert_eq!((this.has(Vaes), this.has(Vpclmulqdq)), (vaes, product));
            assert_eq!(this.has(AvxVnni), std::arch::is_x86_feature_detected!("avxvnni"));
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            let half = std::arch::is_x86_feature_detected!("avx512fp16");
            assert_eq!(this.has(Avx512Fp16), half);
        }
        assert!(this.vendor.is_ascii() && this.vendor != [0; 12]);
    }

    #[test]
    fn family_and_model_have_their_extensions() {
        // An EPYC of family 19h, a Cascade Lake, a Rocket Lake.
        assert_eq!(family_and_model(0x00a1_0f11), (0x19, 0x11));
        assert_eq!(family_and_model(0x0005_0657), (6, 0x55));
        assert_eq!(family_and_model(0x000a_0671), (6, 0xa7));
    }

    /// Every rung works on every machine, if necessary with the code of a lower rung.
    #[test]
    fn a_measurement_counts_both_widths() {
        let measured = measure::measure(1);
        assert!(measured.sums.iter().chain(&measured.scalar).all(|&ticks| ticks > 0));
    }
}
