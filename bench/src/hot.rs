//! Measures the speed of a function that passes over 8 KB of memory again and again, so that the
//! memory stays in the cache. Called by `core.rs`, for the rows about checksums and copies.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::measure::{Measurement, thread_cpu_s};

/// Bytes of a pass. Source and destination of a copy together take half of the smallest usual
/// first-level cache, 32 KB.
pub const BYTES: usize = 8 << 10;

/// Number of passes between two readings of the clock.
const BATCH: u64 = 64;

/// Repeats a pass over `BYTES` bytes for `seconds`. `units` of the result counts the passes.
pub fn passes<T>(
    name: &str,
    seconds: f64,
    mut pass: impl FnMut() -> Result<T>,
) -> Result<Measurement> {
    let limit = Duration::from_secs_f64(seconds);
    let (start, cpu) = (Instant::now(), thread_cpu_s());
    let mut units = 0;
    while start.elapsed() < limit {
        for _ in 0..BATCH {
            black_box(pass()?);
        }
        units += BATCH;
    }
    Ok(Measurement {
        bytes: units * BYTES as u64,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: thread_cpu_s() - cpu,
        units,
        p50_ns: None,
        settings: name.to_owned(),
    })
}
