//! `wirespeed rpcbind`: a port mapper (RFC 1833) over the system's sockets, until Ctrl-C.
//!
//! Called by: `lib.rs`. `run` has the loop, `local` the socket of this machine.

mod args;
mod local;
mod report;
mod run;

use anyhow::Result;

pub(crate) use args::Args;

use crate::clock::Interrupt;
use crate::{Outcome, output};
use run::Mapper;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let mut mapper = Mapper::open(args)?;
    output::out(&report::begin(&args.bind, mapper.socket()))?;
    let ended = mapper.serve(&interrupt);
    output::out(&report::end(&mapper.server))?;
    ended.map(|()| Outcome::Done)
}
