//! `lab wan --peer kernel`: runs each cell in real time with Linux at both ends, with our stack at
//! one end, and with our stack at both ends, one after the other with the same seed. The three runs
//! of a seed are a pair; the ratios within a pair count, because the machine affects its runs
//! alike.
//!
//! Called by: `wan`. `real` makes a run.

use serde_json::{Value, json};

use super::Options;
use super::grid::{Cell, Impairment};
use crate::real::{Ends, Outcome, linux_has, measure};
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::{Error, Run};

/// Length of a run in seconds, usually and with `--quick`.
const SECONDS: (u64, u64) = (20, 5);
/// The number of pairs: of a cell without impairment, and of a cell with loss or late packets. With
/// `--quick` it is one.
const PAIRS: (u64, u64) = (6, 10);
/// The highest rate of a path: faster paths in real time are too much for the machine.
const RATE_MAX_BPS: u64 = 200_000_000;

const COLUMNS: &[Column] = &[
    column("path", "", "", Format::Heading),
    column("impairment", "wrong", "", Format::Text),
    column("cc", "control", "", Format::Text),
    column("ends", "ends", "", Format::Text),
    column("share", "share", "of rate x 1448/1500, median", Format::Number(3)),
    column("share_min", "min", "of rate x 1448/1500", Format::Number(3)),
    column("share_max", "max", "of rate x 1448/1500", Format::Number(3)),
    column("ratio", "/ Linux", "share / that of Linux, median of pairs", Format::Number(3)),
    column("ratio_min", "min", "share / that of Linux", Format::Number(3)),
    column("ratio_max", "max", "share / that of Linux", Format::Number(3)),
    column("fairness", "", "Jain's index of the flows, median", Format::Hidden),
    column("queue_drops", "queue drops", "packets, median", Format::Number(0)),
    column("pause_ms", "", "ms, the longest pause of the emulator", Format::Hidden),
    column("void", "void", "runs that were repeated because of a pause", Format::Number(0)),
    column("pairs", "pairs", "", Format::Number(0)),
];

/// The runs of one seed, in the order of [`Ends::ALL`].
struct Pair<'a> {
    cell: &'a Cell,
    seed: u64,
    outcomes: Vec<Outcome>,
}

/// Measure the cells that Linux supports.
pub(super) fn run(options: &Options, cells: &[Cell], run: &Run<'_>) -> Result<Report, Error> {
    if run.common.plot.is_some() {
        let what = "--peer kernel has no plot: leave --plot out";
        return Err(Error::Usage(what.to_owned()));
    }
    let known = |cell: &&Cell| linux_has(cell.cc) && cell.path.rate_bps <= RATE_MAX_BPS;
    let cells: Vec<&Cell> = cells.iter().filter(known).collect();
    if cells.is_empty() {
        let what = "with --peer kernel: cubic, newreno or bbr, and at most 200 Mb/s";
        return Err(Error::Usage(what.to_owned()));
    }
    let quick = run.common.quick;
    let usual = if quick { SECONDS.1 } else { SECONDS.0 };
    let seconds = options.seconds.unwrap_or(usual);
    let seeds_of = |cell: &Cell| {
        let usual = if cell.impairment == Impairment::Clean { PAIRS.0 } else { PAIRS.1 };
        run.common.seeds(usual, 1)
    };
    let longest = cells.iter().map(|cell| seeds_of(cell).end).max().unwrap_or(0);
    let mut runs: Vec<(&Cell, u64)> = Vec::new();
    for seed in run.common.first_seed..longest {
        runs.extend(cells.iter().filter(|cell| seeds_of(cell).contains(&seed)).map(|&c| (c, seed)));
    }
    let outcomes = run.each(&runs, |&(cell, seed), stop| {
        let path = cell.goodput(seconds, seed);
        let mut outcomes = Vec::new();
        for ends in Ends::ALL {
            match measure(&path, ends, stop)? {
                Some(outcome) => outcomes.push(outcome),
                None => return Ok(None),
            }
        }
        Ok(Some(outcomes))
    })?;
    let whole = runs.iter().zip(outcomes);
    let pairs: Vec<Pair<'_>> = whole
        .filter_map(|(&(cell, seed), outcomes)| Some(Pair { cell, seed, outcomes: outcomes? }))
        .collect();
    Ok(report(&cells, &pairs, seconds, run))
}

