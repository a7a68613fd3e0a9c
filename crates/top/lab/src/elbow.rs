//! `wirespeed lab elbow`: the time of a null RPC by the bytes of its argument, and the sizes at
//! which a call takes longer than calls of similar sizes (elbows).
//!
//! Called by: the lab, the benchmarks.
//!
//! In 1989 a call over TCP took five to ten times as long as expected where its argument was a
//! little over 4,096 or 8,192 bytes. The library wrote 4,000 bytes at a time into a send buffer of
//! 4,096: the short rest of the second write waited for an ACK, and the ACK for its timer. The
//! vendor's remedy, larger buffers in the library, moved the delay to other sizes. This experiment
//! has a model of those hosts in virtual time (`bsd.rs`), and our stack on the same wire, in
//! memory, and with libtirpc.

mod bsd;
mod cable;
mod ends;
#[cfg(target_os = "linux")]
mod libtirpc;
mod line;
pub mod memory;
mod point;
mod results;
mod sizes;
#[cfg(target_os = "linux")]
mod tap;
#[cfg(test)]
mod tests;
mod wire;

use bsd::Library;
pub use cable::{Shared, shared};
use clap::{ArgMatches, FromArgMatches};
#[cfg(target_os = "linux")]
pub use libtirpc::Peer;
pub use line::{ELBOW, Line};
pub use point::{Causes, Curve, Hosts, Over, Point, Transport};
pub use sizes::sizes;
#[cfg(target_os = "linux")]
pub use tap::Tapped;

use crate::pool::Progress;
use crate::{Error, Report, Run, Span};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// The medium between the ends [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    over: Vec<Over>,
    /// The hosts on the wire [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    stack: Vec<Hosts>,
    /// The transports [default: both]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    transport: Vec<Transport>,
    /// Calls that an average is made of [default: 100, with --quick 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls: Option<u32>,
    /// Averages for each size; with libtirpc at both ends half as many [default: 20, with --quick
    /// 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    averages: Option<u32>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Calls of an average.
    pub calls: u32,
    /// Averages of each size.
    pub averages: u32,
    /// The first seed; each average on the wire of 1989 has a seed of its own.
    pub seed: u64,
}

/// A curve to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    over: Over,
    hosts: Hosts,
    transport: Transport,
}

impl Case {
    /// All curves that the options ask for, in the order of the table.
    fn all(options: &Options) -> Vec<Case> {
        let wanted = |over: &Over| options.over.is_empty() || options.over.contains(over);
        let mut cases = Vec::new();
        for over in Over::ALL.into_iter().filter(wanted) {
            for hosts in Hosts::ALL {
                let is_there = hosts == Hosts::Ours || over == Over::Wire;
                if !is_there || !(options.stack.is_empty() || options.stack.contains(&hosts)) {
                    continue;
                }
                for transport in [Transport::Tcp, Transport::Udp] {
                    let is_there = hosts == Hosts::Ours || transport == Transport::Tcp;
                    let takes =
                        options.transport.is_empty() || options.transport.contains(&transport);
                    if is_there && takes {
                        cases.push(Case { over, hosts, transport });
                    }
                }
            }
        }
        cases
    }

    fn ends(self) -> &'static str {
        match self.over {
            Over::Wire => self.hosts.name(),
            Over::Memory => "ours > ours",
            Over::Tap => "ours > libtirpc",
            Over::Kernel => "libtirpc > libtirpc",
        }
    }

    fn library(self) -> Option<Library> {
        match self.hosts {
            Hosts::Ours => None,
            Hosts::Delivered => Some(Library::Delivered),
            Hosts::Remedy => Some(Library::Remedy),
            Hosts::Fixed => Some(Library::Fixed),
        }
    }

    /// A curve without measurements.
    fn curve(self, is_quick: bool) -> Curve {
        let unit = match self.library() {
            Some(_) => bsd::MSS as u32,
            None => sizes::packet(self.transport),
        };
        let point = |bytes| Point { bytes, ..Point::default() };
        Curve {
            over: self.over,
            ends: self.ends().to_owned(),
            transport: self.transport,
            points: sizes(self.transport, unit, is_quick).into_iter().map(point).collect(),
            trouble: None,
        }
    }
}

