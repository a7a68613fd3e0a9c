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
pub(crate) use args::Args;
pub(crate) use run::patient::Stop;
pub(crate) use run::process::Process;
pub(crate) use run::source::{Direction, FileId, Next, Packet, Source, open as interface};

use crate::Outcome;

/// The packets of a file that a filter in libpcap's language matches; without one, all. They end
/// when `stop` says so.
///
/// # Errors
/// The file is no capture.
pub(crate) fn file(path: &Path, filter: &str, stop: Stop) -> Result<Box<dyn Source>> {
    let wanted = run::filter::Wanted::whole(filter);
    Ok(Box::new(run::file::Capture::open(path, wanted.maker(), stop)?))
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
    let stop = Arc::new(AtomicBool::new(false));
    let mut source = run::open(args, &filter, &stop)?;
    // From here on a signal has to end the capture properly.
    on_interrupt(stop.clone())?;
    report::beginning(args, source.as_ref());
    let summary = run::run(args, source.as_mut(), &stop)?;
    // After an error only the error is printed.
    report::summary(args, &summary)?;
    Ok(Outcome::Done)
}

/// SIGINT, SIGTERM and SIGHUP set `stop`. A second one ends the program, because the reader of
/// standard output may have stopped.
fn on_interrupt(stop: Arc<AtomicBool>) -> Result<()> {
    let interrupt = move || {
        if stop.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(interrupt).context("Ctrl-C")
}
