//! The output of libFuzzer at the end of a run, and the table made of it.
//!
//! Called by: `work.rs` and `mod.rs`. The lines read are those of LLVM's libFuzzer documentation:
//! `#RUNS KIND cov: N ...` as it goes on, `Test unit written to FILE` for a finding,
//! `stat::number_of_executed_units: N` at the end.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Lines of a log that are shown with a finding.
const LINES_SHOWN: usize = 40;

/// How a target's run ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) target: String,
    pub(super) runs: u64,
    /// Edges of the program that were reached.
    pub(super) coverage: u64,
    pub(super) seconds: f64,
    pub(super) finding: Option<Finding>,
    /// It was stopped early, not because of its own result.
    pub(super) stopped: bool,
}

/// A failed property.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// The input, if libFuzzer wrote one.
    pub(super) file: Option<PathBuf>,
    /// The text that was printed about it.
    pub(super) text: String,
}

impl Outcome {
    /// A target that was not started.
    pub(super) fn not_begun(target: &str) -> Outcome {
        let (runs, coverage, seconds) = (0, 0, 0.0);
        let target = target.to_owned();
        Outcome { target, runs, coverage, seconds, finding: None, stopped: true }
    }
}

/// Read a log; `fine` says that the program ended normally, or because we ended it.
pub(super) fn read(target: &str, log: &str, fine: bool, time: Duration) -> Outcome {
    let progress = log.lines().rev().find_map(progress);
    let total = log
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok());
    let (runs, coverage) = progress.unwrap_or((0, 0));
    Outcome {
        target: target.to_owned(),
        runs: total.unwrap_or(runs).max(runs),
        coverage,
        seconds: time.as_secs_f64(),
        finding: (!fine).then(|| finding(log)),
        stopped: false,
    }
}

/// Runs and coverage of a line like `#4096 pulse  cov: 77 ft: 81 corp: ...`.
fn progress(line: &str) -> Option<(u64, u64)> {
    let (runs, rest) = line.strip_prefix('#')?.split_once(|c: char| c.is_whitespace())?;
    let coverage = rest.split("cov: ").nth(1)?.split_whitespace().next()?;
    Some((runs.parse().ok()?, coverage.parse().ok()?))
}

fn finding(log: &str) -> Finding {
    let written = log.lines().find_map(|line| line.split("Test unit written to ").nth(1));
    let lines: Vec<_> = log.lines().collect();
    // A panic message, or the sanitizer's report, comes before pages of other output.
    let speaks = |line: &&str| line.contains("panicked at") || line.contains("ERROR: ");
    let first = lines.iter().position(speaks).unwrap_or(0);
    let first = if first == 0 { lines.len().saturating_sub(LINES_SHOWN) } else { first };
    let text = lines[first..].iter().take(LINES_SHOWN).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "   | {line}");
        text
    });
    Finding { file: written.map(|path| PathBuf::from(path.trim())), text }
}

/// A row for each target.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let width = outcomes.iter().map(|o| o.target.len()).max().unwrap_or(0).max("target".len());
    let mut text = String::new();
    let head = format!("{:width$}  {:>12}  {:>8}  {:>8}", "target", "runs", "coverage", "seconds");
    let _ = writeln!(text, "{head}");
    for o in outcomes {
        let note = match (&o.finding, o.stopped) {
            (Some(_), _) => "  FOUND SOMETHING",
            (None, true) => "  stopped",
            _ => "",
        };
        let (name, runs, coverage, seconds) = (&o.target, o.runs, o.coverage, o.seconds);
        let _ = writeln!(text, "{name:width$}  {runs:>12}  {coverage:>8}  {seconds:>8.1}{note}");
    }
    text
}
