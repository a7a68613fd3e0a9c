//! The experiment: rounds with samples and rounds without samples alternate, for each role and size
//! of packet.
//!
//! Called by: the lab and the benchmarks. `work` has the work that is measured, `round` runs it for
//! a part of a second; `counted` counts instructions with a simulator; `results` draws the
//! conclusions.

mod counted;
mod results;
mod round;
mod work;

use std::time::Duration;

use clap::{ArgMatches, FromArgMatches};
use counted::Counted;
use profile::{Code, Event, Mean, Pace, Sampler, Stage};
use round::{Costs, Round, failed, round};
pub use work::Role;
use work::{SIZES, Work};

use super::Options;
use crate::pool::Progress;
use crate::report::Report;
use crate::tap::fit::student;
use crate::{Error, Run};

/// Bytes of the kernel's buffer for the samples of a round; a sample takes about 100.
const RING_BYTES: usize = 1 << 20;

/// The rates that may be asked for, in samples a second. At these rates the samples' interrupts are
/// still rare.
const HZ: std::ops::RangeInclusive<u64> = 10..=20_000;

/// Samples a second for [`sums`]: the default of the experiment.
const HZ_SUMS: u64 = 499;

/// Run the whole experiment.
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
    let mut measured = measure(&SIZES, rounds, seconds, options.hz, &|| run.is_stopped())?;
    let has_instructions = measured.events.contains(&Event::Instructions);
    if !has_instructions && measured.refused.is_none() && !run.is_stopped() {
        let sizes: &[usize] = if run.common.quick { &[116, 1_500, 9_000] } else { &SIZES };
        let counted = counted::count(sizes, &|| run.is_stopped());
        measured.counted = Some(counted.map_err(|error| error.to_string()));
    }
    Ok(results::report(&measured))
}

