//! The end of an experiment: its report, the reason why there is none, or that it was not begun.
//!
//! Called by: `all`, `page`.

use serde_json::{Value, json};

use crate::Experiment;
use crate::envelope::{Envelope, VERSION};
use crate::report::Report;

/// An experiment and how it ended.
pub(crate) struct Ended {
    pub(crate) experiment: &'static Experiment,
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) end: End,
}

/// How it ended.
pub(crate) enum End {
    /// With a report, which may lack rows.
    Done(Box<(Report, Envelope)>),
    /// With an error, which says what to do about it.
    Failed(String, Box<Envelope>),
    /// The run was stopped before this experiment began.
    NotRun,
}

impl Ended {
    /// The status in a word: done, partly, stopped, failed or not run.
    pub(crate) fn status(&self) -> &'static str {
        match &self.end {
            End::Done(done) if done.1.interrupted => "stopped",
            End::Done(done) if done.0.unmeasured() > 0 => "partly",
            End::Done(_) => "done",
            End::Failed(..) => "failed",
            End::NotRun => "not run",
        }
    }

    /// The number of rows in its table, and of those that have figures.
    pub(crate) fn rows(&self) -> (usize, usize) {
        match &self.end {
            End::Done(done) => {
                let rows = done.0.rows.len();
                (rows, rows.saturating_sub(done.0.unmeasured()))
            }
            _ => (0, 0),
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        match &self.end {
            End::Done(done) => done.1.seconds,
            End::Failed(_, envelope) => envelope.seconds,
            End::NotRun => 0.0,
        }
    }

    pub(crate) fn report(&self) -> Option<&Report> {
        match &self.end {
            End::Done(done) => Some(&done.0),
            _ => None,
        }
    }

    /// The sentences that say what the experiment shows, or why it shows nothing.
    pub(crate) fn says(&self) -> Vec<String> {
        match &self.end {
            End::Done(done) => done.0.shows.clone(),
            End::Failed(error, _) => vec![format!("No figures: {error}.")],
            End::NotRun => vec!["Not run: stopped before it.".to_owned()],
        }
    }

    /// The first of these sentences, for the page's index.
    pub(super) fn finding(&self) -> String {
        self.says().into_iter().next().unwrap_or_else(|| "No figures.".to_owned())
    }

    /// One line for a terminal.
    pub(super) fn line(&self) -> String {
        let (rows, measured) = self.rows();
        let name = self.experiment.name;
        let status = self.status();
        format!("{name}: {status}, {measured} of {rows} rows, {:.1} s", self.seconds())
    }

    /// Its document, with `error` if it failed.
    pub(super) fn document(&self) -> Value {
        match &self.end {
            End::Done(done) => done.0.value(&done.1),
            End::Failed(error, envelope) => {
                let mut document = Report::default().value(envelope);
                document["error"] = json!(error);
                document
            }
            End::NotRun => json!({
                "lab": self.experiment.name,
                "question": self.experiment.question,
                "version": VERSION,
                "interrupted": true,
                "rows": [],
                "error": "not run: stopped before it",
            }),
        }
    }

    pub(super) fn manifest(&self) -> Value {
        let (rows, measured) = self.rows();
        json!({
            "name": self.experiment.name,
            "question": self.experiment.question,
            "command": self.command,
            "status": self.status(),
            "rows": rows,
            "measured": measured,
            "seconds": rounded(self.seconds()),
            "plot": self.report().is_some_and(|report| report.plot.is_some()),
            "error": match &self.end {
                End::Failed(error, _) => json!(error),
                _ => Value::Null,
            },
        })
    }
}

/// Seconds, to the millisecond.
pub(crate) fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
