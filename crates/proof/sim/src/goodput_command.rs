//! `wirespeed-sim goodput`: a path from the command line, its goodput over several seeds.
//!
//! Called by: `main`.

use base::Duration;
use clap::Args;
use link::{Aqm, Loss};
use serde_json::json;
use tcp::cc::Algorithm;
use wirespeed_sim::goodput::{self, Goodput, Outcome};
use wirespeed_sim::units;

#[derive(Args)]
pub(crate) struct Options {
    /// Rate of the bottleneck: 500kbit, 100Mbit, 10Gbit; a bare number is bits a second
    #[arg(long, value_parser = units::rate, default_value = "100Mbit")]
    rate: u64,
    /// Delay one way; the round trip is twice this
    #[arg(long, value_parser = units::time, default_value = "50ms")]
    delay: Duration,
    /// The bottleneck's queue, in products of rate and round trip
    #[arg(long, default_value_t = 1.0)]
    queue_bdp: f64,
    /// The same in bytes
    #[arg(long, conflicts_with = "queue_bdp", value_parser = units::bytes)]
    queue_bytes: Option<u32>,
    /// Virtual time from the first SYN
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Do not count what arrives before this second
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Flows that begin together
    #[arg(long, default_value_t = 1)]
    flows: usize,
    /// Share of data that is lost behind the queue: 0.01%
    #[arg(long, value_parser = units::share, default_value = "0")]
    loss: f64,
    /// Share of data that comes late: 1%
    #[arg(long, value_parser = units::share, default_value = "0")]
    late: f64,
    /// How late, in milliseconds
    #[arg(long, default_value_t = 10)]
    late_ms: u64,
    /// Congestion control
    #[arg(long, default_value = "cubic", value_parser = algorithm)]
    cc: Algorithm,
    /// CoDel at the bottleneck, 5 ms and 100 ms
    #[arg(long)]
    codel: bool,
    /// The flows ask for ECN, and CoDel marks instead of dropping
    #[arg(long)]
    ecn: bool,
    /// Send and receive buffer of each connection: 8M; without it the stack's default
    #[arg(long, value_parser = units::bytes)]
    buffer: Option<u32>,
    /// The sender's device takes super-segments
    #[arg(long)]
    tso: bool,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds; the median counts
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// One JSON document on standard output
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

/// Measure and print; `true` if every stream was whole. `clock` gives seconds since some moment.
pub(crate) fn run(options: &Options, clock: impl Fn() -> f64) -> Result<bool, String> {
    if options.from >= options.seconds || options.flows == 0 || options.seeds == 0 {
        return Err("--from has to be less than --seconds, --flows and --seeds at least 1".into());
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
