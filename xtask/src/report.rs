//! Shared by commands that count cases: the tally, the elapsed time of each step, and the closing
//! line `N passed, N failed, N skipped`.

use anyhow::Result;
use std::fmt::Write as _;
use std::time::Instant;

/// The command line asked for something that is not there: exit status 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Cases counted so far, with the names of those reported at the end.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    failures: Vec<String>,
    skips: Vec<String>,
    /// Steps and programs, and the seconds that each took.
    times: Vec<(String, f64)>,
}

/// What took less is not told at the end.
const TOLD_S: f64 = 5.0;

impl Tally {
    /// One case passed.
    pub(crate) fn pass(&mut self) {
        self.passed += 1;
    }

    /// One case failed; `why` says what to do about it.
    pub(crate) fn fail(&mut self, case: &str, why: &str) {
        self.failed += 1;
        self.failures.push(format!("{case}: {why}"));
    }

    /// One case was not run; `missing` names what it lacks.
    pub(crate) fn skip(&mut self, case: &str, missing: &str) {
        self.skipped += 1;
        self.skips.push(format!("{case}: {missing}"));
    }

    /// One case whose outcome is a result.
    pub(crate) fn case(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.pass(),
            Err(e) => self.fail(name, &format!("{e:#}")),
        }
    }

    /// Add what another tally counted.
    pub(crate) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.times.extend(other.times);
    }

    /// Something took so many seconds.
    pub(crate) fn took(&mut self, what: &str, seconds: f64) {
        self.times.push((what.to_owned(), seconds));
    }

    /// Where the time went, the skipped cases, the failed ones, and the closing line.
    pub(crate) fn closing(&self) -> String {
        let mut text = String::new();
        for (what, seconds) in self.times.iter().filter(|(_, seconds)| *seconds >= TOLD_S) {
            let _ = writeln!(text, "{seconds:7.1} s  {what}");
        }
        for skip in &self.skips {
            let _ = writeln!(text, "skipped  {skip}");
        }
        for failure in &self.failures {
            let _ = writeln!(text, "FAILED   {failure}");
        }
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped);
        let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }
}

/// Run a step: its title before, its own counts and elapsed time after. After Ctrl-C no further
/// step starts.
pub(crate) fn step(
    title: &str,
    tally: &mut Tally,
    work: impl FnOnce(&mut Tally) -> Result<()>,
) -> Result<()> {
    if crate::process::interrupted() {
        return Ok(());
    }
    println!("== {title}");
    let (started, before) = (Instant::now(), (tally.passed, tally.failed, tally.skipped));
    work(tally)?;
    let elapsed = started.elapsed().as_secs_f64();
    tally.took(&format!("== {title}"), elapsed);
    let (p, f, s) = (tally.passed - before.0, tally.failed - before.1, tally.skipped - before.2);
    println!("-- {title}: {p} passed, {f} failed, {s} skipped, {elapsed:.1} s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_line_is_last_and_exact() {
        let mut tally = Tally::default();
        tally.pass();
        tally.fail("fmt", "run cargo fmt");
        tally.skip("iperf3", "Debian package iperf3");
        assert_eq!(
            tally.closing(),
            "skipped  iperf3: Debian package iperf3\nFAILED   fmt: run cargo fmt\n\
             1 passed, 1 failed, 1 skipped\n"
        );
    }

    #[test]
    fn what_took_long_is_told_and_what_others_counted_is_added() {
        let (mut tally, mut other) = (Tally::default(), Tally::default());
        other.pass();
        other.took("cli outside", 61.25);
        other.took("tidy", 0.5);
        tally.add(other);
        assert_eq!(tally.closing(), "   61.2 s  cli outside\n1 passed, 0 failed, 0 skipped\n");
    }

    #[test]
    fn a_result_becomes_a_case() {
        let mut tally = Tally::default();
        tally.case("a", Ok(()));
        tally.case("b", Err(anyhow::anyhow!("inner").context("outer")));
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert!(tally.closing().contains("b: outer: inner"));
    }

    #[test]
    fn a_step_adds_to_the_tally_it_was_given() {
        let mut tally = Tally::default();
        step("one", &mut tally, |t| {
            t.pass();
            Ok(())
        })
        .unwrap();
        assert_eq!(tally.passed, 1);
    }
}
