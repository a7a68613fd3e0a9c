//! hyper and tonic in virtual time: a day of requests over bad networks, replayed by seed. Example
//! `day` of crate `virtual-time` is the program; its last line has the digest of all frames.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::interop::Workbench;

/// The time limit of one day.
const LIMIT: Duration = Duration::from_secs(120);
/// Three clients ask every 10 seconds on average.
const REQUESTS: u64 = 3 * 24 * 360;

pub(super) fn hyper_http1(bench: &Workbench) -> Result<()> {
    a_day(bench, "http1")
}

pub(super) fn hyper_http2(bench: &Workbench) -> Result<()> {
    a_day(bench, "http2")
}

pub(super) fn tonic(bench: &Workbench) -> Result<()> {
    a_day(bench, "grpc")
}

/// Most requests are answered, those of the hours' cuts fail, packets are lost; the same seed
/// prints the same line, another one another.
fn a_day(bench: &Workbench, kind: &str) -> Result<()> {
    let program = bench.built("examples/day")?;
    let day = |seed: &str| bench.run(Command::new(&program).args([kind, seed, "24"]), LIMIT);
    let (first, again, other) = (day("1")?, day("1")?, day("2")?);
    let number = |what: &str| -> Result<u64> {
        let before = first.split(what).next().filter(|before| *before != first);
        let word = before.and_then(|before| before.split_whitespace().last());
        word.and_then(|word| word.parse().ok()).with_context(|| format!("no '{what}' in {first}"))
    };
    let (answered, failed) = (number(" answered")?, number(" failed")?);
    let lost = number(" packets lost")?;
    ensure!(answered > REQUESTS * 9 / 10 && failed > 0 && lost > 1_000, "the day was: {first}");
    ensure!(first == again, "the same seed had another day: {first} and {again}");
    ensure!(first != other, "another seed had the same day: {first}");
    Ok(())
}
