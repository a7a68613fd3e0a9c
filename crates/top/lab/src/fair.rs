//! `wirespeed lab fair`: two or more flows share a queue. The experiment measures how they divide
//! the rate, with each congestion control: flows of our stack in virtual time, flows of Linux with
//! ours or with other flows of Linux in real time.
//!
//! Called by: the lab. `contest` has the types of flows and path, `pairing` parses the flows and
//! the path from the command line, `real::shared` runs them in real time.

mod pairing;
#[cfg(test)]
mod tests;

use base::Instant;
use clap::{ArgMatches, FromArgMatches};
use serde_json::{Value, json};

use crate::contest::{Contest, Flow, Outcome, Whose};
use crate::figures::{Figures, ends};
use crate::plot::{Lines, Plot, Series, Strip};
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::{Error, Run};
use pairing::{Choice, Pairing};

/// Number of seeds, and thus runs, of a pairing: usually, with `--quick`, and with Linux.
const SEEDS: (u64, u64, u64) = (5, 1, 3);
/// Seconds of a run in virtual time (usually, with `--quick`), and the same in real time.
const SECONDS: [(u64, u64); 2] = [(120, 60), (120, 6)];
/// How often a run is repeated because the emulator of the link paused for too long: usually, and
/// with `--quick`.
#[cfg(target_os = "linux")]
const AGAIN: (u32, u32) = (5, 0);

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Length of a run in seconds, from the beginning of the last flow on; in virtual time, or in
    /// real time if Linux takes part [default: 120]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
}

const COLUMNS: &[Column] = &[
    column("path", "", "", Format::Heading),
    column("flows", "flows", "", Format::Text),
    column("first_mbps", "first Mb/s", "Mb/s of payload, median", Format::Number(2)),
    column("second_mbps", "second Mb/s", "Mb/s of payload, median", Format::Number(2)),
    column("ratio", "first / second", "goodput / goodput, median", Format::Number(2)),
    column("ratio_min", "min", "goodput / goodput", Format::Number(2)),
    column("ratio_max", "max", "goodput / goodput", Format::Number(2)),
    column("imbalance", "larger / smaller", "goodput / goodput, median", Format::Number(2)),
    column("fairness", "Jain", "Jain's index of the flows, median", Format::Number(3)),
    column("share", "share", "of rate x 1448/1500, all flows, median", Format::Number(3)),
    column("queue_drops", "queue drops", "packets, median", Format::Number(0)),
    column("void", "void", "runs that were repeated because of a pause", Format::Hidden),
    column("pause_ms", "", "ms, the longest pause of the emulator", Format::Hidden),
    column("stagger_s", "", "s", Format::Hidden),
    column("seeds", "", "seeds", Format::Hidden),
];

/// A run of a pairing.
struct Sample<'a> {
    pairing: &'a Pairing,
    seed: u64,
    contest: Contest,
    outcome: Outcome,
}

/// Run the pairings.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let quick = run.common.quick;
    let pairings = options.choice.pairings(quick);
    let in_real_time = pairings.iter().any(Pairing::has_linux);
    let seeds = run.common.seeds(if in_real_time { SEEDS.2 } else { SEEDS.0 }, SEEDS.1);
    let contest = |pairing: &Pairing, seed: u64| {
        let (usual, short) = SECONDS[usize::from(pairing.has_linux())];
        let seconds = options.seconds.unwrap_or(if quick { short } else { usual });
        options.choice.contest(pairing, seconds, seed)
    };
    // All pairings with the first seed, then all with the next: an early stop leaves some of each.
    let runs: Vec<(&Pairing, u64)> =
        seeds.clone().flat_map(|seed| pairings.iter().map(move |p| (p, seed))).collect();
    let outcomes = run.each(&runs, |&(pairing, seed), stop| {
        let contest = contest(pairing, seed);
        match pairing.has_linux() {
            true => in_real(&contest, quick, stop),
            false => in_virtual(&contest, stop),
        }
    })?;
    let whole = runs.iter().zip(outcomes).filter_map(|(&(pairing, seed), outcome)| {
        let contest = contest(pairing, seed);
        Some(Sample { pairing, seed, contest, outcome: outcome? })
    });
    let samples: Vec<Sample<'_>> = whole.collect();
    Ok(report(&options, run, &pairings, &samples))
}

