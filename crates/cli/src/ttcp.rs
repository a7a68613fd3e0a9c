//! `wirespeed ttcp`, after the program of 1984: move bytes from one stack to another, check them,
//! say how fast it went.
//!
//! Called by: `main`. Here the parts meet: the command line (`args`), what it means (`plan`), two
//! connected ends (`ends`, `udp`), one thread (`run`) or two (`threads`), and what came of it
//! (`report`). Must not know: how a stack works.

mod args;
mod data;
mod ends;
mod file;
mod host;
mod host_report;
mod plan;
mod progress;
mod report;
mod run;
mod stream;
mod threads;
mod udp;
mod wrap;

pub(crate) use args::Args;

use anyhow::{Error, Result, anyhow};

use crate::clock::Interrupt;
use crate::outside::{Outside, Settings};
use crate::{Outcome, output};
use plan::Plan;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.lists_switches() {
        output::out(&args::switch_table())?;
        return Ok(Outcome::Done);
    }
    let plan = Plan::new(args)?;
    let interrupt = Interrupt::install()?;
    if args.receive || args.transmit.is_some() {
        return outside(args, &plan, &interrupt);
    }
    let (sender, receiver) = ends::connected(&plan)?;
    let measured = if plan.threads == 2 {
        threads::run(&plan, sender, receiver, &interrupt)?
    } else {
        run::run(&plan, sender, receiver, &interrupt)?
    };
    let text =
        if args.json { report::json(&plan, &measured)? } else { report::text(&plan, &measured) };
    output::out(&text)?;
    measured.check_whole(&plan)?;
    Ok(if measured.interrupted { Outcome::Interrupted } else { Outcome::Done })
}

/// To or from a host: the device with what is asked for around it, then the transfer.
fn outside(args: &Args, plan: &Plan, interrupt: &Interrupt) -> Result<Outcome> {
    let role = match &args.transmit {
        Some(text) => host::Role::Transmit(host::host(text)?),
        None => host::Role::Receive,
    };
    if let host::Role::Transmit(host) = role {
        args.outside.check_host(host)?;
    }
    let mut wrapped = wrap::Wrapped::default();
    let wrap = |device| wrapped.around(device, plan.fault, args.capture.as_deref());
    let settings = Settings {
        offload: args.offload == args::OnOff::On,
        io_uring: args.io_uring == args::OnOff::On,
        switches: plan.switches,
    };
    let outside = Outside::open_with(&args.outside, &settings, wrap)?;
    let mut transfer = host::Transfer::new(outside, plan, interrupt);
    let moved = transfer.run(role).map_err(|error| hinted(error, role, &args.outside))?;
    let stack = &transfer.outside.stack;
    let found = host_report::Found { plan, role, moved: &moved, stack, wrapped: &wrapped };
    if args.json {
        output::out(&found.json(transfer.outside.mtu())?)?;
    } else {
        // Standard output may carry the data.
        output::err(found.text().trim_end());
    }
    if let Some(error) = wrapped.capture_error() {
        return Err(anyhow!(error));
    }
    Ok(if moved.interrupted { Outcome::Interrupted } else { Outcome::Done })
}

/// The error, with what else to try where the host did not answer.
fn hinted(error: Error, role: host::Role, outside: &crate::outside::Args) -> Error {
    let host::Role::Transmit(host) = role else { return error };
    match outside.hint(host) {
        Some(hint) if error.is::<host::NoAnswer>() => anyhow!("{error:#}. {hint}"),
        _ => error,
    }
}
