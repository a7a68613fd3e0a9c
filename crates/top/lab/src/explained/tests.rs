//! A quick look at the whole table: explain names the limit of each situation in at least one of
//! two draws, and of nearly all situations in both.

use clap::ValueEnum;

use super::{Over, SITUATIONS, said_of};

#[test]
fn situations_are_named_by_what_limits_them() {
    let mut wrong = Vec::new();
    for situation in SITUATIONS {
        for seed in 1..=2 {
            let said = said_of(situation, seed, &|| false).expect("the world holds");
            let said = said.expect("nobody stopped it");
            if said.limit != Some(situation.limit) {
                wrong.push(format!("{}, seed {seed}: {}", situation.name, said.words));
            }
        }
    }
    assert!(SITUATIONS.len() >= 20 && wrong.len() <= 1, "{}", wrong.join("\n"));
}

#[test]
fn names_and_limits_of_situations_are_unique_enough() {
    for over in Over::value_variants() {
        let all = over.situations();
        let mut names: Vec<&str> = all.iter().map(|situation| situation.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|situation| !situation.ranges.is_empty()));
        let of_sim = |name| SITUATIONS.iter().find(|one| one.name == name).map(|one| one.limit);
        assert!(all.iter().all(|one| of_sim(one.name) == Some(one.limit)));
    }
}
