//! `cargo xtask test`: checks the format, runs tidy and rfc, and the tests that need nothing but
//! Rust. With `--all` it runs all that has to pass before a change goes to main: every test of the
//! workspace, doc tests, clippy, fuzz targets on their seeds, loom, interop.
//!
//! Called by: people and `.ci/run`. Each step prints its elapsed time, and the end says where the
//! time went; a failure does not stop the others, so that one run shows all failures.

mod libtest;
mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use programs::Which;

use crate::cargo::{Metadata, Package, cargo};
use crate::report::{Tally, step};
use crate::{interop, process, rfc, tidy};

/// The options of `cargo xtask test`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Run everything (`--all`).
    pub(crate) all: bool,
    /// First install the Debian packages that interop tests lack.
    pub(crate) install: bool,
}

/// Run the steps in order; each counts its cases in `tally`.
pub(crate) fn run(root: &Path, options: Options, tally: &mut Tally) -> Result<()> {
    let suites = interop::choose(None)?;
    if options.install {
        interop::install_step(&suites, interop::OF_TESTS, tally)?;
    }
    step("format", tally, |tally| {
        let outcome = process::pass_on(cargo(root).args(["fmt", "--all", "--check"]));
        tally.case("format", outcome.map_err(|e| e.context("run `cargo fmt --all`")));
        Ok(())
    })?;
    tidy::run(root, tally)?;
    rfc::run(root, false, tally)?;
    let metadata = Metadata::read(root)?;
    let which = if options.all { Which::All } else { Which::Plain };
    let ran = tests(root, &metadata, which, tally)?;
    if !options.all {
        return Ok(());
    }
    step("doc tests", tally, |tally| {
        count_tests(cargo(root).args(["test", "--workspace", "--doc", "--no-fail-fast"]), tally)
    })?;
    step("clippy", tally, |tally| {
        tally.case("clippy", process::pass_on(&mut clippy(root)));
        Ok(())
    })?;
    step("other systems", tally, |tally| {
        for krate in ELSEWHERE {
            let name = format!("builds without its default features: {krate}");
            tally.case(&name, process::pass_on(&mut elsewhere(root, krate)));
        }
        Ok(())
    })?;
    fuzz_targets(root, &metadata, tally)?;
    loom(root, tally)?;
    interop::run(root, &suites, interop::Asked { ran: &ran, ..interop::Asked::default() }, tally)
}

/// Compile the test programs and run them; returns the names of those in which no test failed and
/// none was skipped.
fn tests(root: &Path, metadata: &Metadata, which: Which, tally: &mut Tally) -> Result<Vec<String>> {
    let (mut command, left_out) = programs::compile(root, metadata, which)?;
    let mut compiled = Vec::new();
    step("tests are compiled", tally, |tally| {
        match programs::compiled(&mut command) {
            Ok(programs) => compiled = programs,
            Err(error) => tally.fail("tests", &format!("{error:#}")),
        }
        Ok(())
    })?;
    for name in left_out {
        tally.skip(&name, "needs root, devices, other programs or more time: --all runs it");
    }
    let mut ran = Vec::new();
    step("tests", tally, |tally| {
        let later = if which == Which::All { later(root, metadata) } else { Vec::new() };
        ran = beside(later, || programs::run(compiled, tally));
        Ok(())
    })?;
    Ok(ran)
}

/// The commands that compile the code of the steps that follow the tests.
fn later(root: &Path, metadata: &Metadata) -> Vec<Command> {
    let mut commands = vec![clippy(root), fuzz_clippy(root, metadata)];
    commands.push(fuzz_test(root, metadata, "--no-run"));
    for (package, name) in loom_tests(metadata) {
        commands.push(loom_test(root, metadata, package, &name, "--no-run"));
    }
    commands.extend(ELSEWHERE.iter().map(|krate| elsewhere(root, krate)));
    commands
}

fn clippy(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    command
}

/// Crates that have to build without their default features: without the devices of Linux, as for
/// other systems, and the C library without gateways.
const ELSEWHERE: &[&str] = &["bpf", "device", "stack", "net", "wirespeed", "capi"];

fn elsewhere(root: &Path, krate: &str) -> Command {
    let package = if krate == "wirespeed" { krate } else { &format!("wirespeed-{krate}") };
    let mut command = cargo(root);
    command.args(["check", "--quiet", "--no-default-features", "-p", package]);
    command
}

const FUZZ: [&str; 2] = ["--manifest-path", "fuzz/Cargo.toml"];