/// Measure both kinds of work (two ends, a router) at these sizes, `rounds` times with samples and
/// as often without.
fn measure(
    sizes: &[usize],
    rounds: usize,
    seconds: f64,
    hz: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Measured, Error> {
    let of_all = |roles: &[Role]| -> Vec<(Role, usize)> {
        roles.iter().flat_map(|&role| sizes.iter().map(move |&size| (role, size))).collect()
    };
    let mut measured = Measured {
        cases: of_all(&Role::ALL).into_iter().map(Case::new).collect(),
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
    let mut works = Vec::new();
    for (role, size) in of_all(&[Role::Sender, Role::Forwarder]) {
        let mut work = Work::new(role, size)?;
        work.warm_up()?;
        works.push((size, work));
    }
    let kinds = works.len();
    let mut progress = Progress::new(rounds * kinds);
    let length = Duration::from_secs_f64(seconds);
    let mut marks = Vec::new();
    for at in 0..rounds {
        for (done, (size, work)) in works.iter_mut().enumerate() {
            progress.at(at * kinds + done);
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

/// A sampler of this thread, and the program's code with its stages.
fn sampling(hz: u64) -> Result<(Sampler, Code), Error> {
    let code = Code::of(None).map_err(failed)?;
    let mut sampler = Sampler::new(Pace { hz, ring_bytes: RING_BYTES });
    sampler.add(0, &Event::ALL, false).map_err(failed)?;
    Ok((sampler, code))
}

/// The sum of a role's stages, compared with the clock.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The role whose stages these are.
    pub role: Role,
    /// Bytes of a packet, with its IP header.
    pub bytes: usize,
    /// The sum of the stages divided by the thread's processor time by the clock, over all rounds.
    pub ratio: f64,
    /// The same in each round.
    pub ratios: Vec<f64>,
    /// Samples of all roles at all sizes.
    pub samples: u64,
    /// The cost that the samples add, as a share of the whole, by pairs of rounds with and without
    /// samples.
    pub added: Vec<f64>,
    /// The share of the sum that is in code of no stage.
    pub rest: f64,
}

/// The sum of the stages compared with the clock, for each role, with packets of one of the
/// experiment's sizes.
///
/// # Errors
/// If nothing can be sampled.
pub fn sums(bytes: usize, rounds: usize, seconds: f64) -> Result<Vec<Sum>, Error> {
    let measured = measure(&[bytes], rounds, seconds, HZ_SUMS, &|| false)?;
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
        ratio: case.ratio().unwrap_or(0.0),
        ratios: case.ratios(),
        samples: measured.samples,
        added: case.added(),
        rest: rest(case),
    };
    Ok(measured.cases.iter().map(sum).collect())
}

/// The mean of single values; `None` if there are none. The interval of one value alone is
/// infinite.
fn of(values: &[f64]) -> Option<Mean> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let value = values.iter().sum::<f64>() / n as f64;
    if n == 1 {
        return Some(Mean { value, off: f64::INFINITY });
    }
    let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some(Mean { value, off: student(n - 1) * (variance / n as f64).sqrt() })
}

/// The cost of packets in each round, for one role and one size.
struct Case {
    role: Role,
    /// Bytes of a packet, with its IP header.
    size: usize,
    /// ns a packet in rounds without samples.
    unsampled_ns: Vec<f64>,
    /// ns a packet in rounds with samples, by the clock.
    clock_ns: Vec<f64>,
    /// Cost a packet in the same rounds, by stage.
    sampled: Vec<Costs>,
}

impl Case {
    fn new((role, size): (Role, usize)) -> Case {
        let (unsampled_ns, clock_ns) = (Vec::new(), Vec::new());
        Case { role, size, unsampled_ns, clock_ns, sampled: Vec::new() }
    }

    /// The sum of the stages in ns, for each round with samples.
    fn sums_ns(&self) -> impl Iterator<Item = f64> + '_ {
        self.sampled.iter().map(|costs| costs[Event::Time as usize].iter().sum())
    }

    /// The sum of the stages divided by the clock's time, for each round with samples.
    fn ratios(&self) -> Vec<f64> {
        self.sums_ns().zip(&self.clock_ns).map(|(sum, clock)| sum / clock).collect()
    }

    /// The same ratio over all rounds: a single round has few samples.
    fn ratio(&self) -> Option<f64> {
        let clock: f64 = self.clock_ns.iter().sum();
        (clock > 0.0).then(|| self.sums_ns().sum::<f64>() / clock)
    }

    /// The cost that the samples add, as a share of the whole, in each pair of rounds.
    fn added(&self) -> Vec<f64> {
        let pairs = self.clock_ns.iter().zip(&self.unsampled_ns);
        pairs.map(|(with, without)| with / without - 1.0).collect()
    }
}

/// All that was measured.
struct Measured {
    cases: Vec<Case>,
    /// Rounds that were asked for, with and without samples.
    rounds: usize,
    seconds: f64,
    hz: u64,
    samples: u64,
    lost: u64,
    /// The events that were sampled; empty if none could be.
    events: Vec<Event>,
    /// Why nothing could be sampled.
    refused: Option<String>,
    /// Instructions that a simulator counted, if the processor does not count them.
    counted: Option<Result<Vec<Counted>, String>>,
}

impl Measured {
    fn case(&self, role: Role, size: usize) -> Option<&Case> {
        self.cases.iter().find(|case| case.role == role && case.size == size)
    }

    fn take(&mut self, size: usize, round: Round, is_sampled: bool) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_interval_of_the_books() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]).map(|m| (m.value, m.off)), Some((3.0, f64::INFINITY)));
        // The standard error is 1 / sqrt 3; Student's t for two degrees of freedom is 4.303.
        let mean = of(&[1.0, 2.0, 3.0]).expect("three");
        assert!((mean.value - 2.0).abs() < 1e-9 && (mean.off - 2.4843).abs() < 1e-3, "{mean:?}");
    }
}
