//! A contest: flows behind one queue, when each begins, and what came of it.
//!
//! Called by: `fair`, `real::shared`, benchmarks. The model of the path is `sim::goodput`'s, in
//! both clocks.

use base::Duration;
use device::fault::Rng;
use link::Counts;
use sim::goodput::Goodput;
use tcp::cc::Algorithm;

/// Whose TCP sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This stack's.
    Ours,
    /// This machine's kernel's.
    Linux,
}

/// One of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Whose it is.
    pub whose: Whose,
    /// Its congestion control.
    pub algorithm: Algorithm,
    /// When it begins, but for a part of a round trip that the seed draws.
    pub at: Duration,
}

/// Flows, and the path that they share.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Rate, delay, queue, seed; its length counts from when the last flow begins.
    pub path: Goodput,
    /// Who shares it.
    pub flows: Vec<Flow>,
    /// From one look at what was received to the next.
    pub every: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bits a second of each flow from when the last one begins.
    pub flows_bps: Vec<f64>,
    /// End of each interval in seconds, and bits a second of each flow in it.
    pub rates: Vec<(f64, Vec<f64>)>,
    /// What the bottleneck did.
    pub bottleneck: Counts,
    /// In real time: the longest pause of the bridge, in milliseconds.
    pub pause_ms: f64,
    /// In real time: runs before this one that were void.
    pub void: u32,
}

impl Contest {
    /// When the last flow begins.
    pub fn from(&self) -> Duration {
        self.flows.iter().map(|flow| flow.at).max().unwrap_or(Duration::ZERO)
    }

    /// When each flow begins, with what the seed draws: flows of one moment begin within a round
    /// trip, in either order.
    pub fn starts(&self) -> Vec<Duration> {
        let mut rng = Rng::new(self.path.seed);
        let rtt_ns = 2 * self.path.delay.as_nanos() as usize;
        let mut part = || Duration::from_nanos(rng.below(rtt_ns.max(1)) as u64);
        self.flows.iter().map(|flow| flow.at + part()).collect()
    }

    /// When to look at what was received: the last look is the end.
    pub fn looks(&self) -> impl Iterator<Item = Duration> {
        let (from, every) = (self.from().as_nanos(), self.every.as_nanos().max(1));
        let end = from + self.path.length.as_nanos();
        // The moment from which it counts is one of them.
        let first = from % every;
        let moments = (u64::from(first == 0)..).map(move |n| first + n * every);
        let inner = moments.take_while(move |&at| at < end);
        inner.chain([end]).map(Duration::from_nanos)
    }

    /// What came of it, by the bytes that were received at each of the looks.
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

    /// The larger over the smaller.
    pub fn imbalance(&self) -> f64 {
        self.ratio().max(1.0 / self.ratio().max(1e-9))
    }
}
