//! A gateway between two stacks: every law holds for fixed seeds, and a seed gives the same
//! packets.

mod bench;
mod datagrams;
mod fence;
mod floods;
mod hello;
mod names;
mod published;
mod tcp;

use crate::run::{Campaign, WorldKind, campaign, replay, run};

#[test]
fn fixed_seeds_with_a_gateway_hold_every_law() {
    let fixed = Campaign { kind: WorldKind::Gateway, first: 0, seeds: 100, shard: (0, 1), jobs: 1 };
    let failures = campaign(&fixed, |_| {});
    let reported: Vec<_> = failures.iter().map(|v| (v.seed, &v.failure)).collect();
    assert!(failures.is_empty(), "cargo xtask sim --gateway --seed S replays them: {reported:?}");
}

#[test]
fn a_gateway_is_deterministic() {
    for seed in [2, 21] {
        let again = replay(WorldKind::Gateway, seed, 20, None).verdict;
        assert_eq!(run(WorldKind::Gateway, seed), again);
    }
    assert_ne!(run(WorldKind::Gateway, 2).digest, run(WorldKind::Gateway, 3).digest);
}
