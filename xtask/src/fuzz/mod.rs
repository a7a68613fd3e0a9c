//! `cargo xtask fuzz`: builds the targets of fuzz/ with cargo-fuzz and a sanitizer, makes their
//! seeds, runs each for its share of the time, two at a time, and stops at the first finding.
//!
//! Called by: people and the nightly run. It reads the names of the targets in fuzz/Cargo.toml, and
//! parses what libFuzzer prints. Everything it writes is below target/fuzz: the corpus of each
//! target, which grows from run to run, its log, and findings.

mod outcome;
mod work;

use crate::process;
use crate::report::{Tally, Usage, step};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outcome::Outcome;

const HOST: &str = "x86_64-unknown-linux-gnu";
/// Buffers are an allocation each, so that a use after free is seen.
const UNPOOLED: &str = "--cfg wirespeed_unpooled";
/// The minimum time of a target: libFuzzer counts whole seconds.
const SECONDS_LEAST: u64 = 1;

/// The options of the command line.
pub(crate) struct Options {
    /// Seconds for all targets together, building not counted.
    pub(crate) seconds: u64,
    /// This target only.
    pub(crate) target: Option<String>,
    /// Targets at a time.
    pub(crate) jobs: usize,
    /// Replay this file, and do nothing else.
    pub(crate) replay: Option<PathBuf>,
}

/// The folders of a run.
struct Folders {
    root: PathBuf,
    base: PathBuf,
}

impl Folders {
    fn new(root: &Path) -> Folders {
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| root.join("target"), |dir| root.join(dir));
        Folders { root: root.to_owned(), base: target.join("fuzz") }
    }

    /// The folder of a target, or of all: `corpus`, `seeds`, `findings`, `logs`.
    fn folder(&self, kind: &str, target: &str) -> PathBuf {
        self.base.join(kind).join(target)
    }

    fn program(&self, target: &str) -> PathBuf {
        self.base.join("build").join(HOST).join("release").join(target)
    }

    /// The path relative to the workspace.
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Each target is a case: it passes if its time runs out without a finding.
pub(crate) fn run(root: &Path, options: &Options, tally: &mut Tally) -> Result<()> {
    let folders = Folders::new(root);
    let targets = targets(&std::fs::read_to_string(root.join("fuzz/Cargo.toml"))?)?;
    let chosen = choose(&targets, options)?;
    if let Some(missing) = missing() {
        chosen.iter().for_each(|target| tally.skip(target, &missing));
        return Ok(());
    }
    if let Some(file) = &options.replay {
        return replay(&folders, &chosen[0], file, tally);
    }
    step("build", tally, |_| build(&folders, &chosen))?;
    step("seeds", tally, |_| seeds(&folders))?;
    let share = share(options.seconds, chosen.len(), options.jobs);
    let mut outcomes = Vec::new();
    step(&format!("fuzz, {share} s each"), tally, |tally| {
        let job = work::Job { folders: &folders, time: Duration::from_secs(share) };
        outcomes = job.run(&chosen, options.jobs)?;
        outcomes.iter().for_each(|outcome| check(&folders, outcome, tally));
        Ok(())
    })?;
    print!("{}", outcome::table(&outcomes));
    Ok(())
}

fn check(folders: &Folders, outcome: &Outcome, tally: &mut Tally) {
    match &outcome.finding {
        None if outcome.stopped => {
            tally.skip(&outcome.target, "time: stopped at another target's finding");
        }
        None => tally.pass(),
        Some(finding) => {
            println!("{}", finding.text);
            let log = folders.shown(&folders.folder("logs", &outcome.target));
            let why = match &finding.file {
                Some(file) => {
                    let file = folders.shown(file);
                    format!("replay with `cargo xtask fuzz --replay {file}`; the log is {log}")
                }
                None => format!("it ended without naming an input; see {log}"),
            };
            tally.fail(&outcome.target, &why);
        }
    }
}

/// The names of the programs in fuzz/Cargo.toml.
fn targets(manifest: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Manifest {
        bin: Vec<Bin>,
    }
    #[derive(Deserialize)]
    struct Bin {
        name: String,
    }
    let manifest: Manifest = toml::from_str(manifest).context("cannot read fuzz/Cargo.toml")?;
    ensure!(!manifest.bin.is_empty(), "fuzz/Cargo.toml has no target");
    Ok(manifest.bin.into_iter().map(|bin| bin.name).collect())
}

