//! With the fast path on and off the results are equal: two copies of one stack get the same random
//! traffic of one crafted peer.

mod guards;
mod traffic;
mod twins;

use guards::GUARDS;
use traffic::{Seen, Traffic};

/// The number of random traffics: at least 500 are required.
const TRAFFICS: u64 = 600;
const STEPS: usize = 300;

#[test]
fn prediction_on_equals_prediction_off() {
    // A run under a sanitizer is ten times slower and may ask for fewer; the totals below are
    // asserted only in a full run.
    let fewer = std::env::var("WIRESPEED_TRAFFICS").ok().and_then(|n| n.parse().ok());
    let traffics = fewer.unwrap_or(TRAFFICS).max(2);
    // Two threads with half of the traffics each; a traffic depends only on its seed.
    let halves = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(traffics / 2..traffics));
        [run(0..traffics / 2), other.join().expect("its panic is above")]
    });
    let mut all = Seen::default();
    for half in halves {
        all.add(&half);
    }
    if fewer.is_some() {
        return;
    }
    let Seen { predicted, followed, followed_apart, stamped, .. } = all;
    println!("{predicted} predicted, {followed} followed, {followed_apart} of them apart");
    println!("{stamped} stamped");
    println!("wrapped {:?}", all.wrapped);
    for (name, n) in GUARDS.iter().zip(all.refused_alone) {
        println!("{n:7} refused by '{name}' alone");
    }
    assert!(all.predicted > 20_000, "only {} segments were predicted", all.predicted);
    assert!(all.followed > 1_000, "only {} segments followed", all.followed);
    assert!(followed_apart > 100, "only {followed_apart} segments followed apart");
    assert!(stamped > 1_000, "only {stamped} segments were stamped");
    assert!(all.wrapped.iter().all(|n| *n > 50), "sequence space wrapped only {:?}", all.wrapped);
    for (name, n) in GUARDS.iter().zip(all.refused_alone) {
        assert!(n >= 50, "'{name}' was the only guard to refuse only {n} times");
    }
}

fn run(seeds: core::ops::Range<u64>) -> Seen {
    let mut all = Seen::default();
    for seed in seeds {
        let mut traffic = Traffic::new(seed);
        for _ in 0..STEPS {
            traffic.step();
        }
        all.add(&traffic.finish());
    }
    all
}
