//! `wirespeed netns -- PROGRAM`: any program in a private network whose only way out is our stack,
//! as an ordinary user.
//!
//! Called by: `lib.rs`. `launch.rs` is the user's process; another one, which has nothing of the
//! host but its network (crate `jail`), runs crate `machine`.
//! docs/gateway.md is the user's guide.

mod args;
mod launch;

use std::process::ExitCode;

use anyhow::Result;

pub(crate) use args::Args;
pub(crate) use launch::loopbacks;

use crate::{Outcome, output};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    run_as("wirespeed netns", args).map(Outcome::As)
}

/// The same for a tool of another name; returns the program's exit status.
///
/// # Errors
/// The options do not fit.
pub(crate) fn run_as(name: &str, args: &Args) -> Result<ExitCode> {
    let code = match launch::run(args) {
        Ok(code) => code,
        Err(why) if output::is_usage(&why) => return Err(why),
        Err(why) => {
            output::err(&format!("{name}: {why:#}"));
            why.downcast_ref::<jail::Error>().map_or(125, jail::Error::exit_code)
        }
    };
    Ok(ExitCode::from(code))
}
