//! `wirespeed ttcp`, built as users build it, and its JSON document. Called by `bytes.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::measure::Measurement;

/// The program.
pub(super) struct Ttcp(PathBuf);

/// The fields that are read.
#[derive(Deserialize)]
struct Document {
    bytes: u64,
    gbit_per_s: f64,
    gbit_per_cpu_s: f64,
    segments: u64,
}

impl Ttcp {
    /// Built beside this program.
    pub(super) fn built() -> Result<Ttcp> {
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

    /// A transfer of this many seconds with these options.
    pub(super) fn run(&self, options: &[&str], seconds: f64) -> Result<Measurement> {
        let out = Command::new(&self.0)
            .args(["ttcp", "--json", "--seconds", &seconds.to_string()])
            .args(options)
            .output()
            .with_context(|| format!("starting {}", self.0.display()))?;
        ensure!(out.status.success(), "ttcp: {}", String::from_utf8_lossy(&out.stderr).trim());
        let document: Document =
            serde_json::from_slice(&out.stdout).context("reading what ttcp says")?;
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
