//! `wirespeed trace FILE`: what a capture says about its TCP connections, as a table, as JSON, and
//! as a page with time-sequence graphs in tcptrace's style.
//!
//! Called by: the program. `args` is the command line, `run` reads the file, `report` prints,
//! `page` draws. `crates/capture/trace` does the analysis.

mod args;
mod page;
mod report;
mod run;

use anyhow::{Context, Result, anyhow};

use crate::clock::Interrupt;
use crate::{Outcome, output};

pub(crate) use args::Args;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let read = run::read(args, &interrupt)?;
    match args.json {
        true => output::out(&report::json(&read))?,
        false => output::out(&report::text(&read, args.most))?,
    }
    if let Some(path) = &args.out {
        let text = page::html(&read, args.most);
        lab::replaced::write(path, text.as_bytes()).map_err(|error| {
            let what_to_do = output::what_to_do(&error);
            anyhow!(error).context(format!("cannot write {}{what_to_do}", path.display()))
        })?;
        output::err(&format!("page: {}", path.display()));
    }
    match read.damage {
        Some(damage) => Err(damage).context("what was read until then is above"),
        None if read.interrupted => Ok(Outcome::Interrupted),
        None => Ok(Outcome::Done),
    }
}
