//! `cargo xtask bench NAME`: build the side-by-side benchmarks in release mode and become them.
//!
//! Arguments go through untouched; the caller's directory stays.

use crate::cargo;
use anyhow::{Result, anyhow};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Only returns when the benchmark could not be started.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<u8> {
    let binary = cargo::release_binary(root, "wirespeed-bench", "wirespeed-bench")?;
    let e = Command::new(&binary).args(args).exec();
    Err(anyhow!("cannot start {}: {e}", binary.display()))
}
