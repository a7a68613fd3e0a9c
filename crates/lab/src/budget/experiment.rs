//! The experiment: rounds with samples and rounds without, in turn, over roles and sizes.
//!
//! Called by: the lab and the benchmarks.

use std::time::Duration;

use clap::{ArgMatches, FromArgMatches};

use super::code::Code;
use super::counted::{self, Counted};
use super::results;
use super::round::{Costs, Round, round};
use super::sampler::{Event, Pace, Sampler};
use super::work::{Role, SIZES, Work};
use super::{Options, Stage};
use crate::progress::Progress;
use crate::report::Report;
use crate::{Error, Run};

/// Packets of a role and a size, and what they cost in each round.
pub(super) struct Case {
    pub(super) role: Role,
    /// Bytes of a packet, with its IP header.
    pub(super) size: usize,
    /// ns a packet by the clock, of rounds without samples.
    pub(super) clock_ns: Vec<f64>,
    /// Cost a packet by stage, of rounds with samples.
    pub(super) sampled: Vec<Costs>,
}

impl Case {
    /// The stages' ns together, of each round with samples.
    pub(super) fn sums_ns(&self) -> impl Iterator<Item = f64> + '_ {
        self.sampled.iter().map(|costs| costs[Event::Time as usize].iter().sum())
    }

    /// The stages together over the clock, in the round with samples and that beside it.
    pub(super) fn ratios(&self) -> Vec<f64> {
        self.sums_ns().zip(&self.clock_ns).map(|(sum, clock)| sum / clock).collect()
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
}

/// Bytes that the kernel keeps for a round: some 100 a sample.
const RING_BYTES: usize = 1 << 20;

/// Samples a second, between which an interrupt is still rare.
const HZ: std::ops::RangeInclusive<u64> = 10..=20_000;

/// Those of [`sums`], the default of the experiment.
const HZ_SUMS: u64 = 499;

/// Measure all.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    if options.counted {
        counted::work()?;
        return Ok(Report::default());
    }
    let seconds = options.seconds.unwrap_or(if run.common.quick { 0.1 } else { 0.2 });
    if !(0.02..=5.0).contains(&seconds) {
        return Err(Error::Usage("--seconds takes 0.02 to 5".to_owned()));
    }
    if !HZ.contains(&options.hz) {
        return Err(Error::Usage("--hz takes 10 to 20000".to_owned()));
    }
    let rounds = if run.common.quick { 4 } else { 15 };
    let mut measured = measure(rounds, seconds, options.hz, &|| run.is_stopped())?;
    let has_instructions = measured.events.contains(&Event::Instructions);
    if !has_instructions && measured.refused.is_none() && !run.is_stopped() {
        let sizes: &[usize] = if run.common.quick { &[116, 1_500, 9_000] } else { &SIZES };
        let counted = counted::count(sizes, &|| run.is_stopped());
        measured.counted = Some(counted.map_err(|error| error.to_string()));
    }
    Ok(results::report(&measured))
}

/// Two kinds of work at all sizes, `rounds` times with samples and as often without.
fn measure(
    rounds: usize,
    seconds: f64,
    hz: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Measured, Error> {
    let case = |role, size| Case { role, size, clock_ns: Vec::new(), sampled: Vec::new() };
    let mut measured = Measured {
        cases: Role::ALL.iter().flat_map(|&role| SIZES.map(|size| case(role, size))).collect(),
        rounds,
        seconds,
        hz,
        samples: 0,
        lost: 0,
        events: Vec::new(),
        refused: None,
        counted: None,
    };
    if stop() {
        return Ok(measured);
    }
    let mut sampling = match sampling(hz) {
        Ok(sampling) => Some(sampling),
        Err(error) => {
            measured.refused = Some(error.to_string());
            None
        }
    };
    if let Some((sampler, _)) = &sampling {
        measured.events = sampler.events().collect();
    }
    let kinds = [Role::Sender, Role::Forwarder];
    let all = kinds.iter().flat_map(|&role| SIZES.map(|size| (role, size)));
    let mut works = Vec::new();
    for (role, size) in all {
        let mut work = Work::new(role, size)?;
        work.warm_up()?;
        works.push((size, work));
    }
    let mut progress = Progress::new(rounds * works.len());
    let length = Duration::from_secs_f64(seconds);
    let mut marks = Vec::new();
    for at in 0..rounds {
        for (done, (size, work)) in works.iter_mut().enumerate() {
            progress.at(at * 2 * SIZES.len() + done);
            let mut pair = [at % 2 == 0, at % 2 == 1];
            if sampling.is_none() {
                pair = [false; 2];
            }
            for is_sampled in pair {
                if stop() {
                    return Ok(measured);
                }
                let sampled = sampling.as_mut().filter(|_| is_sampled);
                let sampled = sampled.map(|(sampler, code)| (sampler, code));
                let round = round(work, length, sampled, &mut marks)?;
                measured.take(*size, round, is_sampled);
            }
        }
    }
    measured.lost = sampling.map_or(0, |(sampler, _)| sampler.lost());
    Ok(measured)
}

impl Measured {
    fn take(&mut self, size: usize, round: Round, is_sampled: bool) {
        self.samples += round.samples;
        for (role, cost) in Role::ALL.into_iter().zip(round.costs) {
            let mut cases = self.cases.iter_mut();
            let case = cases.find(|case| case.role == role && case.size == size);
            if let (Some(case), Some(cost)) = (case, cost) {
                match is_sampled {
                    true => case.sampled.push(cost.stages),
                    false => case.clock_ns.push(cost.clock_ns),
                }
            }
        }
    }
}

/// A sampler of this thread, and its code.
fn sampling(hz: u64) -> Result<(Sampler, Code), Error> {
    let code = Code::of(None)?;
    let mut sampler = Sampler::new(Pace { hz, ring_bytes: RING_BYTES });
    sampler.add(0, &Event::ALL, false)?;
    Ok((sampler, code))
}

/// The stages' sum beside the clock.
#[derive(Clone, Debug)]
pub struct Sum {
    /// Whose.
    pub role: Role,
    /// Bytes of a packet, with its IP header.
    pub bytes: usize,
    /// The sum over the clock's figure, in each pair of rounds.
    pub ratios: Vec<f64>,
    /// ns a packet by the clock, in each round without samples.
    pub clock_ns: Vec<f64>,
    /// Share of the sum that is code of no stage.
    pub rest: f64,
}

/// The stages' sums beside the clock, of all roles and sizes.
///
/// # Errors
/// If nothing can be sampled.
pub fn sums(rounds: usize, seconds: f64) -> Result<Vec<Sum>, Error> {
    let measured = measure(rounds, seconds, HZ_SUMS, &|| false)?;
    if let Some(why) = measured.refused {
        return Err(Error::Failed(why));
    }
    let rest = |case: &Case| {
        let of = |costs: &Costs| costs[Event::Time as usize][Stage::Other as usize];
        case.sampled.iter().map(of).sum::<f64>() / case.sums_ns().sum::<f64>()
    };
    let sum = |case: &Case| Sum {
        role: case.role,
        bytes: case.size,
        ratios: case.ratios(),
        clock_ns: case.clock_ns.clone(),
        rest: rest(case),
    };
    Ok(measured.cases.iter().map(sum).collect())
}
