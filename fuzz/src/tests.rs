//! Every target runs on its seeds, and on bytes that mean nothing; no fuzzer is needed for that.

use crate::{TARGETS, run, seeds};

#[test]
fn every_seed_has_a_target_that_takes_it() {
    let seeds = seeds::all();
    for (target, name, bytes) in &seeds {
        println!("{target} {name}");
        run(target, bytes);
    }
    for (target, _) in TARGETS {
        let count = seeds.iter().filter(|seed| seed.0 == *target).count();
        assert!(count > 0, "{target} has no seed");
    }
}

#[test]
fn the_same_seeds_are_made_each_time() {
    assert_eq!(seeds::all(), seeds::all());
}

#[test]
fn short_inputs_are_taken_by_every_target() {
    for (_, target) in TARGETS {
        for len in 0..20 {
            for byte in [0, 1, 0x45, 0x60, 0x80, 0xff] {
                target(&vec![byte; len]);
            }
        }
    }
}

#[test]
fn every_target_has_its_program_and_no_program_is_without_target() {
    let manifest = include_str!("../Cargo.toml");
    let mut programs: Vec<_> =
        manifest.split("[[bin]]").skip(1).filter_map(|section| section.split('"').nth(1)).collect();
    let mut names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    programs.sort_unstable();
    names.sort_unstable();
    assert_eq!(programs, names);
    for name in names {
        let program = format!("{}/fuzz_targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(program).expect("its program");
        assert!(text.contains(&format!("target!(\"{name}\")")), "{name}");
    }
}

#[test]
fn the_seed_of_pair_has_states() {
    assert_eq!(crate::pair::states_of_seed(), 4);
}
