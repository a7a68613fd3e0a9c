//! Reads a callgrind.out file: the instructions of the whole run, and those of byte passes.
//!
//! Source: the Callgrind Format Specification of the valgrind manual. Only files with one event
//! (`Ir`) and line positions are understood; anything else is an error.

use anyhow::{Context, Result, ensure};
use std::collections::HashMap;

/// Instructions of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) total: u64,
    /// Inclusive cost of functions whose symbol contains `bytepass_`.
    pub(super) byte_passes: u64,
}

const MARK: &str = "bytepass_";

/// Sum up a callgrind.out file.
pub(super) fn parse(text: &str) -> Result<Counts> {
    let mut state = State::default();
    for line in text.lines() {
        state.line(line).with_context(|| format!("line '{line}'"))?;
    }
    let total = state.total.context("there is no summary or totals line")?;
    ensure!(state.byte_passes <= total, "byte passes cost more than the whole");
    Ok(Counts { total, byte_passes: state.byte_passes })
}

#[derive(Default)]
struct State {
    /// Compressed names: whether the function behind each number is a byte pass.
    names: HashMap<String, bool>,
    /// Is the current function a byte pass, and the one it calls?
    inside: bool,
    callee: bool,
    /// The next cost line is the inclusive cost of a call.
    call: bool,
    total: Option<u64>,
    byte_passes: u64,
}

impl State {
    fn line(&mut self, line: &str) -> Result<()> {
        if let Some((key, value)) = header(line) {
            match key {
                "events" => ensure!(value == "Ir", "expected the one event Ir, found {value}"),
                "summary" | "totals" => self.total = Some(value.trim().parse()?),
                _ => {}
            }
        } else if let Some(name) = line.strip_prefix("fn=") {
            self.inside = self.is_byte_pass(name)?;
        } else if let Some(name) = line.strip_prefix("cfn=") {
            self.callee = self.is_byte_pass(name)?;
        } else if line.starts_with("calls=") {
            self.call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line.split_whitespace().nth(1).unwrap_or("0").parse::<u64>()?;
            // A byte pass owns its own instructions and those of the functions it calls, except of
            // other byte passes, which are counted there.
            let called = std::mem::take(&mut self.call);
            if self.inside && !(called && self.callee) {
                self.byte_passes += cost;
            }
        }
        Ok(())
    }

    /// `(7) name` introduces a number, `(7)` repeats it, a bare name stands for itself.
    fn is_byte_pass(&mut self, text: &str) -> Result<bool> {
        let Some(rest) = text.strip_prefix('(') else { return Ok(text.contains(MARK)) };
        let (number, name) = rest.split_once(')').context("a name's number is not closed")?;
        if name.is_empty() {
            return self.names.get(number).copied().context("a name's number was never given");
        }
        let is = name.contains(MARK);
        self.names.insert(number.to_owned(), is);
        Ok(is)
    }
}

/// `key: value` lines, which have no `=` before the colon.
fn header(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    key.chars().all(|c| c.is_ascii_lowercase()).then(|| (key, value.trim()))
}
