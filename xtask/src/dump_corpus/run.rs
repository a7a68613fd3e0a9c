//! Runs a program over a capture: its output, and how it ended.
//!
//! Called by: `dump_corpus/mod.rs`. A program that panics or ends by a signal has crashed; one that
//! reports that it cannot read a file has not.

use crate::process;
use anyhow::{Context, Result};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The exit status of a Rust program that panics.
const PANICKED: i32 = 101;

/// A program and its flags.
pub(super) struct Program {
    command: PathBuf,
    flags: Vec<String>,
    limit: Duration,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It ended by itself, with any exit status.
    ByItself,
    /// By a panic or a signal.
    Crashed(String),
    /// Killed after its time.
    Never,
}

impl Program {
    pub(super) fn new(
        command: PathBuf,
        before: &[&str],
        flags: &[String],
        limit: Duration,
    ) -> Program {
        let before = before.iter().map(|flag| (*flag).to_owned());
        let flags = before.chain(["--number".to_owned()]).chain(flags.iter().cloned()).collect();
        Program { command, flags, limit }
    }

    /// Its output for a capture, in UTC.
    pub(super) fn over(&self, capture: &Path) -> Result<(String, Ended)> {
        let mut command = Command::new(&self.command);
        command.args(&self.flags).arg("-r").arg(capture).env("TZ", "UTC0").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let name = self.command.display();
        let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
        let mut out = child.stdout.take().context("it is piped")?;
        // Read while it runs: a full pipe would block it.
        let reader = std::thread::spawn(move || {
            let mut printed = Vec::new();
            out.read_to_end(&mut printed).map(|_| printed)
        });
        let until = Instant::now() + self.limit;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if Instant::now() > until || process::interrupted() {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let printed = reader.join().ok().context("the reader of a pipe")??;
        Ok((String::from_utf8_lossy(&printed).into_owned(), ended(status)))
    }
}

fn ended(status: Option<ExitStatus>) -> Ended {
    match status {
        None => Ended::Never,
        Some(status) if status.code() == Some(PANICKED) => Ended::Crashed("a panic".to_owned()),
        Some(status) => match status.signal() {
            Some(signal) => Ended::Crashed(format!("signal {signal}")),
            None => Ended::ByItself,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(script: &str, seconds: u64) -> Ended {
        let limit = Duration::from_secs(seconds);
        let before = ["-c", script];
        let program = Program::new("sh".into(), &before, &[], limit);
        program.over(Path::new("none")).expect("sh runs").1
    }

    #[test]
    fn a_crash_is_a_panic_or_a_signal_and_no_other_status() {
        assert_eq!(over("exit 1", 10), Ended::ByItself);
        assert_eq!(over("exit 101", 10), Ended::Crashed("a panic".to_owned()));
        assert_eq!(over("kill -SEGV $$", 10), Ended::Crashed("signal 11".to_owned()));
        assert_eq!(over("exec sleep 60", 0), Ended::Never);
    }
}
