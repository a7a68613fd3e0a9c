//! The measurements of this stack for the rows of bench `core`, which compares them with those of
//! other stacks (`peers`). Called by `core.rs` and by other benches. Each function does the same
//! work as the peer in its row: the payload comes from `measure::pattern`, checksums are computed
//! and verified, and the application copies the data at both ends. `cpu_s` of a result is the time
//! of the loop that moves bytes, by `measure::thread_cpu_s`, without set-up.

use std::time::Instant as Clock;

use anyhow::{Context, Result};
use base::{Switch, Switches};
use wire::checksum::Ladder;

use crate::drive::{Bulk, Drive};
use crate::measure::{self, Measurement};

/// A bulk transfer for `seconds`. `units` of the result counts data segments, and `settings` gives
/// the number of retransmissions and drops.
pub fn bulk(shape: Bulk, seconds: f64) -> Result<Measurement> {
    bulk_after(shape, 0.0, seconds)
}

/// Like [`bulk`], but measured after the transfer has run for at least `warm_s` seconds. If writes
/// are far smaller than the MSS, a connection first waits for a delayed ACK, which takes longer
/// than a short run.
pub fn bulk_after(shape: Bulk, warm_s: f64, seconds: f64) -> Result<Measurement> {
    let mut drive = Drive::new(shape, Switches::default(), tcp::Config::default())?;
    let segment = if shape.v6 { 1428 } else { 1448 };
    let turn = |drive: &mut Drive| {
        drive.tick();
        if shape.flows > 1 { drive.flows_turn(segment) } else { drive.bulk_turn() }
    };
    // Congestion windows open and caches fill before the clock starts.
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

/// Writes of `size` bytes at full speed, which the other end reads, at MTU 65535 as on loopback.
/// `units` of the result counts the writes.
pub fn small_writes(size: usize, seconds: f64) -> Result<Measurement> {
    let shape = Bulk { mtu: 65_535, write: size, ..Bulk::default() };
    let measured = bulk(shape, seconds)?;
    Ok(Measurement { units: measured.bytes / size as u64, ..measured })
}

/// Round trips of `size` bytes in each direction, with both ends polled by one thread. `units` of
/// the result counts the round trips, and `p50_ns` is their median time.
pub fn ping_pong(size: usize, seconds: f64) -> Result<Measurement> {
    ping_pong_over(Bulk::default(), size, seconds)
}

/// Like [`ping_pong`], over a link of another shape.
pub fn ping_pong_over(shape: Bulk, size: usize, seconds: f64) -> Result<Measurement> {
    let config = tcp::Config { no_delay: true, ..tcp::Config::default() };
    let mut drive = Drive::new(shape, Switches::default(), config)?;
    let (start, cpu) = (Clock::now(), measure::thread_cpu_s());
    let mut samples = Vec::new();
    while start.elapsed().as_secs_f64() < seconds {
        // Reading the clock costs a tenth of a round trip, so one sample is eight round trips.
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

/// Bytes of memory for each endpoint of `connections` established, idle IPv4 connections, in a
/// process of its own: see [`crate::memory::idle_endpoint_bytes`].
pub fn idle_endpoint_bytes(connections: usize) -> Result<f64> {
    crate::memory::idle_endpoint_bytes(connections, false)
}

/// Instructions of both ends for one predicted data segment, counted by `cargo xtask icount`,
/// without the instructions that copy or sum the payload.
pub fn predicted_segment_instructions() -> Result<f64> {
    crate::memory::predicted_segment_instructions()
}

/// The checksum of `data` by the implementation that the stack uses on this machine.
pub fn checksum(data: &[u8]) -> Result<u16> {
    Ok(Ladder::best().sum(data).0)
}

/// The checksum of `data`, computed byte by byte: the slowest implementation, with which the row
/// compares.
pub fn checksum_byte_loop(data: &[u8]) -> Result<u16> {
    Ok(Ladder::Byte.sum(data).0)
}

/// Copies `from` to `to`, which has the same length, and returns the checksum. It does so as the
/// stack does on this machine: in one pass over the data if that is faster than two.
pub fn copy_and_sum(to: &mut [u8], from: &[u8]) -> Result<u16> {
    Ok(Ladder::best().copy_sum(from, to).0)
}

/// Bytes a second of virtual time that a sender with a send buffer of 2,048 bytes gets through a
/// window of 32 KB. The round trip is 10 ms, and the receiver delays ACKs by 200 ms. The result is
/// the same in every run.
pub fn small_sender_bytes_per_s(send_space_estimate: bool) -> Result<f64> {
    let switches = Switches::default().with(Switch::SendSpace, send_space_estimate);
    crate::delay::small_sender_bytes_per_s(switches)
        .context("a small sender over a path with delay")
}
