//! `wirespeed lab knee`: throughput against the unit of work, in memory and real time: the bytes of
//! a write, the stack's unit of writing, the frames of a burst, the size of mbufs, the MTU.
//!
//! Called by: the lab.
//!
//! A unit of work has a fixed cost and a cost for each byte. For a small unit the fixed cost is
//! most of the cost. A large unit gains nothing by being larger, and delays work that could have
//! been done at the same time. The knee is between the two (`find.rs`). `--apply` stores the unit
//! of writing that is just past its knee (`units.rs`), and the tools use it from then on.

mod find;
mod results;
pub mod units;

use base::Mtu;
use clap::{ArgMatches, FromArgMatches};
use device::Offloads;
use device::fault::Rng;
use find::{Curve, Verdict};
use stack::pair::PairConfig;
use units::{Measured, Units};

use crate::joined::{Joined, Joining};
use crate::{Error, Machine, Report, Run};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// The sizes that are varied [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    over: Vec<Varied>,
    /// Seconds of processor time that a round of a size takes [default: 0.1, with --quick 0.02]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Rounds through all sizes [default: 21, with --quick 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: Option<u16>,
    /// Store the unit of a long write for this machine; the tools use it from then on
    ///
    /// The file is wirespeed/units.toml in $XDG_CONFIG_HOME, or in ~/.config. Nothing is stored if
    /// the samples support no conclusion.
    #[arg(long)]
    apply: bool,
}

/// A curve with its verdict.
struct Found {
    varied: Varied,
    curve: Curve,
    verdict: Verdict,
}

/// The result of `--apply`.
enum Applied {
    NotAsked,
    Stored { unit_bytes: usize, path: String },
    Refused(String),
}

/// Measure all curves.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let seconds = options.seconds.unwrap_or(if run.common.quick { 0.02 } else { 0.1 });
    if !(0.005..=60.0).contains(&seconds) {
        return Err(Error::Usage("--seconds takes 0.005 to 60".to_owned()));
    }
    let rounds = options.rounds.unwrap_or(if run.common.quick { 7 } else { 21 });
    let wanted = |varied: &Varied| options.over.is_empty() || options.over.contains(varied);
    let over: Vec<Varied> = Varied::ALL.into_iter().filter(wanted).collect();
    let path = units::path();
    if options.apply && !over.contains(&Varied::Unit) {
        let what = "--apply stores what '--over unit' finds: add unit to --over";
        return Err(Error::Usage(what.to_owned()));
    }
    if options.apply && path.is_none() {
        let what = "--apply has no folder to store in: set XDG_CONFIG_HOME or HOME to an absolute \
                    path";
        return Err(Error::Failed(what.to_owned()));
    }
    if let Some(path) = path.as_deref().filter(|_| options.apply) {
        units::can_store(path).map_err(Error::Failed)?;
    }
    let seed = run.common.first_seed;
    let found: Vec<Found> = measure(&over, rounds, seconds, run)?
        .into_iter()
        .zip(&over)
        .map(|(curve, &varied)| Found { varied, verdict: curve.verdict(seed), curve })
        .collect();
    let applied = match path.filter(|_| options.apply) {
        Some(path) if !run.is_stopped() => apply(&found, &path)?,
        Some(_) => Applied::Refused("the run was stopped".to_owned()),
        None => Applied::NotAsked,
    };
    Ok(results::report(&found, seconds, rounds, seed, &applied))
}

/// Each round goes through all sizes of all curves, in a new order, so that a disturbance of the
/// machine does not bend one part of a curve.
fn measure(over: &[Varied], rounds: u16, seconds: f64, run: &Run<'_>) -> Result<Vec<Curve>, Error> {
    let curve = |varied: &Varied| {
        let sizes = varied.sizes();
        Curve { rounds: vec![Vec::new(); sizes.len()], sizes }
    };
    let mut curves: Vec<Curve> = over.iter().map(curve).collect();
    let mut order: Vec<(usize, usize)> = curves
        .iter()
        .enumerate()
        .flat_map(|(at, curve)| (0..curve.sizes.len()).map(move |size| (at, size)))
        .collect();
    let mut rng = Rng::new(run.common.first_seed);
    let mut progress = crate::pool::Progress::new(order.len() * usize::from(rounds));
    let mut done = 0;
    for _ in 0..rounds {
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last + 1));
        }
        for &(at, size) in &order {
            if run.is_stopped() {
                return Ok(curves);
            }
            let bytes = curves[at].sizes[size];
            let joining = over[at].joining(bytes);
            let joining =
                joining.ok_or_else(|| Error::Failed(format!("{bytes} bytes are no MTU")))?;
            let figure = Joined::new(&joining)?.measure(seconds, run)?;
            curves[at].rounds[size].extend(figure);
            done += 1;
            progress.at(done);
        }
    }
    Ok(curves)
}

