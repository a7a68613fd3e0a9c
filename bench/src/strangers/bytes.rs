//! The cost of the passes over payload bytes: alone, in a transfer, with loans, between two cores.
//! Called by `mod.rs`. `passes` contains the three passes without a stack. `ring` measures two
//! cores that only move bytes. The transfers are those of `wirespeed ttcp`.

mod passes;
mod ring;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use passes::{Kernels, Passes};
use serde::Deserialize;
use wire::checksum::Ladder;

use crate::drive::Bulk;
use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::{Measurement, pin};
use crate::ours;

/// Rows of the table.
pub(super) const ROWS: &[Spec] = &[
    spec(
        "memory MTU 1500: ns a segment / the three byte passes alone by AVX2",
        Better::Lower,
        1.4,
        1.15,
        "x",
        segment_over_passes,
    ),
    spec(
        "three byte passes of 1448 bytes: ours / the same by AVX2 alone, ns",
        Better::Lower,
        0.95,
        0.75,
        "x",
        passes_over_avx2,
    ),
    spec(
        "ttcp with loaned buffers / with copies, Gb per CPU-second",
        Better::Higher,
        1.15,
        1.4,
        "x",
        loans_over_copies,
    ),
    spec(
        "ttcp on two threads / bytes moved through a ring by two cores that do nothing else",
        Better::Higher,
        0.7,
        0.9,
        "x",
        two_threads_over_ring,
    ),
];

fn ns_a_unit(measured: &Measurement) -> Result<f64> {
    Ok(1e9 / measured.units_per_cpu_s()?)
}

fn gbit_per_s(measured: &Measurement) -> Result<f64> {
    anyhow::ensure!(measured.wall_s > 0.0 && measured.bytes > 0, "nothing was moved");
    Ok(measured.bytes as f64 * 8e-9 / measured.wall_s)
}

fn segment_over_passes(b: &Bench) -> Result<Figure> {
    let mut avx2 = Passes::new(Kernels::avx2()?);
    b.close_ratio(
        ns_a_unit,
        |seconds| ours::bulk(Bulk::default(), seconds),
        |seconds| Ok(avx2.run(seconds)),
    )
}

fn passes_over_avx2(b: &Bench) -> Result<Figure> {
    let (mut ours, mut avx2) = (Passes::new(Kernels::ours()), Passes::new(Kernels::avx2()?));
    let mut figure =
        b.hot_ratio(ns_a_unit, |seconds| Ok(ours.run(seconds)), |seconds| Ok(avx2.run(seconds)))?;
    figure.note = format!("{}; {}", figure.note, Ladder::choice());
    Ok(figure)
}

fn loans_over_copies(b: &Bench) -> Result<Figure> {
    let ttcp = Ttcp::built()?;
    b.ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| ttcp.run(&["--loan"], seconds),
        |seconds| ttcp.run(&[], seconds),
    )
}

fn two_threads_over_ring(b: &Bench) -> Result<Figure> {
    let second = b.cores.second.context("two threads need two cores")?;
    let ttcp = Ttcp::built()?;
    // A program that is started inherits the affinity of this thread.
    pin(&b.cores.both())?;
    b.ratio(
        gbit_per_s,
        |seconds| ttcp.run(&["--threads", "2"], seconds),
        |seconds| ring::run([b.cores.first, second], seconds),
    )
}

/// The path of the program `wirespeed`.
struct Ttcp(PathBuf);

/// The fields of ttcp's JSON document that are used here.
#[derive(Deserialize)]
struct Document {
    bytes: u64,
    gbit_per_s: f64,
    gbit_per_cpu_s: f64,
    segments: u64,
}

impl Ttcp {
    /// Builds the program into the folder of this program.
    fn built() -> Result<Ttcp> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
        let status = Command::new("cargo")
            .args(["build", "--release", "--quiet", "--package", "wirespeed-cli"])
            .current_dir(root)
            .status()
            .context("running cargo build")?;
        ensure!(status.success(), "cargo build of wirespeed failed");
        let program = std::env::current_exe().context("finding this program")?;
        Ok(Ttcp(program.with_file_name("wirespeed")))
    }

    /// Runs a transfer of this many seconds with these options.
    fn run(&self, options: &[&str], seconds: f64) -> Result<Measurement> {
        let out = Command::new(&self.0)
            .args(["ttcp", "--json", "--seconds", &seconds.to_string()])
            .args(options)
            .output()
            .with_context(|| format!("starting {}", self.0.display()))?;
        ensure!(out.status.success(), "ttcp: {}", String::from_utf8_lossy(&out.stderr).trim());
        let document: Document =
            serde_json::from_slice(&out.stdout).context("reading what ttcp printed")?;
        let gbit = document.bytes as f64 * 8e-9;
        Ok(Measurement {
            bytes: document.bytes,
            wall_s: gbit / document.gbit_per_s,
            cpu_s: gbit / document.gbit_per_cpu_s,
            units: document.segments,
            p50_ns: None,
            settings: format!("ttcp {}", options.join(" ")).trim_end().to_owned(),
        })
    }
}
