//! `cargo xtask bench NAME`: build the benchmarks in release mode and replace this process by one.
//!
//! Arguments and the current directory are passed on unchanged.

use crate::cargo;
use anyhow::{Result, anyhow};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Only returns when the benchmark could not be started.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<u8> {
    let binary = cargo::binary_with(root, "wirespeed-bench", "wirespeed-bench", "bench", None)?;
    let e = Command::new(&binary).args(args).exec();
    Err(anyhow!("cannot start {}: {e}", binary.display()))
}
