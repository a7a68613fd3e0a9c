//! Switches whose effects are known: additive effects give no warning, others do.

use base::Switch;

use super::*;
use crate::ablate::design::Design;
use crate::ablate::{Response, one_at_a_time};

/// Rounds of a made-up cost, with a little noise that differs by round and combination.
fn rounds(design: Design, cost: impl Fn(u32) -> f64) -> (Plan, Vec<Vec<f64>>) {
    let switches =
        [Switch::Predict, Switch::Follow, Switch::FusedSum, Switch::BurstAck, Switch::Stamp];
    let mut points = design.points.clone();
    let besides = one_at_a_time(design.factors).into_iter().filter(|p| !design.points.contains(p));
    points.extend(besides);
    let rounds = (0..12_u32).map(|round| {
        let noise = |point: &u32| f64::from((point * 7 + round * 13) % 11) / 11.0 - 0.5;
        points.iter().map(|point| cost(*point) + noise(point)).collect()
    });
    let rounds = rounds.collect();
    let plan = Plan {
        switches: switches[..design.factors].to_vec(),
        design,
        points,
        response: Response::Ns,
        mtu: 1_500,
        flows: 1,
        rounds: 12,
        seed: 1,
    };
    (plan, rounds)
}

fn warned(plan: &Plan, rounds: &[Vec<f64>]) -> Vec<Option<Warning>> {
    main_effects(plan, rounds).iter().map(|main| main.warning).collect()
}

#[test]
fn what_adds_up_is_not_warned_of() {
    for design in [Design::full(5), Design::fraction(5)] {
        let cost = |point: u32| 500.0 - 40.0 * f64::from(point.count_ones());
        let (plan, rounds) = rounds(design, cost);
        let report = report(&plan, &rounds);
        assert_eq!(warned(&plan, &rounds), [None; 5], "{:?}", report.rows);
        assert_eq!(report.shows.len(), 2);
        assert!(report.shows[1].contains("about none"), "{:?}", report.shows);
        let effect = report.rows[0][3].as_f64().expect("an effect");
        assert!((effect + 40.0).abs() < 1.0, "{effect}");
        assert!(report.notes.lines().iter().any(|note| note.starts_with("A round has ")));
    }
}

#[test]
fn switches_that_need_each_other_are_warned_of_with_their_runs() {
    // The first two switches save only if both are on. The third helps alone and hurts beside the
    // others.
    let cost = |point: u32| {
        let pair = if point & 3 == 3 { 100.0 } else { 0.0 };
        let third = if point & 4 == 0 {
            0.0
        } else if point & 3 == 3 {
            -20.0
        } else {
            30.0
        };
        500.0 - pair - third
    };
    for design in [Design::full(4), Design::fraction(5)] {
        let (plan, rounds) = rounds(design, cost);
        let warned = warned(&plan, &rounds);
        assert_eq!(
            warned[..3],
            [Some(Warning::Hidden), Some(Warning::Hidden), Some(Warning::Sign)]
        );
        let report = report(&plan, &rounds);
        assert!(report.shows[0].contains("predict x follow (-"), "{:?}", report.shows);
        assert!(report.shows[1].contains("misled about 3"), "{:?}", report.shows);
        let witness =
            report.notes.lines().iter().find(|note| note.starts_with("fused-sum, the opposite"));
        let witness = witness.unwrap_or_else(|| panic!("{:?}", report.notes));
        assert!(witness.contains("it alone 470") && witness.contains(", all 420"), "{witness}");
    }
}

#[test]
fn sizes_that_differ_are_warned_of_and_noise_is_not() {
    let of = |mid, off| Estimate { mid, off };
    let cases = [
        ((-10.0, 1.0), (-30.0, 1.0), (-20.0, 1.5), Some(Warning::Less)),
        ((-30.0, 1.0), (-10.0, 1.0), (20.0, 1.5), Some(Warning::More)),
        ((-30.0, 1.0), (-25.0, 1.0), (5.0, 1.5), None),
        ((-30.0, 1.0), (0.2, 1.0), (30.2, 1.5), Some(Warning::Vanishes)),
        ((-10.0, 30.0), (10.0, 30.0), (20.0, 40.0), None),
    ];
    for (alone, beside, difference, expected) in cases {
        let pair = |(mid, off)| of(mid, off);
        assert_eq!(Warning::of(pair(alone), pair(beside), pair(difference)), expected);
    }
}
