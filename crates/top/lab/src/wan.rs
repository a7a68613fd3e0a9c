//! `wirespeed lab wan`: a grid of bad networks. For each path, impairment and congestion control,
//! it measures the goodput of bulk flows in virtual time, over several seeds.
//!
//! Called by: the lab. `grid` has the cells, `sim::goodput` runs the simulation.

pub(crate) mod grid;
#[cfg(target_os = "linux")]
mod pairs;
#[cfg(test)]
mod tests;

use clap::{ArgMatches, FromArgMatches};
use grid::{Cell, Choice, Impairment};
use serde_json::{Value, json};
use sim::goodput::{Outcome, measure_unless};

use crate::figures::{Figure, Figures, ends, listed};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::{Error, Run};

/// The number of seeds of a cell, usually and with `--quick`.
const SEEDS: (u64, u64) = (5, 1);
/// The most runs: more are taken for a mistake.
const RUNS_MAX: u64 = 100_000;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Virtual time from the first SYN, in seconds; real time with --peer [default: 60, with
    /// --peer 20]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Leave out the published figures of Linux
    #[arg(long)]
    #[cfg_attr(target_os = "linux", arg(conflicts_with = "peer"))]
    no_linux: bool,
    /// Run the cells of up to 200 Mb/s in real time: Linux at both ends, then our stack at one end,
    /// then at both, over the same path with the same seeds (needs root; six pairs, ten if packets
    /// are lost or late)
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "kernel")]
    peer: Option<Peer>,
}

/// The other TCP on the path.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// The kernel of this machine.
    Kernel,
}

impl Options {
    fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(SECONDS)
    }
}

const COLUMNS: &[Column] = &[
    column("path", "", "", Format::Heading),
    column("impairment", "wrong", "", Format::Text),
    column("cc", "control", "", Format::Text),
    column("share", "share", "of rate x 1448/1500, median", Format::Number(3)),
    column("share_min", "min", "of rate x 1448/1500", Format::Number(3)),
    column("share_max", "max", "of rate x 1448/1500", Format::Number(3)),
    column("goodput_mbps", "Mb/s", "Mb/s of payload, median", Format::Number(2)),
    column("retransmits", "sent again", "segments, median", Format::Number(0)),
    column("timeouts", "time-outs", "time-outs, median", Format::Number(0)),
    column("queue_bytes_max", "queue max", "bytes waiting, of all seeds", Format::Bytes),
    column("fairness", "Jain", "Jain's index of the flows, median", Format::Hidden),
    column("linux", "Linux", "of rate x 1448/1500, published median", Format::Number(3)),
    column("rate_bps", "", "bit/s", Format::Hidden),
    column("rtt_ms", "", "ms", Format::Hidden),
    column("queue_bytes", "", "bytes", Format::Hidden),
    column("flows", "", "flows", Format::Hidden),
    column("loss", "", "share of data", Format::Hidden),
    column("late", "", "share of data", Format::Hidden),
    column("late_ms", "", "ms", Format::Hidden),
    column("queue_drops", "", "packets, median", Format::Hidden),
    column("recoveries", "", "episodes of fast recovery, median", Format::Hidden),
    column("seeds", "", "seeds", Format::Hidden),
];

/// A run of a cell.
struct Sample<'a> {
    cell: &'a Cell,
    seed: u64,
    outcome: Outcome,
}

