//! `wirespeed services`: the small services over a device, as a peer to test against: echo (RFC
//! 862, port 7), discard (RFC 863, port 9), daytime (RFC 867, port 13) and character generator (RFC
//! 864, port 19), over TCP and UDP, until Ctrl-C.
//!
//! Called by: `lib.rs`; `cargo xtask interop attacks` attacks it.

mod args;
mod report;
mod run;
mod service;
mod tcp;
mod udp;

use anyhow::Result;

pub(crate) use args::Args;

use crate::clock::Interrupt;
use crate::{Outcome, output};
use observe::Service;
use run::Server;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let mut control = Service::open("services").allow_changes();
    let Some(mut server) = Server::open(args, &interrupt)? else { return Ok(Outcome::Done) };
    output::out(report::BEGIN)?;
    let ended = run::serve(&mut server, &mut control, &interrupt);
    let clock = server.outside.clock;
    control.finish(|| clock.now(), &mut [("services", &mut server.outside.stack)]);
    output::out(&report::end(&server.moved))?;
    ended.map(|()| Outcome::Done)
}
