//! What goes around every report, whatever the experiment: which it was, where, and how it ended.
//!
//! Called by: the lab, which fills it in; whatever shows a report.

use crate::{Experiment, Machine};

/// What is said about every run, whatever the experiment.
pub struct Envelope {
    /// Which experiment.
    pub experiment: &'static Experiment,
    /// Where, and how quiet it was at the start.
    pub machine: Machine,
    /// Wall time that it took.
    pub seconds: f64,
    /// It was stopped: rows may rest on fewer runs than asked for.
    pub interrupted: bool,
}

/// The version of wirespeed.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
