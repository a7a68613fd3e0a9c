//! Runs one seed or many, catches failures, and runs a failed seed again with a trace.
//!
//! Called by: the program `wirespeed-sim`, tests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::violation::Violation;

/// The outcome of a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The seed.
    pub seed: u64,
    /// The name of the law that did not hold, and what was seen; `None` if all laws held.
    pub failure: Option<(String, String)>,
    /// When the world ended or failed, in nanoseconds of its time.
    pub at_ns: u64,
    /// A hash over all packets: the same for the same seed and code.
    pub digest: u64,
    /// Events that were handled.
    pub events: u64,
}

/// Which worlds are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorldKind {
    /// Hosts and links ([`Scenario::new`]).
    #[default]
    Hosts,
    /// A gateway between a guest and a server ([`Scenario::of_gateway`]).
    Gateway,
}

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The verdict.
    pub verdict: Verdict,
    /// The choices that the seed made, one in each line.
    pub plan: Vec<String>,
    /// The last events, a row for each.
    pub rows: Vec<String>,
    /// The errors of the captures.
    pub trouble: Vec<String>,
}

/// Run one seed.
pub fn run(kind: WorldKind, seed: u64) -> Verdict {
    attempt(kind, seed, None).0
}

/// Run one seed with a trace: the last `rows_max` events, and with `captures` every
/// port's frames in `captures-hostH-portP.pcapng`.
pub fn replay(kind: WorldKind, seed: u64, rows_max: usize, captures: Option<PathBuf>) -> Replay {
    let trace = Trace::new(rows_max, captures);
    let (verdict, plan) = attempt(kind, seed, Some(trace.clone()));
    Replay { verdict, plan, rows: trace.rows(), trouble: trace.trouble() }
}

fn attempt(kind: WorldKind, seed: u64, trace: Option<Trace>) -> (Verdict, Vec<String>) {
    let mut verdict = Verdict { seed, failure: None, at_ns: 0, digest: 0, events: 0 };
    let drawn = match kind {
        WorldKind::Hosts => Scenario::new(seed, trace),
        WorldKind::Gateway => Scenario::of_gateway(seed, trace),
    };
    let mut scenario = match drawn {
        Ok(scenario) => scenario,
        Err(violation) => {
            verdict.failure = Some(named(violation));
            return (verdict, Vec::new());
        }
    };
    let plan = scenario.plan().to_vec();
    // A panic is a failure like any other. After a panic the world is only read, because its
    // buffers may be inconsistent.
    let outcome = catch_unwind(AssertUnwindSafe(|| scenario.run()));
    verdict.at_ns = scenario.world().now().as_nanos();
    verdict.digest = scenario.world().digest();
    verdict.events = scenario.world().events();
    verdict.failure = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(named(violation)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            std::mem::forget(scenario);
            Some(("panic".to_owned(), text.unwrap_or_default()))
        }
    };
    (verdict, plan)
}

fn named(violation: Violation) -> (String, String) {
    (violation.oracle.to_owned(), violation.what)
}

/// The seeds to run, and the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Which worlds.
    pub kind: WorldKind,
    /// The first seed.
    pub first: u64,
    /// The number of seeds, over all shards.
    pub seeds: u64,
    /// The number of this shard, and how many shards there are. Consecutive seeds go to consecutive
    /// shards.
    pub shard: (u64, u64),
    /// The number of threads.
    pub jobs: usize,
}

/// Run many seeds. Returns the verdicts of those that failed, in order. `each` is called with every
/// verdict, on any thread.
pub fn campaign(campaign: &Campaign, each: impl Fn(&Verdict) + Sync) -> Vec<Verdict> {
    let (index, count) = campaign.shard;
    let next = AtomicU64::new(campaign.first + index);
    let failures = Mutex::new(Vec::new());
    let end = campaign.first + campaign.seeds;
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(count.max(1), Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let verdict = run(campaign.kind, seed);
                    each(&verdict);
                    if verdict.failure.is_some() {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(verdict);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|verdict: &Verdict| verdict.seed);
    failures
}
