//! A contest: flows that share a queue, the time at which each begins, and the outcome.
//!
//! Called by: `fair`, `real::shared`, benchmarks. In virtual time and in real time the path follows
//! the model of `sim::goodput`.

use base::Duration;
use device::fault::Rng;
use link::Counts;
use sim::goodput::Goodput;
use tcp::cc::Algorithm;

/// The sender's TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This stack.
    Ours,
    /// This machine's kernel.
    Linux,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The sender's TCP.
    pub whose: Whose,
    /// The sender's congestion control.
    pub algorithm: Algorithm,
    /// When the flow begins; the seed adds a part of a round trip.
    pub at: Duration,
}

/// Flows, and the path that they share.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Rate, delay, queue, seed. The path's `length` counts from the beginning of the last flow.
    pub path: Goodput,
    /// The flows.
    pub flows: Vec<Flow>,
    /// Time between two readings of the received bytes.
    pub every: Duration,
}

/// The outcome of a contest.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bits a second of each flow, from the beginning of the last flow on.
    pub flows_bps: Vec<f64>,
    /// End of each interval in seconds, and bits a second of each flow in it.
    pub rates: Vec<(f64, Vec<f64>)>,
    /// The counters of the bottleneck.
    pub bottleneck: Counts,
    /// In real time: the longest pause of the bridge, in milliseconds.
    pub pause_ms: f64,
    /// No pause of the bridge was too long for a valid run.
    pub is_quiet: bool,
    /// In real time: runs that were discarded before this one.
    pub void: u32,
}

impl Contest {
    /// When the last flow begins.
    pub fn from(&self) -> Duration {
        self.flows.iter().map(|flow| flow.at).max().unwrap_or(Duration::ZERO)
    }

    /// When each flow begins. The seed delays each flow by up to a round trip, so that flows of the
    /// same time begin in any order.
    pub fn starts(&self) -> Vec<Duration> {
        let mut rng = Rng::new(self.path.seed);
        let rtt_ns = 2 * self.path.delay.as_nanos() as usize;
        let mut part = || Duration::from_nanos(rng.below(rtt_ns.max(1)) as u64);
        self.flows.iter().map(|flow| flow.at + part()).collect()
    }

    /// When the received bytes are read; the last time is the end.
    pub fn looks(&self) -> impl Iterator<Item = Duration> {
        let (from, every) = (self.from().as_nanos(), self.every.as_nanos().max(1));
        let end = from + self.path.length.as_nanos();
        // `from`, at which the measurement begins, is one of these times.
        let first = from % every;
        let moments = (u64::from(first == 0)..).map(move |n| first + n * every);
        let inner = moments.take_while(move |&at| at < end);
        inner.chain([end]).map(Duration::from_nanos)
    }

    /// The outcome, from the bytes that each flow has received at each of these times.
    pub fn outcome(&self, looks: &[(f64, Vec<u64>)], bottleneck: Counts) -> Outcome {
        let from = self.from().as_secs_f64();
        let rate = |a: &(f64, Vec<u64>), b: &(f64, Vec<u64>)| -> Vec<f64> {
            let seconds = (b.0 - a.0).max(1e-9);
            let bits = a.1.iter().zip(&b.1).map(|(a, b)| b.saturating_sub(*a) as f64 * 8.0);
            bits.map(|bits| bits / seconds).collect()
        };
        let begin = looks.iter().find(|look| look.0 >= from - 1e-9).or(looks.first());
        let whole = begin.zip(looks.last()).map(|(begin, end)| rate(begin, end));
        Outcome {
            flows_bps: whole.unwrap_or_default(),
            rates: looks.windows(2).map(|pair| (pair[1].0, rate(&pair[0], &pair[1]))).collect(),
            bottleneck,
            pause_ms: 0.0,
            is_quiet: true,
            void: 0,
        }
    }
}

impl Outcome {
    /// Goodput of the first flow over that of the second.
    pub fn ratio(&self) -> f64 {
        match self.flows_bps[..] {
            [first, second, ..] => first / second.max(1.0),
            _ => 1.0,
        }
    }

    /// The larger of [`Outcome::ratio`] and its inverse.
    pub fn imbalance(&self) -> f64 {
        self.ratio().max(1.0 / self.ratio().max(1e-9))
    }
}
