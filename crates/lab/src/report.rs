//! What every experiment hands back: rows of named values with units, each single run behind them,
//! and a plot.
//!
//! Called by: experiments, which make a [`Report`]; the lab, which prints it. The document is the
//! same for all experiments: `{"lab", "question", "version", "machine", "settings", "seconds",
//! "interrupted", "units", "rows", "fits", "samples", "notes"}`.

use serde_json::{Map, Value, json};

use crate::envelope::{Envelope, VERSION};
use crate::plot::Plot;

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was run, whatever of it the command line chose: enough to run it again.
    pub settings: Value,
    /// What a row holds.
    pub columns: Vec<Column>,
    /// As many values as columns each; null is what could not be measured, and a note says why.
    pub rows: Vec<Vec<Value>>,
    /// What was fitted to the rows, each with how far it may be off; empty where nothing is.
    pub fits: Vec<Value>,
    /// Each run by itself.
    pub samples: Vec<Value>,
    /// Sentences about how the figures came to be.
    pub notes: Vec<String>,
    /// The picture.
    pub plot: Option<Plot>,
}

/// A named value of all rows.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name in the document.
    pub key: &'static str,
    /// Name in the table.
    pub head: &'static str,
    /// Unit; empty for words.
    pub unit: &'static str,
    /// How the table shows it.
    pub format: Format,
}

/// How the table shows a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A heading above the rows that have it in common.
    Heading,
    /// Words.
    Text,
    /// So many places behind the point.
    Number(usize),
    /// Bytes, in kB and MB.
    Bytes,
    /// Only in the document.
    Hidden,
}

/// A column.
pub(crate) const fn column(
    key: &'static str,
    head: &'static str,
    unit: &'static str,
    format: Format,
) -> Column {
    Column { key, head, unit, format }
}

/// The note that goes with rows of null; none where all were measured.
pub(crate) fn missing(missing: usize, of: usize, what: &str) -> Option<String> {
    (missing > 0).then(|| format!("{missing} of {of} {what} were not run to their end."))
}

/// The least, the middle and the most of several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The least.
    pub low: f64,
    /// The median: of an even number the mean of the two in the middle.
    pub mid: f64,
    /// The most.
    pub high: f64,
}

impl Span {
    /// Of these; `None` of none.
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
    /// The one JSON document, with an end of line.
    pub(crate) fn document(&self, envelope: &Envelope) -> String {
        let rows: Vec<Value> = self.rows.iter().map(|row| self.object(row)).collect();
        let units: Map<String, Value> = self
            .columns
            .iter()
            .filter(|column| !column.unit.is_empty())
            .map(|column| (column.key.to_owned(), json!(column.unit)))
            .collect();
        let document = json!({
            "lab": envelope.experiment.name,
            "question": envelope.experiment.question,
            "version": VERSION,
            "machine": envelope.machine,
            "settings": self.settings,
            "seconds": (envelope.seconds * 1000.0).round() / 1000.0,
            "interrupted": envelope.interrupted,
            "units": units,
            "rows": rows,
            "fits": self.fits,
            "samples": self.samples,
            "notes": self.notes,
        });
        format!("{document:#}\n")
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
