//! Reads what Rust's test programs print and adds it up: passed, failed, ignored.
//!
//! A program that dies without its `test result:` line counts as one failure, and so does a `cargo
//! test` that fails although every program passed (it did not compile).

use crate::report::Tally;

/// Reads the output of `cargo test` line by line.
#[derive(Debug, Default)]
pub(super) struct Reader {
    passed: u64,
    failed: Vec<String>,
    ignored: Vec<(String, String)>,
    /// A line `running N tests` was read, and the result line for these tests was not yet.
    open: bool,
    /// Tests that failed in the program whose output is being read.
    here: u64,
    /// Programs that ended without a result line.
    died: u64,
}

impl Reader {
    /// Take a line; returns whether to print it.
    pub(super) fn take(&mut self, line: &str) -> bool {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.died += u64::from(self.open);
            (self.open, self.here) = (true, 0);
            return false;
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.result(result);
            return self.here > 0;
        }
        if let Some(test) = line.strip_prefix("test ") {
            return self.test(test);
        }
        !line.trim().is_empty()
    }

    /// `NAME ... ok`, `NAME ... FAILED`, `NAME ... ignored, REASON`.
    fn test(&mut self, line: &str) -> bool {
        let Some((name, outcome)) = line.rsplit_once(" ... ") else { return true };
        if outcome.starts_with("ok") {
            return false;
        }
        if outcome.starts_with("FAILED") {
            self.failed.push(name.to_owned());
            self.here += 1;
        } else if let Some(reason) = outcome.strip_prefix("ignored") {
            let reason = reason.trim_start_matches([',', ' ']);
            let reason = if reason.is_empty() { "ignored, no reason given" } else { reason };
            self.ignored.push((name.to_owned(), reason.to_owned()));
            return false;
        }
        true
    }

    /// `ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s`
    fn result(&mut self, line: &str) {
        self.open = false;
        let number = |what: &str| {
            let part = line.split(['.', ';']).find_map(|p| p.trim().strip_suffix(what));
            part.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        self.passed += number("passed");
        for _ in self.here..number("failed") {
            self.failed.push("a test whose name was not read".to_owned());
        }
    }

    /// Add the counts to `tally` when all output was read. `succeeded` is whether `command` exited
    /// with success.
    pub(super) fn finish(self, succeeded: bool, command: &str, tally: &mut Tally) {
        tally.passed += self.passed;
        for name in &self.failed {
            tally.fail(name, "see its output above");
        }
        for (name, reason) in &self.ignored {
            tally.skip(name, reason);
        }
        for _ in 0..self.died + u64::from(self.open) {
            tally.fail("a test program", "ended without its result line; see above");
        }
        let explained = !self.failed.is_empty() || self.died > 0 || self.open;
        if !succeeded && !explained {
            tally.fail(command, "did not succeed; the compiler's message is above");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, succeeded: bool) -> Tally {
        let (mut reader, mut tally) = (Reader::default(), Tally::default());
        for line in text.lines() {
            reader.take(line);
        }
        reader.finish(succeeded, "cargo test", &mut tally);
        tally
    }

    const GOOD: &str = "\nrunning 3 tests\ntest a::b ... ok\ntest a::c ... ignored, needs a TAP\n\
        test d - should panic ... ok\n\ntest result: ok. 2 passed; 0 failed; 1 ignored; \
        0 measured; 0 filtered out; finished in 0.10s\n";

    #[test]
    fn passes_and_skips_add_up_over_programs() {
        let tally = read(&GOOD.repeat(2), true);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (4, 0, 2));
        assert!(tally.closing().contains("a::c: needs a TAP"));
    }

    #[test]
    fn failures_are_named() {
        let bad = GOOD.replace("a::b ... ok", "a::b ... FAILED").replace("ok. 2", "FAILED. 1");
        let tally = read(&bad.replace("0 failed", "1 failed"), false);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (1, 1, 1));
        assert!(tally.closing().contains("FAILED   a::b"));
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let tally = read(&format!("running 2 tests\ntest x ... ok\n{GOOD}"), false);
        assert_eq!((tally.passed, tally.failed), (2, 1));
        assert_eq!(read("running 2 tests\n", false).failed, 1);
    }

    #[test]
    fn what_does_not_compile_is_a_failure() {
        assert_eq!(read("", false).failed, 1);
        assert_eq!(read("", true).failed, 0);
    }

    #[test]
    fn people_see_failures_and_not_successes() {
        let mut reader = Reader::default();
        assert!(!reader.take("running 2 tests"));
        assert!(!reader.take("test a ... ok"));
        assert!(reader.take("test b ... FAILED"));
        assert!(reader.take("thread 'b' panicked at x.rs:1:2"));
        assert!(reader.take("test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured"));
    }
}
