//! Rows of bench `build` that start without any build results: a cold build and the size of the
//! program that it makes, the tests and `.ci/run` in a clean clone, and the number of crates that
//! an embedder compiles. Called by `mod.rs`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::process::{self, Scratch, cargo, run};
use super::{program, root, target};
use crate::harness::{Bench, Figure};
use crate::report::Machine;

thread_local! {
    /// The size in bytes of the program that the cold build made, if this run had a cold build.
    static SIZE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The two cores, for rows whose figure is a time on two cores.
fn two_cores(b: &Bench) -> Result<Vec<usize>> {
    let cores = b.cores.both();
    ensure!(cores.len() == 2, "this program may use only one core, but the row is about two");
    Ok(cores)
}

/// Download crates before a row is timed.
fn fetch(b: &Bench, workspace: &Path, manifests: &[&str]) -> Result<()> {
    for manifest in manifests {
        let mut command = cargo(workspace, &target()?);
        command.args(["fetch", "--locked", "--manifest-path", manifest]);
        run(&mut command, &b.cores.both())?.succeeded()?;
    }
    Ok(())
}

/// Measures how long README's first command takes with an empty target folder.
pub(super) fn cold_build(b: &Bench) -> Result<Figure> {
    let (cores, root) = (two_cores(b)?, root()?);
    fetch(b, root, &["Cargo.toml"])?;
    let folder = Scratch::new()?;
    let load = load();
    let mut command = cargo(root, &folder.0);
    command.args(["run", "--release", "--", "ttcp"]).env("CARGO_NET_OFFLINE", "true");
    let ran = run(&mut command, &cores)?.succeeded()?;
    let program = folder.0.join("release/wirespeed");
    SIZE.set(Some(fs::metadata(&program).context("the program of the cold build")?.len()));
    let note = format!(
        "`cargo run --release -- ttcp` with an empty target folder, its transfer of 3 s included; \
         {:.0} s of processor time on 2 cores; load average {load} before",
        ran.cpu_s
    );
    Ok(Figure { value: ran.seconds, samples: vec![ran.seconds], note })
}

/// The load average of the last minute.
fn load() -> f64 {
    Machine::now().load_average[0]
}

/// The size in megabytes of the program that users build.
pub(super) fn size(b: &Bench) -> Result<Figure> {
    let (bytes, of) = match SIZE.get() {
        Some(bytes) => (bytes, "of the cold build"),
        None => (fs::metadata(program(b, "release")?)?.len(), "of the target folder"),
    };
    let value = bytes as f64 / 1e6;
    let note = format!("{bytes} bytes: the program {of}, symbols and line tables included");
    Ok(Figure { value, samples: vec![value], note })
}

/// Measures how long the tests take that README names.
pub(super) fn tests(b: &Bench) -> Result<Figure> {
    in_a_clone(b, "cargo xtask test", |clone, target| {
        let mut command = cargo(clone, target);
        command.args(["xtask", "test"]);
        command
    })
}

/// Measures how long all checks take that guard the main branch.
pub(super) fn ci(b: &Bench) -> Result<Figure> {
    in_a_clone(b, ".ci/run", |clone, target| {
        let mut command = Command::new(clone.join(".ci/run"));
        process::clean(&mut command, target);
        command.current_dir(clone);
        command
    })
}

/// Measures how many seconds a command takes in a clean clone of the last commit. The command
/// prints how many cases it ran.
fn in_a_clone(
    b: &Bench,
    name: &str,
    command: fn(clone: &Path, target: &Path) -> Command,
) -> Result<Figure> {
    if b.is_quick {
        bail!("not run by --quick: it is `{name}` in a clean clone, for many minutes");
    }
    let (cores, folder) = (two_cores(b)?, Scratch::new()?);
    let clone = folder.0.join("wirespeed");
    let mut git = Command::new("git");
    git.args(["clone", "--quiet"]).arg(root()?).arg(&clone);
    run(&mut git, &cores)?.succeeded()?;
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short", "HEAD"]).current_dir(&clone);
    let commit = run(&mut git, &cores)?.succeeded()?.stdout;
    fetch(b, &clone, &["Cargo.toml", "fuzz/Cargo.toml"])?;
    let load = load();
    let ran = run(&mut command(&clone, &clone.join("target")), &cores)?.succeeded()?;
    let totals = ran.stdout.lines().last().unwrap_or_default();
    let note = format!(
        "`{name}` in a clean clone of {}, crates downloaded before: {totals}; {:.0} s of \
         processor time on 2 cores; load average {load} before",
        commit.trim(),
        ran.cpu_s
    );
    Ok(Figure { value: ran.seconds, samples: vec![ran.seconds], note })
}

/// The number of crates that a program compiles if it uses the crate `wirespeed` with sockets and
/// no other feature.
pub(super) fn crates(b: &Bench) -> Result<Figure> {
    let mut command = cargo(root()?, &target()?);
    command.args(["tree", "--locked", "--package", "wirespeed", "--no-default-features"]);
    command.args(["--features", "net", "--edges", "normal,build", "--prefix", "none"]);
    let ran = run(&mut command, &b.cores.both())?.succeeded()?;
    let all = distinct(&ran.stdout);
    ensure!(all.len() > 1, "cargo tree names no crates");
    let (ours, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|(name, _)| name.starts_with("wirespeed"));
    let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    let note = format!("{} of ours and {} others: {}", ours.len(), others.len(), names.join(", "));
    let value = all.len() as f64;
    Ok(Figure { value, samples: vec![value], note })
}

/// The different names and versions in the lines of `cargo tree --prefix none`.
fn distinct(tree: &str) -> BTreeSet<(&str, &str)> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_counts_once_and_each_of_its_versions_counts() {
        let tree = "wirespeed v0.1.0 (/a/wirespeed)\nsyn v2.0.1\nquote v1.0.0 (proc-macro)\n\
                    syn v2.0.1 (*)\nsyn v1.0.9\n\n";
        let names: Vec<_> = distinct(tree).into_iter().collect();
        assert_eq!(
            names,
            [("quote", "v1.0.0"), ("syn", "v1.0.9"), ("syn", "v2.0.1"), ("wirespeed", "v0.1.0")]
        );
    }

    #[test]
    fn a_quick_run_says_which_command_it_left_out() {
        let bench = Bench::new(true).expect("a core");
        for (row, name) in
            [(tests as fn(&Bench) -> Result<Figure>, "`cargo xtask test`"), (ci, "`.ci/run`")]
        {
            let why = row(&bench).expect_err("not run").to_string();
            assert!(why.contains(name) && why.contains("--quick"), "{why}");
        }
    }
}
