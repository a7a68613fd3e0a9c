//! What was measured: the cost of a packet in each round, by role, size and stage.
//!
//! Called by: `experiment.rs`, which takes the rounds; `results`, which reports.

use profile::Event;

use super::counted::Counted;
use super::round::{Costs, Round};
use super::work::Role;

/// Packets of a role and a size, and what they cost in each round.
pub(super) struct Case {
    pub(super) role: Role,
    /// Bytes of a packet, with its IP header.
    pub(super) size: usize,
    /// ns a packet of rounds without samples.
    pub(super) unsampled_ns: Vec<f64>,
    /// ns a packet of rounds with samples, by the clock.
    pub(super) clock_ns: Vec<f64>,
    /// Cost a packet of the same rounds, by stage.
    pub(super) sampled: Vec<Costs>,
}

impl Case {
    pub(super) fn new((role, size): (Role, usize)) -> Case {
        let (unsampled_ns, clock_ns) = (Vec::new(), Vec::new());
        Case { role, size, unsampled_ns, clock_ns, sampled: Vec::new() }
    }

    /// The stages' ns together, of each round with samples.
    pub(super) fn sums_ns(&self) -> impl Iterator<Item = f64> + '_ {
        self.sampled.iter().map(|costs| costs[Event::Time as usize].iter().sum())
    }

    /// The stages together over the clock, in each round with samples.
    pub(super) fn ratios(&self) -> Vec<f64> {
        self.sums_ns().zip(&self.clock_ns).map(|(sum, clock)| sum / clock).collect()
    }

    /// The same of all rounds together: a round has few samples.
    pub(super) fn ratio(&self) -> Option<f64> {
        let clock: f64 = self.clock_ns.iter().sum();
        (clock > 0.0).then(|| self.sums_ns().sum::<f64>() / clock)
    }

    /// What the samples add to the cost, as a share of it, in each pair of rounds.
    pub(super) fn added(&self) -> Vec<f64> {
        let pairs = self.clock_ns.iter().zip(&self.unsampled_ns);
        pairs.map(|(with, without)| with / without - 1.0).collect()
    }
}

/// All that was measured.
pub(super) struct Measured {
    pub(super) cases: Vec<Case>,
    /// Rounds that were asked for, with and without samples.
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    pub(super) hz: u64,
    pub(super) samples: u64,
    pub(super) lost: u64,
    /// What was sampled; none if nothing could be.
    pub(super) events: Vec<Event>,
    /// Why nothing could be sampled.
    pub(super) refused: Option<String>,
    /// Instructions counted by a simulator, if the processor does not count them.
    pub(super) counted: Option<Result<Vec<Counted>, String>>,
}

impl Measured {
    pub(super) fn case(&self, role: Role, size: usize) -> Option<&Case> {
        self.cases.iter().find(|case| case.role == role && case.size == size)
    }

    pub(super) fn take(&mut self, size: usize, round: Round, is_sampled: bool) {
        self.samples += round.samples;
        for (role, cost) in Role::ALL.into_iter().zip(round.costs) {
            let mut cases = self.cases.iter_mut();
            let case = cases.find(|case| case.role == role && case.size == size);
            if let (Some(case), Some(cost)) = (case, cost) {
                match is_sampled {
                    true => {
                        case.clock_ns.push(cost.clock_ns);
                        case.sampled.push(cost.stages);
                    }
                    false => case.unsampled_ns.push(cost.clock_ns),
                }
            }
        }
    }
}
