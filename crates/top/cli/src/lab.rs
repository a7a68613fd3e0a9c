//! `wirespeed lab`: experiments with the stack, each with a table, a plot and `--json`.
//!
//! Called by: `lib.rs`. `crates/top/lab` does the work.

use anyhow::{Result, anyhow};

use crate::clock::Interrupt;
use crate::{Outcome, Usage, output};

/// Run it.
pub(crate) fn main(args: &::lab::Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let finished = ::lab::perform(args, &|| interrupt.noted()).map_err(|error| match error {
        ::lab::Error::Usage(text) => anyhow!(Usage(text)),
        failed @ ::lab::Error::Failed(_) => anyhow!(failed),
    })?;
    for remark in &finished.remarks {
        output::err(remark);
    }
    output::out(&finished.text)?;
    match finished.trouble {
        Some(trouble) => Err(anyhow!(trouble)),
        None if finished.interrupted => {
            output::err("stopped; what was measured until then is above");
            Ok(Outcome::Interrupted)
        }
        None => Ok(Outcome::Done),
    }
}