fn report(cells: &[&Cell], pairs: &[Pair<'_>], seconds: u64, run: &Run<'_>) -> Report {
    let of = |cell: &Cell| pairs.iter().filter(|p| p.cell == cell).collect::<Vec<_>>();
    let rows = cells.iter().flat_map(|cell| {
        let pairs = of(cell);
        (0..Ends::ALL.len()).map(move |end| row(cell, end, &pairs)).collect::<Vec<_>>()
    });
    let notes = vec![format!(
        "Share: the bytes that programs read within {seconds} s of the first connect, as a share \
         of rate x 1448/1500. MTU 1500, no offload, default buffers; only data is lost or delayed, \
         behind the queue. Linux sends through a TAP in a namespace, our stack with blocking \
         sockets over a link in memory; the emulator between the ends is the same, and so is the \
         seed within a pair. Linux's reno is compared with our newreno; its BBR is version 1.",
    )];
    let unmeasured = cells.iter().filter(|cell| of(cell).is_empty()).count();
    let mut notes = with_missing(notes, unmeasured, cells.len(), "cells");
    let loud = pairs.iter().flat_map(|p| &p.outcomes).filter(|o| o.pause_ms > 5.0).count();
    if loud > 0 {
        notes.push(format!(
            "In {loud} runs the emulator paused for more than 5 ms each time they were repeated; \
             they count nevertheless. Use fewer --jobs, or a quieter machine."
        ));
    }
    Report {
        settings: json!({
            "peer": "kernel",
            "seconds": seconds,
            "first_seed": run.common.first_seed,
            "cells": cells.len(),
            "jobs": run.common.jobs(),
            "quick": run.common.quick,
        }),
        columns: COLUMNS.to_vec(),
        rows: rows.collect(),
        fits: Vec::new(),
        samples: pairs.iter().flat_map(samples).collect(),
        shows: Vec::new(),
        notes,
        plot: None,
    }
}

/// The values of [`COLUMNS`], in their order.
fn row(cell: &Cell, end: usize, pairs: &[&Pair<'_>]) -> Vec<Value> {
    let span = |of: &dyn Fn(&Pair<'_>) -> f64| Span::of(pairs.iter().map(|pair| of(pair)));
    let share = span(&|p| p.outcomes[end].share);
    let ratio = match end {
        0 => None,
        _ => span(&|p| p.outcomes[end].share / p.outcomes[0].share),
    };
    let mid =
        |of: &dyn Fn(&Outcome) -> f64| json!(span(&|p| of(&p.outcomes[end])).map(|span| span.mid));
    vec![
        json!(cell.path.name()),
        json!(cell.impairment.name()),
        json!(cell.cc.name()),
        json!(Ends::ALL[end].name()),
        json!(share.map(|s| s.mid)),
        json!(share.map(|s| s.low)),
        json!(share.map(|s| s.high)),
        json!(ratio.map(|s| s.mid)),
        json!(ratio.map(|s| s.low)),
        json!(ratio.map(|s| s.high)),
        mid(&|o| o.fairness),
        mid(&|o| o.bottleneck.queue_full as f64),
        json!(span(&|p| p.outcomes[end].pause_ms).map(|span| span.high)),
        json!(pairs.iter().map(|p| p.outcomes[end].void).sum::<u32>()),
        json!(pairs.len()),
    ]
}

fn samples(pair: &Pair<'_>) -> Vec<Value> {
    let with_names = Ends::ALL.iter().zip(&pair.outcomes);
    let value = |(ends, o): (&Ends, &Outcome)| {
        json!({
            "path": pair.cell.path.name(),
            "impairment": pair.cell.impairment.name(),
            "cc": pair.cell.cc.name(),
            "seed": pair.seed,
            "ends": ends.name(),
            "share": o.share,
            "fairness": o.fairness,
            "queue_drops": o.bottleneck.queue_full,
            "queue_bytes_max": o.bottleneck.queue_bytes_max,
            "lost": o.bottleneck.lost,
            "late": o.bottleneck.late,
            "pause_ms": o.pause_ms,
            "void": o.void,
        })
    };
    with_names.map(value).collect()
}
