//! The rate at which two cores can move bytes through a ring when they do nothing else. One core
//! copies from its application's memory into buffers, the other core copies from the buffers into
//! its own memory. Called by `bytes.rs`.
//!
//! As in a transfer over the wire in memory, segments of 1448 bytes are in buffers of 2 KB, at most
//! 256 KB of segments are in flight, a burst has 64 segments, and used buffers return to the
//! writer. There are no sums, no headers and no window: the result shows the cost of moving cache
//! lines from one core to the other and back.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rtrb::{Consumer, Producer, RingBuffer, chunks::ChunkError};

use crate::measure::{Measurement, pattern, pin};

const SEGMENT: usize = 1448;
const BURST: usize = 64;
/// The most segments in flight, which together have 256 KB.
const WINDOW: usize = (256 << 10) / SEGMENT;
/// Bytes of the application's memory at each end.
const APPLICATION: usize = 128 << 10;

/// A buffer whose payload begins at a cache line, and which is an odd number of cache lines long,
/// like packet buffers.
#[repr(align(64))]
struct Buffer([u8; 33 * 64]);

/// Runs for `seconds`, with the writer on the first of these cores and the reader on the second.
/// `units` of the result counts segments.
pub(super) fn run([writer, reader]: [usize; 2], seconds: f64) -> Result<Measurement> {
    let (mut free_home, free) = RingBuffer::new(WINDOW);
    for _ in 0..WINDOW {
        let buffer = Box::new(Buffer([0; 33 * 64]));
        free_home.push(buffer).map_err(|_| anyhow!("the ring has no room for all buffers"))?;
    }
    let (filled, filled_far) = RingBuffer::new(WINDOW);
    let start = &Barrier::new(2);
    let limit = Duration::from_secs_f64(seconds);
    let (sent, received) = std::thread::scope(|scope| {
        let sent = scope.spawn(move || {
            let pinned = pin(&[writer]);
            start.wait();
            pinned.map(|()| write(free, filled, limit))
        });
        let received = scope.spawn(move || {
            let pinned = pin(&[reader]);
            start.wait();
            pinned.map(|()| read(filled_far, free_home))
        });
        (sent.join(), received.join())
    });
    let panicked = |_| anyhow!("an end of the ring panicked");
    let sent = sent.map_err(panicked)??;
    let (units, wall_s) = received.map_err(panicked)??;
    (units == sent).then_some(()).context("not all segments that were sent arrived")?;
    Ok(Measurement {
        bytes: units * SEGMENT as u64,
        wall_s,
        // Both cores are busy all the time.
        cpu_s: 2.0 * wall_s,
        units,
        p50_ns: None,
        settings: "a ring and nothing else".to_owned(),
    })
}

/// Fills buffers until `limit` has passed. Returns how many.
fn write(
    mut free: Consumer<Box<Buffer>>,
    mut filled: Producer<Box<Buffer>>,
    limit: Duration,
) -> u64 {
    let data = pattern(APPLICATION);
    let mut pieces = data.chunks_exact(SEGMENT).cycle();
    let (start, mut sent) = (Instant::now(), 0);
    while start.elapsed() < limit {
        let Ok(buffers) = free.read_chunk(BURST.min(free.slots())) else { continue };
        let count = buffers.len();
        let full = buffers.into_iter().zip(&mut pieces).map(|(mut buffer, piece)| {
            mbuf::copy(piece, &mut buffer.0[..SEGMENT]);
            buffer
        });
        sent += push(&mut filled, count, full);
    }
    sent
}

/// Empties buffers until the other end has ended and no buffer is left. Returns how many, and how
/// many seconds it took.
fn read(mut filled: Consumer<Box<Buffer>>, mut free: Producer<Box<Buffer>>) -> (u64, f64) {
    let mut into = vec![0; APPLICATION];
    let (start, mut received) = (Instant::now(), 0);
    loop {
        // Check whether the other end has ended before reading, so that its last buffers are not
        // missed.
        let is_over = filled.is_abandoned();
        match filled.read_chunk(BURST.min(filled.slots())) {
            Ok(buffers) if !buffers.is_empty() => {
                let (count, pieces) = (buffers.len(), into.chunks_exact_mut(SEGMENT));
                let empty = buffers.into_iter().zip(pieces).map(|(buffer, piece)| {
                    mbuf::copy(&buffer.0[..SEGMENT], piece);
                    buffer
                });
                received += push(&mut free, count, empty);
            }
            Ok(_) | Err(ChunkError::TooFewSlots(_)) if is_over => break,
            Ok(_) | Err(ChunkError::TooFewSlots(_)) => core::hint::spin_loop(),
        }
    }
    (received, start.elapsed().as_secs_f64())
}

/// Pushes all buffers at once, so that the other end sees a burst. Returns how many.
fn push(
    ring: &mut Producer<Box<Buffer>>,
    count: usize,
    buffers: impl Iterator<Item = Box<Buffer>>,
) -> u64 {
    // This cannot fail: there are no more buffers than slots.
    let Ok(slots) = ring.write_chunk_uninit(count) else { return 0 };
    slots.fill_from_iter(buffers) as u64
}
