//! `wirespeed telnetd`: a program on a terminal for everyone who connects by TELNET, until Ctrl-C.
//!
//! Called by: `lib.rs`. `run` has the loop, `session` a connection with its terminal, `pty` the
//! terminal, `setting` what it is set to, `input` what goes to it, `program` starts the program.

mod args;
mod command;
mod input;
mod program;
mod pty;
mod report;
mod run;
mod session;
mod setting;

use anyhow::Result;

pub(crate) use args::Args;

use crate::clock::Interrupt;
use crate::{Outcome, output};
use run::Daemon;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.on_terminal {
        return Err(program::become_program(&args.program));
    }
    program::find(&args.program)?;
    let interrupt = Interrupt::install()?;
    let Some(mut daemon) = Daemon::open(args, &interrupt)? else { return Ok(Outcome::Done) };
    output::out(&report::begin(args))?;
    let ended = daemon.serve(&interrupt);
    daemon.network.end();
    output::out(&report::end(&daemon.tally))?;
    ended.map(|()| Outcome::Done)
}
