//! `wirespeed ping`: ICMP echo over a device, with the output and the exit codes of other pings: 0
//! an answer, 1 no answer, 2 an error.
//!
//! Called by: `lib.rs`.

mod args;
mod report;
mod run;
mod within;

use anyhow::Result;

pub(crate) use args::Args;

use crate::{Outcome, Usage, output};

/// Run it. Errors are printed here, because their exit code is ping's own.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let ran = match args.socket.is_some() || args.pid.is_some() {
        true => within::run(args),
        false => run::run(args),
    };
    match ran {
        Ok(true) => Ok(Outcome::Done),
        Ok(false) => Ok(Outcome::Exit(1)),
        Err(error) if error.is::<Usage>() => Err(error),
        Err(error) => {
            output::err(&format!("error: {error:#}"));
            Ok(Outcome::Exit(2))
        }
    }
}
