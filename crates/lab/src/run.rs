//! What an experiment gets, what it gives, and why it has no result.
//!
//! Called by: every experiment. Plain data.

use crate::options::Common;

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is invalid; the text says what to write instead.
    #[error("{0}")]
    Usage(String),
    /// The experiment failed; the text says what helps.
    #[error("{0}")]
    Failed(String),
}

/// The input of an experiment.
pub struct Run<'a> {
    /// The options common to all or several experiments.
    pub common: &'a Common,
    pub(crate) stopped: &'a (dyn Fn() -> bool + Sync),
}

impl Run<'_> {
    /// Was the run asked to stop? Then it ends soon, with the results so far.
    pub fn is_stopped(&self) -> bool {
        (self.stopped)()
    }
}

/// The result of an experiment, for the program.
#[derive(Debug)]
pub struct Finished {
    /// For standard output.
    pub text: String,
    /// Messages for people.
    pub remarks: Vec<String>,
    /// The run was stopped before its end.
    pub interrupted: bool,
    /// A file could not be written; the text is complete nevertheless.
    pub trouble: Option<Error>,
}