fn fuzz_clippy(root: &Path, metadata: &Metadata) -> Command {
    let mut command = cargo(root);
    command.arg("clippy").args(FUZZ).args(["--all-targets", "--quiet", "--target-dir"]);
    command.arg(fuzz_target(metadata)).args(["--", "-D", "warnings"]);
    command
}

fn fuzz_test(root: &Path, metadata: &Metadata, how: &str) -> Command {
    let mut command = cargo(root);
    command.arg("test").args(FUZZ).args([how, "--target-dir"]).arg(fuzz_target(metadata));
    command
}

fn fuzz_target(metadata: &Metadata) -> PathBuf {
    metadata.target_directory.join("fuzz").join("plain")
}

/// Check the separate workspace of fuzz/: its format, clippy, and every target on its seeds.
fn fuzz_targets(root: &Path, metadata: &Metadata, tally: &mut Tally) -> Result<()> {
    step("fuzz targets on their seeds", tally, |tally| {
        let mut fmt = cargo(root);
        fmt.arg("fmt").args(FUZZ).arg("--check");
        tally.case("format of fuzz/", process::pass_on(&mut fmt));
        tally.case("clippy of fuzz/", process::pass_on(&mut fuzz_clippy(root, metadata)));
        count_tests(&mut fuzz_test(root, metadata, "--no-fail-fast"), tally)
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

/// Run the loom tests: every `tests/loom*.rs` of a crate.
pub(crate) fn loom(root: &Path, tally: &mut Tally) -> Result<()> {
    let metadata = Metadata::read(root)?;
    for (package, name) in loom_tests(&metadata) {
        step(&format!("loom {package} {name}"), tally, |tally| {
            let mut command = loom_test(root, &metadata, package, &name, "--no-fail-fast");
            count_tests(&mut command, tally)
        })?;
    }
    Ok(())
}

/// The command for one loom test, compiled with `--cfg loom` into a target folder of its own.
fn loom_test(root: &Path, metadata: &Metadata, package: &str, name: &str, how: &str) -> Command {
    let mut command = cargo(root);
    command
        .args(["test", "--release", how, "-p", package, "--test", name])
        .arg("--target-dir")
        .arg(metadata.target_directory.join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        // The test itself takes a second; compiling it with full optimisation would take minutes.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    command
}

/// All loom tests, each with its package.
fn loom_tests(metadata: &Metadata) -> Vec<(&str, String)> {
    let folder = |package: &Package| Path::new(&package.manifest_path).with_file_name("tests");
    let of = |package| loom_names(&folder(package)).into_iter().map(|name| (&*package.name, name));
    metadata.members().flat_map(of).collect()
}

/// Names of the loom test programs in a crate's tests folder.
fn loom_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    let stems = names.filter_map(|n| n.strip_suffix(".rs").map(str::to_owned));
    let mut found: Vec<String> = stems.filter(|n| n.starts_with("loom")).collect();
    found.sort();
    found
}

// Compiles the code of later steps while the tests run: the tests wait for networks and timers, and
// leave most of the processors idle. Errors are ignored here: each later step runs its command
// again, which is quick where the code is compiled already, and reports the errors.

/// Run `work` while the commands run one after the other, at the lowest priority. Returns when
/// `work` is done and the command that runs then has ended; the commands after it are not started.
fn beside<T>(commands: Vec<Command>, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for command in commands {
                if is_over.load(Ordering::Relaxed) || process::interrupted() {
                    break;
                }
                // The command's own step reports a failure.
                let _ = at_lowest_priority(&command).status();
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

fn at_lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    nice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_run_beside_the_work_with_their_folder_and_environment() {
        let folder = std::env::temp_dir().join(format!("wirespeed-ahead-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("room");
        let mut command = Command::new("sh");
        command.args(["-c", "nice > said; echo $WORD >> said"]).current_dir(&folder);
        command.env("WORD", "hello");
        let found = folder.join("said");
        let said = beside(vec![command], || {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
            loop {
                let said = std::fs::read_to_string(&found).unwrap_or_default();
                if said.lines().count() == 2 || std::time::Instant::now() > until {
                    return said;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let _ = std::fs::remove_dir_all(&folder);
        let (value, word) = said.split_once('\n').expect("two lines");
        let own = rustix::process::getpriority_process(None).expect("it has one");
        // The test itself may run at another nice value than 0; 19 is the greatest.
        assert_eq!((value.parse(), word), (Ok((own + 19).min(19)), "hello\n"));
    }
}
