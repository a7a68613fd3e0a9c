//! hyper and tonic in virtual time: a day of requests over bad networks, replayed by seed. Example
//! `day` of crate `virtual-time` is the program; its last line has the digest of all frames.

use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::interop::{Case, Workbench};
use crate::process;

/// The time limit of a day, in seconds. The three days of a case run at the same time.
const LIMIT: &str = "300";
/// Three clients ask every 10 seconds on average.
const REQUESTS: u64 = 3 * 24 * 360;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a day of hyper's requests over HTTP/1 in virtual time, replayed by seed",
        needs: &[],
        run: |bench| a_day(bench, "http1"),
    },
    Case {
        name: "a day of hyper's requests over HTTP/2 in virtual time, replayed by seed",
        needs: &[],
        run: |bench| a_day(bench, "http2"),
    },
    Case {
        name: "a day of tonic's requests in virtual time, replayed by seed",
        needs: &[],
        run: |bench| a_day(bench, "grpc"),
    },
];

/// Most requests are answered, those of the hours' cuts fail, packets are lost; the same seed
/// prints the same line, another one another.
fn a_day(bench: &Workbench, kind: &str) -> Result<()> {
    let program = bench.built("examples/day")?;
    let day = |seed: &str| {
        let mut command = Command::new("timeout");
        process::output(command.arg(LIMIT).arg(&program).args([kind, seed, "24"]))
    };
    let [first, again, other] = thread::scope(|scope| {
        let runs = ["1", "1", "2"].map(|seed| scope.spawn(move || day(seed)));
        runs.map(|run| run.join().unwrap_or_else(|_| bail!("the thread of a run panicked")))
    });
    let (first, again, other) = (first?, again?, other?);
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
