//! What the steps do, alone and together: effects of a full factorial experiment, and pairs of
//! steps of which testing one at a time chooses the wrong ones.
//!
//! Called by: the report of the experiment.

use super::costs::{NAMES, STEPS};

/// Throughputs of all combinations, in KB/s, by the bits of [`super::costs::Steps::of`].
pub(super) type Table = [f64; 1 << STEPS];

/// The mean change when a step is made, over all combinations of the others.
pub(super) fn main_effect(table: &Table, step: usize) -> f64 {
    let signed = table.iter().enumerate();
    let sum: f64 = signed.map(|(bits, kb)| if bits & 1 << step != 0 { *kb } else { -kb }).sum();
    sum / (table.len() / 2) as f64
}

/// Half the difference of a step's effect with and without another: 0 if they do not interact.
pub(super) fn interaction(table: &Table, (a, b): (usize, usize)) -> f64 {
    let sign = |bits: usize, step: usize| if bits & 1 << step != 0 { 1.0 } else { -1.0 };
    let signed = table.iter().enumerate();
    let sum: f64 = signed.map(|(bits, kb)| sign(bits, a) * sign(bits, b) * kb).sum();
    sum / (table.len() / 2) as f64
}

/// Two steps on a background: throughput without both, with each, with both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) steps: (usize, usize),
    pub(super) background: usize,
    pub(super) kb: [f64; 4],
}

impl Pair {
    /// What both bring more than each alone together.
    pub(super) fn surplus(&self) -> f64 {
        let [basic, a, b, both] = self.kb;
        both - a - b + basic
    }

    /// Does testing one at a time choose wrong? Each step is taken that is faster alone; what comes
    /// of that is slower than the best of the four.
    pub(super) fn is_a_lie(&self) -> bool {
        let [basic, a, b, both] = self.kb;
        // Of differences of the back-off no conclusion is drawn.
        let slack = 0.02 * basic;
        let chosen = match (a > basic + slack, b > basic + slack) {
            (false, false) => basic,
            (true, false) => a,
            (false, true) => b,
            (true, true) => both,
        };
        self.kb.into_iter().fold(0.0, f64::max) > chosen + slack
    }

    pub(super) fn names(&self) -> (&'static str, &'static str) {
        (NAMES[self.steps.0], NAMES[self.steps.1])
    }
}

/// All pairs on all backgrounds.
pub(super) fn pairs(table: &Table) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for a in 0..STEPS {
        for b in a + 1..STEPS {
            for background in (0..table.len()).filter(|bits| bits & (1 << a | 1 << b) == 0) {
                let of = |more: usize| table[background | more];
                let kb = [of(0), of(1 << a), of(1 << b), of(1 << a | 1 << b)];
                pairs.push(Pair { steps: (a, b), background, kb });
            }
        }
    }
    pairs
}
