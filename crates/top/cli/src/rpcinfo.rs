//! `wirespeed rpcinfo`: the ONC RPC programs of a host, and whether they answer, over the system's
//! sockets.
//!
//! Called by: `lib.rs`. RFC 1833, RFC 5531.

mod args;
mod names;
mod report;
mod run;

use anyhow::Result;

pub(crate) use args::Args;
#[cfg(target_os = "linux")]
pub(crate) use run::{clock, secret, udp};

use crate::{Outcome, output};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    output::out(&run::run(args)?)?;
    Ok(Outcome::Done)
}
