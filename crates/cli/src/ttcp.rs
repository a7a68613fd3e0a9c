//! `wirespeed ttcp`, after the program of 1984: move bytes from one stack to another, check them,
//! say how fast it went.
//!
//! Called by: `main`. Here the parts meet: the command line (`args`), what it means (`plan`), two
//! connected ends (`ends`, `udp`), one thread (`run`) or two (`threads`), and what came of it
//! (`report`). Must not know: how a stack works.

mod args;
mod clock;
mod data;
mod ends;
mod file;
mod plan;
mod progress;
mod report;
mod run;
mod threads;
mod udp;

pub(crate) use args::Args;
pub(crate) use clock::{Clock, Interrupt};

use anyhow::Result;

use crate::{Outcome, output};
use plan::Plan;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.lists_switches() {
        output::out(&args::switch_table())?;
        return Ok(Outcome::Done);
    }
    let plan = Plan::new(args)?;
    let interrupt = clock::Interrupt::install()?;
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