#[cfg(target_os = "linux")]
fn in_real(
    contest: &Contest,
    quick: bool,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Outcome>, Error> {
    crate::real::shared::measure(contest, if quick { AGAIN.1 } else { AGAIN.0 }, stop)
}

#[cfg(not(target_os = "linux"))]
fn in_real(_: &Contest, _: bool, _: &(dyn Fn() -> bool + Sync)) -> Result<Option<Outcome>, Error> {
    Err(Error::Usage("flows of Linux run only on Linux: choose flows without linux-".to_owned()))
}

/// Virtual time between two checks of `stop`.
const LOOK: base::Duration = base::Duration::from_millis(100);

/// Run a contest of our flows; `None` if it was stopped.
pub fn in_virtual(
    contest: &Contest,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Outcome>, Error> {
    let starts = contest.starts();
    let flows = contest.flows.iter().zip(&starts);
    let flows = flows.map(|(flow, &at)| (flow.algorithm, Instant::ZERO + at));
    let mut world = sim::goodput::world_of(&contest.path, flows);
    let count = contest.flows.len();
    let mut looks = vec![(0.0, vec![0; count])];
    let mut now = Instant::ZERO;
    for moment in contest.looks() {
        while now < Instant::ZERO + moment {
            if stop() {
                return Ok(None);
            }
            now = (now + LOOK).min(Instant::ZERO + moment);
            world.run_until(now).map_err(|violation| {
                let seed = contest.path.seed;
                Error::Failed(format!("seed {seed}: {violation}. This is a defect of the stack"))
            })?;
        }
        let bytes = (0..count).map(|flow| world.received(flow)).collect();
        looks.push((moment.as_secs_f64(), bytes));
    }
    Ok(Some(contest.outcome(&looks, *world.link_counts(0))))
}

fn report(
    options: &Options,
    run: &Run<'_>,
    pairings: &[Pairing],
    samples: &[Sample<'_>],
) -> Report {
    let of = |p: &Pairing| samples.iter().filter(|s| s.pairing == p).collect::<Vec<_>>();
    let notes = vec![
        "Goodput: the bytes that programs received after the last flow had begun. Each flow begins \
         up to one round trip after its time, by the seed. With Linux each sender has a host and a \
         device of its own; flows of ours alone share a host. MTU 1500, default settings."
            .to_owned(),
    ];
    let unmeasured = pairings.iter().filter(|pairing| of(pairing).is_empty()).count();
    let mut notes = with_missing(notes, unmeasured, pairings.len(), "pairings");
    if pairings.iter().any(Pairing::has_linux) {
        notes.push(
            "In real time, over the link of `wirespeed wire`, to a sink of Linux; Linux's BBR is \
             version 1; its reno recovers with SACK as our newreno does. Runs in which the \
             emulator paused for more than 5 ms are repeated."
                .to_owned(),
        );
    }
    let mut columns = COLUMNS.to_vec();
    for column in &mut columns {
        if column.key == "void" && samples.iter().any(|s| s.outcome.void > 0) {
            column.format = Format::Number(0);
        }
    }
    let rows: Vec<_> = pairings.iter().map(|p| row(&options.choice, p, &of(p))).collect();
    Report {
        settings: json!({
            "path": options.choice.path_name(),
            "stagger_s": options.choice.stagger.as_secs_f64(),
            "seconds": samples.first().map(|s| s.contest.path.length.as_secs_f64()),
            "first_seed": run.common.first_seed,
            "jobs": run.common.jobs(),
            "quick": run.common.quick,
            "mtu_bytes": 1500,
        }),
        shows: shows(&Figures::of(&columns, &rows)),
        columns,
        rows,
        fits: Vec::new(),
        samples: samples.iter().map(sample).collect(),
        notes,
        plot: Some(Plot::Lines(lines(&options.choice, pairings, samples))),
    }
}

/// Sentences about the figures: the pairing with the most even shares and the one with the least
/// even, and the share of the path that all flows of a pairing use together.
fn shows(figures: &Figures<'_>) -> Vec<String> {
    let mut said = Vec::new();
    if let Some([(even, first), (uneven, last)]) = ends(figures.rows(), "imbalance") {
        said.push(match first.text("flows") == last.text("flows") {
            true => format!(
                "Of two flows, {}, the larger gets {even:.2} times what the smaller gets.",
                first.text("flows")
            ),
            false => format!(
                "The queue is shared most evenly by {}, where the larger flow gets {even:.2} times \
                 what the smaller gets, and least evenly by {}, with {uneven:.2} times.",
                first.text("flows"),
                last.text("flows")
            ),
        });
    }
    if let Some([(low, _), (high, _)]) = ends(figures.rows(), "share") {
        said.push(format!(
            "Together the flows of a pairing use {:.0} to {:.0} % of what the path can carry.",
            low * 100.0,
            high * 100.0
        ));
    }
    said
}

/// The values of [`COLUMNS`], in their order.
fn row(choice: &Choice, pairing: &Pairing, samples: &[&Sample<'_>]) -> Vec<Value> {
    let span = |of: &dyn Fn(&Outcome) -> f64| Span::of(samples.iter().map(|s| of(&s.outcome)));
    let mid = |of: &dyn Fn(&Outcome) -> f64| json!(span(of).map(|span| span.mid));
    let mbps = |flow: usize| mid(&|o| o.flows_bps.get(flow).copied().unwrap_or(0.0) / 1e6);
    let ratio = span(&Outcome::ratio);
    let share =
        |s: &&Sample<'_>| sim::goodput::share_of(&s.contest.path, s.outcome.flows_bps.iter().sum());
    vec![
        json!(choice.path_name()),
        json!(pairing.name()),
        mbps(0),
        mbps(1),
        json!(ratio.map(|s| s.mid)),
        json!(ratio.map(|s| s.low)),
        json!(ratio.map(|s| s.high)),
        mid(&Outcome::imbalance),
        mid(&|o| sim::goodput::fairness(&o.flows_bps)),
        json!(Span::of(samples.iter().map(share)).map(|s| s.mid)),
        mid(&|o| o.bottleneck.queue_full as f64),
        json!(samples.iter().map(|s| s.outcome.void).sum::<u32>()),
        json!(span(&|o| o.pause_ms).map(|s| s.high)),
        json!(choice.stagger.as_secs_f64()),
        json!(samples.len()),
    ]
}

fn sample(sample: &Sample<'_>) -> Value {
    let o = &sample.outcome;
    let starts: Vec<f64> = sample.contest.starts().iter().map(|at| at.as_secs_f64()).collect();
    json!({
        "flows": sample.pairing.name(),
        "seed": sample.seed,
        "starts_s": starts,
        "flows_bps": o.flows_bps,
        "ratio": o.ratio(),
        "queue_drops": o.bottleneck.queue_full,
        "queue_bytes_max": o.bottleneck.queue_bytes_max,
        "pause_ms": o.pause_ms,
        "void": o.void,
        "rates": o.rates.iter().map(|(at, bps)| json!({ "s": at, "bps": bps })).collect::<Vec<_>>(),
    })
}

/// The plot: a strip for each pairing, with a line for each flow, which is its rate over time in
/// the run with the first seed.
fn lines(choice: &Choice, pairings: &[Pairing], samples: &[Sample<'_>]) -> Lines {
    let strip = |pairing: &Pairing| {
        let first = samples.iter().find(|s| s.pairing == pairing);
        let line = |(index, name): (usize, String)| {
            let rates = first.map(|s| s.outcome.rates.as_slice()).unwrap_or_default();
            let points =
                rates.iter().map(|(at, bps)| (*at, bps.get(index).copied().unwrap_or(0.0) / 1e6));
            Series { name, points: points.collect() }
        };
        let names =
            pairing.flows.iter().map(|(whose, algorithm)| pairing::name(*whose, *algorithm));
        Strip { title: pairing.name(), series: names.enumerate().map(line).collect() }
    };
    Lines {
        title: "Flows behind one queue".to_owned(),
        subtitle: format!("{}; goodput over time, first seed", choice.path_name()),
        across: "s".to_owned(),
        up: "Mb/s".to_owned(),
        strips: pairings.iter().map(strip).collect(),
    }
}
