//! The choice by instructions, model and measurement.

use super::{Choice, Ladder, Measured};

#[test]
fn wide_vectors_are_taken_when_they_are_faster_and_nothing_else_slower() {
    let measured = |wide, beside| Measured { sums: [wide, 1000], scalar: [beside, 1000] };
    assert!(measured(800, 1000).agrees());
    assert!(measured(950, 1060).agrees());
    assert!(!measured(960, 1000).agrees(), "not worth it");
    assert!(!measured(650, 1300).agrees(), "the clock fell, as on Cascade Lake");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn models_that_lower_their_clock_and_unknown_ones_are_not_tried() {
    use super::machine::is_listed;
    assert!(is_listed(*b"AuthenticAMD", (0x19, 0x11)));
    assert!(!is_listed(*b"AuthenticAMD", (0x17, 0x11)));
    assert!(is_listed(*b"GenuineIntel", (6, 0xcf)));
    // Cascade Lake.
    assert!(!is_listed(*b"GenuineIntel", (6, 0x55)));
    assert!(!is_listed(*b"GenuineIntel", (0x19, 0xcf)));
    assert!(!is_listed(*b"HygonGenuine", (0x19, 0xcf)));
}

#[test]
fn a_choice_stays_and_says_why() {
    let choice = Ladder::choice();
    assert_eq!(choice.rung, Ladder::best());
    assert!(choice.rung != Ladder::Avx512 || choice.measured.is_some_and(|m| m.agrees()));
    let measured = Measured { sums: [800, 1000], scalar: [1010, 1000] };
    let told = Choice { rung: Ladder::Avx512, measured: Some(measured) }.to_string();
    assert_eq!(told, "avx512 (512-bit sums 0.80 of 256-bit ones, code between them 1.01)");
    assert_eq!(Choice { rung: Ladder::Avx2, measured: None }.to_string(), "avx2");
}
