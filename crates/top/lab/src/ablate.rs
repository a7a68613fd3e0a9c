//! `wirespeed lab ablate`: what each optimisation is worth, and what it is worth beside the others:
//! a factorial over the registry of switches.
//!
//! Called by: the lab. `design` chooses the combinations, `transfer` runs one, `report` has the
//! results. docs/decisions/0098-ablation.md has the reasons.
//!
//! A round runs every combination once, in an order drawn anew, so that disturbances of the machine
//! affect all of them alike. Each round gives one estimate of every effect; an interval is that of
//! the mean over the rounds.

mod design;
mod report;
mod transfer;

use base::Switch;
use clap::{ArgMatches, FromArgMatches};
use design::{Design, FACTORS_MAX};
use statrs::distribution::{ContinuousCDF, StudentsT};
use transfer::Transfer;

use crate::pool::Progress;
use crate::{Error, Report, Run};

/// The switches that are varied by default.
const USUAL: [Switch; 8] = [
    Switch::Predict,
    Switch::Follow,
    Switch::FusedSum,
    Switch::SimdSum,
    Switch::BurstAck,
    Switch::WriteUnits,
    Switch::Stamp,
    Switch::FlowCache,
];

/// Rounds.
const ROUNDS: u16 = 100;
const QUICK_ROUNDS: u16 = 30;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Switches to turn on and off, two to ten, joined by commas [default: predict, follow,
    /// fused-sum, simd-sum, burst-ack, write-units, stamp, flow-cache]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = switch)]
    switches: Vec<Switch>,
    /// What is measured of each segment
    #[arg(long, value_enum, default_value_t = Response::Ns)]
    response: Response,
    /// MTU of the link
    #[arg(long, value_name = "BYTES", default_value_t = 1_500,
          value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// Connections that take turns
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    flows: u16,
    /// How often every combination is run [default: 100, with --quick 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1_000))]
    rounds: Option<u16>,
    /// Run a fraction of the combinations, as --quick does
    #[arg(long)]
    fraction: bool,
}

fn switch(text: &str) -> Result<Switch, String> {
    Switch::ALL.iter().copied().find(|switch| switch.name() == text).ok_or_else(|| {
        let known: Vec<_> = Switch::ALL.iter().map(|switch| switch.name()).collect();
        format!("the switches are: {}", known.join(", "))
    })
}

/// The settings of a run.
struct Plan {
    switches: Vec<Switch>,
    design: Design,
    /// The combinations of the design, then those that only testing one switch at a time needs.
    points: Vec<u32>,
    response: Response,
    mtu: usize,
    flows: usize,
    rounds: usize,
    seed: u64,
}

impl Plan {
    fn of(options: &Options, run: &Run<'_>) -> Result<Plan, Error> {
        let mut switches = options.switches.clone();
        if switches.is_empty() {
            switches = USUAL.to_vec();
        }
        let distinct = switches.iter().enumerate().all(|(at, s)| !switches[..at].contains(s));
        if !(2..=FACTORS_MAX).contains(&switches.len()) || !distinct {
            let what = format!("--switches takes two to {FACTORS_MAX} different ones");
            return Err(Error::Usage(what));
        }
        let design = match run.common.quick || options.fraction {
            true => Design::fraction(switches.len()),
            false => Design::full(switches.len()),
        };
        let mut points = design.points.clone();
        for point in one_at_a_time(switches.len()) {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        let rounds = if run.common.quick { QUICK_ROUNDS } else { ROUNDS };
        Ok(Plan {
            switches,
            design,
            points,
            response: options.response,
            mtu: usize::from(options.mtu),
            flows: usize::from(options.flows),
            rounds: usize::from(options.rounds.unwrap_or(rounds)),
            seed: run.common.first_seed,
        })
    }

    /// All switches.
    fn all(&self) -> u32 {
        (1 << self.switches.len()) - 1
    }

    /// The place of a combination in a round.
    fn place(&self, point: u32) -> Option<usize> {
        self.points.iter().position(|other| *other == point)
    }

    /// The names of switches, joined.
    fn name(&self, mask: u32) -> String {
        let chosen = self.switches.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
        chosen.map(|(_, switch)| switch.name()).collect::<Vec<_>>().join(" x ")
    }
}

/// The combinations of testing one at a time: no switch, each alone, all but each, all.
fn one_at_a_time(factors: usize) -> Vec<u32> {
    let all = (1_u32 << factors) - 1;
    let each = (0..factors).flat_map(|bit| [1 << bit, all & !(1 << bit)]);
    [0, all].into_iter().chain(each).collect()
}

/// A random order of `count` things from a seed (splitmix64, Fisher-Yates shuffle).
fn order(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (draw() % (last as u64 + 1)) as usize);
    }
    order
}

