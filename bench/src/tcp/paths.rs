//! Measures goodput over a path with many seeds, for the rows of bulk flows. Called by `mod.rs`. A
//! simulation runs in one thread; the seeds are distributed over both cores. A row's share is the
//! goodput divided by (rate x 1448/1500), counted from the first SYN. Impairments act on data after
//! the queue.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use base::Duration;
use link::Loss;
use sim::goodput::{Goodput, Outcome, measure};
use tcp::cc::Algorithm;

use super::rfc9438_bps;
use crate::harness::{Bench, Figure};
use crate::measure::{median, pin};

/// Payload of a full segment with timestamps, MTU 1500.
const MSS: f64 = 1448.0;

/// A path of a row, and how many seeds it is measured with.
pub(crate) struct Path {
    path: Goodput,
    cc: &'static str,
    seeds: u64,
    /// The number of seeds with `--quick`.
    quick: u64,
}

/// A path with a rate in Mb/s, a round trip in ms, and a queue in bandwidth-delay products. Runs
/// take 60 s, and there are ten seeds.
pub(crate) fn path(rate_mbps: u64, rtt_ms: u64, queue_bdp: f64, cc: &'static str) -> Path {
    let mut path = Goodput::new(rate_mbps * 1_000_000, Duration::from_micros(rtt_ms * 500));
    path.queue_bytes = path.bdp_bytes(queue_bdp);
    Path { path, cc, seeds: 10, quick: 3 }
}

impl Path {
    /// Count only the bytes that arrive between `from` and `to`, in seconds after the first SYN.
    pub(super) fn seconds(mut self, from: u64, to: u64) -> Path {
        (self.path.from, self.path.length) = (Duration::from_secs(from), Duration::from_secs(to));
        self
    }

    /// Measure with this many seeds.
    pub(super) fn seeds(mut self, seeds: u64) -> Path {
        self.seeds = seeds;
        self
    }

    /// Measure with only one seed if `--quick` is given, because a run moves gigabytes.
    pub(super) fn slow(mut self) -> Path {
        self.quick = 1;
        self
    }

    /// One packet in a hundred arrives late by this much.
    pub(super) fn late_ms(mut self, ms: u64) -> Path {
        self.path.late = (0.01, Duration::from_millis(ms));
        self
    }

    /// This share of packets is lost.
    pub(super) fn loss(mut self, share: f64) -> Path {
        self.path.loss = Loss::Random(share);
        self
    }

    /// The settings of the simulator.
    pub(super) fn into_inner(self) -> Goodput {
        self.path
    }

    fn describe(&self) -> String {
        let p = &self.path;
        format!(
            "{} Mb/s, {} ms there and back, queue of {} bytes, MTU 1500, {} to {} s",
            p.rate_bps / 1_000_000,
            2 * p.delay.as_micros() / 1_000,
            p.queue_bytes,
            p.from.as_secs_f64(),
            p.length.as_secs_f64(),
        )
    }
}

/// 20 Mb/s, 40 ms, a queue of 150,000 bytes, four flows that begin within a round trip.
pub(super) fn four_flows() -> Path {
    let mut four = path(20, 40, 1.0, "cubic");
    four.path.queue_bytes = 150_000;
    four.path.flows = 4;
    four
}

/// The row's figure: which share of the path's capacity the flows reach.
pub(crate) fn share(b: &Bench, path: &Path) -> Result<Figure> {
    figure(b, path, |outcome| outcome.share)
}

/// Jain's index of the flows' shares.
pub(super) fn fairness(b: &Bench, path: &Path) -> Result<Figure> {
    figure(b, path, |outcome| outcome.fairness)
}

/// Goodput of CUBIC under random loss at 100 Mb/s and 100 ms, divided by the goodput that RFC 9438
/// expects.
pub(super) fn against_response(b: &Bench, loss: f64) -> Result<Figure> {
    let path = path(100, 100, 1.0, "cubic").loss(loss).seconds(60, 300);
    let expected = rfc9438_bps(loss, 2.0 * path.path.delay.as_secs_f64(), MSS);
    let mut figure = figure(b, &path, |outcome| outcome.flows_bps[0] / expected)?;
    figure.note = format!("{}; RFC 9438: {:.2} Mb/s", figure.note, expected / 1e6);
    Ok(figure)
}

fn figure(b: &Bench, path: &Path, of: impl Fn(&Outcome) -> f64) -> Result<Figure> {
    let seeds = if b.is_quick { path.quick.min(path.seeds) } else { path.seeds };
    let outcomes = outcomes(b, path, seeds)?;
    let samples: Vec<f64> = outcomes.iter().map(&of).collect();
    let middle =
        |of: &dyn Fn(&Outcome) -> f64| median(&outcomes.iter().map(of).collect::<Vec<_>>());
    let mbps = middle(&|o| o.flows_bps.iter().sum::<f64>() / 1e6);
    let (least, most) = samples
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    let note = format!(
        "{}; {} seeds: {least:.4} to {most:.4}; medians: {mbps:.2} Mb/s, {:.0} segments \
         retransmitted, {:.0} time-outs, {:.0} recoveries, {:.0} dropped by the queue",
        path.describe(),
        samples.len(),
        middle(&|o| o.retransmits as f64),
        middle(&|o| o.timeouts as f64),
        middle(&|o| o.fast_recoveries as f64),
        middle(&|o| o.bottleneck.queue_full as f64),
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// The congestion control algorithm with this name.
///
/// # Errors
/// The stack has no such algorithm. Then the row is not run, and does not pass.
fn algorithm(name: &str) -> Result<Algorithm> {
    let known = Algorithm::ALL.iter().find(|law| law.name() == name);
    known.copied().ok_or_else(|| anyhow!("not run: no such law: {name}"))
}

/// The outcomes of seeds 1 to `seeds`, in this order. A thread on each core measures them.
fn outcomes(b: &Bench, path: &Path, seeds: u64) -> Result<Vec<Outcome>> {
    let law = algorithm(path.cc)?;
    let (next, done) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    let work = |core: usize| -> Result<()> {
        pin(&[core])?;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds {
                return Ok(());
            }
            let outcome = measure(&Goodput { seed, algorithm: law, ..path.path.clone() });
            let outcome = outcome.map_err(|violation| anyhow!("seed {seed}: {violation}"))?;
            eprintln!("    seed {seed}: {:.4}", outcome.share);
            let mut done = done.lock().map_err(|_| anyhow!("another seed panicked"))?;
            done.push((seed, outcome));
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            b.cores.both().into_iter().map(|core| scope.spawn(move || work(core))).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow!("a seed panicked"))?)
    })?;
    let mut done = done.into_inner().ok().context("a seed panicked")?;
    done.sort_by_key(|(seed, _)| *seed);
    if done.len() as u64 != seeds {
        bail!("{} of {seeds} seeds were measured", done.len());
    }
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}
