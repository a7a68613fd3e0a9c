//! Compiles the test programs of the workspace by one `cargo test --no-run`, then runs several of
//! them at the same time, because most of them wait for networks and timers.
//!
//! Called by: `mod.rs`. A program runs as cargo would run it: in the folder of its package, with
//! `CARGO_MANIFEST_DIR`.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::libtest::Reader;
use crate::cargo::{Metadata, cargo};
use crate::process;
use crate::report::Tally;

/// How many programs run at the same time. Most of the time they wait, for networks and timers;
/// more of them at the same time would delay each other.
const AT_A_TIME: usize = 3;

/// Programs that take longest. They begin first, so that none of them runs on alone at the end.
const LONGEST: [&str; 4] = ["outside", "ttcp_outside", "nfs_real_peers", "rpc_real_peers"];

/// Which test programs are compiled and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Every program.
    All,
    /// Programs that need nothing but Rust. A program without libtest's harness is left out: it has
    /// cases that need root, devices or other programs.
    Plain,
}

/// Packages that [`Which::Plain`] leaves out. Compiling their dependencies, which are other TCP/IP
/// stacks and TLS, takes longer than running their tests.
const HEAVY: [&str; 2] = ["wirespeed-bench", "wirespeed-examples"];

/// A compiled test program.
#[derive(Debug)]
pub(super) struct Program {
    /// The folder of the package and, after a space, the name of the integration test or the kind
    /// of the target: `cli outside`, `tcp lib`.
    pub(super) name: String,
    path: PathBuf,
    folder: PathBuf,
}

/// The command that compiles the test programs, and the names of those that it leaves out.
pub(super) fn compile(
    root: &Path,
    metadata: &Metadata,
    which: Which,
) -> Result<(Command, Vec<String>)> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--no-run", "--message-format"]);
    command.arg("json-render-diagnostics");
    let mut left_out = Vec::new();
    if which == Which::Plain {
        command.args(["--lib", "--bins"]);
        for package in metadata.members() {
            let short = package.name.strip_prefix("wirespeed-").unwrap_or(&package.name);
            if HEAVY.contains(&package.name.as_str()) {
                command.args(["--exclude", &package.name]);
                left_out.push(short.to_owned());
                continue;
            }
            let bare = without_harness(Path::new(&package.manifest_path))?;
            for name in package.tests() {
                match bare.iter().any(|bare| bare == name) {
                    true => left_out.push(format!("{short} {name}")),
                    false => drop(command.args(["--test", name])),
                }
            }
        }
    }
    Ok((command, left_out))
}

/// The names of a package's integration tests that have a `main` of their own (`harness = false`).
fn without_harness(manifest: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    let manifest: toml::Table = toml::from_str(&text)?;
    let tests = manifest.get("test").and_then(toml::Value::as_array).into_iter().flatten();
    let is_bare =
        |test: &&toml::Value| test.get("harness").and_then(toml::Value::as_bool) == Some(false);
    let names = tests.filter(is_bare).filter_map(|test| test.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Compile the test programs and return them, the longest first.
///
/// # Errors
/// If they do not compile.
pub(super) fn compiled(command: &mut Command) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    let is_done = process::lines(command, |line| programs.extend(program(line)))?;
    anyhow::ensure!(is_done, "the tests do not compile: the compiler's message is above");
    programs.sort_by_key(|program: &Program| {
        let name = program.name.rsplit(' ').next().unwrap_or_default();
        LONGEST.iter().position(|&long| long == name).unwrap_or(LONGEST.len())
    });
    Ok(programs)
}

/// The test program that a line of cargo's JSON reports; `None` if it reports something else.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?;
    let target = &message["target"];
    let name = match target["kind"][0].as_str()? {
        "test" => target["name"].as_str()?,
        kind => kind,
    };
    Some(Program { name: format!("{package} {name}"), path, folder })
}

/// Run all programs. Returns the names of those in which no test failed and none was skipped.
pub(super) fn run(programs: Vec<Program>, tally: &mut Tally) -> Vec<String> {
    let (waiting, done) = (Mutex::new(VecDeque::from(programs)), Mutex::new(Vec::new()));
    let whole = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                let next = || waiting.lock().ok()?.pop_front();
                while let Some(program) = next().filter(|_| !process::interrupted()) {
                    let (began, mut ours) = (Instant::now(), Tally::default());
                    let is_whole = one(&program, &mut ours);
                    let seconds = began.elapsed().as_secs_f64();
                    let (p, f, s) = (ours.passed, ours.failed, ours.skipped);
                    println!(
                        "   {}: {p} passed, {f} failed, {s} skipped, {seconds:.1} s",
                        program.name
                    );
                    if let (true, Ok(mut whole)) = (is_whole, whole.lock()) {
                        whole.push(program.name.clone());
                    }
                    if let Ok(mut done) = done.lock() {
                        done.push((ours, program.name, seconds));
                    }
                }
            });
        }
    });
    for (ours, name, seconds) in done.into_inner().unwrap_or_default() {
        tally.add(ours);
        tally.took(&name, seconds);
    }
    whole.into_inner().unwrap_or_default()
}

/// Run a program to its end and print its failures. Returns `true` if every test passed, and none
/// was skipped.
fn one(program: &Program, tally: &mut Tally) -> bool {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    let output = command.stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            tally.fail(&program.name, &format!("the program does not start: {error}"));
            return false;
        }
    };
    let mut reader = Reader::default();
    let mut shown = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if reader.take(line) {
            shown.extend_from_slice(line.as_bytes());
            shown.push(b'\n');
        }
    }
    reader.finish(output.status.success(), &program.name, tally);
    if tally.failed > 0 {
        shown.extend_from_slice(&output.stderr);
    }
    // Writing fails if nobody reads standard output any more; the tally still counts.
    let _ = std::io::stdout().lock().write_all(&shown);
    tally.failed == 0 && tally.skipped == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_by_its_folder_and_target() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/core/tcp/Cargo.toml",
            "target":{"kind":["lib"],"name":"wirespeed_tcp"},"profile":{"test":true},
            "executable":"/w/target/debug/deps/wirespeed_tcp-1"}"#;
        let found = program(&line.replace('\n', "")).expect("a program");
        assert_eq!(
            (found.name.as_str(), found.folder.to_str()),
            ("tcp lib", Some("/w/crates/core/tcp"))
        );
        let other = line.replace('\n', "").replace("\"test\":true", "\"test\":false");
        assert!(program(&other).is_none(), "a binary is no test");
        assert!(program("{\"reason\":\"build-finished\"}").is_none());
    }

    #[test]
    fn a_failing_program_is_counted_and_not_whole() {
        let program = |path: &str| Program {
            name: "x lib".to_owned(),
            path: path.into(),
            folder: std::env::temp_dir(),
        };
        let mut tally = Tally::default();
        assert_eq!(run(vec![program("true"), program("false")], &mut tally), ["x lib"]);
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }
}
