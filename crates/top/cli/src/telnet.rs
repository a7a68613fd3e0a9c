//! `wirespeed telnet`: a user's terminal on another host (RFC 854), with lines that are edited here
//! (RFC 1184).
//!
//! Called by: `lib.rs`. `run` has the loop, `keyboard` what is typed or read, `prompt` what the
//! user says to the tool itself, `log` what the ends said to each other.

mod args;
mod keyboard;
mod log;
mod prompt;
mod run;
mod screen;

use anyhow::{Result, anyhow};

pub(crate) use args::Args;

use crate::clock::Interrupt;
use crate::network::{Connection, Network};
use crate::{Outcome, output};
use log::Log;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let Some(mut network) = Network::open(&args.outside, "telnet", &interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    let log = Log::create(args.log.as_deref(), network.now())?;
    let Some(connection) = connected(&mut network, args, &interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    run::run(args, network, connection, log, &interrupt)
}

/// A connection to the first address of the host that answers; `None` after Ctrl-C.
fn connected(
    network: &mut Network,
    args: &Args,
    interrupt: &Interrupt,
) -> Result<Option<Connection>> {
    let who = (&args.outside, &args.names);
    let host = (args.host.as_str(), args.port);
    let found = network.addresses(who, host, args.version(), interrupt)?;
    let mut last = None;
    for at in found.into_iter().flatten() {
        output::err(&format!("Trying {}...", at.ip()));
        match network.connect(at, interrupt) {
            Ok(Some(connection)) => {
                output::err(&format!(
                    "Connected to {}.",
                    wirespeed::control::text::plain(&args.host)
                ));
                return Ok(Some(connection));
            }
            Ok(None) => return Ok(None),
            Err(error) => {
                last = Some(error.context(format!(
                    "no connection to {at}: does a server listen there? Port 23 is the default"
                )))
            }
        }
    }
    match last {
        Some(error) => Err(error),
        None if interrupt.noted() => Ok(None),
        None => Err(anyhow!("the host has no address")),
    }
}