/// Measure the grid.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let cells = options.choice.cells(run.common.quick)?;
    #[cfg(target_os = "linux")]
    if options.peer == Some(Peer::Kernel) {
        return pairs::run(&options, &cells, run);
    }
    let seeds = run.common.seeds(SEEDS.0, SEEDS.1);
    let wanted = cells.len() as u64 * (seeds.end - seeds.start);
    if wanted > RUNS_MAX {
        return Err(Error::Usage(format!(
            "{} cells of {} seeds are {wanted} runs: choose fewer, {RUNS_MAX} at most",
            cells.len(),
            seeds.end - seeds.start,
        )));
    }
    // All cells with the first seed, then all with the next: an early stop leaves some of each.
    let runs: Vec<(&Cell, u64)> =
        seeds.clone().flat_map(|seed| cells.iter().map(move |cell| (cell, seed))).collect();
    let outcomes = run.each(&runs, |&(cell, seed), stop| {
        let outcome = measure_unless(&cell.goodput(options.seconds(), seed), stop);
        outcome.map_err(|violation| {
            let (path, wrong, cc) = (cell.path.name(), cell.impairment.name(), cell.cc.name());
            Error::Failed(format!(
                "{path}; {wrong}; {cc}; seed {seed}: {violation}. This is a defect of the stack: \
                 please report this line"
            ))
        })
    })?;
    let samples = runs.iter().zip(outcomes).filter_map(|(&(cell, seed), outcome)| {
        outcome.map(|outcome| Sample { cell, seed, outcome })
    });
    let samples: Vec<Sample<'_>> = samples.collect();
    Ok(report(&options, run, &cells, &seeds, &samples))
}

