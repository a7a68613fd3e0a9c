//! `wirespeed lab ethernet1988`: TCP between two workstations of 1988 on a ten-megabit Ethernet, in
//! virtual time, with each combination of the four steps that made it fast; and our stack on the
//! same wire.
//!
//! Called by: the lab.
//!
//! The report of 1988 names the changes and gives some throughputs. `world.rs` is a model of the
//! sockets, the TCP and the driver that were changed; `costs.rs` has the costs of their parts, from
//! the same report. So the report's figures can be compared with the model's, and the model shows
//! the combinations that were not reported.

mod cable;
mod costs;
mod ours;
mod results;
#[cfg(test)]
mod tests;
mod world;

use std::collections::VecDeque;

use clap::{ArgMatches, FromArgMatches};
use costs::{Costs, NAMES, OTHER_SOCKETS, STEPS, Steps};
use ours::Ours;
use world::{Counts, Job, World};

use crate::{Error, Report, Run};

/// Bytes that are transferred before the measurement begins.
const WARM_BYTES: u64 = 256 << 10;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    costs: Costs,
    /// Bytes of a transfer [default: 8 MB, with --quick 1 MB]
    #[arg(long, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(100_000..=1 << 30))]
    bytes: Option<u64>,
}

/// The hosts of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hosts {
    Of1988 {
        steps: Steps,
        buffer: u64,
        write: u64,
    },
    /// Our stack, with socket buffers of this many bytes, or with its default ones.
    Ours {
        buffer: Option<u64>,
    },
}

/// A row: the hosts, and the result of each seed.
struct Row {
    hosts: Hosts,
    runs: Vec<Counts>,
}

/// All rows, in the order of the table.
fn hosts(costs: &Costs) -> Vec<Hosts> {
    let mut steps: Vec<Steps> = (0..1 << STEPS).map(Steps::of).collect();
    // Order them from few steps to many.
    steps.sort_by_key(|steps| steps.flags().into_iter().filter(|on| *on).count());
    steps.push(Steps::folded());
    let (buffer, write) = (costs.buffer, costs.write);
    let with = |(buffer, write)| move |steps| Hosts::Of1988 { steps, buffer, write };
    let mut hosts: Vec<Hosts> = steps.iter().copied().map(with((buffer, write))).collect();
    // Sets of steps with published figures, and sets where only the sender is the limit.
    let is_told = |steps: &Steps| {
        let published = figure(*steps).is_some() && !steps.fold;
        published || (steps.in_place && !steps.queue && !steps.loops)
    };
    for sockets in OTHER_SOCKETS.into_iter().filter(|&sockets| sockets != (buffer, write)) {
        hosts.extend(steps.iter().copied().filter(is_told).map(with(sockets)));
    }
    hosts.extend([Some(buffer), None].map(|buffer| Hosts::Ours { buffer }));
    hosts
}

/// Measure all combinations.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let bytes = options.bytes.unwrap_or(if run.common.quick { 1_000_000 } else { 8_000_000 });
    let seeds = run.common.seeds(10, 3);
    let hosts = hosts(&options.costs);
    let cases: Vec<(Hosts, u64)> =
        hosts.iter().flat_map(|&hosts| seeds.clone().map(move |seed| (hosts, seed))).collect();
    let outcomes = run.each(&cases, |&(hosts, seed), stop| {
        if stop() {
            return Ok(None);
        }
        measure(hosts, &options.costs, bytes, seed).map(Some)
    })?;
    let mut outcomes = outcomes.into_iter();
    let count = cases.len() / hosts.len();
    let rows = hosts.into_iter().map(|hosts| {
        let runs = outcomes.by_ref().take(count).flatten().collect();
        Row { hosts, runs }
    });
    let rows: Vec<Row> = rows.collect();
    Ok(results::report(&rows, &options.costs, bytes, seeds))
}

/// Measure one transfer; its first [`WARM_BYTES`] do not count.
fn measure(hosts: Hosts, costs: &Costs, bytes: u64, seed: u64) -> Result<Counts, Error> {
    let (before, after) = match hosts {
        Hosts::Of1988 { steps, buffer, write } => {
            let mut world = World::new(Costs { buffer, write, ..*costs }, steps, seed);
            (world.run(WARM_BYTES), world.run(WARM_BYTES + bytes))
        }
        Hosts::Ours { buffer } => {
            let mut ours = Ours::new(buffer, seed)?;
            (ours.run(WARM_BYTES)?, ours.run(WARM_BYTES + bytes)?)
        }
    };
    Ok(Counts {
        now_ns: after.now_ns - before.now_ns,
        bytes: after.bytes - before.bytes,
        packets: after.packets - before.packets,
        busy_ns: [0, 1].map(|host| after.busy_ns[host].saturating_sub(before.busy_ns[host])),
        wire_ns: after.wire_ns - before.wire_ns,
        collisions: after.collisions - before.collisions,
    })
}

// The figures of the report of 1988, throughputs in KB (1,024 bytes) a second.
//
// V. Jacobson, "some interim notes on the bsd network speedups", July 1988.

/// The figure for a set of steps, if there is one.
///
/// The report gives figures for the system as delivered, for the step `unit` alone, for the times
/// before and after `m_pullup` was removed, and for the end. It does not say which other steps had
/// been made when `m_pullup` was removed; the last two sets here, which differ only in the hidden
/// copies, are those whose figures are closest.
fn figure(steps: Steps) -> Option<f64> {
    if steps.fold {
        return Some(1_000.0);
    }
    match steps.flags() {
        [false, false, false, false] => Some(380.0),
        [true, false, false, false] => Some(456.0),
        [true, false, true, true] => Some(600.0),
        [true, true, true, true] => Some(890.0),
        _ => None,
    }
}

