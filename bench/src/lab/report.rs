//! The rows about the report: how long `lab all --quick` takes, and how large its page is. Called
//! by `mod.rs`. Both are of one run, in this process, on both cores.

use std::cell::RefCell;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};

use crate::harness::{Bench, Figure};
use crate::measure::pin;

/// Seconds and bytes of a run.
type Made = (f64, usize);

/// Seconds.
pub(super) fn seconds(bench: &Bench) -> Result<Figure> {
    let (seconds, bytes) = made(bench)?;
    let note = format!("a page of {} kB, on both cores", bytes / 1000);
    Ok(Figure { value: seconds, samples: vec![seconds], note })
}

/// Megabytes.
pub(super) fn size(bench: &Bench) -> Result<Figure> {
    let (seconds, bytes) = made(bench)?;
    let value = bytes as f64 / 1e6;
    let note = format!("{bytes} bytes, uPlot in them; made in {seconds:.0} s by --quick");
    Ok(Figure { value, samples: vec![value], note })
}

/// One run serves both rows.
fn made(bench: &Bench) -> Result<Made> {
    thread_local! {
        static KNOWN: RefCell<Option<Made>> = const { RefCell::new(None) };
    }
    if let Some(made) = KNOWN.with_borrow(|known| *known) {
        return Ok(made);
    }
    // A row is pinned to one core, and the lab measures on several as a user has it.
    let both = bench.cores.both();
    let made = thread::scope(|scope| {
        let run = || -> Result<Made> {
            pin(&both)?;
            let begun = Instant::now();
            let page = ::lab::page(true, &|| false)?;
            Ok((begun.elapsed().as_secs_f64(), page.len()))
        };
        scope.spawn(run).join().map_err(|_| anyhow!("the lab panicked"))?
    })?;
    KNOWN.set(Some(made));
    Ok(made)
}
