//! The options of `lab fair` that choose which flows share a queue (`--pairs`) and the path of the
//! flows. The file parses these options and makes a [`Contest`] of them.
//!
//! Called by: `fair`.

use base::Duration;
use sim::goodput::Goodput;
use sim::units;
use tcp::cc::Algorithm;

use super::{Contest, Flow, Whose};
use crate::wan::grid::{self, Path};

/// Flows that share a queue, in the order in which they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    pub(super) flows: Vec<(Whose, Algorithm)>,
}

/// Maximum number of flows that share a queue.
const FLOWS_MAX: usize = 8;
/// Each rate in the JSON document and in the plot is an average over this time.
const EVERY: Duration = Duration::from_millis(500);

/// The options: which flows share a queue, and the path.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Flows and their path")]
pub(crate) struct Choice {
    /// Flows that share a queue, joined by +; several such groups, separated by commas. A flow is
    /// named by its congestion control, with linux- before it if Linux sends it:
    /// cubic+linux-cubic,bbr+cubic. Groups with a flow of Linux need root and run in real time
    /// [default: all pairs of our cubic, newreno and bbr]
    #[arg(long, value_name = "A+B", value_delimiter = ',', value_parser = pairing)]
    pairs: Vec<Pairing>,
    /// Run the default pairs in which Linux takes part, instead of pairs of ours
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "kernel", conflicts_with = "pairs")]
    peer: Option<crate::wan::Peer>,
    /// Time from the beginning of one flow to the beginning of the next
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = stagger)]
    pub(super) stagger: Duration,
    /// Rate of the bottleneck
    #[arg(long, value_name = "RATE", default_value = "20Mbit", value_parser = grid::rate)]
    rate: u64,
    /// Delay one way; the round trip is twice this
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = grid::delay)]
    delay: Duration,
    /// Size of the bottleneck's queue, in bandwidth-delay products (rate times round trip)
    #[arg(long, value_name = "N", default_value = "1.5", value_parser = grid::queue)]
    queue_bdp: f64,
}

fn stagger(text: &str) -> Result<Duration, String> {
    match units::time(text)? {
        time if time <= Duration::from_secs(600) => Ok(time),
        _ => Err(format!("'{text}' is too long: at most 600s")),
    }
}

fn pairing(text: &str) -> Result<Pairing, String> {
    let flows: Vec<_> = text.split('+').map(flow).collect::<Result<_, _>>()?;
    match flows.len() {
        2..=FLOWS_MAX => Ok(Pairing { flows }),
        _ => Err(format!("'{text}': write two flows or more, {FLOWS_MAX} at most, as cubic+bbr")),
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
        _ => Err(format!("'{text}': the flows of Linux are linux-cubic, linux-reno and linux-bbr")),
    }
}

/// The name of a flow, as on the command line. Linux's reno is paired with our newreno: both
/// recover from losses with SACK.
pub(super) fn name(whose: Whose, algorithm: Algorithm) -> String {
    match (whose, algorithm) {
        (Whose::Ours, algorithm) => algorithm.name().to_owned(),
        (Whose::Linux, Algorithm::NewReno) => "linux-reno".to_owned(),
        (Whose::Linux, algorithm) => format!("linux-{}", algorithm.name()),
    }
}

/// The default pairs, of our flows alone.
const OURS: &[&str] =
    &["cubic+cubic", "cubic+newreno", "cubic+bbr", "newreno+newreno", "newreno+bbr", "bbr+bbr"];
/// The default pairs with `--peer kernel`.
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

    /// The pairing's name in tables, such as "cubic + linux-cubic".
    pub(super) fn name(&self) -> String {
        let names: Vec<String> = self.flows.iter().map(|&(whose, law)| name(whose, law)).collect();
        names.join(" + ")
    }
}

impl Choice {
    /// The pairings of the command line, or the default ones; of the default pairs with Linux only
    /// the first two if `quick` is set.
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

    /// The path's name in tables, such as "20 Mb/s, 40 ms round trip, queue 1.5 BDP (150 kB)".
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