/// The figure after the hidden copies were removed, and before the changes that led to 890.
const IN_PLACE: f64 = 750.0;
/// The figure that no change exceeded while the driver gave the LANCE one packet at a time.
const BARRIER: f64 = 550.0;
/// Throughput of the basic system, with a step A, with a step B, with both; the report does not
/// name the steps.
const INTERACTION: [f64; 4] = [600.0, 520.0, 530.0, 700.0];
/// Time of a packet in microseconds: at 10 Mb/s, and as it was measured.
const PACKET_US: (f64, f64) = (1_200.0, 1_500.0);
/// Use of the receiver's processor while the sender's is at 100 %.
const RECEIVER_PERCENT: (f64, f64) = (65.0, 70.0);

// The effects of the steps, alone and together, by a full factorial experiment, and the pairs of
// steps for which testing one at a time chooses wrong.

/// Throughputs of all combinations, in KB/s, indexed by the bits of [`costs::Steps::of`].
type Table = [f64; 1 << STEPS];

/// The mean change when a step is made, over all combinations of the other steps.
fn main_effect(table: &Table, step: usize) -> f64 {
    let signed = table.iter().enumerate();
    let sum: f64 = signed.map(|(bits, kb)| if bits & 1 << step != 0 { *kb } else { -kb }).sum();
    sum / (table.len() / 2) as f64
}

/// Half the difference of a step's effect with and without another: 0 if they do not interact.
fn interaction(table: &Table, (a, b): (usize, usize)) -> f64 {
    let sign = |bits: usize, step: usize| if bits & 1 << step != 0 { 1.0 } else { -1.0 };
    let signed = table.iter().enumerate();
    let sum: f64 = signed.map(|(bits, kb)| sign(bits, a) * sign(bits, b) * kb).sum();
    sum / (table.len() / 2) as f64
}

/// Two steps on a background: throughput without both, with each, with both.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    steps: (usize, usize),
    background: usize,
    kb: [f64; 4],
}

impl Pair {
    /// The gain of both steps together, less the gain of each alone.
    fn surplus(&self) -> f64 {
        let [basic, a, b, both] = self.kb;
        both - a - b + basic
    }

    /// Does testing one step at a time choose wrong? Such testing takes each step that is faster
    /// alone; it is wrong if the result is slower than the best of the four throughputs.
    fn is_a_lie(&self) -> bool {
        let [basic, a, b, both] = self.kb;
        // Smaller differences may be due to random back-off, and allow no conclusion.
        let slack = 0.02 * basic;
        let chosen = match (a > basic + slack, b > basic + slack) {
            (false, false) => basic,
            (true, false) => a,
            (false, true) => b,
            (true, true) => both,
        };
        self.kb.into_iter().fold(0.0, f64::max) > chosen + slack
    }

    fn names(&self) -> (&'static str, &'static str) {
        (NAMES[self.steps.0], NAMES[self.steps.1])
    }
}

/// All pairs of steps, each with every combination of the other steps.
fn pairs(table: &Table) -> Vec<Pair> {
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

/// The level at which a processor works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// A process.
    Process,
    /// A process that masks interrupts (`splnet`).
    Masked,
    /// An interrupt.
    Interrupt,
}

/// The nanoseconds that a job still takes, and the job.
type Work = (u64, Job);

/// The job that runs.
#[derive(Clone, Copy)]
struct Running {
    level: Level,
    job: Job,
    end: u64,
}

/// A processor.
#[derive(Default)]
struct Cpu {
    running: Option<Running>,
    /// Distinguishes the job that runs from the one that ran when an event was made.
    number: u64,
    is_scheduled: bool,
    interrupts: VecDeque<Work>,
    /// The work that the process does next or continues, and whether it masks interrupts.
    process: Option<(Work, bool)>,
    busy_ns: u64,
}

impl Cpu {
    /// An interrupt has come.
    fn interrupt(&mut self, cost: u64, job: Job, now: u64) {
        self.interrupts.push_back((cost, job));
        if let Some(running) = self.running.filter(|running| running.level == Level::Process) {
            let left = running.end.saturating_sub(now);
            self.busy_ns -= left;
            self.process = Some(((left, running.job), false));
            self.running = None;
        }
    }

    /// Add work that follows the present job, before anything else of its level.
    fn follow(&mut self, level: Level, cost: u64, job: Job) {
        match level {
            Level::Interrupt => self.interrupts.push_front((cost, job)),
            level => self.process = Some(((cost, job), level == Level::Masked)),
        }
    }

    /// Begin the next job if nothing runs. Returns when the running job ends, and its number, once
    /// for each job.
    fn next(&mut self, now: u64) -> Option<(u64, u64)> {
        if self.running.is_none() {
            let masked = self.process.filter(|(_, masks)| *masks);
            let (level, (cost, job)) = if let Some((work, _)) = masked {
                self.process = None;
                (Level::Masked, work)
            } else if let Some(work) = self.interrupts.pop_front() {
                (Level::Interrupt, work)
            } else {
                (Level::Process, self.process.take()?.0)
            };
            self.running = Some(Running { level, job, end: now + cost });
            self.busy_ns += cost;
            self.number += 1;
            self.is_scheduled = false;
        }
        if self.is_scheduled {
            return None;
        }
        self.is_scheduled = true;
        self.running.map(|running| (running.end, self.number))
    }

    /// End the job with this number. `None` if another job runs, or the job is not over yet.
    fn done(&mut self, number: u64, now: u64) -> Option<(Level, Job)> {
        let running = self.running.filter(|r| self.number == number && r.end <= now)?;
        self.running = None;
        Some((running.level, running.job))
    }
}