fn report(
    options: &Options,
    run: &Run<'_>,
    cells: &[Cell],
    seeds: &std::ops::Range<u64>,
    samples: &[Sample<'_>],
) -> Report {
    let linux = |cell: &Cell| match options.no_linux {
        true => None,
        false => linux(cell, options.seconds()),
    };
    let of = |cell: &Cell| samples.iter().filter(|s| s.cell == cell).collect::<Vec<_>>();
    let has_linux = cells.iter().any(|cell| linux(cell).is_some());
    let has_flows = options.choice.flows > 1;
    let columns = COLUMNS.iter().copied().map(|mut column| {
        match column.key {
            "fairness" if has_flows => column.format = Format::Number(3),
            "linux" if !has_linux => column.format = Format::Hidden,
            _ => {}
        }
        column
    });
    let notes = vec![format!(
        "Share: the bytes that programs received, as a share of rate x 1448/1500; {} virtual \
         seconds from the first SYN, median of {} (min and max beside it). MTU 1500, timestamps \
         on, default settings; only data is lost or delayed, behind the queue; ACKs return at the \
         same rate and delay.",
        options.seconds(),
        match seeds.end - seeds.start {
            1 => "one seed".to_owned(),
            many => format!("{many} seeds"),
        },
    )];
    let unmeasured = cells.iter().filter(|cell| of(cell).is_empty()).count();
    let mut notes = with_missing(notes, unmeasured, cells.len(), "cells");
    if has_linux {
        notes.push(NOTE.to_owned());
    }
    let columns: Vec<Column> = columns.collect();
    let rows: Vec<_> = cells.iter().map(|cell| row(cell, &of(cell), linux(cell))).collect();
    Report {
        settings: json!({
            "seconds": options.seconds(),
            "first_seed": seeds.start,
            "seeds": seeds.end - seeds.start,
            "cells": cells.len(),
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
        plot: Some(Plot::Dots(dots(cells, &of, &linux, options.seconds(), seeds))),
    }
}

/// The impairment of a row, as part of a sentence.
fn wrong(row: Figure<'_>) -> &str {
    match row.text("impairment") {
        "nothing" => "nothing wrong",
        other => other,
    }
}

/// Sentences on the figures: the lowest share of each congestion control, and the range over all
/// cells.
fn shows(figures: &Figures<'_>) -> Vec<String> {
    let least = |cc: &&str| {
        let of = figures.rows().filter(|row| row.text("cc") == *cc);
        let [(share, row), _] = ends(of, "share")?;
        let rate = row.text("path").split(',').next().unwrap_or_default();
        Some((share, format!("{cc} {:.0} % ({rate}, {})", share * 100.0, wrong(row))))
    };
    let mut each: Vec<(f64, String)> = figures.texts("cc").iter().filter_map(least).collect();
    each.sort_by(|a, b| b.0.total_cmp(&a.0));
    let said: Vec<String> = each.into_iter().map(|(_, words)| words).collect();
    let Some([(low, worst), (high, best)]) = ends(figures.rows(), "share") else {
        return Vec::new();
    };
    let most = format!(
        "Over all cells the share goes from {:.0} % ({}, {}) to {:.0} % ({}, {}).",
        low * 100.0,
        worst.text("cc"),
        wrong(worst),
        high * 100.0,
        best.text("cc"),
        wrong(best),
    );
    vec![format!("The least share of a path that each control reaches: {}.", listed(&said)), most]
}

/// The values of [`COLUMNS`], in their order.
fn row(cell: &Cell, samples: &[&Sample<'_>], linux: Option<f64>) -> Vec<Value> {
    let span = |of: &dyn Fn(&Outcome) -> f64| Span::of(samples.iter().map(|s| of(&s.outcome)));
    let mid = |of: &dyn Fn(&Outcome) -> f64| json!(span(of).map(|span| span.mid));
    let share = span(&|o| o.share);
    let (late, late_by) = cell.impairment.late();
    vec![
        json!(cell.path.name()),
        json!(cell.impairment.name()),
        json!(cell.cc.name()),
        json!(share.map(|s| s.mid)),
        json!(share.map(|s| s.low)),
        json!(share.map(|s| s.high)),
        mid(&|o| o.flows_bps.iter().sum::<f64>() / 1e6),
        mid(&|o| o.retransmits as f64),
        mid(&|o| o.timeouts as f64),
        json!(span(&|o| o.bottleneck.queue_bytes_max as f64).map(|s| s.high as u64)),
        mid(&|o| o.fairness),
        json!(linux),
        json!(cell.path.rate_bps),
        json!(cell.path.rtt_ms()),
        json!(cell.goodput(1, 1).queue_bytes),
        json!(cell.path.flows),
        json!(cell.impairment.loss()),
        json!(late),
        json!(late_by.as_secs_f64() * 1e3),
        mid(&|o| o.bottleneck.queue_full as f64),
        mid(&|o| o.fast_recoveries as f64),
        json!(samples.len()),
    ]
}

fn sample(sample: &Sample<'_>) -> Value {
    let o = &sample.outcome;
    json!({
        "path": sample.cell.path.name(),
        "impairment": sample.cell.impairment.name(),
        "cc": sample.cell.cc.name(),
        "seed": sample.seed,
        "share": o.share,
        "flows_bps": o.flows_bps,
        "fairness": o.fairness,
        "retransmits": o.retransmits,
        "timeouts": o.timeouts,
        "recoveries": o.fast_recoveries,
        "queue_bytes_max": o.bottleneck.queue_bytes_max,
        "queue_drops": o.bottleneck.queue_full,
        "lost": o.bottleneck.lost,
        "late": o.bottleneck.late,
        "events": o.events,
    })
}

/// A panel for each path, a row for each impairment, a dot for each congestion control.
fn dots<'a>(
    cells: &'a [Cell],
    of: &dyn Fn(&'a Cell) -> Vec<&'a Sample<'a>>,
    linux: &dyn Fn(&Cell) -> Option<f64>,
    seconds: u64,
    seeds: &std::ops::Range<u64>,
) -> Dots {
    let distinct = |name: &dyn Fn(&Cell) -> String| {
        let mut names: Vec<String> = Vec::new();
        for cell in cells {
            let name = name(cell);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let paths = distinct(&|cell| cell.path.name());
    let rows = distinct(&|cell| cell.impairment.name());
    let series = distinct(&|cell| cell.cc.name().to_owned());
    let at = |names: &[String], name: &str| names.iter().position(|n| n == name).unwrap_or(0);
    let mut panels: Vec<Panel> = paths
        .iter()
        .map(|path| Panel { title: path.clone(), rows: Vec::new(), points: Vec::new() })
        .collect();
    for cell in cells {
        panels[at(&paths, &cell.path.name())].points.push(Point {
            row: at(&rows, &cell.impairment.name()),
            series: at(&series, cell.cc.name()),
            span: Span::of(of(cell).iter().map(|sample| sample.outcome.share)),
            quoted: linux(cell),
        });
    }
    let middle = match seeds.end - seeds.start {
        1 => "one seed".to_owned(),
        many => format!("median of {many} seeds, bar from least to most"),
    };
    Dots {
        title: "Goodput on bad networks, by congestion control".to_owned(),
        subtitle: format!(
            "Share of what the path can carry (rate x 1448/1500), {seconds} s from the first SYN; \
             {middle}"
        ),
        axis: "goodput / (rate x 1448/1500)".to_owned(),
        row_title: "wrong with data:".to_owned(),
        rows,
        series,
        panels,
        quoted: "Linux 6.18, published (its BBR is version 1)".to_owned(),
    }
}

/// How Linux's figures were measured; printed with every table that quotes them.
const NOTE: &str = "Linux: version 6.18, quoted, not run now. Measured once between two TAPs \
     joined by an emulator in real time: 60 s with the start-up, 1500-byte frames, no GSO, medians \
     of five seeds, share of rate x 1448/1500 as here. Its 'reno' recovers with SACK and is \
     compared with our newreno; its BBR is version 1. A dash: not measured.";

/// Length of Linux's runs in seconds; runs of other lengths are not comparable.
const SECONDS: u64 = 60;

/// The impairment, as a key of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Lost packets, in parts per million.
    Lost(u32),
    /// One packet in a hundred late, by milliseconds.
    Late(u64),
}

/// Rate in Mb/s, round trip in ms, queue in kB, flows, impairment; shares of CUBIC, BBR, Reno.
type Line = (u64, u64, u64, usize, Wrong, [f64; 3]);

/// The goodput in Mb/s that is share 1 at 100 Mb/s.
const FULL: f64 = 100.0 * 1448.0 / 1500.0;

const LINES: &[Line] = &[
    (100, 100, 1250, 1, Wrong::Nothing, [0.984, 0.961, 0.985]),
    (200, 100, 625, 1, Wrong::Nothing, [0.76, 0.86, 0.59]),
    (1000, 50, 6250, 1, Wrong::Nothing, [0.960, 0.955, 0.962]),
    (100, 100, 1250, 1, Wrong::Late(10), [0.73, 0.965, 0.84]),
    (100, 100, 1250, 1, Wrong::Late(40), [0.63, 0.938, 0.47]),
    (100, 100, 1250, 1, Wrong::Lost(100), [35.4 / FULL, 0.957, 20.0 / FULL]),
    (100, 100, 1250, 1, Wrong::Lost(1_000), [7.5 / FULL, 0.945, 6.9 / FULL]),
    (100, 100, 1250, 1, Wrong::Lost(10_000), [1.60 / FULL, 0.900, 1.50 / FULL]),
    (20, 40, 150, 4, Wrong::Nothing, [0.994, 0.97, 0.98]),
];

/// The share that Linux reached in this cell, if it was measured.
fn linux(cell: &Cell, seconds: u64) -> Option<f64> {
    if seconds != SECONDS {
        return None;
    }
    let column = ["cubic", "bbr", "newreno"].iter().position(|&name| name == cell.cc.name())?;
    let path = cell.goodput(seconds, 1);
    let wrong = match cell.impairment {
        Impairment::Clean => Wrong::Nothing,
        Impairment::Loss(share) => Wrong::Lost((share * 1e6).round() as u32),
        Impairment::Late(share, by) if (share - 0.01).abs() < 1e-9 => Wrong::Late(by.as_millis()),
        Impairment::Late(..) => return None,
    };
    let same = |&&(rate, rtt_ms, queue_kb, flows, what, _): &&Line| {
        path.rate_bps == rate * 1_000_000
            && 2 * path.delay.as_micros() == rtt_ms * 1_000
            && (path.queue_bytes as u64).abs_diff(queue_kb * 1_000) <= 1
            && path.flows == flows
            && what == wrong
    };
    LINES.iter().find(same).map(|line| line.5[column])
}
