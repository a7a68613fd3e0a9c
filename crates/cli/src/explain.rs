//! `wirespeed explain`: in words, what limits a connection of a running program now.
//!
//! Called by: `lib.rs`. `run` looks at the connection for a while, `look` says of each look what
//! held the data back, `verdict` counts, `report` has the words. docs/live.md.
//!
//! # The document of `--json`
//! `{"tool": "explain", "version", "connections": [{"stack", "local", "remote", "state", "sends",
//! "limit", "words", "advice", "looks", "seconds", "shares", ...}]}`. `limit` is null if no limit
//! has half of the looks; `shares` has each limit's part of them, 0 to 1.

mod args;
mod look;
mod report;
mod run;
mod verdict;

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
