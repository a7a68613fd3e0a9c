//! `wirespeed lab tap`: the cost of showing a packet to a tap, ours beside the STREAMS way, by
//! packet size.
//!
//! Called by: the lab. `bpf::Tap` and `streams` do the work.
//!
//! Every packet matches and is copied whole, by both. Ours gets packets in bursts, as a port's taps
//! do. The slope of a line through the times by size is the cost of copying; its value at zero
//! bytes is the cost of the linkage, and of a call of `memcpy`. A loop that only copies the same
//! packets is measured as well: the difference to its times, extrapolated to zero bytes, is the
//! linkage alone.

pub(crate) mod fit;
mod streams;

use std::hint::black_box;
use std::time::{Duration, Instant};

use base::WallTime;
use bpf::{Direction, Filter, Insn, Packet, Program, Settings, Shown, Tap};
use clap::{ArgMatches, FromArgMatches};
use device::BURST;
use mbuf::{Flags, Mbuf, Pool};
use serde_json::{Value, json};

use crate::plot::{Dots, Panel, Plot, Point};
use crate::progress::Progress;
use crate::report::{Column, Format, Report, Span, column, missing};
use crate::{Error, Run};
use fit::CONFIDENCE;
pub use fit::Line;
use streams::{Allocation, Processors, Stream, describing_bytes};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Bytes of packets in a round, the same for every size; more than a cache holds bend the lines
    #[arg(long, value_name = "BYTES", default_value_t = ROUND_BYTES,
          value_parser = clap::value_parser!(u64).range(10_000..=100_000_000))]
    bytes: u64,
}

/// A third of what the second-level cache of any processor holds.
pub const ROUND_BYTES: u64 = 128 << 10;

/// Sizes of packets, in bytes; the mean on a network is near the second.
const SIZES: [usize; 12] = [60, 100, 150, 200, 300, 400, 550, 700, 850, 1000, 1250, 1514];

/// Rounds of each size.
const ROUNDS: usize = 101;
const QUICK_ROUNDS: usize = 15;

/// Bytes of different packets, the same for every size: as much as the first-level cache holds.
const DIFFERENT_BYTES: usize = 16 << 10;

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
    /// The same, and freed.
    pub const ALLOCATE_AND_FREE: Method = streams(Allocation::Apart, true, Processors::Several);
    /// Messages in one allocation, and freed.
    pub const TOGETHER: Method = streams(Allocation::Together, true, Processors::Several);
    /// Messages of separate allocations, freed, with one processor and without locks.
    pub const UNLOCKED: Method = streams(Allocation::Apart, true, Processors::One);
}

const fn streams(allocation: Allocation, frees: bool, processors: Processors) -> Method {
    Method(Kind::Streams { allocation, frees, processors })
}

/// The first is the baseline; the others are compared with the second.
const METHODS: [(&str, Method); 6] = [
    ("a copy alone", Method::COPY),
    ("ours", Method::OURS),
    ("STREAMS, allocate", Method::ALLOCATE),
    ("STREAMS, allocate and free", Method::ALLOCATE_AND_FREE),
    ("STREAMS, one allocation", Method::TOGETHER),
    ("STREAMS, one processor", Method::UNLOCKED),
];

/// The fits of a method, in ns by bytes.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// The line through its medians.
    pub all: Line,
    /// The line through their differences to the medians of a copy alone.
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

const COLUMNS: &[Column] = &[
    column("method", "", "", Format::Heading),
    column("bytes", "bytes", "bytes a packet", Format::Number(0)),
    column("ns", "ns", "ns a packet, median", Format::Number(1)),
    column("low_ns", "low", "ns a packet, first decile", Format::Number(1)),
    column("high_ns", "high", "ns a packet, ninth decile", Format::Number(1)),
];

/// Nanoseconds a packet of one round.
type Times = Vec<f64>;

/// The measurements of a method.
struct Measured {
    name: &'static str,
    method: Method,
    /// By size, in the order of [`SIZES`].
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

fn all() -> Filter {
    // A return of more bytes than any packet has is always a valid program.
    let program = Program::new(&[Insn::new(0x06, 0, 0, 0x4_0000)]);
    Filter::new(program.expect("one return is a program"))
}

/// Packets of one size, and the taps that they are shown to.
struct Bench {
    tap: Tap,
    /// Without locks, and with locks.
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
        // Large enough that it does not fill before it is read.
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

    /// Rounds of all methods in turns; the first round of each warms memory and caches. A size that
    /// was not measured gets an empty entry.
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

