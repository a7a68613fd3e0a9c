//! Compiles the program for packages: paths of this machine are replaced in it, and it says the
//! commit of the release.
//!
//! Called by: `mod.rs` and `twice.rs`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Release;
use crate::{cargo, process};

/// Compile the program of the sources at `root`; `target` is Cargo's folder for that.
pub(super) fn program(
    root: &Path,
    target: &Path,
    profile: &str,
    release: &Release,
) -> Result<PathBuf> {
    let replaced = replaced(root)?;
    let flags: Vec<_> =
        replaced.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let for_c: Vec<_> =
        replaced.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    let mut command = cargo::cargo(root);
    command
        .args(["build", "--locked", "--profile", profile, "-p", "wirespeed-cli"])
        .arg("--target-dir")
        .arg(target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CFLAGS", for_c.join(" "))
        .env("SOURCE_DATE_EPOCH", &release.epoch)
        .env("WIRESPEED_COMMIT", &release.commit);
    process::pass_on(&mut command)?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(folder).join("wirespeed"))
}

/// Folders of this machine, and what a package says instead.
fn replaced(root: &Path) -> Result<Vec<(String, &'static str)>> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), Into::into);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = process::output(
        std::process::Command::new(rustc).current_dir(root).args(["--print", "sysroot"]),
    )?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).context("a folder's name is no text: use another one")
    };
    Ok(vec![
        (text(root)?, "/usr/src/wirespeed"),
        (text(&cargo_home)?, "/usr/src/cargo"),
        (text(Path::new(sysroot.trim()))?, "/usr/src/rust"),
    ])
}
