//! `wirespeed dump`: packets of a running wirespeed, of interfaces or of a file, as lines or to a
//! file, by tcpdump's flags.
//!
//! Called by: the program, and `top`, which watches the same sources. `args` is what was asked,
//! `run` the work, `report` what is printed of it. docs/dump.md compares it with tcpdump.

mod args;
mod report;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::Outcome;

pub(crate) use args::Args;
pub(crate) use run::interface::open as interface;
pub(crate) use run::packet::{Direction, Packet};
pub(crate) use run::process::Process;
pub(crate) use run::{Next, Source};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    args.check()?;
    if args.list {
        return report::interfaces(args.json);
    }
    let filter = run::filter::Wanted::of(args)?;
    if args.code > 0 {
        return report::code(args, &filter);
    }
    let mut source = run::open(args, &filter)?;
    // Ctrl-C ends a wait for a pipe's first bytes at once.
    let stop = on_interrupt()?;
    report::beginning(args, source.as_ref());
    let summary = run::run(args, source.as_mut(), &stop)?;
    // After an error nothing is said but the error.
    report::summary(args, &summary)?;
    Ok(Outcome::Done)
}

/// Set by Ctrl-C. The second time ends the program: a source may hang.
fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let interrupt = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(interrupt).context("Ctrl-C")?;
    Ok(stop)
}
