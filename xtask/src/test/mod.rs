//! `cargo xtask test`: format, clippy, tidy, rfc, every test of the workspace, loom, interop.
//!
//! Called by: people and `.ci/run`. Each step prints its elapsed time; a failure does not stop the
//! others, so that one run shows all failures.

mod libtest;

use crate::cargo::{Metadata, cargo};
use crate::report::{Tally, step};
use crate::{interop, process, rfc, tidy};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// All steps in order; with `install`, the packages that interop tests lack come first.
pub(crate) fn run(root: &Path, install: bool, tally: &mut Tally) -> Result<()> {
    let suites = interop::choose(None)?;
    if install {
        interop::install_step(&suites, tally)?;
    }
    step("format", tally, |tally| {
        let outcome = process::pass_on(cargo(root).args(["fmt", "--all", "--check"]));
        tally.case("format", outcome.map_err(|e| e.context("run `cargo fmt --all`")));
        Ok(())
    })?;
    step("clippy", tally, |tally| {
        let args = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        tally.case("clippy", process::pass_on(cargo(root).args(args)));
        Ok(())
    })?;
    tidy::run(root, tally)?;
    rfc::run(root, false, tally)?;
    step("other systems", tally, |tally| {
        for krate in ["bpf", "device", "stack", "net", "wirespeed"] {
            let package = if krate == "wirespeed" { krate } else { &format!("wirespeed-{krate}") };
            let mut command = cargo(root);
            command.args(["check", "--quiet", "--no-default-features", "-p", package]);
            let name = format!("builds without the Linux devices: {krate}");
            tally.case(&name, process::pass_on(&mut command));
        }
        Ok(())
    })?;
    step("tests", tally, |tally| {
        count_tests(cargo(root).args(["test", "--workspace", "--no-fail-fast"]), tally)
    })?;
    fuzz_targets(root, tally)?;
    loom(root, tally)?;
    interop::run(root, &suites, interop::Asked::default(), tally)
}

/// The separate workspace of fuzz/: its style, and every target on its seeds.
fn fuzz_targets(root: &Path, tally: &mut Tally) -> Result<()> {
    let manifest = ["--manifest-path", "fuzz/Cargo.toml"];
    let target = Metadata::read(root)?.target_directory.join("fuzz").join("plain");
    step("fuzz targets on their seeds", tally, |tally| {
        let mut fmt = cargo(root);
        fmt.arg("fmt").args(manifest).arg("--check");
        tally.case("format of fuzz/", process::pass_on(&mut fmt));
        let mut clippy = cargo(root);
        clippy.arg("clippy").args(manifest).args(["--all-targets", "--quiet", "--target-dir"]);
        clippy.arg(&target).args(["--", "-D", "warnings"]);
        tally.case("clippy of fuzz/", process::pass_on(&mut clippy));
        let mut test = cargo(root);
        test.arg("test").args(manifest).args(["--no-fail-fast", "--target-dir"]).arg(&target);
        count_tests(&mut test, tally)
    })
}

/// Run `cargo test` and add up what its test programs print.
fn count_tests(command: &mut Command, tally: &mut Tally) -> Result<()> {
    let mut reader = libtest::Reader::default();
    let succeeded = process::lines(command, |line| {
        if reader.take(line) {
            println!("{line}");
        }
    })?;
    reader.finish(succeeded, &process::shown(command), tally);
    Ok(())
}

/// Every `tests/loom*.rs` of a crate, compiled with `--cfg loom` into a target folder of its own.
pub(crate) fn loom(root: &Path, tally: &mut Tally) -> Result<()> {
    let metadata = Metadata::read(root)?;
    for package in metadata.members() {
        let folder = Path::new(&package.manifest_path).with_file_name("tests");
        for name in loom_tests(&folder) {
            step(&format!("loom {} {name}", package.name), tally, |tally| {
                let mut command = cargo(root);
                command
                    .args(["test", "--release", "-p", &package.name, "--test", &name])
                    .arg("--target-dir")
                    .arg(metadata.target_directory.join("loom"))
                    .env("RUSTFLAGS", "--cfg loom")
                    // Exploring takes a second; full optimisation would take minutes.
                    .env("CARGO_PROFILE_RELEASE_LTO", "off")
                    .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
                    .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
                    .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
                    .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
                count_tests(&mut command, tally)
            })?;
        }
    }
    Ok(())
}

/// Names of the loom test programs in a crate's tests folder.
fn loom_tests(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    let stems = names.filter_map(|n| n.strip_suffix(".rs").map(str::to_owned));
    let mut found: Vec<String> = stems.filter(|n| n.starts_with("loom")).collect();
    found.sort();
    found
}