    /// One round of a method: ns a packet. What is kept is read after each burst, as a waiting
    /// reader would, so that no method pays for memory that it would not use. Without the frees,
    /// the reading is not timed.
    fn round(&mut self, method: Method) -> f64 {
        let Bench { tap, streams, copies, packets, repeats } = self;
        let mut spent = Duration::ZERO;
        for burst in (0..*repeats).flat_map(|_| packets.chunks(BURST)) {
            let begun = Instant::now();
            // A loop for each method, so that each keeps its own state in registers.
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

/// As a port shows a burst to its taps: `crates/stack/src/taps.rs`.
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
    Ok(report(&options, rounds, &measured))
}

/// The value below which this share of the times lies.
fn percentile(times: &Times, share: f64) -> Option<f64> {
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

fn report(options: &Options, rounds: usize, measured: &[Measured]) -> Report {
    let mut rows = Vec::new();
    for measured in measured {
        for (times, size) in measured.times.iter().zip(SIZES) {
            let [low, mid, high] = [0.1, 0.5, 0.9].map(|share| percentile(times, share));
            rows.push(vec![json!(measured.name), json!(size), json!(mid), json!(low), json!(high)]);
        }
    }
    let mut notes = notes(measured);
    let all_times = measured.iter().flat_map(|method| &method.times);
    let unmeasured = all_times.filter(|times| times.is_empty()).count();
    notes.extend(missing(unmeasured, rows.len(), "rows"));
    Report {
        settings: json!({ "bytes": options.bytes, "rounds": rounds, "sizes": SIZES }),
        columns: COLUMNS.to_vec(),
        rows,
        fits: measured.iter().map(|method| fit(method, measured.first())).collect(),
        samples: measured.iter().map(as_json).collect(),
        shows: shows(measured),
        notes,
        plot: Some(Plot::Dots(dots(measured))),
    }
}

fn as_json(measured: &Measured) -> Value {
    json!({ "method": measured.name, "rounds_ns": measured.times })
}

/// The line through a method's medians, and the one through their differences to those of a copy.
fn fit(measured: &Measured, copy: Option<&Measured>) -> Value {
    let copy = copy.filter(|copy| copy.method != measured.method);
    let above = copy.and_then(|copy| measured.above(copy));
    json!({
        "method": measured.name,
        "confidence": CONFIDENCE,
        "line": measured.line().map(fitted),
        "above_copy": above.map(fitted),
    })
}

fn fitted(line: Line) -> Value {
    let interval = |middle: f64, off: f64| [middle - off, middle + off];
    json!({
        "intercept_ns": line.intercept,
        "intercept_interval_ns": interval(line.intercept, line.intercept_off),
        "slope_ns_per_byte": line.slope,
        "slope_interval_ns_per_byte": interval(line.slope, line.slope_off),
    })
}

/// What the figures show: the linkage of our tap beside those of the others, and a byte's cost.
fn shows(measured: &[Measured]) -> Vec<String> {
    let [copy, ours, others @ ..] = measured else { return Vec::new() };
    let (Some(above), Some(line)) = (ours.above(copy), ours.line()) else { return Vec::new() };
    let linkage = others.iter().filter_map(|other| Some(other.above(copy)?.intercept));
    let slopes = others.iter().filter_map(|other| Some(other.line()?.slope));
    let (Some(linkage), Some(slopes)) = (Span::of(linkage), Span::of(slopes)) else {
        return Vec::new();
    };
    let mut lines = others.iter().chain([ours]).filter_map(Measured::line);
    let byte = match lines.all(|line| line.slope > line.slope_off) {
        true => format!(
            "A byte costs {:.3} ns with ours and {:.3} to {:.3} ns with the others: the difference \
             is the linkage, not the copy, where these are alike.",
            line.slope, slopes.low, slopes.high
        ),
        false => "The times vary too much for a word on what a byte costs.".to_owned(),
    };
    vec![
        format!(
            "Beyond copying it, showing a packet to our tap costs {:.1} ns (within {:.1}), and to \
             those in the manner of STREAMS {:.1} to {:.1} ns.",
            above.intercept, above.intercept_off, linkage.low, linkage.high
        ),
        byte,
    ]
}

/// Sentences with the lines and their ratios.
fn notes(measured: &[Measured]) -> Vec<String> {
    let mut notes = Vec::new();
    let [copy, methods @ ..] = measured else { return notes };
    let ours = methods.first().and_then(|ours| ours.above(copy));
    for measured in methods {
        let (Some(line), Some(above)) = (measured.line(), measured.above(copy)) else { continue };
        let beside = match ours {
            Some(ours) if measured.method != Method::OURS => {
                format!(", {:.1} times ours", above.intercept / ours.intercept)
            }
            _ => String::new(),
        };
        notes.push(format!(
            "{}: {:.2} ns (within {:.2}) and {:.4} ns a byte (within {:.4}), 95 %; above a copy \
             alone {:.2} ns (within {:.2}){beside}.",
            measured.name,
            line.intercept,
            line.intercept_off,
            line.slope,
            line.slope_off,
            above.intercept,
            above.intercept_off,
        ));
    }
    notes.push(format!(
        "Bytes touched to describe a packet: STREAMS {} with three allocations, {} with one, \
         written and then read; ours {}, written in front of the copy of a packet that matched, \
         and none for one that did not.",
        describing_bytes(Allocation::Apart),
        describing_bytes(Allocation::Together),
        bpf::RECORD_HEADER_BYTES
    ));
    notes
}

fn dots(measured: &[Measured]) -> Dots {
    let mut points = Vec::new();
    for (series, measured) in measured.iter().enumerate() {
        for (row, times) in measured.times.iter().enumerate() {
            let span = |low, mid, high| Some(Span { low, mid, high });
            let at = |share| percentile(times, share);
            let span = at(0.1).zip(at(0.5)).zip(at(0.9)).and_then(|((l, m), h)| span(l, m, h));
            points.push(Point { row, series, span, quoted: None });
        }
    }
    Dots {
        title: "Showing a packet to a tap".to_owned(),
        subtitle: "Every packet matches and is copied whole; median, first and ninth decile of \
                   the rounds"
            .to_owned(),
        axis: "ns a packet".to_owned(),
        row_title: "bytes:".to_owned(),
        rows: SIZES.iter().map(ToString::to_string).collect(),
        series: measured.iter().map(|m| m.name.to_owned()).collect(),
        panels: vec![Panel { title: String::new(), rows: Vec::new(), points }],
        quoted: String::new(),
    }
}
