//! One measurement, of this stack or of a peer, and what is needed to take it: pinning of threads,
//! CPU clocks. Every module of `peers` returns measurements; `core.rs` turns pairs of them into
//! ratios. A CPU-second is user plus system time of the threads that carry the bytes. It includes
//! softirq work, unless the kernel was built to account softirqs separately
//! (CONFIG_IRQ_TIME_ACCOUNTING); that favours the kernel, never our stack.

use anyhow::{Context, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// What one run has moved, and what it cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Application bytes that arrived at the other end.
    pub bytes: u64,
    /// Elapsed time, in seconds.
    pub wall_s: f64,
    /// CPU time of both ends, in seconds.
    pub cpu_s: f64,
    /// The number of segments, writes or round trips, depending on the case; zero if they were not
    /// counted.
    #[serde(default, alias = "segments")]
    pub units: u64,
    /// The median of a round trip in nanoseconds, in the cases that measure latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
    /// Settings of the run, or remarks on it, for the note of its row.
    #[serde(default)]
    pub settings: String,
}

impl Measurement {
    /// Gigabits (10^9 bits) per CPU-second.
    pub fn gbit_per_cpu_s(&self) -> Result<f64> {
        ensure!(self.cpu_s > 0.0 && self.bytes > 0, "nothing was moved: {}", self.settings);
        Ok(self.bytes as f64 * 8e-9 / self.cpu_s)
    }

    /// Segments, writes or round trips per CPU-second.
    pub fn units_per_cpu_s(&self) -> Result<f64> {
        ensure!(self.cpu_s > 0.0 && self.units > 0, "nothing was counted: {}", self.settings);
        Ok(self.units as f64 / self.cpu_s)
    }

    /// The median round trip in nanoseconds.
    pub fn p50_ns(&self) -> Result<f64> {
        self.p50_ns.context("this run measured no latency")
    }
}

/// The cores that this process may use.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    /// The core for single-threaded work and for both ends on one core.
    pub first: usize,
    /// The second core, if the process may use one.
    pub second: Option<usize>,
}

impl Cores {
    /// The first two cores that this process was allowed to use when it started.
    pub fn allowed() -> Result<Cores> {
        let set = sched_getaffinity(None).context("reading the CPU affinity")?;
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
        let first = allowed.next().context("no CPU is allowed to this process")?;
        Ok(Cores { first, second: allowed.next() })
    }

    /// Both cores, or the only one.
    pub fn both(&self) -> Vec<usize> {
        [Some(self.first), self.second].into_iter().flatten().collect()
    }
}

/// Pins the calling thread to these cores; threads and processes that it starts later inherit this.
pub fn pin(cores: &[usize]) -> Result<()> {
    pin_thread(None, cores)
}

/// [`pin`] for a thread of any process, by its number; `None` is the calling one.
///
/// # Errors
/// There is no such thread or core.
pub fn pin_thread(thread: Option<u32>, cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    let id = thread.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    sched_setaffinity(id, &set).with_context(|| format!("pinning a thread to CPU {cores:?}"))
}

/// The CPU time that the calling thread has used so far, in seconds.
pub fn thread_cpu_s() -> f64 {
    // This clock exists since Linux 2.6.12.
    let t = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(|t| (t.tv_sec(), t.tv_nsec()));
    let (s, ns) = t.unwrap_or_default();
    s as f64 + ns as f64 * 1e-9
}

/// The middle value, or the mean of the two middle values.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The bytes that every writer sends. They do not repeat within a segment.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
