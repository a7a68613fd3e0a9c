//! `wirespeed up CONFIG.toml`: a router. A process with privileges opens devices and watches over a
//! second one, which runs the stack without any.
//!
//! Called by: `lib.rs`. `run` is the first process, `parent` what it holds, `worker` the second,
//! `engine` the router in it,
//! `notices` what it says unasked. docs/router.md; docs/decisions/0079-privileges.md.

mod args;
mod engine;
mod notices;
mod parent;
mod report;
mod run;
mod worker;

use anyhow::Result;

pub(crate) use args::Args;

use crate::Outcome;

/// Run it, or check a configuration.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    match (&args.config, args.worker) {
        (_, true) => worker::main(args.worker_user),
        (Some(file), _) if args.check => run::check(file),
        (Some(file), _) => run::up(file, args.live.http),
        (None, _) => anyhow::bail!(crate::Usage("give the configuration's file".to_owned())),
    }
}
