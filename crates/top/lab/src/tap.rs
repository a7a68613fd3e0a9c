//! `wirespeed lab tap`: the cost of showing a packet to a tap by packet size, for our tap and for a
//! model of STREAMS.
//!
//! Called by: the lab. `bpf::Tap` and `streams` do the work, `results` has the report.
//!
//! Every packet matches, and both taps copy it whole. Our tap gets packets in bursts, like the taps
//! of a port. The slope of a line through the times by size is the cost of copying; the line's
//! value at zero bytes is the cost of the linkage and of a call of `memcpy`. A loop that only
//! copies the same packets is measured as well: the difference to its times, extrapolated to zero
//! bytes, is the linkage alone.

pub(crate) mod fit;
mod results;
mod streams;

use std::hint::black_box;
use std::time::{Duration, Instant};

use base::WallTime;
use bpf::{Direction, Filter, Insn, Packet, Program, Settings, Shown, Tap};
use clap::{ArgMatches, FromArgMatches};
use device::BURST;
pub use fit::Line;
use mbuf::{Flags, Mbuf, Pool};
use streams::{Allocation, Processors, Stream};

use crate::pool::Progress;
use crate::report::Report;
use crate::{Error, Run};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Bytes of packets in a round, the same for every size; if they do not fit into a cache, the
    /// lines bend
    #[arg(long, value_name = "BYTES", default_value_t = ROUND_BYTES,
          value_parser = clap::value_parser!(u64).range(10_000..=100_000_000))]
    bytes: u64,
}

/// At most a third of the second-level cache of common processors.
pub const ROUND_BYTES: u64 = 128 << 10;

/// Rounds of each size.
const ROUNDS: usize = 101;
const QUICK_ROUNDS: usize = 15;

/// Bytes of different packets, the same for every size: few enough for the first-level cache.
const DIFFERENT_BYTES: usize = 16 << 10;

/// The methods. The first is the baseline; the others are compared with the second.
const METHODS: [(&str, Method); 6] = [
    ("a copy alone", Method::COPY),
    ("ours", Method::OURS),
    ("STREAMS, allocate", Method::ALLOCATE),
    ("STREAMS, allocate and free", Method::ALLOCATE_AND_FREE),
    ("STREAMS, one allocation", Method::TOGETHER),
    ("STREAMS, one processor", Method::UNLOCKED),
];

/// The lines that fit the times of a method, in ns by bytes.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// The line that fits the method's medians.
    pub all: Line,
    /// The line that fits the differences between these medians and those of a copy alone.
    pub above_copy: Line,
}

/// Measure methods in alternating rounds; `None` for a method that was not measured.
///
/// # Errors
/// No tap could be made.
pub fn lines<const N: usize>(
    methods: [Method; N],
    rounds: usize,
) -> Result<[Option<Lines>; N], Error> {
    let mut all = vec![Measured::of("", Method::COPY)];
    all.extend(methods.map(|method| Measured::of("", method)));
    for size in SIZES {
        Bench::new(size, ROUND_BYTES)?.rounds(&mut all, rounds, || false);
    }
    Ok(core::array::from_fn(|n| {
        let (method, copy) = (&all[n + 1], &all[0]);
        Some(Lines { all: method.line()?, above_copy: method.above(copy)? })
    }))
}

fn all() -> Filter {
    // A program of one return is always valid; it keeps more bytes than any packet has.
    let program = Program::new(&[Insn::new(0x06, 0, 0, 0x4_0000)]);
    Filter::new(program.expect("one return is a program"))
}

/// Packets of one size, and the taps that they are shown to.
struct Bench {
    tap: Tap,
    /// A stream without locks, and one with locks.
    streams: [Stream; 2],
    copies: Vec<u8>,
    packets: Vec<Mbuf>,
    /// How often all packets are shown.
    repeats: usize,
}

impl Bench {
    fn new(size: usize, round_bytes: u64) -> Result<Bench, Error> {
        let different = DIFFERENT_BYTES / size;
        let repeats = (round_bytes as usize / size).div_ceil(different);
        let count = repeats * different;
        // Large enough for all packets of a burst until they are read.
        let buffer_bytes = (count * (size + 64)).clamp(1 << 20, 64 << 20);
        let settings = Settings { buffer_bytes, ..Settings::default() };
        let tap = Tap::new(all(), settings).map_err(|e| Error::Failed(e.to_string()))?;
        let mut pool = Pool::new(different * 2 * DIFFERENT_BYTES);
        let packet = |n| pool.copy_of(&vec![n as u8; size]);
        let packets: Option<_> = (0..different).map(packet).collect();
        let packets = packets.ok_or_else(|| Error::Failed("no memory for packets".to_owned()))?;
        let copies = vec![0; buffer_bytes];
        let streams = [Processors::One, Processors::Several].map(|p| Stream::new(all(), p));
        Ok(Bench { tap, streams, copies, packets, repeats })
    }

    /// Run rounds of all methods in turn. The first round of each method warms memory and caches,
    /// and does not count. A size that was not measured gets an empty entry.
    fn rounds(&mut self, all: &mut [Measured], rounds: usize, is_stopped: impl Fn() -> bool) {
        for measured in all.iter_mut() {
            measured.times.push(Times::new());
            if !is_stopped() {
                self.round(measured.method);
            }
        }
        for _ in 0..rounds {
            if is_stopped() {
                return;
            }
            for measured in all.iter_mut() {
                let ns = self.round(measured.method);
                measured.times.last_mut().into_iter().for_each(|times| times.push(ns));
            }
        }
    }

