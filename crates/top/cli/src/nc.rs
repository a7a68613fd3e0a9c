//! `wirespeed nc`: a TCP connection, a listener or datagrams in the stack of a running program,
//! with the options of nc(1). The sockets are owned by the user that runs the tool.
//!
//! Called by: `lib.rs`. `args` has the options, `run` moves the bytes.

mod args;
mod run;

use anyhow::Result;

pub(crate) use args::Args;

use crate::Outcome;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    run::run(args)
}
