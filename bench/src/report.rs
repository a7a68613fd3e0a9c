//! Writes the report of a bench: one JSON document for programs, which has the same shape for every
//! bench, or a table for people. Called by `main.rs`. This file depends on rows and on the machine,
//! not on what the rows measure.

use std::fs;
use std::io::{self, Write};

use serde::Serialize;

use crate::harness::{Better, Row};

/// The result of one run.
#[derive(Serialize)]
pub struct Report {
    /// The bench's name.
    pub bench: &'static str,
    /// The version of this package.
    pub version: &'static str,
    /// The machine and its load.
    pub machine: Machine,
    /// The rows, in the order of the bench's table.
    pub rows: Vec<Row>,
}

/// The machine on which the bench ran. Without it figures cannot be compared.
#[derive(Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: String,
    /// The number of logical processors.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Load averages over 1, 5 and 15 minutes when the run began.
    pub load_average: [f64; 3],
    /// The compiler that built this program.
    pub rustc: &'static str,
}

impl Machine {
    /// Reads /proc. A value that cannot be read is "unknown", empty or 0.
    pub fn now() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let field = |name: &str| info.lines().find(|line| line.starts_with(name));
        let model = field("model name").and_then(|line| line.split_once(':'));
        let mut load_average = [0.0; 3];
        for (slot, word) in load_average.iter_mut().zip(read("/proc/loadavg").split(' ')) {
            *slot = word.parse().unwrap_or_default();
        }
        Machine {
            cpu_model: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            cores: info.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_average,
            rustc: env!("BENCH_RUSTC"),
        }
    }
}

impl Report {
    /// Writes the report as one JSON document.
    pub fn json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes the table: for each row its value, the values that it must reach and aims at, then
    /// its note.
    pub fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let m = &self.machine;
        let [one, five, fifteen] = m.load_average;
        writeln!(
            out,
            "bench {} {} · {}, {} cores",
            self.bench, self.version, m.cpu_model, m.cores
        )?;
        writeln!(
            out,
            "Linux {} · {} · load average {one} {five} {fifteen} at the start\n",
            m.kernel, m.rustc
        )?;
        let (columns, width) = (["value", "must", "aim"], 60);
        writeln!(out, "{:<width$} {:>10} {:>8} {:>8}", "case", columns[0], columns[1], columns[2])?;
        for row in &self.rows {
            self.line(out, row, width)?;
        }
        let measured = self.rows.iter().filter(|row| row.value.is_some()).count();
        let missed = self.rows.iter().filter(|row| row.missed()).count();
        let total = self.rows.len();
        writeln!(out, "\n{measured} of {total} rows measured, {missed} miss what they must reach")
    }

    fn line(&self, out: &mut impl Write, row: &Row, width: usize) -> io::Result<()> {
        let value = row.value.map_or("-".to_owned(), short);
        let (must, aim) = (row.must.map(short), row.aim.map(short));
        let verdict = match (row.value, row.ok) {
            (None, _) => "not measured",
            (Some(_), true) => "ok",
            (Some(_), false) => "MISS",
        };
        let sign = if row.better == Better::Higher { '≥' } else { '≤' };
        let case = wrapped(row.case, width);
        for line in &case[..case.len() - 1] {
            writeln!(out, "{line}")?;
        }
        writeln!(
            out,
            "{:<width$} {value:>10} {sign}{:>7} {:>8}  {verdict}",
            case[case.len() - 1],
            must.unwrap_or_default(),
            aim.unwrap_or_default(),
        )?;
        for line in wrapped(&row.note, 92) {
            writeln!(out, "    {line}")?;
        }
        Ok(())
    }
}

/// A figure with at most two decimals. A larger figure has fewer decimals.
pub(crate) fn short(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Text in lines of at most `width` characters, broken between words. At least one line.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let room = lines[last].chars().count() + 1 + word.chars().count() <= width;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if room {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