/// All targets, the one that was named, or the one that a finding belongs to.
fn choose(targets: &[String], options: &Options) -> Result<Vec<String>> {
    let known = || targets.join(", ");
    if let Some(name) = &options.target {
        let found = targets.iter().find(|target| *target == name);
        let Some(found) = found else {
            bail!(Usage(format!("no fuzz target '{name}'; there are: {}", known())));
        };
        return Ok(vec![found.clone()]);
    }
    let Some(file) = &options.replay else { return Ok(targets.to_vec()) };
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let begins = |target: &&String| name.starts_with(&format!("{target}-"));
    match targets.iter().filter(begins).max_by_key(|target| target.len()) {
        Some(found) => Ok(vec![found.clone()]),
        None => {
            let what =
                format!("cannot tell the target of {name}; say --target, one of: {}", known());
            bail!(Usage(what))
        }
    }
}

/// Seconds for each of `count` targets, `jobs` at a time, within `seconds` in all.
fn share(seconds: u64, count: usize, jobs: usize) -> u64 {
    let rounds = count.div_ceil(jobs.max(1)).max(1) as u64;
    (seconds / rounds).max(SECONDS_LEAST)
}

/// The tools that have to be installed for fuzzing on this machine: the message if one is missing.
fn missing() -> Option<String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some("an x86-64 Linux".to_owned());
    }
    let list = Command::new("rustup").args(["toolchain", "list"]).output();
    let list = list.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let lacks = [
        (!list.contains("nightly"), "the nightly toolchain: rustup toolchain install nightly"),
        (!has_cargo_fuzz(), "cargo-fuzz: cargo install --locked cargo-fuzz"),
        (process::find("c++").is_none(), "a C++ compiler for libFuzzer (Debian package g++)"),
    ];
    let lacks: Vec<_> = lacks.iter().filter(|(lacks, _)| *lacks).map(|(_, what)| *what).collect();
    (!lacks.is_empty()).then(|| lacks.join("; "))
}

/// Is it on PATH, or where cargo installs and finds programs?
fn has_cargo_fuzz() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let installed = home.is_some_and(|home| home.join("bin/cargo-fuzz").is_file());
    installed || process::find("cargo-fuzz").is_some()
}

fn build(folders: &Folders, chosen: &[String]) -> Result<()> {
    let mut command = Command::new("rustup");
    command
        .current_dir(&folders.root)
        .args(["run", "nightly", "cargo", "fuzz", "build"])
        .args(["--fuzz-dir", "fuzz", "--target", HOST, "--target-dir"])
        .arg(folders.base.join("build"))
        .env("RUSTFLAGS", UNPOOLED)
        .env_remove("CARGO")
        .env_remove("RUSTC");
    if let [one] = chosen {
        command.arg(one);
    }
    process::pass_on(&mut command)
}

/// Traffic between our own stacks, made anew each time: the code may have changed.
fn seeds(folders: &Folders) -> Result<()> {
    let folder = folders.base.join("seeds");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let mut command = crate::cargo::cargo(&folders.root);
    command
        .args(["run", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--example", "seeds"])
        .arg("--target-dir")
        .arg(folders.base.join("plain"))
        .arg("--")
        .arg(&folder);
    process::pass_on(&mut command)
}

/// Run one input, with all output of the program.
fn replay(folders: &Folders, target: &str, file: &Path, tally: &mut Tally) -> Result<()> {
    let file =
        std::fs::canonicalize(file).with_context(|| format!("cannot read {}", file.display()))?;
    step("build", tally, |_| build(folders, &[target.to_owned()]))?;
    step(&format!("{target} on {}", folders.shown(&file)), tally, |tally| {
        let scratch = work::Scratch::new()?;
        let mut command = Command::new(folders.program(target));
        command.current_dir(&folders.root).arg(&file).env("TMPDIR", scratch.path());
        tally.case(target, process::pass_on(&mut command));
        Ok(())
    })
}

#[cfg(test)]
mod tests;
