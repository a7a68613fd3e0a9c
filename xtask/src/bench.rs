//! `cargo xtask bench NAME`: build the benchmarks in release mode and replace this process by one.
//!
//! Arguments and the current directory are passed on unchanged. Bench `gateway` measures the
//! program itself, so that is built, too.

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
    if args.first().is_some_and(|name| name == "gateway") && !names_program {
        let wirespeed = cargo::release_binary(root, "wirespeed-cli", "wirespeed")?;
        command.arg("--program").arg(wirespeed);
    }
    let e = command.exec();
    Err(anyhow!("cannot start {}: {e}", binary.display()))
}
