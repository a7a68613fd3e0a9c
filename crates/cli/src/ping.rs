//! `wirespeed ping`: ICMP echo over a device of one's own, with the lines and the exit codes that
//! everybody knows: 0 somebody answered, 1 nobody did, 2 it could not be tried.
//!
//! Called by: `lib.rs`.

mod args;
mod report;
mod run;

use anyhow::Result;

pub(crate) use args::Args;

use crate::{Outcome, Usage, output};

/// Run it. What keeps it from being tried is said here, because it has an exit code of its own.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    match run::run(args) {
        Ok(true) => Ok(Outcome::Done),
        Ok(false) => Ok(Outcome::Exit(1)),
        Err(error) if error.is::<Usage>() => Err(error),
        Err(error) => {
            output::err(&format!("error: {error:#}"));
            Ok(Outcome::Exit(2))
        }
    }
}
