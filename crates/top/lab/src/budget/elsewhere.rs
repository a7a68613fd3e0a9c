//! On other systems than Linux nothing samples threads for us, and the experiment says so.
//!
//! Called by: the lab.

use clap::ArgMatches;

use crate::{Error, Report, Run};

/// There are no figures.
pub(crate) fn run(_matches: &ArgMatches, _run: &Run<'_>) -> Result<Report, Error> {
    Err(Error::Failed("the budget is sampled by Linux: run it there".to_owned()))
}
