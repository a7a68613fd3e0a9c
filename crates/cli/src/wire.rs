//! `wirespeed wire A B`: a bad network between two devices of this machine, for any two hosts: the
//! simulator's link in real time. What netem does, without it in the kernel.
//!
//! Called by: `lib.rs`. docs/wire.md is for its users.

mod args;
mod report;
mod run;
mod values;

use anyhow::{Result, bail};

pub(crate) use args::Args;

use crate::clock::Interrupt;
use crate::{Outcome, Usage};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.a == args.b {
        bail!(Usage(format!("both ends are {}: a wire has two", args.a)));
    }
    let interrupted = run::run(args, &Interrupt::install()?)?;
    Ok(if interrupted && args.time.is_some() { Outcome::Interrupted } else { Outcome::Done })
}
