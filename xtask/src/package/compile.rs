//! Compiles the program and the C library for packages: paths of this machine are replaced in them,
//! and the program says the commit of the release.
//!
//! Called by: `mod.rs` and `twice.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::release::Release;
use crate::{cargo, process};

/// Compile the program of the sources at `root`; `target` is Cargo's folder for that.
pub(super) fn program(
    root: &Path,
    target: &Path,
    profile: &str,
    release: &Release,
) -> Result<PathBuf> {
    let mut command = cargo::cargo(root);
    command.args(["build", "--locked", "--profile", profile, "-p", "wirespeed-cli"]);
    reproducibly(root, target, release, command.arg("--target-dir").arg(target))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(folder).join("wirespeed"))
}

/// Compile the C library and let it install itself into `tree`, by the Makefile of crate capi.
pub(super) fn library(
    root: &Path,
    target: &Path,
    profile: &str,
    release: &Release,
    tree: &Path,
) -> Result<()> {
    let folder = root.join("crates/top/capi");
    let is_there = folder.join("Makefile").exists();
    ensure!(is_there, "crates/top/capi has no Makefile: leave out --library");
    let asked = process::output(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
    let libdir = format!("LIBDIR=/usr/lib/{}", asked.trim());
    for goal in ["all", "install"] {
        let mut make = Command::new("make");
        make.arg("-C").arg(&folder).args([goal, "PREFIX=/usr", &libdir]);
        make.arg(format!("PROFILE={profile}")).arg(format!("TARGET_DIR={}", target.display()));
        reproducibly(root, target, release, make.arg(format!("DESTDIR={}", tree.display())))?;
    }
    Ok(())
}

/// Run a compilation whose result does not depend on the machine's folders and clock.
fn reproducibly(
    root: &Path,
    target: &Path,
    release: &Release,
    command: &mut Command,
) -> Result<()> {
    let replaced = replaced(root, target)?;
    let each = |flag: &str| -> Vec<String> {
        replaced.iter().map(|(from, to)| format!("{flag}={from}={to}")).collect()
    };
    command
        .env("CARGO_ENCODED_RUSTFLAGS", each("--remap-path-prefix").join("\x1f"))
        .env("CFLAGS", each("-ffile-prefix-map").join(" "))
        .env("SOURCE_DATE_EPOCH", &release.epoch)
        .env("WIRESPEED_COMMIT", &release.commit);
    process::pass_on(command)
}

/// Folders of this machine, and what a package says instead. The last one that fits is taken, so
/// that Cargo's folder, where build scripts write sources, may be inside the project's or not.
fn replaced(root: &Path, target: &Path) -> Result<Vec<(String, &'static str)>> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), Into::into);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(rustc);
    let sysroot = process::output(rustc.current_dir(root).args(["--print", "sysroot"]))?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).context("a folder's name is no text: use another one")
    };
    Ok(vec![
        (text(root)?, "/usr/src/wirespeed"),
        (text(&cargo_home)?, "/usr/src/cargo"),
        (text(Path::new(sysroot.trim()))?, "/usr/src/rust"),
        (text(target)?, "/usr/src/target"),
    ])
}
