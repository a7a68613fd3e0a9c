//! The rows of bench `build`, about building the project. Called by `main.rs`. This file compares
//! the speed of the default release profile with that of the profile `dist`. `nothing.rs` measures
//! how long builds and tests take from a clean clone, and how large the results are. `process.rs`
//! runs the commands.

mod nothing;
mod process;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) use self::process::Scratch;
pub use self::process::{catch_interrupts, interrupted};
use crate::harness::{Bench, Better, Figure, Spec, paired, spec};
use crate::measure::median;
use crate::memory;

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "memory MTU 1500, default release profile / fat LTO, Gb per CPU-second",
            Higher,
            0.97,
            1.0,
            "x",
            speed,
        ),
        spec(
            "instructions per predicted segment, default release profile / fat LTO",
            Lower,
            1.06,
            1.02,
            "x",
            predicted_segment,
        ),
        spec(
            "instructions per 64-byte round trip in memory, both ends, without byte passes, \
             default profile",
            Lower,
            3400.0,
            2400.0,
            "instructions",
            round_trip,
        ),
        spec(
            "cold release build to the end of `ttcp`, two cores, crates already downloaded, \
             seconds",
            Lower,
            165.0,
            110.0,
            "s",
            nothing::cold_build,
        ),
        spec("size of the release program, MB", Lower, 20.0, 12.0, "MB", nothing::size),
        spec(
            "`cargo xtask test` from nothing on two cores, seconds",
            Lower,
            720.0,
            480.0,
            "s",
            nothing::tests,
        ),
        spec(
            "`.ci/run` from nothing on two cores, seconds",
            Lower,
            1800.0,
            1300.0,
            "s",
            nothing::ci,
        ),
        spec(
            "crates that an embedder with sockets compiles, ours included (feature `net`, no \
             defaults)",
            Lower,
            30.0,
            22.0,
            "crates",
            nothing::crates,
        ),
    ]
};

/// The folder of the workspace that contains this crate.
fn root() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("finding the workspace's folder")
}

/// The target folder that this program was built into.
fn target() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let folder = own.parent().and_then(Path::parent);
    Ok(folder.context("finding the target folder")?.to_owned())
}

/// Builds the program `wirespeed` in a profile, into the target folder, on both cores.
fn program(b: &Bench, profile: &str) -> Result<PathBuf> {
    let target = target()?;
    let mut command = process::cargo(root()?, &target);
    command.args(["build", "--profile", profile, "--package", "wirespeed-cli"]);
    process::run(&mut command, &b.cores.both())?.succeeded()?;
    Ok(target.join(profile).join("wirespeed"))
}

/// The ratio of the two programs' throughput. They transfer in turn, each in a process of its own
/// on the first core.
fn speed(b: &Bench) -> Result<Figure> {
    let (pairs, seconds) = if b.is_quick { (3, 1) } else { (5, 3) };
    let (default, dist) = (program(b, "release")?, program(b, "dist")?);
    let (mut by_default, mut by_dist) = (Vec::new(), Vec::new());
    let samples = paired(
        pairs,
        || ttcp(b, &default, seconds).inspect(|figure| by_default.push(*figure)),
        || ttcp(b, &dist, seconds).inspect(|figure| by_dist.push(*figure)),
    )?;
    let note = format!(
        "{:.2} by the profile release, {:.2} by dist, medians; `wirespeed ttcp --seconds \
         {seconds}` of both in turn, pinned to one core, {pairs} pairs",
        median(&by_default),
        median(&by_dist)
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// Runs `ttcp` of `program`. Returns gigabits per CPU-second of both ends, from the JSON document
/// that it prints.
fn ttcp(b: &Bench, program: &Path, seconds: u32) -> Result<f64> {
    let mut command = Command::new(program);
    command.args(["ttcp", "--json", "--seconds", &seconds.to_string()]);
    let ran = process::run(&mut command, &[b.cores.first])?.succeeded()?;
    let document: Value = serde_json::from_str(&ran.stdout).context("reading what ttcp printed")?;
    let figure =
        document["gbit_per_cpu_s"].as_f64().context("ttcp's document has no gbit_per_cpu_s")?;
    ensure!(figure > 0.0, "ttcp moved nothing");
    Ok(figure)
}

fn predicted_segment(b: &Bench) -> Result<Figure> {
    const CASE: &str = "predicted-segment-1500";
    let (default, dist) = (instructions(b, CASE, &[])?, instructions(b, CASE, &["--dist"])?);
    let value = default / dist;
    let note = format!(
        "{default} by the profile release, {dist} by dist; MTU 1500, both ends, without byte \
         passes, by icount"
    );
    Ok(Figure { value, samples: vec![value], note })
}

fn round_trip(b: &Bench) -> Result<Figure> {
    let value = instructions(b, "ping-pong-64", &[])?;
    let note = "case ping-pong-64 of icount, in the profile release".to_owned();
    Ok(Figure { value, samples: vec![value], note })
}

/// The instructions of one unit of a case, as counted by `cargo xtask icount`, which builds on both
/// cores.
fn instructions(b: &Bench, case: &str, options: &[&str]) -> Result<f64> {
    let mut command = process::cargo(root()?, &target()?);
    command.args(memory::icount_arguments(case, options));
    let ran = process::run(&mut command, &b.cores.both())?.succeeded()?;
    memory::instructions_in(ran.stdout.as_bytes(), case).context("reading what icount printed")
}
