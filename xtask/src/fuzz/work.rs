//! Running fuzz targets, a few at a time, until their time is over or one finds something.
//!
//! Called by: `mod.rs`. A target is a program of its own; its output goes to a log, so that the
//! outputs of two targets do not mix. Only the end of the log is read.

use super::Folders;
use super::outcome::{self, Outcome};
use crate::process;
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a running target is checked.
const LOOK: Duration = Duration::from_millis(100);
/// One input may take this many seconds; more is a finding.
const INPUT_SECONDS: u32 = 20;
/// One program may use this many megabytes; more is a finding.
const MEMORY_MB: u32 = 2_048;
/// The longest input, in bytes: enough for a parser or a script to reach all code.
const INPUT_BYTES: u32 = 8_192;
/// Extra time for a program that does not end by itself.
const GRACE: Duration = Duration::from_secs(60);

/// Shared by all targets of one command.
pub(super) struct Job<'a> {
    pub(super) folders: &'a Folders,
    pub(super) time: Duration,
}

/// A folder for temporary files, removed with what a target left there.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Scratch> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wsfuzz-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}; set TMPDIR", path.display()))?;
        Ok(Scratch(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Absent when it could not be made: nothing to remove then.
        std::fs::remove_dir_all(&self.0).unwrap_or(());
    }
}

impl Job<'_> {
    /// Run all targets, `jobs` at a time; returns the outcomes in the order of `targets`. After a
    /// finding no further target starts, and the running ones are ended.
    pub(super) fn run(&self, targets: &[String], jobs: usize) -> Result<Vec<Outcome>> {
        let queue = Mutex::new(targets.iter().enumerate().collect::<VecDeque<_>>());
        let done = Mutex::new(Vec::new());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1).min(targets.len()) {
                scope.spawn(|| {
                    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    while let Some((place, target)) = next() {
                        let outcome = self.one(target, &stop);
                        if outcome.as_ref().map_or(true, |o| o.finding.is_some()) {
                            stop.store(true, Ordering::SeqCst);
                        }
                        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                        done.push((place, outcome));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|&(place, _)| place);
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn one(&self, target: &str, stop: &AtomicBool) -> Result<Outcome> {
        if stop.load(Ordering::SeqCst) || process::interrupted() {
            return Ok(Outcome::not_begun(target));
        }
        let started = Instant::now();
        let log = self.folders.folder("logs", target);
        let scratch = Scratch::new()?;
        let mut command = self.command(target, &log)?;
        command.env("TMPDIR", scratch.path());
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", process::shown(&command)))?;
        let (status, ended) = wait(child, self.time + GRACE, stop)?;
        let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        let outcome = outcome::read(target, &text, status.success() || ended, started.elapsed());
        let Outcome { runs, coverage, .. } = outcome;
        let found = if outcome.finding.is_some() { ", a finding" } else { "" };
        println!("   {target}: {runs} runs, coverage {coverage}{found}");
        Ok(Outcome { stopped: ended, ..outcome })
    }

    fn command(&self, target: &str, log: &Path) -> Result<Command> {
        let make = |folder: PathBuf| -> Result<PathBuf> {
            std::fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            Ok(folder)
        };
        let corpus = make(self.folders.folder("corpus", target))?;
        let seeds = make(self.folders.folder("seeds", target))?;
        let findings = make(self.folders.base.join("findings"))?;
        make(self.folders.base.join("logs"))?;
        let output = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut command = Command::new(self.folders.program(target));
        command
            .arg(format!("-max_total_time={}", self.time.as_secs()))
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MB}"))
            .arg(format!("-max_len={INPUT_BYTES}"))
            .arg("-print_final_stats=1")
            .arg(format!("-artifact_prefix={}/{target}-", findings.display()))
            .args([corpus, seeds])
            .env("ASAN_OPTIONS", "detect_leaks=1:allocator_may_return_null=1")
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(command)
    }
}

/// Wait for its end; end it when `most` has passed, another target has a finding, or after Ctrl-C.
/// Returns whether we ended it for a reason other than its own result.
fn wait(mut child: Child, most: Duration, stop: &AtomicBool) -> Result<(ExitStatus, bool)> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, process::interrupted()));
        }
        let over = stop.load(Ordering::SeqCst) || process::interrupted();
        if over || started.elapsed() > most {
            // It may have ended just now: then there is nothing to kill.
            child.kill().unwrap_or(());
            return Ok((child.wait()?, over));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(seconds: &str) -> Child {
        Command::new("sleep").arg(seconds).spawn().unwrap()
    }

    #[test]
    fn a_program_that_ends_by_itself_keeps_its_status() {
        let child = Command::new("sh").args(["-c", "exit 77"]).spawn().unwrap();
        let (status, ended) = wait(child, GRACE, &AtomicBool::new(false)).unwrap();
        assert_eq!((status.code(), ended), (Some(77), false));
    }

    #[test]
    fn a_program_is_ended_when_another_found_something_and_that_is_no_failure_of_its_own() {
        let (status, ended) = wait(sleeper("60"), GRACE, &AtomicBool::new(true)).unwrap();
        assert!(!status.success() && ended);
    }

    #[test]
    fn a_program_that_never_ends_is_ended_and_has_failed() {
        let never = AtomicBool::new(false);
        let (status, ended) = wait(sleeper("60"), Duration::ZERO, &never).unwrap();
        assert!(!status.success() && !ended);
    }

    #[test]
    fn a_scratch_folder_goes_with_what_is_in_it() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        std::fs::write(path.join("left"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
