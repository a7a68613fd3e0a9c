//! `wirespeed wire A B`: a bad network between two devices of this machine, for any two hosts: the
//! simulator's link in real time, as netem does it in the kernel.
//!
//! Called by: `lib.rs`. docs/wire.md is the user's guide.

mod args;
mod report;
mod run;
pub(crate) mod values;

use anyhow::Result;

pub(crate) use args::Args;

use crate::Outcome;
use crate::clock::Interrupt;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    args.check()?;
    let interrupted = run::run(args, &Interrupt::install()?)?;
    Ok(if interrupted && args.time.is_some() { Outcome::Interrupted } else { Outcome::Done })
}
