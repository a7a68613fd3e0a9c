//! The flows and their path on the command line.
//!
//! Called by: `fair`.

use base::Duration;
use sim::goodput::Goodput;
use sim::units;
use tcp::cc::Algorithm;

use super::{Contest, Flow, Whose};
use crate::wan::grid::{self, Path};

/// Flows in the order in which they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    pub(super) flows: Vec<(Whose, Algorithm)>,
}

/// Maximum number of flows in a pairing.
const FLOWS_MAX: usize = 8;
/// The interval of rates in document and plot.
const EVERY: Duration = Duration::from_millis(500);

/// The pairings, and their path.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Flows and their path")]
pub(crate) struct Choice {
    /// Flows, joined by +, each a congestion control of ours or of Linux:
    /// cubic+linux-cubic,bbr+cubic (Linux takes root and real time) [default: all pairs of cubic,
    /// newreno and bbr of ours]
    #[arg(long, value_name = "A+B", value_delimiter = ',', value_parser = pairing)]
    pairs: Vec<Pairing>,
    /// Without --pairs: pairs with Linux instead
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "kernel", conflicts_with = "pairs")]
    peer: Option<crate::wan::Peer>,
    /// Each flow begins this much later than the one before it
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = stagger)]
    pub(super) stagger: Duration,
    /// Bits a second of the bottleneck
    #[arg(long, value_name = "RATE", default_value = "20Mbit", value_parser = grid::rate)]
    rate: u64,
    /// Delay one way; the round trip is twice this
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = grid::delay)]
    delay: Duration,
    /// The bottleneck's queue, in products of rate and round trip
    #[arg(long, value_name = "N", default_value = "1.5", value_parser = grid::queue)]
    queue_bdp: f64,
}

fn stagger(text: &str) -> Result<Duration, String> {
    match units::time(text)? {
        time if time <= Duration::from_secs(600) => Ok(time),
        _ => Err(format!("'{text}': at most 600s")),
    }
}

fn pairing(text: &str) -> Result<Pairing, String> {
    let flows: Vec<_> = text.split('+').map(flow).collect::<Result<_, _>>()?;
    match flows.len() {
        2..=FLOWS_MAX => Ok(Pairing { flows }),
        _ => Err(format!("'{text}': two flows or more, {FLOWS_MAX} at most, as cubic+bbr")),
    }
}

fn flow(text: &str) -> Result<(Whose, Algorithm), String> {
    let Some(theirs) = text.strip_prefix("linux-") else {
        return Ok((Whose::Ours, grid::algorithm(text)?));
    };
    match theirs {
        "cubic" => Ok((Whose::Linux, Algorithm::Cubic)),
        "reno" => Ok((Whose::Linux, Algorithm::NewReno)),
        "bbr" => Ok((Whose::Linux, Algorithm::Bbr)),
        _ => Err(format!("'{text}': of Linux there are linux-cubic, linux-reno, linux-bbr")),
    }
}

/// The name as on the command line. Linux's reno recovers with SACK, as our newreno does.
pub(super) fn name(whose: Whose, algorithm: Algorithm) -> String {
    match (whose, algorithm) {
        (Whose::Ours, algorithm) => algorithm.name().to_owned(),
        (Whose::Linux, Algorithm::NewReno) => "linux-reno".to_owned(),
        (Whose::Linux, algorithm) => format!("linux-{}", algorithm.name()),
    }
}

/// The default pairs.
const OURS: &[&str] =
    &["cubic+cubic", "cubic+newreno", "cubic+bbr", "newreno+newreno", "newreno+bbr", "bbr+bbr"];
const WITH_LINUX: &[&str] = &[
    "cubic+linux-cubic",
    "linux-cubic+linux-cubic",
    "cubic+linux-reno",
    "newreno+linux-reno",
    "cubic+linux-bbr",
    "bbr+linux-bbr",
    "bbr+linux-cubic",
];

impl Pairing {
    pub(super) fn has_linux(&self) -> bool {
        self.flows.iter().any(|(whose, _)| *whose == Whose::Linux)
    }

    /// Such as "cubic + linux-cubic".
    pub(super) fn name(&self) -> String {
        let names: Vec<String> = self.flows.iter().map(|&(whose, law)| name(whose, law)).collect();
        names.join(" + ")
    }
}

impl Choice {
    /// The pairings of the command line, or the default ones; with `--quick` and Linux two of them.
    pub(super) fn pairings(&self, quick: bool) -> Vec<Pairing> {
        if !self.pairs.is_empty() {
            return self.pairs.clone();
        }
        #[cfg(target_os = "linux")]
        let with_linux = self.peer.is_some();
        #[cfg(not(target_os = "linux"))]
        let with_linux = false;
        let names = match (with_linux, quick) {
            (false, _) => OURS,
            (true, false) => WITH_LINUX,
            (true, true) => &WITH_LINUX[..2],
        };
        names.iter().filter_map(|text| pairing(text).ok()).collect()
    }

    /// Such as "20 Mb/s, 40 ms round trip, queue 1.5 BDP (150 kB)".
    pub(super) fn path_name(&self) -> String {
        let flows = 1;
        Path { rate_bps: self.rate, delay: self.delay, queue_bdp: self.queue_bdp, flows }.name()
    }

    pub(super) fn contest(&self, pairing: &Pairing, seconds: u64, seed: u64) -> Contest {
        let mut path = Goodput::new(self.rate, self.delay);
        path.queue_bytes = path.bdp_bytes(self.queue_bdp);
        path.length = Duration::from_secs(seconds);
        path.seed = seed;
        let flows = pairing.flows.iter().zip(0u64..).map(|(&(whose, algorithm), index)| Flow {
            whose,
            algorithm,
            at: self.stagger.saturating_mul(index),
        });
        Contest { path, flows: flows.collect(), every: EVERY }
    }
}
