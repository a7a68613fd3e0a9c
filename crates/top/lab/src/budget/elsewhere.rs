//! Only Linux samples threads for us: on other systems the experiment is an error that says so.
//!
//! Called by: the lab.

use clap::ArgMatches;

use crate::{Error, Report, Run};

/// Always an error: there are no figures.
pub(crate) fn run(_matches: &ArgMatches, _run: &Run<'_>) -> Result<Report, Error> {
    Err(Error::Failed("the samples come from Linux: run this experiment there".to_owned()))
}
