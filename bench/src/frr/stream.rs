//! The rows about a million routes from a recorded FPM stream. Called by `mod.rs`.
//!
//! zebra's stream is recorded once, live, while its routes come by BGP, and kept below `target/`.
//! A run starts a router, which has no routes, and writes the stream into its FPM connection as
//! fast as TCP takes it. One sequence of runs gives the seconds and the memory; another, with
//! traffic through the router, the pauses.

mod record;
mod run;

use anyhow::{Result, anyhow};

use super::figures::{Run, Runs};
use super::world;
use crate::harness::{Bench, Figure};
use crate::measure::median;
use record::{ROUTES_V4, ROUTES_V6, Recording};

/// The runs of this process, which several rows use.
fn runs(b: &Bench, with_traffic: bool) -> Result<&Runs> {
    let world = world(b)?;
    let made = world.streamed[usize::from(with_traffic)].get_or_init(|| {
        let all = || {
            let recording = Recording::find(world)?;
            let count = if b.is_quick { 1 } else { 5 };
            let runs = (0..count).map(|_| {
                let run = run::run(world, &recording, with_traffic.then_some(&b.cores))?;
                eprintln!("    {run}");
                Ok(run)
            });
            let runs = runs.collect::<Result<Vec<Run>>>()?;
            Ok((recording.what, runs))
        };
        all().map_err(|why: anyhow::Error| format!("{why:#}"))
    });
    made.as_ref().map_err(|why| anyhow!("{why}"))
}

/// The median of a figure of all runs.
fn figure(runs: &[Run], of: impl Fn(&Run) -> f64, note: String) -> Figure {
    let samples: Vec<f64> = runs.iter().map(of).collect();
    Figure { value: median(&samples), samples, note }
}

pub(super) fn seconds(b: &Bench) -> Result<Figure> {
    let (what, runs) = runs(b, false)?;
    let cpu: Vec<f64> = runs.iter().map(|run| run.worker_cpu_s).collect();
    let note = format!(
        "{what}; from the first byte written until the FIB has them all; {:.2} s of CPU time of \
         the router, median of {}",
        median(&cpu),
        runs.len()
    );
    Ok(figure(runs, |run| run.seconds, note))
}

pub(super) fn memory(b: &Bench) -> Result<Figure> {
    let (what, runs) = runs(b, false)?;
    let arrays = runs.first().map_or(0, |run| run.array_bytes);
    let note = format!(
        "{what}; both processes of the router, resident with {} routes less before the stream, \
         less {:.1} MB: the pages of the arrays for 24 bits that have one of the prefixes",
        ROUTES_V4 + ROUTES_V6,
        arrays as f64 * 1e-6
    );
    Ok(figure(runs, |run| run.bytes_a_route, note))
}

pub(super) fn pause(b: &Bench) -> Result<Figure> {
    let (what, runs) = runs(b, true)?;
    let packets: Vec<f64> = runs.iter().map(|run| run.packets_a_second).collect();
    let note = format!(
        "{what}; the longest CPU time of the thread with the routes from the moment at which the \
         forwarding thread may have wanted the stack until it could have it; {:.0} packets a \
         second forwarded meanwhile, by another core: CPU time includes interrupts",
        median(&packets)
    );
    Ok(figure(runs, |run| run.pause_us, note))
}
