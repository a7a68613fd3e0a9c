//! The grid: paths, impairments, congestion controls, and the part of it that is run.
//!
//! Called by: `wan`.

use base::Duration;
use clap::ArgAction::Set;
use link::Loss;
use sim::goodput::Goodput;
use sim::units;
use tcp::cc::Algorithm;

use crate::Error;
use crate::table::{bytes, three};

/// A path, and the number of flows on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Path {
    pub(crate) rate_bps: u64,
    /// The delay one way.
    pub(crate) delay: Duration,
    /// The bottleneck's queue in bandwidth-delay products.
    pub(crate) queue_bdp: f64,
    pub(crate) flows: usize,
}

/// The impairment of data behind the queue. Shares are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Impairment {
    Clean,
    Loss(f64),
    Late(f64, Duration),
}

/// A cell, which is measured once per seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) path: Path,
    pub(super) impairment: Impairment,
    pub(super) cc: Algorithm,
}

/// The default paths (rate, one-way delay in ms, queue in BDP): a slow one, a long one with a queue
/// of the usual size, and a faster one with a queue that is too short.
const PATHS: &[(u64, u64, f64)] =
    &[(20_000_000, 20, 1.0), (100_000_000, 50, 1.0), (200_000_000, 50, 0.25)];
/// The path with `--quick`.
const QUICK: &[(u64, u64, f64)] = &[(100_000_000, 50, 1.0)];

const LOSS: &[f64] = &[0.0001, 0.001, 0.01];
const LATE: &[(f64, u64)] = &[(0.01, 10), (0.01, 40)];

/// Maximum bytes of a queue, to bound memory.
const QUEUE_BYTES_MAX: f64 = 1e9;

/// The part of the grid to run.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Part of the grid (lists: A,B,C; values in the syntax of tc(8))")]
pub(crate) struct Choice {
    /// Rate of the bottleneck: 20Mbit,100Mbit,1Gbit; a bare number is bits a second
    #[arg(long, value_name = "RATE", action = Set, value_delimiter = ',', value_parser = rate)]
    pub(super) rate: Vec<u64>,
    /// Delay one way; the round trip is twice this: 20ms,50ms
    #[arg(long, value_name = "TIME", action = Set, value_delimiter = ',', value_parser = delay)]
    pub(super) delay: Vec<Duration>,
    /// Size of the bottleneck's queue, in bandwidth-delay products (rate times round trip): 0.25,1
    #[arg(long, value_name = "N", action = Set, value_delimiter = ',', value_parser = queue)]
    pub(super) queue_bdp: Vec<f64>,
    /// Shares of data that is lost behind the queue: 0,0.01%,1%
    #[arg(long, value_name = "SHARE", action = Set, value_delimiter = ',',
          value_parser = units::share)]
    pub(super) loss: Vec<f64>,
    /// Shares of data that is late, and how late: 1%:10ms,1%:40ms
    #[arg(long, value_name = "SHARE:TIME", action = Set, value_delimiter = ',',
          value_parser = late)]
    pub(super) late: Vec<(f64, Duration)>,
    /// Congestion controls [default: all]
    #[arg(long, value_name = "NAME", action = Set, value_delimiter = ',', value_parser = algorithm)]
    pub(super) cc: Vec<Algorithm>,
    /// Flows that begin within a round trip of each other
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(super) flows: u64,
}

pub(crate) fn rate(text: &str) -> Result<u64, String> {
    match units::rate(text)? {
        rate @ 1_000..=100_000_000_000 => Ok(rate),
        _ => Err(format!("'{text}': from 1kbit to 100Gbit")),
    }
}

pub(crate) fn delay(text: &str) -> Result<Duration, String> {
    match units::time(text)? {
        time if time <= Duration::from_secs(10) => Ok(time),
        _ => Err(format!("'{text}': at most 10s one way")),
    }
}

pub(crate) fn queue(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bdp) if (0.0..=1000.0).contains(&bdp) => Ok(bdp),
        _ => Err(format!("'{text}': a number of bandwidth-delay products, as 0.25 or 2")),
    }
}

fn late(text: &str) -> Result<(f64, Duration), String> {
    let Some((share, time)) = text.split_once(':') else {
        return Err(format!("'{text}': write a share and how late, as 1%:10ms"));
    };
    Ok((units::share(share)?, delay(time)?))
}

pub(crate) fn algorithm(text: &str) -> Result<Algorithm, String> {
    let known = Algorithm::ALL.iter().find(|a| a.name() == text);
    known.copied().ok_or_else(|| {
        let names: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
        format!("no congestion control '{text}'; there are: {}", names.join(", "))
    })
}

impl Choice {
    /// The cells, ordered by path, then by impairment.
    pub(super) fn cells(&self, quick: bool) -> Result<Vec<Cell>, Error> {
        let mut cells = Vec::new();
        let cc = if self.cc.is_empty() { Algorithm::ALL.to_vec() } else { self.cc.clone() };
        for path in self.paths(quick)? {
            for impairment in self.impairments(quick) {
                for &cc in &cc {
                    let cell = Cell { path, impairment, cc };
                    if !cells.contains(&cell) {
                        cells.push(cell);
                    }
                }
            }
        }
        Ok(cells)
    }

