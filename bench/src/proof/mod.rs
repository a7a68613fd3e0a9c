//! The rows of bench `proof`. Called by `main.rs`. `wire` measures Linux over our emulated link,
//! `flood` a listener of ours under a flood of SYNs. This file measures the cells that compare our
//! stack with Linux; the lab runs them.

mod flood;
mod wire;

use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use base::Duration;
use lab::real::{Ends, measure};
use link::Loss;
use sim::goodput::Goodput;

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::{median, pin};

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "Linux through wirespeed wire, 100 Mb/s 100 ms: error of measured rate and RTT against \
             the knobs, percent",
            Lower,
            3.0,
            0.5,
            "%",
            wire::error_of_the_knobs,
        ),
        spec(
            "wirespeed wire, 1500-byte frames, wall Gb/s / raw user-space wire",
            Higher,
            0.7,
            0.95,
            "x",
            wire::against_raw,
        ),
        spec(
            "ours / Linux goodput over the same cells, CUBIC, median of pairs, worst cell",
            Higher,
            0.92,
            1.05,
            "x",
            |b| cells(b).map(|cells| of_cells(cells, 0.0)),
        ),
        spec(
            "ours / Linux goodput over the same cells, CUBIC, median of pairs, median cell",
            Higher,
            1.0,
            1.1,
            "x",
            |b| cells(b).map(|cells| of_cells(cells, 0.5)),
        ),
        spec(
            "goodput of a legitimate flow under a SYN flood at the device's full rate / without",
            Higher,
            0.8,
            0.95,
            "x",
            flood::goodput,
        ),
        spec(
            "new legitimate connections completed under the same flood, share",
            Higher,
            0.99,
            1.0,
            "",
            flood::connections,
        ),
    ]
};

/// A cell of the grid up to 200 Mb/s: name, Mb/s, ms in one direction, queue in BDP, flows, loss,
/// and the share and ms of packets that are late.
type Cell = (&'static str, u64, u64, f64, usize, f64, (f64, u64));

const CELLS: &[Cell] = &[
    ("100 Mb/s 100 ms 1 BDP", 100, 50, 1.0, 1, 0.0, (0.0, 0)),
    ("200 Mb/s 100 ms 0.25 BDP", 200, 50, 0.25, 1, 0.0, (0.0, 0)),
    ("20 Mb/s 40 ms 1.5 BDP 4 flows", 20, 20, 1.5, 4, 0.0, (0.0, 0)),
    ("1 % 10 ms late", 100, 50, 1.0, 1, 0.0, (0.01, 10)),
    ("1 % 40 ms late", 100, 50, 1.0, 1, 0.0, (0.01, 40)),
    ("0.01 % lost", 100, 50, 1.0, 1, 0.0001, (0.0, 0)),
    ("0.1 % lost", 100, 50, 1.0, 1, 0.001, (0.0, 0)),
    ("1 % lost", 100, 50, 1.0, 1, 0.01, (0.0, 0)),
];

/// Length of a run in seconds; pairs of a cell, and of a cell in which packets are lost or late.
const SECONDS: u64 = 20;
const PAIRS: (u64, u64) = (6, 10);
/// The same numbers for a quick run.
const QUICK: (u64, (u64, u64)) = (8, (1, 1));
/// How many runs go on at a time. At these rates a core can carry two or more.
const JOBS: usize = 4;

fn path(cell: &Cell, seconds: u64, seed: u64) -> Goodput {
    let &(_, mbps, delay_ms, queue_bdp, flows, loss, (late, late_ms)) = cell;
    let mut path = Goodput::new(mbps * 1_000_000, Duration::from_millis(delay_ms));
    path.queue_bytes = path.bdp_bytes(queue_bdp);
    path.length = Duration::from_secs(seconds);
    path.flows = flows;
    path.loss = if loss > 0.0 { Loss::Random(loss) } else { Loss::Never };
    path.late = (late, Duration::from_millis(late_ms));
    path.seed = seed;
    path
}

/// For each cell: its name, the median of the pairs' ratios, and the share of the path that Linux
/// reached.
type Ratios = Vec<(&'static str, f64, f64)>;

/// The results of all cells, measured once for both rows. A pair is a run from Linux to Linux and a
/// run from our stack to our stack with the same seed.
fn cells(b: &Bench) -> Result<&'static Ratios> {
    static MEASURED: OnceLock<Result<Ratios, String>> = OnceLock::new();
    let measured = MEASURED.get_or_init(|| measure_cells(b).map_err(|e| format!("{e:#}")));
    measured.as_ref().map_err(|error| anyhow!("{error}"))
}

fn measure_cells(b: &Bench) -> Result<Ratios> {
    // A row's thread is pinned to one core at first.
    pin(&b.cores.both())?;
    let (seconds, pairs) = if b.is_quick { QUICK } else { (SECONDS, PAIRS) };
    let mut work: Vec<(&Cell, u64)> = Vec::new();
    for seed in 1..=pairs.0.max(pairs.1) {
        let wanted = |cell: &&Cell| seed <= if cell.5 + cell.6.0 > 0.0 { pairs.1 } else { pairs.0 };
        work.extend(CELLS.iter().filter(wanted).map(|cell| (cell, seed)));
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let take = || next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let run = |&(cell, seed): &(&Cell, u64)| -> Result<(&'static str, f64, f64)> {
        let path = path(cell, seconds, seed);
        let share = |ends| -> Result<f64> {
            let outcome = measure(&path, ends, &|| false).map_err(|e| anyhow!("{e}"))?;
            Ok(outcome.context("nobody stops it")?.share)
        };
        let (linux, ours) = (share(Ends::Linux)?, share(Ends::Ours)?);
        eprintln!("  {}, seed {seed}: ours {ours:.3}, Linux {linux:.3}", cell.0);
        Ok((cell.0, ours / linux, linux))
    };
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(item) = work.get(take()) {
                    let result = run(item);
                    if let Ok(mut done) = done.lock() {
                        done.push(result);
                    }
                }
            });
        }
    });
    let results = done.into_inner().map_err(|_| anyhow!("a run panicked"))?;
    let results = results.into_iter().collect::<Result<Vec<_>>>()?;
    let of = |cell: &Cell| {
        let these = || results.iter().filter(|(name, ..)| *name == cell.0);
        let ratios: Vec<f64> = these().map(|(_, ratio, _)| *ratio).collect();
        let linux: Vec<f64> = these().map(|(.., linux)| *linux).collect();
        ensure!(!ratios.is_empty(), "{} was not measured", cell.0);
        Ok((cell.0, median(&ratios), median(&linux)))
    };
    CELLS.iter().map(of).collect()
}

/// The figure of the cell at this place in the order from the worst cell (0) to the best one (1).
fn of_cells(cells: &Ratios, place: f64) -> Figure {
    let mut sorted = cells.clone();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let samples: Vec<f64> = sorted.iter().map(|cell| cell.1).collect();
    let value = if place == 0.0 { samples[0] } else { median(&samples) };
    let each =
        |(name, ratio, linux): &(&str, f64, f64)| format!("{name} {ratio:.2} (Linux {linux:.3})");
    let note = sorted.iter().map(each).collect::<Vec<_>>().join("; ");
    Figure { value, samples, note }
}
