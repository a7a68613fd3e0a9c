//! Our side of every row: the one file of this crate that knows the stack. Called by `core.rs`.
//! Each function does what its peer does: real payload from `measure::pattern`, checksums made and
//! verified, a copy by the application at both ends. `cpu_s` is taken from `measure::thread_cpu_s`
//! around the loop that moves bytes, without set-up.

use std::time::Instant as Clock;

use anyhow::{Context, Result};
use base::{Switch, Switches};
use wire::checksum::Ladder;

use crate::drive::{Bulk, Drive};
use crate::measure::{self, Measurement};

/// Bulk for `seconds`. `units` counts data segments; `settings` names settings that are not in
/// `Bulk`.
pub fn bulk(shape: Bulk, seconds: f64) -> Result<Measurement> {
    bulk_after(shape, 0.0, seconds)
}

/// [`bulk`] after at least `warm_s` seconds of it: with writes far below the MSS a connection first
/// waits for a delayed ACK, which is longer than a short run.
pub fn bulk_after(shape: Bulk, warm_s: f64, seconds: f64) -> Result<Measurement> {
    let mut drive = Drive::new(shape, Switches::default(), tcp::Config::default())?;
    let segment = if shape.v6 { 1428 } else { 1448 };
    let turn = |drive: &mut Drive| {
        drive.tick();
        if shape.flows > 1 { drive.flows_turn(segment) } else { drive.bulk_turn() }
    };
    // Windows open and caches warm before the clock starts.
    let start = Clock::now();
    for _ in 0..200 {
        turn(&mut drive)?;
    }
    while start.elapsed().as_secs_f64() < warm_s {
        turn(&mut drive)?;
    }
    let (bytes, units) = (drive.received, drive.segments());
    let (start, cpu) = (Clock::now(), measure::thread_cpu_s());
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..16 {
            turn(&mut drive)?;
        }
    }
    Ok(Measurement {
        bytes: drive.received - bytes,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: measure::thread_cpu_s() - cpu,
        units: drive.segments() - units,
        p50_ns: None,
        settings: format!("retransmits and drops {}", drive.troubles()),
    })
}

/// Writes of `size` bytes at full speed, read at the other end, MTU 65535 as on loopback. `units`
/// counts writes.
pub fn small_writes(size: usize, seconds: f64) -> Result<Measurement> {
    let shape = Bulk { mtu: 65_535, write: size, ..Bulk::default() };
    let measured = bulk(shape, seconds)?;
    Ok(Measurement { units: measured.bytes / size as u64, ..measured })
}

/// `size` bytes in each direction, both ends polled by one thread. Sets `p50_ns`.
pub fn ping_pong(size: usize, seconds: f64) -> Result<Measurement> {
    ping_pong_over(Bulk::default(), size, seconds)
}

/// [`ping_pong`] over a link of another shape.
pub fn ping_pong_over(shape: Bulk, size: usize, seconds: f64) -> Result<Measurement> {
    let config = tcp::Config { no_delay: true, ..tcp::Config::default() };
    let mut drive = Drive::new(shape, Switches::default(), config)?;
    let (start, cpu) = (Clock::now(), measure::thread_cpu_s());
    let mut samples = Vec::new();
    while start.elapsed().as_secs_f64() < seconds {
        // Reading the clock once costs a tenth of a round trip: time them eight at a time.
        let before = Clock::now();
        for _ in 0..8 {
            drive.tick();
            drive.ping_pong(size)?;
        }
        samples.push(before.elapsed().as_nanos() as f64 / 8.0);
    }
    samples.sort_by(f64::total_cmp);
    Ok(Measurement {
        bytes: drive.received,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: measure::thread_cpu_s() - cpu,
        units: samples.len() as u64 * 8,
        p50_ns: samples.get(samples.len() / 2).copied(),
        settings: format!("retransmits and drops {}", drive.troubles()),
    })
}

/// Memory of an established, idle endpoint, in bytes, with `connections` of them: the growth of a
/// fresh process's resident memory, free buffers included, over the endpoints (two a connection).
pub fn idle_endpoint_bytes(connections: usize) -> Result<f64> {
    crate::memory::idle_endpoint_bytes(connections, false)
}

/// Instructions of one predicted data segment without its byte passes, from `xtask icount`.
pub fn predicted_segment_instructions() -> Result<f64> {
    crate::memory::predicted_segment_instructions()
}

/// The checksum the stack uses, over all of `data`.
pub fn checksum(data: &[u8]) -> Result<u16> {
    Ok(Ladder::best().sum(data).0)
}

/// The byte-wise checksum, to which every faster one is compared.
pub fn checksum_byte_loop(data: &[u8]) -> Result<u16> {
    Ok(Ladder::Byte.sum(data).0)
}

/// Copies `from` to `to` (same length) and returns the checksum, in one pass if that wins.
pub fn copy_and_sum(to: &mut [u8], from: &[u8]) -> Result<u16> {
    Ok(Ladder::best().copy_sum(from, to).0)
}

/// Bytes a second of virtual time for a sender with a 2,048-byte buffer into a 32 KB window
/// over a 10 ms path whose receiver delays ACKs by 200 ms. The same number every run.
pub fn small_sender_bytes_per_s(send_space_estimate: bool) -> Result<f64> {
    let switches = Switches::default().with(Switch::SendSpace, send_space_estimate);
    crate::delay::small_sender_bytes_per_s(switches).context("the delayed path")
}
