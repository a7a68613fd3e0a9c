//! `cargo xtask bench NAME`: build the benchmarks in release mode and replace this process by one.
//!
//! Arguments and the current directory are passed on unchanged. Benches `gateway` and `frr` measure
//! the program itself, so that is built, too: for `frr` as packages have it.

use crate::cargo;
use anyhow::{Result, anyhow};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Only returns when the benchmark could not be started.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<u8> {
    let binary = cargo::binary_with(root, "wirespeed-bench", "wirespeed-bench", "bench", None)?;
    let mut command = Command::new(&binary);
    command.args(args);
    let names_program = args.iter().any(|arg| arg.starts_with("--program"));
    let profile = match args.first().map(String::as_str) {
        Some("gateway") => Some("release"),
        Some("frr") => Some("dist"),
        _ => None,
    };
    if let Some(profile) = profile.filter(|_| !names_program) {
        let program = cargo::binary_with(root, "wirespeed-cli", "wirespeed", profile, None)?;
        command.arg("--program").arg(program);
    }
    let e = command.exec();
    Err(anyhow!("cannot start {}: {e}", binary.display()))
}
