//! The subcommand `wirespeed-sim goodput`: reads a path and the number of flows from the command
//! line, simulates bulk transfers over the path with one or more seeds, and prints the goodput of
//! each run and the median.
//!
//! Called by: `main`. The simulation is in `goodput.rs`.

use base::Duration;
use clap::Args;
use link::{Aqm, Loss};
use serde_json::json;
use tcp::cc::Algorithm;
use wirespeed_sim::goodput::{self, Goodput, Outcome};
use wirespeed_sim::units;

#[derive(Args)]
pub(crate) struct Options {
    /// Rate of the bottleneck, for example 500kbit or 10Gbit; a bare number is bits a second
    #[arg(long, value_parser = units::rate, default_value = "100Mbit")]
    rate: u64,
    /// Delay one way; the round trip is twice this
    #[arg(long, value_parser = units::time, default_value = "50ms")]
    delay: Duration,
    /// Size of the bottleneck's queue, in bandwidth-delay products (rate times round trip)
    #[arg(long, default_value_t = 1.0)]
    queue_bdp: f64,
    /// Size of the bottleneck's queue, in bytes
    #[arg(long, conflicts_with = "queue_bdp", value_parser = units::bytes)]
    queue_bytes: Option<u32>,
    /// Length of a run in seconds of virtual time, from the first SYN on
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Leave out the beginning: count only bytes that arrive after this second
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Number of flows; all begin within the first round trip
    #[arg(long, default_value_t = 1)]
    flows: usize,
    /// Share of data packets that are lost behind the queue, for example 0.01%
    #[arg(long, value_parser = units::share, default_value = "0")]
    loss: f64,
    /// Share of data packets that are delayed further and arrive out of order, for example 1%
    #[arg(long, value_parser = units::share, default_value = "0")]
    late: f64,
    /// How much longer a late packet takes, in milliseconds
    #[arg(long, default_value_t = 10)]
    late_ms: u64,
    /// Congestion control
    #[arg(long, default_value = "cubic", value_parser = algorithm)]
    cc: Algorithm,
    /// Manage the bottleneck's queue by CoDel, with target 5 ms and interval 100 ms
    #[arg(long)]
    codel: bool,
    /// The flows negotiate ECN; with --codel, CoDel marks packets instead of dropping them
    #[arg(long)]
    ecn: bool,
    /// Size of each connection's send and receive buffer, for example 8M [default: the
    /// stack's]
    #[arg(long, value_parser = units::bytes)]
    buffer: Option<u32>,
    /// The sender's device cuts super-segments of up to 64 KB itself, as with TSO
    #[arg(long)]
    tso: bool,
    /// Seed of the first run; the same seed gives the same packets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of runs, each with the next seed; the result is their median
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    json: bool,
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    let known = Algorithm::ALL.iter().find(|a| a.name() == text);
    known.copied().ok_or_else(|| {
        let names: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
        format!("no congestion control '{text}'; there are: {}", names.join(", "))
    })
}

impl Options {
    fn path(&self, seed: u64) -> Goodput {
        let mut path = Goodput::new(self.rate, self.delay);
        path.queue_bytes = match self.queue_bytes {
            Some(bytes) => bytes as usize,
            None => path.bdp_bytes(self.queue_bdp),
        };
        path.length = Duration::from_secs(self.seconds);
        path.from = Duration::from_secs(self.from);
        path.flows = self.flows;
        path.loss = if self.loss > 0.0 { Loss::Random(self.loss) } else { Loss::Never };
        path.late = (self.late, Duration::from_millis(self.late_ms));
        path.algorithm = self.cc;
        path.ecn = self.ecn;
        if self.codel {
            let [target, interval] = [5, 100].map(Duration::from_millis);
            path.aqm = Aqm::CoDel { target, interval, ecn: self.ecn };
        }
        path.buffer_bytes = self.buffer;
        path.tso_max_bytes = if self.tso { 65_535 } else { 0 };
        path.seed = seed;
        path
    }
}

/// Measure and print. Returns `false` if in some run a flow's bytes did not arrive as they were
/// sent; the violated law is printed, and no further seed runs. `clock` returns the elapsed real
/// time in seconds.
///
/// # Errors
/// A sentence about options that do not fit together.
pub(crate) fn run(options: &Options, clock: impl Fn() -> f64) -> Result<bool, String> {
    if options.from >= options.seconds {
        let (from, seconds) = (options.from, options.seconds);
        return Err(format!(
            "--from {from} has to be less than --seconds {seconds}: nothing would be counted"
        ));
    }
    if options.flows == 0 || options.seeds == 0 {
        return Err("--flows and --seeds have to be at least 1".into());
    }
    let mut outcomes = Vec::new();
    for seed in options.seed..options.seed + options.seeds {
        let start = clock();
        match goodput::measure(&options.path(seed)) {
            Ok(outcome) => outcomes.push((seed, outcome, clock() - start)),
            Err(violation) => {
                say!("seed {seed}: {violation}");
                return Ok(false);
            }
        }
        if !options.json {
            print_row(outcomes.last());
        }
    }
    let mut shares: Vec<f64> = outcomes.iter().map(|(_, outcome, _)| outcome.share).collect();
    shares.sort_by(f64::total_cmp);
    let median = shares[shares.len() / 2];
    if options.json {
        let samples: Vec<_> = outcomes.iter().map(sample).collect();
        say!("{:#}", json!({"goodput": median, "samples": samples}));
    } else {
        say!("median {median:.4} of rate x 1448/1500");
    }
    Ok(true)
}

fn print_row(last: Option<&(u64, Outcome, f64)>) {
    let Some((seed, o, seconds)) = last else { return };
    let bps: f64 = o.flows_bps.iter().sum();
    say!(
        "seed {seed}: {:.4} ({:.3} Mb/s), fairness {:.3}, sent again {}, time-outs {}, recoveries \
         {}, queue drops {}, CoDel drops {}, marks {}, lost {}, late {}, queue {} bytes at most; \
         {} events in {seconds:.2} s",
        o.share,
        bps / 1e6,
        o.fairness,
        o.retransmits,
        o.timeouts,
        o.fast_recoveries,
        o.bottleneck.queue_full,
        o.bottleneck.codel,
        o.bottleneck.marked,
        o.bottleneck.lost,
        o.bottleneck.late,
        o.bottleneck.queue_bytes_max,
        o.events,
    );
}

fn sample((seed, o, seconds): &(u64, Outcome, f64)) -> serde_json::Value {
    json!({"seed": seed, "goodput": o.share, "flows_bps": o.flows_bps, "fairness": o.fairness,
        "retransmits": o.retransmits, "timeouts": o.timeouts, "recoveries": o.fast_recoveries,
        "queue_drops": o.bottleneck.queue_full, "codel_drops": o.bottleneck.codel,
        "marks": o.bottleneck.marked, "ecn_reductions": o.ecn_reductions, "lost": o.bottleneck.lost,
        "late": o.bottleneck.late, "events": o.events, "seconds": seconds})
}