    /// Run one round of a method; returns ns a packet. The packets kept are read after each burst,
    /// as a waiting reader would, so that no method pays for memory that it would not use. In
    /// methods without frees the reading is not timed.
    fn round(&mut self, method: Method) -> f64 {
        let Bench { tap, streams, copies, packets, repeats } = self;
        let mut spent = Duration::ZERO;
        for burst in (0..*repeats).flat_map(|_| packets.chunks(BURST)) {
            let begun = Instant::now();
            // Each method has a loop of its own, so that it can keep its state in registers.
            match method.0 {
                Kind::Copy => copy_all(black_box(burst), copies),
                Kind::Ours => show(black_box(burst), tap),
                Kind::Streams { allocation, frees, processors } => {
                    let stream = &streams[usize::from(processors == Processors::Several)];
                    for frame in black_box(burst) {
                        stream.intercept(frame.as_slice(), allocation);
                    }
                    if frees {
                        stream.read_all();
                    }
                }
            }
            spent += begun.elapsed();
            for stream in streams.iter() {
                stream.read_all();
            }
            while let Some(buffer) = tap.take() {
                tap.give_back(buffer);
            }
        }
        spent.as_nanos() as f64 / (*repeats * packets.len()) as f64
    }
}

#[inline(never)]
fn copy_all(burst: &[Mbuf], mut room: &mut [u8]) {
    for frame in burst {
        let bytes = frame.as_slice();
        let Some((here, rest)) = room.split_at_mut_checked(bytes.len()) else { break };
        here.copy_from_slice(bytes);
        room = rest;
    }
}

/// Show a burst to a tap, like `crates/core/stack/src/taps.rs`.
#[inline(never)]
fn show(burst: &[Mbuf], tap: &mut Tap) {
    let (direction, time) = black_box((Direction::In, WallTime(1)));
    let shown = burst.iter().map(|frame| {
        let (packet, segment_bytes) = (Packet::whole(frame.as_slice()), frame.segment_size());
        (Shown { packet, direction, time, segment_bytes }, frame)
    });
    tap.see(shown, |frame, copy| {
        if frame.has(Flags::CSUM_PARTIAL) {
            black_box(copy);
        }
    });
}

/// Measure all methods at all sizes.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let rounds = if run.common.quick { QUICK_ROUNDS } else { ROUNDS };
    let mut measured = METHODS.map(|(name, method)| Measured::of(name, method));
    let mut progress = Progress::new(SIZES.len());
    for (at, size) in SIZES.into_iter().enumerate() {
        progress.at(at);
        Bench::new(size, options.bytes)?.rounds(&mut measured, rounds, || run.is_stopped());
    }
    Ok(results::report(options.bytes, rounds, &measured))
}

/// Sizes of packets, in bytes.
const SIZES: [usize; 12] = [60, 100, 150, 200, 300, 400, 550, 700, 850, 1000, 1250, 1514];

/// A method of tapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Copy,
    Ours,
    Streams { allocation: Allocation, frees: bool, processors: Processors },
}

impl Method {
    /// No tap, only the copy.
    const COPY: Method = Method(Kind::Copy);
    /// A call with the packet in place.
    pub const OURS: Method = Method(Kind::Ours);
    /// Messages whose blocks are separate allocations.
    pub const ALLOCATE: Method = streams(Allocation::Apart, false, Processors::Several);
    /// Messages whose blocks are separate allocations, and are freed.
    pub const ALLOCATE_AND_FREE: Method = streams(Allocation::Apart, true, Processors::Several);
    /// Messages in one allocation, which is freed.
    pub const TOGETHER: Method = streams(Allocation::Together, true, Processors::Several);
    /// Messages of separate allocations, freed, with one processor and without locks.
    pub const UNLOCKED: Method = streams(Allocation::Apart, true, Processors::One);
}

const fn streams(allocation: Allocation, frees: bool, processors: Processors) -> Method {
    Method(Kind::Streams { allocation, frees, processors })
}

/// Nanoseconds a packet of one round.
type Times = Vec<f64>;

/// The measurements of a method.
struct Measured {
    name: &'static str,
    method: Method,
    /// The times for each size, in the order of [`SIZES`].
    times: Vec<Times>,
}

impl Measured {
    fn of(name: &'static str, method: Method) -> Measured {
        Measured { name, method, times: Vec::new() }
    }

    /// Bytes and median; sizes that were not measured are missing.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let medians = self.times.iter().zip(SIZES);
        medians.filter_map(|(t, size)| Some((size as f64, percentile(t, 0.5)?)))
    }

    fn line(&self) -> Option<Line> {
        Line::through(&self.points().collect::<Vec<_>>())
    }

    fn above(&self, other: &Measured) -> Option<Line> {
        let points = self.points().zip(other.points());
        Line::through(&points.map(|((x, y), (_, less))| (x, y - less)).collect::<Vec<_>>())
    }
}

/// The value below which this share of the times lies.
fn percentile(times: &Times, share: f64) -> Option<f64> {
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}