/// Run all rounds. The report has only rounds that ran to their end.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let plan = Plan::of(&options, run)?;
    let mut meter = Meter::new(plan.response)?;
    let mut transfer = Transfer::new(plan.mtu, plan.flows)?;
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    let mut progress = Progress::new(plan.rounds * plan.points.len());
    // The first round warms the machine up and does not count.
    for round in 0..=plan.rounds {
        let mut values = vec![0.0; plan.points.len()];
        let order = order(plan.points.len(), plan.seed ^ (round as u64) << 32);
        for (done, index) in order.into_iter().enumerate() {
            if run.is_stopped() {
                return Ok(report::report(&plan, &rounds));
            }
            values[index] = transfer.measure(&plan.switches, plan.points[index], &mut meter)?;
            progress.at(round.saturating_sub(1) * plan.points.len() + done);
        }
        if round > 0 {
            rounds.push(values);
        }
    }
    Ok(report::report(&plan, &rounds))
}

/// The confidence with which all intervals of a family hold together.
const CONFIDENCE: f64 = 0.95;

/// A mean, and half the width of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    mid: f64,
    off: f64,
}

impl Estimate {
    /// The estimate from one value a round; `family` intervals hold together (Bonferroni). `None`
    /// for fewer than two rounds.
    fn of(values: &[f64], family: usize) -> Option<Estimate> {
        let n = values.len() as f64;
        if values.len() < 2 {
            return None;
        }
        let mid = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mid).powi(2)).sum::<f64>() / (n - 1.0);
        let student = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
        let t = student.inverse_cdf(1.0 - (1.0 - CONFIDENCE) / (2.0 * family.max(1) as f64));
        Some(Estimate { mid, off: t * (variance / n).sqrt() })
    }

    /// Is 0 outside of the interval?
    fn is_clear(self) -> bool {
        self.mid.abs() > self.off
    }
}

/// The values of `--response`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Response {
    /// Processor time.
    Ns,
    /// Instructions of the program, which the processor counts (Linux).
    Instructions,
}

impl Response {
    /// The unit of a value.
    fn unit(self) -> &'static str {
        match self {
            Response::Ns => "ns",
            Response::Instructions => "instructions",
        }
    }
}

/// A counter that runs between `start` and `stop`.
enum Meter {
    Time(f64),
    #[cfg(target_os = "linux")]
    Instructions(Box<perf_event::Counter>),
}

impl Meter {
    /// # Errors
    /// The processor or the system does not let this program count.
    fn new(response: Response) -> Result<Meter, Error> {
        match response {
            Response::Ns => Ok(Meter::Time(0.0)),
            #[cfg(target_os = "linux")]
            Response::Instructions => {
                let event = perf_event::events::Hardware::INSTRUCTIONS;
                let counter = perf_event::Builder::new(event).build().map_err(|e| lacking(&e))?;
                Ok(Meter::Instructions(Box::new(counter)))
            }
            #[cfg(not(target_os = "linux"))]
            Response::Instructions => Err(lacking(&std::io::ErrorKind::Unsupported.into())),
        }
    }

    fn start(&mut self) -> Result<(), Error> {
        match self {
            Meter::Time(begun) => *begun = time_ns(),
            #[cfg(target_os = "linux")]
            Meter::Instructions(counter) => {
                counter.reset().and_then(|()| counter.enable()).map_err(|e| lacking(&e))?;
            }
        }
        Ok(())
    }

    /// The amount used since `start`.
    fn stop(&mut self) -> Result<f64, Error> {
        match self {
            Meter::Time(begun) => Ok(time_ns() - *begun),
            #[cfg(target_os = "linux")]
            Meter::Instructions(counter) => {
                counter.disable().map_err(|e| lacking(&e))?;
                counter.read().map(|count| count as f64).map_err(|e| lacking(&e))
            }
        }
    }
}

fn lacking(error: &std::io::Error) -> Error {
    Error::Failed(format!(
        "this machine does not count instructions for this program ({error}). Virtual machines \
         often have no counters. On real hardware try 'sysctl kernel.perf_event_paranoid=2'. \
         --response ns needs no counters"
    ))
}

/// Processor time of this thread.
#[cfg(target_os = "linux")]
fn time_ns() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// On other systems, wall time.
#[cfg(not(target_os = "linux"))]
fn time_ns() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_everything_once_and_differs() {
        let sorted = |mut order: Vec<usize>| {
            order.sort_unstable();
            order
        };
        assert_eq!(sorted(order(100, 1)), (0..100).collect::<Vec<_>>());
        assert_ne!(order(100, 1), order(100, 2));
    }

    #[test]
    fn one_at_a_time_needs_two_combinations_a_switch_and_two() {
        assert_eq!(one_at_a_time(3), [0, 7, 1, 6, 2, 5, 4, 3]);
    }

    #[test]
    fn an_interval_is_that_of_the_books() {
        // Five values, mean 3, standard deviation 1.5811. 2.776 is Student's t for 4 degrees of
        // freedom and 95 %.
        let one = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 1).expect("five");
        assert!(
            (one.mid - 3.0).abs() < 1e-12
                && (one.off - 2.776 * 1.5811 / 5.0_f64.sqrt()).abs() < 1e-3
        );
        // A family of five intervals: each has 99 %, for which t is 4.604.
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 5).expect("five");
        assert!((five.off / one.off - 4.604 / 2.776).abs() < 1e-3);
        assert!(one.is_clear() && Estimate::of(&[1.0], 1).is_none());
    }
}
