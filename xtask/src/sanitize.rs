//! `cargo xtask sanitize [asan|valgrind|loom|miri]`: the tests of code that is unsafe or crosses
//! threads, under tools that find errors which a test cannot.
//!
//! Called by: people and the nightly run. Each package under each tool is a case. The build uses
//! `--cfg wirespeed_unpooled`, one allocation for each buffer, so that a use after free is
//! detected.

use crate::cargo::{Metadata, cargo};
use crate::process;
use crate::report::{Tally, Usage, step};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Asan,
    Valgrind,
    Loom,
    Miri,
}

const TOOLS: [(&str, Tool); 4] = [
    ("asan", Tool::Asan),
    ("valgrind", Tool::Valgrind),
    ("loom", Tool::Loom),
    ("miri", Tool::Miri),
];
const UNPOOLED: &str = "--cfg wirespeed_unpooled";
const HOST: &str = "x86_64-unknown-linux-gnu";

/// The tool of that name, or all.
pub(crate) fn choose(name: Option<&str>) -> Result<Vec<Tool>> {
    let chosen: Vec<_> =
        TOOLS.iter().filter(|(n, _)| name.is_none_or(|name| name == *n)).map(|t| t.1).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        bail!(Usage(format!("no sanitizer '{name}'; there are: asan, valgrind, loom, miri")));
    }
    Ok(chosen)
}

/// Run every tool that is installed.
pub(crate) fn run(root: &Path, tools: &[Tool], tally: &mut Tally) -> Result<()> {
    for tool in tools {
        match tool {
            Tool::Asan => asan(root, tally)?,
            Tool::Valgrind => valgrind(root, tally)?,
            Tool::Loom => crate::test::loom(root, tally)?,
            Tool::Miri => miri(root, tally)?,
        }
    }
    Ok(())
}

/// Everything that holds mbufs, and the tests in C, with the nightly toolchain that
/// AddressSanitizer needs.
fn asan(root: &Path, tally: &mut Tally) -> Result<()> {
    let target = Metadata::read(root)?.target_directory.join("asan");
    let missing = asan_missing();
    for package in ["wirespeed-mbuf", "wirespeed-device", "wirespeed-stack", "wirespeed-capi"] {
        let name = format!("asan {package}");
        if let Some(missing) = missing {
            tally.skip(&name, missing);
            continue;
        }
        step(&name, tally, |tally| {
            let mut command = Command::new("rustup");
            command
                .current_dir(root)
                .args(["run", "nightly", "cargo", "test", "--quiet", "--lib", "--tests"])
                .args(["-p", package, "--target", HOST, "--target-dir"])
                .arg(&target)
                .env("RUSTFLAGS", format!("-Zsanitizer=address {UNPOOLED}"))
                .env("PROPTEST_CASES", "32")
                .env("WIRESPEED_TRAFFICS", "60")
                // The programs in C are looked at too, and bring the library of the sanitizer.
                .env("WIRESPEED_C_FLAGS", "-fsanitize=address,undefined -fno-sanitize-recover=all")
                .env("ASAN_OPTIONS", "detect_leaks=1")
                .env_remove("CARGO")
                .env_remove("RUSTC");
            tally.case(&name, process::pass_on(&mut command));
            Ok(())
        })?;
    }
    Ok(())
}

/// The runs of Miri: arguments of `cargo test`, of which those behind `--` select tests without
/// system calls. The test plays the kernel's side of its rings; machine code is made, but not run.
const MIRI: [(&str, &[&str]); 5] = [
    ("buffers", &["-p", "wirespeed-mbuf", "--lib"]),
    ("rings of AF_XDP", &["-p", "wirespeed-device", "--lib", "--", "xdp::ring"]),
    (
        "the wire in memory",
        &["-p", "wirespeed-device", "--test", "all", "--", "mem::a_", "mem::frames", "mem::two"],
    ),
    ("machine code", &["-p", "wirespeed-bpf", "--lib", "--features", "jit", "--", "code_is_made"]),
    ("sums", &["-p", "wirespeed-wire", "--lib", "--", "the_example_of_rfc_1071"]),
];

