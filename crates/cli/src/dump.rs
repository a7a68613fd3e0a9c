//! `wirespeed dump`: packets of a running wirespeed, of interfaces or of a file, as lines or into a
//! file, with tcpdump's options.
//!
//! Called by: the program, and `top` and `trace`, which read the same sources. `args` is the
//! command line, `run` does the work, `report` prints. docs/dump.md compares it with tcpdump.

mod args;
mod report;
mod run;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::Outcome;

pub(crate) use args::Args;
pub(crate) use run::interface::open as interface;
pub(crate) use run::packet::{Direction, Packet};
pub(crate) use run::process::Process;
pub(crate) use run::source::{Next, Source};

/// The packets of a file that a filter in libpcap's language matches; without one, all.
///
/// # Errors
/// The file is no capture.
pub(crate) fn file(path: &Path, filter: &str) -> Result<Box<dyn Source>> {
    let wanted = run::filter::Wanted::whole(filter);
    Ok(Box::new(run::file::Capture::open(path, wanted.maker())?))
}

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
    // Installed before the first packet, so that Ctrl-C ends a wait for a pipe's first bytes.
    let stop = on_interrupt()?;
    report::beginning(args, source.as_ref());
    let summary = run::run(args, source.as_mut(), &stop)?;
    // After an error only the error is printed.
    report::summary(args, &summary)?;
    Ok(Outcome::Done)
}

/// Set by Ctrl-C. A second Ctrl-C ends the program, because a source may hang.
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
