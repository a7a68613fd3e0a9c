//! `wirespeed netns -- PROGRAM`: any program in a private network whose only way out is our stack,
//! as an ordinary user.
//!
//! Called by: `lib.rs`. `launch.rs` is the user's process; `gateway.rs` is another one, which has
//! nothing of the host but its network (crate `jail`) and runs `machine.rs`.
//! docs/gateway.md is the user's guide.

mod args;
mod gateway;
mod launch;

use std::process::ExitCode;

use anyhow::Result;

pub(crate) use args::Args;

use crate::{Outcome, Usage, output};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let code = match launch::run(args) {
        Ok(code) => code,
        Err(why) if why.is::<Usage>() => return Err(why),
        Err(why) => {
            output::err(&format!("wirespeed netns: {why:#}"));
            why.downcast_ref::<jail::Error>().map_or(125, jail::Error::exit_code)
        }
    };
    Ok(Outcome::As(ExitCode::from(code)))
}

/// If this process is one that [`main`] started, be that process.
pub(crate) fn child() -> Option<ExitCode> {
    jail::child(gateway::run)
}
