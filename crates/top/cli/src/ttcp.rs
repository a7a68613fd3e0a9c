//! `wirespeed ttcp`, after the program of 1984: moves bytes from one stack to another, checks them,
//! and reports the speed. Both stacks are in memory, or the other end is a host behind a device.
//!
//! Called by: `lib.rs`. `plan` interprets the command line; docs/perf.md says what limits a
//! transfer.

mod args;
mod connect;
mod data;
mod ends;
mod errors;
mod file;
mod flow;
mod host;
mod one_thread;
mod plan;
mod progress;
mod report;
mod role;
mod run;
mod stream;
mod tcp;
mod two_threads;
mod udp;
pub(crate) mod values;
mod wrap;

use anyhow::{Result, anyhow, bail};
use live::{Http, Live};

pub(crate) use args::Args;

use crate::clock::Interrupt;
use crate::{Outcome, Usage, output};
use plan::Plan;
use report::host::Found;
use role::Role;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.lists_switches() {
        output::out(&args::switch_table())?;
        return Ok(Outcome::Done);
    }
    let plan = Plan::new(args)?;
    let live = live(args)?;
    let interrupt = Interrupt::install()?;
    let interrupted = match Role::is_asked_for(args) {
        true => with_a_host(args, &plan, &interrupt, live)?,
        false => in_memory(args, &plan, &interrupt, live)?,
    };
    Ok(if interrupted { Outcome::Interrupted } else { Outcome::Done })
}

/// The live page, if it is asked for.
fn live(args: &Args) -> Result<Option<Live>> {
    if let (Some(Http::Stack(_)), false) = (args.live.http, Role::is_asked_for(args)) {
        bail!(Usage(
            "--http stack:PORT needs -t or -r with --dev: nobody reaches two stacks in memory. \
             Give an address of this machine"
                .to_owned()
        ));
    }
    Ok(args.live.http.map(Live::bind).transpose()?)
}

/// Between two stacks in memory; `true` if Ctrl-C ended it early.
fn in_memory(args: &Args, plan: &Plan, interrupt: &Interrupt, live: Option<Live>) -> Result<bool> {
    let measured = run::in_memory(plan, interrupt, live)?;
    output::out(&match args.json {
        true => report::memory::json::document(plan, &measured)?,
        false => report::memory::text(plan, &measured),
    })?;
    measured.check_whole(plan)?;
    Ok(measured.interrupted)
}

/// To or from a host; `true` if Ctrl-C ended it early.
fn with_a_host(
    args: &Args,
    plan: &Plan,
    interrupt: &Interrupt,
    live: Option<Live>,
) -> Result<bool> {
    let mut wrapped = wrap::Wrapped::default();
    let ended = run::with_a_host((args, plan), interrupt, live, &mut wrapped)?;
    let Some(ended) = ended else {
        return Ok(true);
    };
    let run::WithAHost { moved, outside } = ended;
    let found = Found { plan, moved: &moved, stack: &outside.stack, wrapped: &wrapped };
    if args.json {
        output::out(&found.json(outside.mtu())?)?;
    } else {
        // Standard output may carry the data.
        output::err(found.text().trim_end());
    }
    match wrapped.capture_error() {
        Some(error) => Err(anyhow!(error)),
        None => Ok(moved.interrupted),
    }
}
