//! `wirespeed nfs`: list, print and copy files of an NFS version 3 server, over the system's
//! sockets or over a stack on a device.
//!
//! Called by: `lib.rs`. RFC 1813. The protocol is crate `nfs`, calls are those of crate `rpc`.

mod args;
mod connect;
mod report;
mod run;

use anyhow::Result;

pub(crate) use args::Args;

use crate::Outcome;
use crate::clock::Interrupt;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    run::run(args, &Interrupt::install()?)
}