    /// All combinations of the command line's values; if it has none, [`PATHS`].
    fn paths(&self, quick: bool) -> Result<Vec<Path>, Error> {
        let flows = self.flows as usize;
        if self.rate.is_empty() && self.delay.is_empty() && self.queue_bdp.is_empty() {
            let paths = if quick { QUICK } else { PATHS };
            let path = |&(rate_bps, delay_ms, queue_bdp): &(u64, u64, f64)| Path {
                rate_bps,
                delay: Duration::from_millis(delay_ms),
                queue_bdp,
                flows,
            };
            return Ok(paths.iter().map(path).collect());
        }
        let or = |given: &[f64], usual: f64| match given {
            [] => vec![usual],
            given => given.to_vec(),
        };
        let rates = if self.rate.is_empty() { vec![100_000_000] } else { self.rate.clone() };
        let usual = Duration::from_millis(50);
        let delays = if self.delay.is_empty() { vec![usual] } else { self.delay.clone() };
        let mut paths = Vec::new();
        for &rate_bps in &rates {
            for &delay in &delays {
                for queue_bdp in or(&self.queue_bdp, 1.0) {
                    let path = Path { rate_bps, delay, queue_bdp, flows };
                    let queue_bytes = path.bdp_bytes() * queue_bdp;
                    if queue_bytes > QUEUE_BYTES_MAX {
                        return Err(Error::Usage(format!(
                            "a queue of {} at {}: choose a smaller --queue-bdp, at most 1 GB",
                            bytes(queue_bytes),
                            path.name(),
                        )));
                    }
                    paths.push(path);
                }
            }
        }
        Ok(paths)
    }

    /// The impairments of the command line; if it has none, all of them.
    fn impairments(&self, quick: bool) -> Vec<Impairment> {
        let loss = |&share: &f64| match share {
            0.0 => Impairment::Clean,
            share => Impairment::Loss(share),
        };
        if self.loss.is_empty() && self.late.is_empty() {
            let late =
                LATE.iter().map(|&(share, ms)| Impairment::Late(share, Duration::from_millis(ms)));
            let all = [Impairment::Clean].into_iter().chain(late);
            let all: Vec<_> = all.chain(LOSS.iter().map(loss)).collect();
            return if quick { vec![all[0], all[1], all[4]] } else { all };
        }
        let late = self.late.iter().map(|&(share, by)| match share {
            0.0 => Impairment::Clean,
            share => Impairment::Late(share, by),
        });
        self.loss.iter().map(loss).chain(late).collect()
    }
}

impl Path {
    /// The bandwidth-delay product, in bytes.
    fn bdp_bytes(&self) -> f64 {
        self.rate_bps as f64 / 8.0 * 2.0 * self.delay.as_secs_f64()
    }

    pub(super) fn rtt_ms(&self) -> f64 {
        self.delay.as_secs_f64() * 2e3
    }

    /// The path's name, such as "100 Mb/s, 100 ms round trip, queue 1 BDP (1.25 MB)".
    pub(crate) fn name(&self) -> String {
        let rate = match self.rate_bps as f64 {
            rate if rate >= 1e9 => format!("{} Gb/s", three(rate / 1e9)),
            rate if rate >= 1e6 => format!("{} Mb/s", three(rate / 1e6)),
            rate => format!("{} kb/s", three(rate / 1e3)),
        };
        let queue = bytes(self.bdp_bytes() * self.queue_bdp);
        let flows = match self.flows {
            1 => String::new(),
            flows => format!(", {flows} flows"),
        };
        let (rtt, bdp) = (three(self.rtt_ms()), self.queue_bdp);
        format!("{rate}, {rtt} ms round trip, queue {bdp} BDP ({queue}){flows}")
    }
}

/// A share in percent.
fn percent(share: f64) -> String {
    let digits = format!("{:.4}", share * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

impl Impairment {
    /// The impairment's name, such as "1 % 10 ms late".
    pub(super) fn name(&self) -> String {
        match *self {
            Impairment::Clean => "nothing".to_owned(),
            Impairment::Loss(share) => format!("{} lost", percent(share)),
            Impairment::Late(share, by) => {
                format!("{} {} ms late", percent(share), three(by.as_secs_f64() * 1e3))
            }
        }
    }

    pub(super) fn loss(&self) -> f64 {
        if let Impairment::Loss(share) = *self { share } else { 0.0 }
    }

    /// The share of late packets, and how late they are.
    pub(super) fn late(&self) -> (f64, Duration) {
        if let Impairment::Late(share, by) = *self { (share, by) } else { (0.0, Duration::ZERO) }
    }
}

impl Cell {
    /// The simulator's settings for a run of this cell.
    pub(super) fn goodput(&self, seconds: u64, seed: u64) -> Goodput {
        let mut path = Goodput::new(self.path.rate_bps, self.path.delay);
        path.queue_bytes = path.bdp_bytes(self.path.queue_bdp);
        path.length = Duration::from_secs(seconds);
        path.flows = self.path.flows;
        if let Impairment::Loss(share) = self.impairment {
            path.loss = Loss::Random(share);
        }
        path.late = self.impairment.late();
        path.algorithm = self.cc;
        path.seed = seed;
        path
    }
}
