//! The part of a report that all experiments share: the experiment, the machine, the time it took,
//! and whether it was stopped.
//!
//! Called by: the lab, which fills in an envelope; the code that prints a report.

use crate::{Machine, noise};

/// The facts about a run.
pub struct Envelope {
    /// The experiment's name.
    pub lab: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// The machine, and how quiet it was at the start.
    pub machine: Machine,
    /// Wall time of the run.
    pub seconds: f64,
    /// The run was stopped: rows may be based on fewer runs than asked for.
    pub interrupted: bool,
}

impl Envelope {
    /// The warning about a noisy machine, if the experiment's figures depend on the machine.
    pub(crate) fn warning(&self) -> Option<String> {
        let warning = self.machine.warning();
        warning.filter(|_| !noise::is_virtual(self.lab))
    }
}

/// The version of wirespeed.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
