//! `wirespeed lab ethernet1988`: TCP between two workstations of 1988 on a ten-megabit Ethernet, in
//! virtual time, with each combination of the four steps that made it fast; and ours beside it.
//!
//! Called by: the lab.
//!
//! The report of 1988 names what was changed and gives some throughputs. `world.rs` is a model of
//! the sockets, the TCP and the driver that were changed, `costs.rs` has what their parts cost,
//! from the same report. So its figures and the model's can be compared, and the combinations that
//! were not reported can be seen.

mod cable;
mod costs;
mod cpu;
mod effects;
mod ours;
mod published;
mod results;
#[cfg(test)]
mod tests;
mod world;

use clap::{ArgMatches, FromArgMatches};

use crate::{Error, Report, Run};
use costs::{Costs, OTHER_SOCKETS, STEPS, Steps};
use ours::Ours;
use world::{Counts, World};

/// Before the bytes that count.
const WARM_BYTES: u64 = 256 << 10;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    costs: Costs,
    /// Bytes of a transfer [default: 8 MB, with --quick 1 MB]
    #[arg(long, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(100_000..=1 << 30))]
    bytes: Option<u64>,
}

/// Whose TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hosts {
    Of1988 {
        steps: Steps,
        buffer: u64,
        write: u64,
    },
    /// With socket buffers of so many bytes, or those of today.
    Ours {
        buffer: Option<u64>,
    },
}

/// A row: the hosts, and what each seed has come to.
struct Row {
    hosts: Hosts,
    runs: Vec<Counts>,
}

/// All rows, in the order of the table.
fn hosts(costs: &Costs) -> Vec<Hosts> {
    let mut steps: Vec<Steps> = (0..1 << STEPS).map(Steps::of).collect();
    // From few steps to many.
    steps.sort_by_key(|steps| steps.flags().into_iter().filter(|on| *on).count());
    steps.push(Steps::folded());
    let (buffer, write) = (costs.buffer, costs.write);
    let with = |(buffer, write)| move |steps| Hosts::Of1988 { steps, buffer, write };
    let mut hosts: Vec<Hosts> = steps.iter().copied().map(with((buffer, write))).collect();
    // Those with published figures, and those that only the sender limits.
    let is_told = |steps: &Steps| {
        let published = published::figure(*steps).is_some() && !steps.fold;
        published || (steps.in_place && !steps.queue && !steps.loops)
    };
    for sockets in OTHER_SOCKETS.into_iter().filter(|&sockets| sockets != (buffer, write)) {
        hosts.extend(steps.iter().copied().filter(is_told).map(with(sockets)));
    }
    hosts.extend([Some(buffer), None].map(|buffer| Hosts::Ours { buffer }));
    hosts
}

/// Measure all combinations.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let bytes = options.bytes.unwrap_or(if run.common.quick { 1_000_000 } else { 8_000_000 });
    let seeds = run.common.seeds(10, 3);
    let hosts = hosts(&options.costs);
    let cases: Vec<(Hosts, u64)> =
        hosts.iter().flat_map(|&hosts| seeds.clone().map(move |seed| (hosts, seed))).collect();
    let outcomes = run.each(&cases, |&(hosts, seed), stop| {
        if stop() {
            return Ok(None);
        }
        measure(hosts, &options.costs, bytes, seed).map(Some)
    })?;
    let mut outcomes = outcomes.into_iter();
    let count = cases.len() / hosts.len();
    let rows = hosts.into_iter().map(|hosts| {
        let runs = outcomes.by_ref().take(count).flatten().collect();
        Row { hosts, runs }
    });
    let rows: Vec<Row> = rows.collect();
    Ok(results::report(&rows, &options.costs, bytes, seeds))
}

/// One transfer, without its beginning.
fn measure(hosts: Hosts, costs: &Costs, bytes: u64, seed: u64) -> Result<Counts, Error> {
    let (before, after) = match hosts {
        Hosts::Of1988 { steps, buffer, write } => {
            let mut world = World::new(Costs { buffer, write, ..*costs }, steps, seed);
            (world.run(WARM_BYTES), world.run(WARM_BYTES + bytes))
        }
        Hosts::Ours { buffer } => {
            let mut ours = Ours::new(buffer, seed)?;
            (ours.run(WARM_BYTES)?, ours.run(WARM_BYTES + bytes)?)
        }
    };
    Ok(Counts {
        now_ns: after.now_ns - before.now_ns,
        bytes: after.bytes - before.bytes,
        packets: after.packets - before.packets,
        busy_ns: [0, 1].map(|host| after.busy_ns[host].saturating_sub(before.busy_ns[host])),
        wire_ns: after.wire_ns - before.wire_ns,
        collisions: after.collisions - before.collisions,
    })
}