/// Store the unit of writing, if the samples support one.
fn apply(found: &[Found], path: &std::path::Path) -> Result<Applied, Error> {
    let machine = Machine::now();
    let refused = |why: &str| Ok(Applied::Refused(why.to_owned()));
    let Some(found) = found.iter().find(|found| found.varied == Varied::Unit) else {
        return refused("it was not measured");
    };
    if cfg!(debug_assertions) {
        return refused("this build has debug assertions, and its knee is not that of a program");
    }
    let Verdict::Found(knee) = found.verdict else {
        return refused(&results::why_not(found));
    };
    let Some(unit_bytes) = found.curve.right_of(knee) else {
        return refused("the interval ends past the largest unit");
    };
    let units = Units {
        write: units::Write {
            unit_bytes,
            knee_bytes: knee.at,
            knee_interval_bytes: [knee.low, knee.high],
        },
        machine: Measured {
            cpu_model: machine.cpu_model,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
    };
    units.store(path).map_err(Error::Failed)?;
    Ok(Applied::Stored { unit_bytes, path: path.display().to_string() })
}

// The curves: throughput by the bytes of a write, by the stack's unit of writing, by the frames of
// a burst, by the size of mbufs, by the MTU; and the settings for each point.

/// A write that is longer than any unit.
const LONG_BYTES: usize = 1 << 20;

/// The size that is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Varied {
    /// Bytes of a write of the program
    Write,
    /// Bytes of a long write that the stack copies before it sends them
    Unit,
    /// Frames that the wire takes at a time
    Burst,
    /// Bytes of an mbuf, with a device that cuts large segments
    Mbuf,
    /// The MTU of the wire
    Mtu,
}

impl Varied {
    const ALL: [Varied; 5] =
        [Varied::Write, Varied::Unit, Varied::Burst, Varied::Mbuf, Varied::Mtu];

    /// The name on the command line and in the document.
    fn name(self) -> &'static str {
        match self {
            Varied::Write => "write",
            Varied::Unit => "unit",
            Varied::Burst => "burst",
            Varied::Mbuf => "mbuf",
            Varied::Mtu => "mtu",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Varied::Write => "bytes of a write",
            Varied::Unit => "unit of a long write, bytes",
            Varied::Burst => "frames of a burst",
            Varied::Mbuf => "bytes of an mbuf, device that cuts segments",
            Varied::Mtu => "MTU, bytes",
        }
    }

    /// The unit of the sizes.
    fn of(self) -> &'static str {
        if self == Varied::Burst { "frames" } else { "bytes" }
    }

    /// The sizes, from small to large.
    fn sizes(self) -> Vec<usize> {
        let doubled = |from: usize, to: usize| {
            std::iter::successors(Some(from), |n| Some(n * 2)).take_while(move |&n| n <= to)
        };
        match self {
            Varied::Write => doubled(64, 256 << 10).collect(),
            // A unit smaller than a segment works like a segment and a byte.
            Varied::Unit => {
                doubled(2 << 10, 32 << 10).flat_map(|n| [n, n + n / 2]).chain([64 << 10]).collect()
            }
            Varied::Burst => doubled(1, 128).collect(),
            Varied::Mbuf => doubled(2 << 10, 32 << 10).chain([65_535]).collect(),
            Varied::Mtu => {
                vec![576, 1_000, 1_500, 2_200, 3_000, 4_352, 6_000, 9_000, 16_384, 32_768, 65_535]
            }
        }
    }

    /// The stacks, the wire and the writes for a size.
    fn joining(self, size: usize) -> Option<Joining> {
        let mut pair = PairConfig::new([0x1988, 0x6b]);
        let mut write_bytes = 64 << 10;
        match self {
            Varied::Write => write_bytes = size,
            Varied::Unit => {
                pair.stack.write_unit_bytes = size;
                write_bytes = LONG_BYTES;
            }
            Varied::Burst => pair.wire.depth = size,
            Varied::Mbuf => {
                pair.wire.offloads = Offloads { tso_max_bytes: size, ..Offloads::default() };
            }
            Varied::Mtu => pair.wire.mtu = Mtu::new(size)?,
        }
        Some(Joining { pair, tcp: tcp::Config::default(), write_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Common;

    /// The settings of every point of every curve carry bytes.
    #[test]
    fn every_size_of_every_curve_can_be_measured() {
        let common = Common {
            quick: true,
            seeds: None,
            first_seed: 1,
            json: false,
            out: None,
            plot: None,
            jobs: None,
        };
        let run = Run { common: &common, stopped: &|| false };
        let curves = measure(&Varied::ALL, 1, 0.001, &run).expect("they run");
        for (curve, varied) in curves.iter().zip(Varied::ALL) {
            assert!(curve.sizes.is_sorted() && curve.sizes.len() >= 6, "{varied:?}");
            let is_measured = |rounds: &Vec<f64>| rounds.len() == 1 && rounds[0] > 0.0;
            assert!(curve.rounds.iter().all(is_measured), "{varied:?}: {curve:?}");
        }
    }

    /// Mbufs of 64 KB give more throughput than mbufs of 2 KB, and bursts of many frames more than
    /// bursts of one. If they do not, the setting does not reach the stack.
    #[test]
    fn what_is_varied_reaches_the_stack() {
        for varied in Varied::ALL {
            let sizes = varied.sizes();
            let joining = |size: &usize| varied.joining(*size).expect("possible");
            let (small, large) = (joining(&sizes[0]), joining(&sizes[sizes.len() - 1]));
            let of = |joining: &crate::joined::Joining| match varied {
                Varied::Write => joining.write_bytes,
                Varied::Unit => joining.pair.stack.write_unit_bytes,
                Varied::Burst => joining.pair.wire.depth,
                Varied::Mbuf => joining.pair.wire.offloads.tso_max_bytes,
                Varied::Mtu => joining.pair.wire.mtu.bytes(),
            };
            assert_eq!((of(&small), of(&large)), (sizes[0], sizes[sizes.len() - 1]), "{varied:?}");
        }
    }
}
