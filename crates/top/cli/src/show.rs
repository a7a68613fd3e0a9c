//! `wirespeed show`: what a running program's stacks are doing, asked over its control socket.
//!
//! Called by: `lib.rs`.
//!
//! # The document of `--json`
//! `{"tool": "show", "version", "program": {"pid", "command", "version"}, "stacks": [{"name",
//! SECTION: ...}]}`, with one member for each section asked for: `stack`, `frag` and `counters`,
//! `drops`, `switches` (by name) are objects, `limits` an object of `{"value", "hits"}` by name;
//! `ports`, `connections`, `sockets`, `addresses`, `neighbours`, `routes` and `groups` are lists.
//! Times end in their unit, sizes are bytes; unknown values are null. `show tcp` has `connections`,
//! each with `delivery_bytes_per_s` and `receiving_bytes_per_s` as well. `show fib` has `fib`, the
//! rows of `routes` that packets take, each with the name of its port as `dev`; `show fib lookup`
//! has `lookup`, an object: `{"dst", "result"}` (`local`, `leaves` or `dropped`) with the route,
//! all its next hops, the one that was chosen, the neighbour's state and the MTUs. `show budget`
//! has no stacks but `budget`, an object: `seconds`, `threads`, `samples`, `packets`, `ns` and
//! `cores` (for a whole packet; used in all), `shows`, `notes`, and `stages`, a list of `{"stage",
//! "percent", "percent_off", "cores", "ns", "kernel_ns", "cycles", "instructions",
//! "stalled_cycles", "samples", "bar"}`. `show filter`, `show states` and `show nat` (`nat` and
//! `mappings`) have the rows of the firewall, and `show pair` (`pair`) what the partner of a
//! router has done; `show frr` (`frr` and `mirrors`) has the daemons beside a router. They are in
//! no other document.

mod args;
mod budget;
mod fib;
mod filter;
mod full;
mod report;
mod run;
mod states;
mod within;

use anyhow::Result;

pub(crate) use args::Args;
pub(crate) use filter::Filter;
pub(crate) use full::{Full, connection};
#[cfg(target_os = "linux")]
pub(crate) use states::chosen;

use crate::{Outcome, output};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let document = run::document(args)?;
    let text = match args.json {
        true => report::json(&document)?,
        false if args.is_budget() => budget::text(&document),
        false if args.is_full() => full::text(&document),
        false if args.is_lookup() => fib::text(&document),
        false => report::text(&document),
    };
    output::out(&text)?;
    Ok(Outcome::Done)
}
