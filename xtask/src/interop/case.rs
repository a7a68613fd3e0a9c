//! A case, a suite of cases, and the options of a run.
//!
//! Called by: every suite. Plain data.

use std::path::Path;

use anyhow::Result;

use super::needs::Need;
use super::workbench::Workbench;

/// One test against another program.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [Need],
    /// An error is a failure; its text gives the observed and the expected result.
    pub(crate) run: fn(&Workbench) -> Result<()>,
}

/// Cases that belong together: `cargo xtask interop NAME`.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) cases: &'static [Case],
    /// Run only when named: it takes minutes.
    pub(crate) apart: bool,
}

/// The length of a soak, and its seed. A soak does at random things that may happen to a program.
#[derive(Clone, Copy, Default)]
pub(crate) struct Soak {
    /// How long; `None`: ten minutes.
    pub(crate) seconds: Option<u64>,
    /// It determines all that happens; `None`: another one each time, which is printed.
    pub(crate) seed: Option<u64>,
}

/// The options of a run beside its suites.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    /// Only the cases with this in their names.
    pub(crate) only: Option<&'a str>,
    /// Install what is missing first.
    pub(crate) install: bool,
    pub(crate) soak: Soak,
    /// The `wirespeed` to test; `None`: the one that tests run, which is built first.
    pub(crate) program: Option<&'a Path>,
    /// Test programs that have run already, every case of them; they do not run again.
    pub(crate) ran: &'a [String],
}
