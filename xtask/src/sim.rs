//! `cargo xtask sim`: build the simulator, optimised but with every assertion, and replace this
//! process by it.
//!
//! Arguments are passed on, with the commit and a folder for captures under `target` added.

use crate::cargo;
use anyhow::{Result, anyhow};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Only returns when the simulator could not be started.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<u8> {
    let binary = cargo::binary_with(root, "wirespeed-sim", "wirespeed-sim", "sim", None)?;
    let mut command = Command::new(&binary);
    command.args(args).env("WIRESPEED_COMMIT", commit(root));
    let is_worlds = args.first().is_none_or(|first| first.starts_with("--"));
    if is_worlds && !args.iter().any(|arg| arg.starts_with("--captures")) {
        let folder = binary.with_file_name("captures");
        command.arg("--captures").arg(folder);
    }
    let e = command.exec();
    Err(anyhow!("cannot start {}: {e}", binary.display()))
}

/// The commit that is built, for the report of a failure; a tree without git has none.
fn commit(root: &Path) -> String {
    let described = Command::new("git")
        .current_dir(root)
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    match described {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}
