//! Shared by soaks: the seed and the length of one, its random numbers, and what a process holds.
//!
//! Called by: `router-soak`, `filter-soak` and `frr-soak`.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use super::Soak;

const SECONDS: u64 = 600;
/// Resident memory may grow by this much after the first rounds, in KB.
const GROWTH_KB: u64 = 16 << 10;

/// How long a soak lasts, and the seed of all that it does, which is printed.
pub(super) fn length_and_seed(suite: &str, asked: Soak) -> Result<(Duration, u64)> {
    let seconds = asked.seconds.unwrap_or(SECONDS);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let seed = asked.seed.unwrap_or(now.as_nanos() as u64 >> 10);
    println!(
        "  {seconds} s; to repeat it: cargo xtask interop {suite} --seconds {seconds} --seed {seed}"
    );
    Ok((Duration::from_secs(seconds), seed))
}

/// Numbers that a seed determines.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        // Zero would stay zero.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `most`.
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % most
    }
}

/// Resident memory of both processes of a router, in KB.
pub(super) fn resident_kb(processes: [u32; 2]) -> Result<[u64; 2]> {
    let mut all = [0; 2];
    for (kb, id) in all.iter_mut().zip(processes) {
        let status = std::fs::read_to_string(format!("/proc/{id}/status"));
        let status = status.context("a process has ended")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let line = line.context("no VmRSS")?;
        *kb = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    }
    Ok(all)
}

/// Resident memory of neither process has grown by more than a soak allows.
pub(super) fn have_not_grown(first_kb: [u64; 2], last_kb: [u64; 2]) -> Result<()> {
    for (first, last) in first_kb.into_iter().zip(last_kb) {
        let growth_kb = last.saturating_sub(first);
        ensure!(growth_kb <= GROWTH_KB, "resident memory grew by {growth_kb} KB");
    }
    Ok(())
}
