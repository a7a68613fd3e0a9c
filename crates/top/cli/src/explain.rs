//! `wirespeed explain`: in words, what limits a connection of a running program now.
//!
//! Called by: `lib.rs`. `run` samples the state of the connection for a while, crate [`explain`]
//! finds what limits it from these samples (`looks`), `report` prints the finding. docs/live.md.
//!
//! # The document of `--json`
//! `{"tool": "explain", "version", "connections": [{"stack", "local", "remote", "state", "sends",
//! "limit", "words", "advice", "looks", "seconds", "shares", ...}]}`. `limit` is the only finding,
//! null if no cause has half of the looks; `shares` has the causes that single looks saw, each with
//! its part of the looks, 0 to 1.

mod args;
mod report;
mod run;

use anyhow::Result;

pub(crate) use args::Args;

use crate::{Outcome, output};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    args.check()?;
    let explained = run::explain(args)?;
    output::out(&if args.json { report::json(&explained)? } else { report::text(&explained) })?;
    Ok(Outcome::Done)
}