/// Measure all curves.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let (calls, averages) = if run.common.quick { (10, 3) } else { (100, 20) };
    let effort = Effort {
        calls: options.calls.unwrap_or(calls),
        averages: options.averages.unwrap_or(averages),
        seed: run.common.first_seed,
    };
    let cases = Case::all(&options);
    if cases.is_empty() {
        let said = "nothing is left to measure: hosts other than 'ours' exist only with '--over \
                    wire' and '--transport tcp'";
        return Err(Error::Usage(said.to_owned()));
    }
    let mut curves = Vec::new();
    for case in cases {
        let mut curve = case.curve(run.common.quick);
        let outcome =
            if run.is_stopped() { Ok(()) } else { measure(case, &mut curve, effort, run) };
        match outcome {
            Ok(()) => {}
            // A medium was asked for with `--over`: an error ends the experiment.
            Err(error) if !options.over.is_empty() => return Err(error),
            Err(error) if matches!(case.over, Over::Tap | Over::Kernel) => {
                curve.trouble = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        curves.push(curve);
    }
    Ok(results::report(&curves, effort))
}

fn measure(case: Case, curve: &mut Curve, effort: Effort, run: &Run<'_>) -> Result<(), Error> {
    let stop = || run.is_stopped();
    match case.over {
        Over::Wire => on_wire(case, curve, effort, run),
        Over::Memory => in_memory(curve, effort, &stop),
        #[cfg(target_os = "linux")]
        Over::Tap => tap::measure(curve, effort, &stop),
        #[cfg(target_os = "linux")]
        Over::Kernel => libtirpc::measure(curve, effort, &stop),
        #[cfg(not(target_os = "linux"))]
        _ => Err(Error::Failed("only Linux has this: ask for --over wire,memory".to_owned())),
    }
}

/// A curve of our stack over a medium other than the wire.
///
/// # Errors
/// The curve cannot be measured; the text says what is missing.
pub fn curve(
    over: Over,
    transport: Transport,
    effort: Effort,
    is_quick: bool,
) -> Result<Curve, Error> {
    let mut curve = Case { over, hosts: Hosts::Ours, transport }.curve(is_quick);
    match over {
        #[cfg(target_os = "linux")]
        Over::Tap => tap::measure(&mut curve, effort, &|| false)?,
        #[cfg(target_os = "linux")]
        Over::Kernel => libtirpc::measure(&mut curve, effort, &|| false)?,
        _ => in_memory(&mut curve, effort, &|| false)?,
    }
    Ok(curve)
}

/// Measure a curve in virtual time, many sizes at a time.
fn on_wire(case: Case, curve: &mut Curve, effort: Effort, run: &Run<'_>) -> Result<(), Error> {
    let measured = run.each(&curve.points, |point, stop| {
        let mut point = point.clone();
        for round in 0..effort.averages {
            if stop() {
                return Ok(None);
            }
            wire_round(case, &mut point, effort, u64::from(round))?;
        }
        Ok(Some(point))
    })?;
    for (point, measured) in curve.points.iter_mut().zip(measured) {
        *point = measured.unwrap_or_else(|| point.clone());
    }
    Ok(())
}

/// Make one average: calls between two new hosts. The first calls of our stack, which wait for a
/// neighbour and the handshake, do not count.
fn wire_round(case: Case, point: &mut Point, effort: Effort, round: u64) -> Result<(), Error> {
    let seed = effort.seed + round;
    let (ns, causes) = match case.library() {
        Some(library) => {
            let mut world = bsd::World::new(library, seed);
            let ns = world.calls(point.bytes, effort.calls);
            (ns, world.take_causes())
        }
        None => {
            let argument = vec![0x5a; point.bytes as usize];
            let mut world = wire::Wire::new(case.transport, seed)?;
            world.calls(&argument, WARM_CALLS)?;
            let before = world.causes();
            let ns = world.calls(&argument, effort.calls)?;
            (ns, ends::since(world.causes(), before))
        }
    };
    point.averages_ns.push(ns as f64 / f64::from(effort.calls));
    point.calls += u64::from(effort.calls);
    point.causes += causes;
    Ok(())
}

/// Calls before those that count, in which cwnd grows.
const WARM_CALLS: u32 = 8;

/// Measure a curve in memory, in real time; each round makes one average for every size.
fn in_memory(curve: &mut Curve, effort: Effort, stop: &dyn Fn() -> bool) -> Result<(), Error> {
    let mut pair = memory::Memory::new(curve.transport)?;
    let argument = vec![0x5a; sizes::largest(curve.transport) as usize];
    pair.calls(&argument, effort.calls)?;
    in_turns(curve, effort, stop, |bytes, calls| {
        let before = pair.causes();
        let ns = pair.calls(&argument[..bytes as usize], calls)?;
        Ok((ns, ends::since(pair.causes(), before)))
    })
}

/// The calls that follow every average, to measure the machine's speed: their bytes of argument,
/// and their number, a quarter of the usual 100.
const BESIDE_BYTES: u32 = 1_024;
const BESIDE_CALLS: u32 = 25;

/// Measure every size in each round, in an order that changes, so that a disturbance does not hit
/// one size alone. A virtual machine that shares a processor is slower for milliseconds or seconds:
/// so every average is scaled by the time of calls of one fixed size that directly follow it.
fn in_turns(
    curve: &mut Curve,
    effort: Effort,
    stop: &dyn Fn() -> bool,
    mut calls: impl FnMut(u32, u32) -> Result<(u64, Causes), Error>,
) -> Result<(), Error> {
    let mut rng = device::fault::Rng::new(effort.seed);
    let mut order: Vec<usize> = (0..curve.points.len()).collect();
    let mut progress = Progress::new(effort.averages as usize * order.len());
    let mut beside: Vec<Vec<f64>> = vec![Vec::new(); order.len()];
    let mut done = 0;
    'rounds: for _ in 0..effort.averages {
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last + 1));
        }
        for &at in &order {
            if stop() {
                break 'rounds;
            }
            progress.at(done);
            done += 1;
            let point = &mut curve.points[at];
            calls(point.bytes, 2)?;
            let (ns, causes) = calls(point.bytes, effort.calls)?;
            let (ns_beside, _) = calls(BESIDE_BYTES, BESIDE_CALLS)?;
            point.averages_ns.push(ns as f64 / f64::from(effort.calls));
            point.calls += u64::from(effort.calls);
            point.causes += causes;
            beside[at].push(ns_beside as f64);
        }
    }
    at_one_speed(&mut curve.points, &beside);
    Ok(())
}

/// Scale averages to the median speed of the machine. `beside` has, for each average, the time of
/// the calls of fixed size that followed it.
fn at_one_speed(points: &mut [Point], beside: &[Vec<f64>]) {
    let Some(middle) = Span::of(beside.iter().flatten().copied()) else { return };
    for (point, beside) in points.iter_mut().zip(beside) {
        for (average, beside) in point.averages_ns.iter_mut().zip(beside) {
            *average *= middle.mid / beside;
        }
    }
}
