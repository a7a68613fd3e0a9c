//! The three passes over a segment's bytes without a stack: the bytes are copied in and summed,
//! summed again, and copied out. Called by `bytes.rs`.
//!
//! Buffers are laid out like packet buffers. The order of accesses and the amount of memory are
//! those of the transfer in the row `memory MTU 1500`: as many segments as the wire holds are
//! written, then all of them are summed with their headers, then all of them are read. The
//! application at each end uses 128 KB of memory.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use wire::checksum::Ladder;

use crate::measure::{Measurement, pattern, thread_cpu_s};

/// Bytes of payload of a segment with timestamps at MTU 1500.
const SEGMENT: usize = 1448;
/// Bytes of a TCP header with timestamps, which is summed together with the payload.
const HEADER: usize = 32;
/// The stride of a packet buffer of 2 KB, and the offset of its payload.
const STRIDE: usize = 33 * 64;
const PAYLOAD_AT: usize = 64 + 128;
/// How many segments the wire in memory holds: 256 KB in frames of 1514 bytes.
const UNIT: usize = (256 << 10) / 1514;
/// How many segments fit into the application's memory at each end, which has 128 KB.
const APPLICATION: usize = (128 << 10) / SEGMENT;
const LINE: usize = 64;

/// The functions that do the passes.
pub(super) struct Kernels {
    ladder: Ladder,
    copy: fn(&[u8], &mut [u8]),
    name: &'static str,
}

impl Kernels {
    /// The functions that the stack chooses on this machine.
    pub(super) fn ours() -> Kernels {
        Kernels { ladder: Ladder::best(), copy: mbuf::copy, name: "ours" }
    }

    /// Functions that sum with AVX2 and copy with the C library, which the stack chose formerly.
    pub(super) fn avx2() -> Result<Kernels> {
        ensure!(Ladder::available().any(|rung| rung == Ladder::Avx2), "needs AVX2");
        let copy = |from: &[u8], to: &mut [u8]| to.copy_from_slice(from);
        Ok(Kernels { ladder: Ladder::Avx2, copy, name: "avx2" })
    }
}

/// The memory of the applications at both ends, and the packet buffers between them.
pub(super) struct Passes {
    kernels: Kernels,
    from: Vec<u8>,
    buffers: Vec<u8>,
    to: Vec<u8>,
    /// The number of the next segment in each application's memory.
    at: usize,
}

impl Passes {
    pub(super) fn new(kernels: Kernels) -> Passes {
        Passes {
            kernels,
            from: pattern(APPLICATION * SEGMENT),
            buffers: vec![1; UNIT * STRIDE + LINE],
            to: vec![2; APPLICATION * SEGMENT],
            at: 0,
        }
    }

    /// Runs the passes for `seconds`. `units` of the result counts segments.
    pub(super) fn run(&mut self, seconds: f64) -> Measurement {
        const ROUNDS_A_LOOK: u64 = 4;
        let limit = Duration::from_secs_f64(seconds);
        let (start, cpu) = (Instant::now(), thread_cpu_s());
        let mut units = 0;
        while start.elapsed() < limit {
            for _ in 0..ROUNDS_A_LOOK {
                self.round();
            }
            units += ROUNDS_A_LOOK * UNIT as u64;
        }
        Measurement {
            bytes: units * SEGMENT as u64,
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: thread_cpu_s() - cpu,
            units,
            p50_ns: None,
            settings: self.kernels.name.to_owned(),
        }
    }

    fn round(&mut self) {
        let first = self.buffers.as_ptr().align_offset(LINE);
        let buffers = &mut self.buffers[first..first + UNIT * STRIDE];
        let Kernels { ladder, copy, .. } = black_box(&self.kernels);
        let payload = PAYLOAD_AT..PAYLOAD_AT + SEGMENT;
        let mut at = self.at;
        for buffer in buffers.chunks_exact_mut(STRIDE) {
            let data = &self.from[at * SEGMENT..][..SEGMENT];
            black_box(ladder.copy_sum(data, &mut buffer[payload.clone()]));
            at = if at + 1 == APPLICATION { 0 } else { at + 1 };
        }
        for buffer in buffers.chunks_exact(STRIDE) {
            black_box(ladder.sum(&buffer[PAYLOAD_AT - HEADER..payload.end]));
        }
        at = self.at;
        for buffer in buffers.chunks_exact(STRIDE) {
            copy(&buffer[payload.clone()], &mut self.to[at * SEGMENT..][..SEGMENT]);
            at = if at + 1 == APPLICATION { 0 } else { at + 1 };
        }
        self.at = at;
        black_box(&mut self.to);
    }
}
