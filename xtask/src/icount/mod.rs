//! `cargo xtask icount`: instructions per unit of work, exact and the same in every run.
//!
//! `wirespeed-icount list` names the cases; `wirespeed-icount CASE N` does N units of one. Each is
//! run under callgrind twice, and the difference of the counts over the difference of the units is
//! the cost of one unit: start-up and set-up cancel out. Functions whose symbol contains
//! `bytepass_` (out of line, so that they have a symbol) touch the payload. A case that has any is
//! reported without them, and once more with them. Where `list` names a function after a case,
//! separated by a tab, only the instructions inside that function are counted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{cargo, process};

/// A row of the result.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Row {
    case: String,
    instructions: f64,
}

/// Units in the shorter and the longer run of a case. Even the shorter one is longer than every
/// warm-up.
const UNITS: (u64, u64) = (4_096, 36_864);

/// The profiles that are counted, and where their baselines are: what users build, and packages.
const BASELINES: [(&str, &str); 2] =
    [("bench", "docs/icount-baseline.json"), ("dist", "docs/icount-baseline-dist.json")];

/// What is counted, and what is done with the counts.
pub(crate) struct Options {
    pub(crate) json: bool,
    pub(crate) bless: bool,
    pub(crate) dist: bool,
    pub(crate) case: Option<String>,
    pub(crate) untapped: bool,
}

/// Count, then print, compare or bless. 1 if a count moved.
pub(crate) fn run(root: &Path, options: &Options) -> Result<u8> {
    let Options { json, bless, dist, case: ref only, untapped } = *options;
    let (only, (profile, baseline)) = (only.as_deref(), BASELINES[usize::from(dist)]);
    if process::find("valgrind").is_none() {
        bail!("icount needs valgrind: install the Debian package valgrind");
    }
    let cfg = untapped.then_some("wirespeed_untapped");
    let binary = cargo::binary_with(root, "wirespeed-bench", "wirespeed-icount", profile, cfg)?;
    let listed = process::output(Command::new(&binary).arg("list"))?;
    let mut rows = Vec::new();
    for line in listed.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (case, within) = match line.split_once('\t') {
            Some((case, function)) => (case, Some(function)),
            None => (line, None),
        };
        if only.is_some_and(|only| only != case) {
            continue;
        }
        eprintln!("counting {case}");
        rows.extend(count(&binary, case, within)?);
        if process::interrupted() {
            bail!("interrupted; nothing was compared or written");
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        rows.iter().for_each(|row| println!("{:>12.1}  {}", row.instructions, row.case));
    }
    if only.is_some() {
        // One case does not cover the others in the baseline.
        return Ok(0);
    }
    check(root, baseline, &rows, bless)
}

fn check(root: &Path, baseline: &str, rows: &[Row], bless: bool) -> Result<u8> {
    let path = &root.join(baseline);
    if bless {
        write(path, rows)?;
        eprintln!("{baseline} written; the commit's message names the feature and its cost");
        return Ok(0);
    }
    let moved = compare(&read(path)?, rows);
    for line in &moved {
        eprintln!("FAILED   {line}");
    }
    if !moved.is_empty() {
        eprintln!(
            "if the change is meant: `cargo xtask icount --bless`, and commit {baseline} with a \
             message that names the feature and its cost in instructions"
        );
    }
    Ok(u8::from(!moved.is_empty()))
}

/// The row or two rows of one case.
fn count(binary: &Path, case: &str, within: Option<&str>) -> Result<Vec<Row>> {
    let short = measure(binary, case, within, UNITS.0)?;
    let long = measure(binary, case, within, UNITS.1)?;
    ensure!(long.total > short.total, "{case}: {} units cost no more than {}", UNITS.1, UNITS.0);
    Ok(rows(case, short, long, UNITS.1 - UNITS.0))
}

fn rows(case: &str, short: Counts, long: Counts, units: u64) -> Vec<Row> {
    // Rounded to a tenth: the counts are whole, the average over units need not be.
    let per_unit = |short: u64, long: u64| {
        let difference = long as f64 - short as f64;
        (difference / units as f64 * 10.0).round() / 10.0
    };
    let row = |case: String, instructions| Row { case, instructions };
    let without = per_unit(short.total - short.byte_passes, long.total - long.byte_passes);
    let mut rows = vec![row(case.to_owned(), without)];
    if long.byte_passes > 0 {
        let with = per_unit(short.total, long.total);
        rows.push(row(format!("{case}, byte passes included"), with));
    }
    rows
}

/// One run under callgrind.
fn measure(binary: &Path, case: &str, within: Option<&str>, units: u64) -> Result<Counts> {
    let out = Scratch::new();
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .args(within.map(|function| format!("--toggle-collect=*{function}*")))
        .arg(format!("--callgrind-out-file={}", out.0.display()))
        .arg(binary)
        .args([case, &units.to_string()])
        .stdout(Stdio::null());
    process::pass_on(&mut command)?;
    let text = std::fs::read_to_string(&out.0)
        .with_context(|| format!("callgrind left no {}", out.0.display()))?;
    parse(&text).with_context(|| format!("cannot read callgrind's output for {case}"))
}

/// The file callgrind writes, removed when done with.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let name = format!("wirespeed-callgrind-{}.out", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Absent when callgrind could not start: nothing to remove then.
        std::fs::remove_file(&self.0).unwrap_or(());
    }
}

#[cfg(test)]
mod tests;

// The committed counts, and the differences of more than one percent.
//
// A decrease fails too: the baseline would then hide the next increase.

const TOLERANCE: f64 = 0.01;

/// The baseline; empty if there is none yet.
fn read(path: &Path) -> Result<Vec<Row>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            serde_json::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Replace the baseline.
fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let text = serde_json::to_string_pretty(rows)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A sentence for each case that changed, appeared or disappeared.
fn compare(baseline: &[Row], now: &[Row]) -> Vec<String> {
    let of =
        |rows: &[Row], case: &str| rows.iter().find(|r| r.case == case).map(|r| r.instructions);
    let mut moved = Vec::new();
    for Row { case, instructions } in now {
        match of(baseline, case) {
            None => moved.push(format!("{case}: {instructions} instructions, not in the baseline")),
            Some(before) if (instructions - before).abs() > before * TOLERANCE => {
                let percent = (instructions - before) / before * 100.0;
                moved.push(format!("{case}: {before} to {instructions} ({percent:+.1} %)"));
            }
            Some(_) => {}
        }
    }
    for Row { case, .. } in baseline.iter().filter(|r| of(now, &r.case).is_none()) {
        moved.push(format!("{case}: in the baseline, and no longer counted"));
    }
    moved
}

// Reads a callgrind.out file: the instructions of the whole run, and those of byte passes.
//
// Source: the Callgrind Format Specification of the valgrind manual. Only files with one event
// (`Ir`) and line positions are understood; anything else is an error.

/// Instructions of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    total: u64,
    /// Inclusive cost of functions whose symbol contains `bytepass_`.
    byte_passes: u64,
}

const MARK: &str = "bytepass_";

/// Sum up a callgrind.out file.
fn parse(text: &str) -> Result<Counts> {
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
