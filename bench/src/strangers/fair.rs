//! A flow of ours and a flow of Linux's CUBIC share one queue, in real time over our emulated link.
//! As a control, two flows of Linux share the queue with the same seeds. Called by `mod.rs`. It
//! needs root.
//!
//! The measurement begins when the later flow begins, and includes that flow's start-up. As many
//! runs go on at a time as the machine can carry in real time. A run in which the link paused for
//! longer than the queue can absorb is repeated. If repeating several runs has not helped, no run
//! is repeated any more.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow};
use base::Duration;
use lab::contest::{Contest, Flow, Outcome, Whose};
use lab::real::shared::measure;
use sim::goodput::Goodput;
use tcp::cc::Algorithm;

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::{median, pin};

/// A path, and how many seconds later our flow begins.
struct Cell {
    mbps: u64,
    rtt_ms: u64,
    queue_bytes: usize,
    late: Duration,
    /// How many runs at a time a machine with two cores can carry in real time.
    jobs: usize,
}

const HOME: Cell =
    Cell { mbps: 20, rtt_ms: 40, queue_bytes: 150_000, late: Duration::ZERO, jobs: 6 };
const OFFICE: Cell = Cell { mbps: 100, queue_bytes: 500_000, jobs: 3, ..HOME };
const SHORT_QUEUE: Cell = Cell { mbps: 50, rtt_ms: 80, queue_bytes: 250_000, jobs: 4, ..HOME };
const LATE: Cell = Cell { late: Duration::from_secs(10), ..HOME };

/// Rows of the table.
pub(super) const ROWS: &[Spec] = &[
    spec(
        "one flow of ours beside one of Linux's CUBIC, 20 Mb/s 40 ms 150 KB queue, 120 s, 10 \
         seeds: median of larger / smaller goodput",
        Better::Lower,
        1.5,
        1.2,
        "x",
        |b| imbalance(b, &HOME),
    ),
    spec("the same, 100 Mb/s 40 ms 1 BDP queue", Better::Lower, 1.6, 1.25, "x", |b| {
        imbalance(b, &OFFICE)
    }),
    spec("the same, 50 Mb/s 80 ms 0.5 BDP queue", Better::Lower, 1.7, 1.3, "x", |b| {
        imbalance(b, &SHORT_QUEUE)
    }),
    spec("the same, 20 Mb/s cell, ours starting 10 s later", Better::Lower, 1.8, 1.35, "x", |b| {
        imbalance(b, &LATE)
    }),
];

const SECONDS: u64 = 120;
/// The number of seeds, and the number with `--quick`.
const SEEDS: (u64, u64) = (10, 3);
/// How many times a run is repeated at most; then its last result counts. Without a limit a busy
/// machine would take hours.
const AGAIN: u32 = 2;
/// If for this many runs even the last repetition had too long a pause, no run is repeated any
/// more: the machine is busy all the time.
const IN_VAIN: usize = 3;

/// Two flows. The first flow may begin later; it is ours, or in the control Linux's. The second
/// flow is Linux's.
fn contest(cell: &Cell, first: Whose, seed: u64) -> Contest {
    let mut path = Goodput::new(cell.mbps * 1_000_000, Duration::from_millis(cell.rtt_ms / 2));
    path.queue_bytes = cell.queue_bytes;
    path.length = Duration::from_secs(SECONDS);
    path.seed = seed;
    let flow = |whose, at| Flow { whose, algorithm: Algorithm::Cubic, at };
    let flows = vec![flow(first, cell.late), flow(Whose::Linux, Duration::ZERO)];
    Contest { path, flows, every: Duration::from_secs(1) }
}

fn imbalance(b: &Bench, cell: &Cell) -> Result<Figure> {
    let seeds = if b.is_quick { SEEDS.1 } else { SEEDS.0 };
    // Threads that this thread starts inherit its affinity. One core cannot carry the hosts and
    // links of several runs in real time.
    pin(&b.cores.both())?;
    let both = [Whose::Ours, Whose::Linux];
    let runs: Vec<_> = (1..=seeds).flat_map(|seed| both.map(|first| (seed, first))).collect();
    let (next, in_vain) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = Mutex::new(Vec::new());
    let run = |&(seed, first): &(u64, Whose)| -> Result<Outcome> {
        let again = if in_vain.load(Ordering::Relaxed) < IN_VAIN { AGAIN } else { 0 };
        let outcome = measure(&contest(cell, first, seed), again, &|| false);
        let outcome = outcome.map_err(|e| anyhow!("{e}"))?.context("nobody stops it")?;
        let is_in_vain = outcome.void == AGAIN && !outcome.is_quiet;
        in_vain.fetch_add(usize::from(is_in_vain), Ordering::Relaxed);
        let (ratio, pause) = (outcome.ratio(), outcome.pause_ms);
        eprintln!("  seed {seed}, {first:?} / Linux {ratio:.2}, longest pause {pause:.1} ms");
        Ok(outcome)
    };
    std::thread::scope(|scope| {
        for _ in 0..cell.jobs {
            scope.spawn(|| {
                while let Some(item) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(item).map(|outcome| (*item, outcome));
                    if let Ok(mut done) = done.lock() {
                        done.push(result);
                    }
                }
            });
        }
    });
    let done = done.into_inner().map_err(|_| anyhow!("a run panicked"))?;
    let mut done = done.into_iter().collect::<Result<Vec<_>>>()?;
    done.sort_by_key(|((seed, _), _)| *seed);
    let of = |whose: Whose| -> Vec<&Outcome> {
        done.iter().filter(|((_, first), _)| *first == whose).map(|(_, o)| o).collect()
    };
    Ok(figure(&of(Whose::Ours), &of(Whose::Linux)))
}

fn figure(ours: &[&Outcome], control: &[&Outcome]) -> Figure {
    let larger = |outcomes: &[&Outcome]| outcomes.iter().map(|o| o.imbalance()).collect::<Vec<_>>();
    let ratios = |outcomes: &[&Outcome]| {
        let each: Vec<String> = outcomes.iter().map(|o| format!("{:.2}", o.ratio())).collect();
        each.join(" ")
    };
    let samples = larger(ours);
    let more = ours.iter().filter(|o| o.ratio() > 1.0).count();
    let pause = ours.iter().chain(control).map(|o| o.pause_ms).fold(0.0, f64::max);
    let void: u32 = ours.iter().chain(control).map(|o| o.void).sum();
    let note = format!(
        "ours / Linux by seed: {}; ours took more in {more} of {}. Linux / Linux on the same \
         seeds: {}, median of larger / smaller {:.2}. Longest pause of the link {pause:.1} ms, \
         {void} runs repeated",
        ratios(ours),
        ours.len(),
        ratios(control),
        median(&larger(control)),
    );
    Figure { value: median(&samples), samples, note }
}
