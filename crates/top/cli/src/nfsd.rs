//! `wirespeed nfsd`: an NFS version 3 server of one directory, over the system's sockets or over a
//! stack on a device, until Ctrl-C.
//!
//! Called by: `lib.rs`. RFC 1813. The protocol is crate `nfs`, calls are those of crate `rpc`.

mod args;
mod register;
mod report;
mod run;
mod sockets;

use anyhow::Result;

pub(crate) use args::Args;

use crate::Outcome;
use crate::clock::Interrupt;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    run::run(args, &Interrupt::install()?)
}
