//! Bulk from Python: two threads of one interpreter, over two stacks in memory and over the
//! kernel's loopback, by the same calls of 64 KB (`python/bench/bulk.py`). Called by `mod.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::Measurement;

pub(super) const ROW: Spec = spec(
    "bulk over memory from Python, 64 KB calls / the kernel's loopback from Python",
    Better::Higher,
    1.0,
    2.0,
    "x",
    ratio,
);

fn ratio(bench: &Bench) -> Result<Figure> {
    let python = installed()?;
    let mut figure = bench.ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| run(&python, "wirespeed", seconds),
        |seconds| run(&python, "kernel", seconds),
    )?;
    figure.note = format!(
        "Gb per CPU-second of the process, kernel included; sendall and recv_into of 64 KB by two \
         threads, not pinned; loopback has an MTU of 65,536 and checks no sums, our wire has 1,500 \
         with super-segments and checks none either; {}",
        figure.note
    );
    Ok(figure)
}

fn run(python: &Path, side: &str, seconds: f64) -> Result<Measurement> {
    let script = root().join("python/bench/bulk.py");
    let mut command = Command::new(python);
    command.arg(script).arg(side).arg(seconds.to_string());
    let output = command.output().context("starting Python")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "bulk.py {side}: {}", complaint.trim());
    let mut measured: Measurement =
        serde_json::from_slice(&output.stdout).context("what bulk.py prints")?;
    side.clone_into(&mut measured.settings);
    Ok(measured)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The interpreter of a virtual environment with the package, built by its documentation.
fn installed() -> Result<PathBuf> {
    let folder = root().join("target/python");
    let python = folder.join("bench/bin/python");
    ran(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder.join("bench")))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.arg(root().join("python")).env("CARGO_TARGET_DIR", folder.join("build"));
    ran(&mut install)?;
    Ok(python)
}

fn ran(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", complaint.trim());
    Ok(())
}
