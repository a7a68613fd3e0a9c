//! The result of every experiment: rows of named values with units, all single runs, and a plot.
//!
//! Called by: experiments, which make a [`Report`]; the lab, which prints it. The document has the
//! same form for all experiments: `{"lab", "question", "version", "machine", "settings", "seconds",
//! "interrupted", "units", "rows", "fits", "samples", "shows", "notes"}`.

use serde_json::{Map, Value, json};

use crate::envelope::{Envelope, VERSION};
use crate::plot::Plot;

/// The result of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The settings of the run, chosen or default: enough to repeat it.
    pub settings: Value,
    /// The columns of the rows.
    pub columns: Vec<Column>,
    /// The rows, each with as many values as there are columns. A value that was not measured is
    /// null, and a note says why.
    pub rows: Vec<Vec<Value>>,
    /// Fits to the rows, each with its intervals; empty if the experiment has none.
    pub fits: Vec<Value>,
    /// The single runs.
    pub samples: Vec<Value>,
    /// Two sentences, made of the figures, that say what they show; empty if nothing was measured.
    pub shows: Vec<String>,
    /// Sentences about how the figures were measured.
    pub notes: Notes,
    /// The plot.
    pub plot: Option<Plot>,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name in the document.
    pub key: &'static str,
    /// Name in the table.
    pub head: &'static str,
    /// Unit; empty for text.
    pub unit: &'static str,
    /// How the table shows the column.
    pub format: Format,
}

/// How the table shows a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A heading above the rows that share it.
    Heading,
    /// Text.
    Text,
    /// A number with this many decimals.
    Number(usize),
    /// Bytes, in kB and MB.
    Bytes,
    /// Only in the document.
    Hidden,
}

/// Make a column.
pub(crate) const fn column(
    key: &'static str,
    head: &'static str,
    unit: &'static str,
    format: Format,
) -> Column {
    Column { key, head, unit, format }
}

/// Sentences about how figures were measured, and the number of rows that were not measured.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    lines: Vec<String>,
    unmeasured: usize,
}

impl From<Vec<String>> for Notes {
    fn from(lines: Vec<String>) -> Notes {
        Notes { lines, unmeasured: 0 }
    }
}

impl Notes {
    /// Add a note.
    pub(crate) fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// The sentences.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// The notes, with a note about rows that were not measured if there are any.
pub(crate) fn with_missing(
    mut lines: Vec<String>,
    unmeasured: usize,
    of: usize,
    what: &str,
) -> Notes {
    if unmeasured > 0 {
        lines.push(format!("{unmeasured} of {of} {what} were not run to their end."));
    }
    Notes { lines, unmeasured }
}

/// Minimum, median and maximum of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The minimum.
    pub low: f64,
    /// The median; of an even number of values, the mean of the middle two.
    pub mid: f64,
    /// The maximum.
    pub high: f64,
}

impl Span {
    /// The span of these values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Span> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let mid = match values.len() % 2 {
            0 => f64::midpoint(values[half - 1], values[half]),
            _ => values[half],
        };
        Some(Span { low, mid, high })
    }
}

impl Report {
    /// The JSON document, with a line end.
    pub(crate) fn document(&self, envelope: &Envelope) -> String {
        format!("{:#}\n", self.value(envelope))
    }

    /// The document.
    pub(crate) fn value(&self, envelope: &Envelope) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| self.object(row)).collect();
        let units: Map<String, Value> = self
            .columns
            .iter()
            .filter(|column| !column.unit.is_empty())
            .map(|column| (column.key.to_owned(), json!(column.unit)))
            .collect();
        json!({
            "lab": envelope.lab,
            "question": envelope.question,
            "version": VERSION,
            "machine": envelope.machine,
            "settings": self.settings,
            "seconds": (envelope.seconds * 1000.0).round() / 1000.0,
            "interrupted": envelope.interrupted,
            "units": units,
            "rows": rows,
            "fits": self.fits,
            "samples": self.samples,
            "shows": self.shows,
            "notes": self.notes.lines,
        })
    }

    /// The number of rows that were not measured.
    pub(crate) fn unmeasured(&self) -> usize {
        self.notes.unmeasured
    }

    fn object(&self, row: &[Value]) -> Value {
        let members = self.columns.iter().zip(row);
        Value::Object(members.map(|(c, value)| (c.key.to_owned(), value.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_least_median_and_most() {
        let span = |values: &[f64]| Span::of(values.iter().copied());
        assert_eq!(span(&[]), None);
        assert_eq!(span(&[3.0, 1.0, 2.0]), Some(Span { low: 1.0, mid: 2.0, high: 3.0 }));
        assert_eq!(span(&[4.0, 1.0, 2.0, 3.0]), Some(Span { low: 1.0, mid: 2.5, high: 4.0 }));
    }
}
