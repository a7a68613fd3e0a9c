//! Prediction on and off are equal: two copies of one stack, one crafted peer, random traffic.

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
    // A run under a sanitizer, ten times slower, asks for fewer; the totals below need them all.
    let fewer = std::env::var("WIRESPEED_TRAFFICS").ok().and_then(|n| n.parse().ok());
    let traffics = fewer.unwrap_or(TRAFFICS).max(2);
    // Two halves at a time: each traffic is a world of its own.
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