/// The two models of what a pointer may touch.
const MODELS: [(&str, &str); 2] =
    [("Stacked Borrows", ""), ("Tree Borrows", "-Zmiri-tree-borrows")];

/// Tests without system calls, interpreted, with the nightly toolchain's Miri.
fn miri(root: &Path, tally: &mut Tally) -> Result<()> {
    let target = Metadata::read(root)?.target_directory.join("miri");
    let asked =
        Command::new("rustup").args(["run", "nightly", "cargo", "miri", "--version"]).output();
    let is_there = asked.is_ok_and(|output| output.status.success());
    for (what, args) in MIRI {
        for (model, flag) in MODELS {
            let name = format!("miri {what}, {model}");
            if !is_there {
                tally.skip(&name, "Miri: rustup component add --toolchain nightly miri rust-src");
                continue;
            }
            step(&name, tally, |tally| {
                let mut command = Command::new("rustup");
                command
                    .current_dir(root)
                    .args(["run", "nightly", "cargo", "miri", "test", "--quiet", "--target-dir"])
                    .arg(&target)
                    .args(args)
                    .env("MIRIFLAGS", format!("-Zmiri-disable-isolation {flag}"))
                    .env("PROPTEST_CASES", "2")
                    .env_remove("CARGO")
                    .env_remove("RUSTC");
                tally.case(&name, process::pass_on(&mut command));
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn asan_missing() -> Option<&'static str> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some("an x86-64 Linux");
    }
    let list = Command::new("rustup").args(["toolchain", "list"]).output();
    let list = list.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    (!list.contains("nightly")).then_some("the nightly toolchain: rustup toolchain install nightly")
}

/// The test programs of the crates that have `unsafe` and are quick enough under valgrind.
fn valgrind(root: &Path, tally: &mut Tally) -> Result<()> {
    let target = Metadata::read(root)?.target_directory.join("valgrind");
    for package in ["wirespeed-mbuf", "wirespeed-device"] {
        let name = format!("valgrind {package}");
        let Some(valgrind) = process::find("valgrind") else {
            tally.skip(&name, "valgrind (Debian package valgrind)");
            continue;
        };
        step(&name, tally, |tally| {
            tally.case(&name, under_valgrind(root, &valgrind, package, &target));
            Ok(())
        })?;
    }
    Ok(())
}

fn under_valgrind(root: &Path, valgrind: &Path, package: &str, target: &Path) -> Result<()> {
    let built = process::output(
        cargo(root)
            .args(["test", "--no-run", "--quiet", "--lib", "--tests", "-p", package])
            .args(["--message-format", "json", "--target-dir"])
            .arg(target)
            .env("RUSTFLAGS", UNPOOLED),
    )?;
    let programs = executables(&built);
    if programs.is_empty() {
        bail!("cargo named no test program of {package}");
    }
    for program in programs {
        process::pass_on(
            Command::new(valgrind)
                .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
                // Memory that the test harness keeps for its threads is not a leak of ours.
                .args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"])
                .arg(&program)
                .args(["--quiet", "--test-threads=1"])
                .env("PROPTEST_CASES", "4"),
        )
        .with_context(|| format!("under valgrind: {}", program.display()))?;
    }
    Ok(())
}

/// The test programs that cargo's messages name.
fn executables(messages: &str) -> Vec<PathBuf> {
    let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
    let messages = messages.lines().filter_map(read);
    let programs = messages.filter(|m| m["profile"]["test"] == true);
    programs.filter_map(|m| m["executable"].as_str().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_chosen_by_name_and_an_unknown_one_is_refused() {
        assert_eq!(choose(Some("loom")).unwrap(), [Tool::Loom]);
        assert_eq!(choose(None).unwrap().len(), 4);
        assert!(choose(Some("msan")).unwrap_err().is::<Usage>());
    }

    #[test]
    fn test_programs_are_found_in_cargos_messages() {
        let text = "{\"profile\":{\"test\":true},\"executable\":\"/t/a\"}\nnonsense\n\
            {\"profile\":{\"test\":false},\"executable\":\"/t/b\"}\n\
            {\"profile\":{\"test\":true},\"executable\":null}\n";
        assert_eq!(executables(text), [PathBuf::from("/t/a")]);
    }
}
