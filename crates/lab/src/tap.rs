//! `wirespeed lab tap`: what it costs to show a packet to a tap, ours beside the way of STREAMS, by
//! the packet's size.
//!
//! Called by: the lab. Must not know: how either works; `bpf::Tap` and `streams` do.
//!
//! Every packet matches, and all of it is copied, both here and there: the slope of a line through
//! the times by size is the copying, and where it meets zero bytes is what the linkage costs.

mod fit;
mod streams;

use std::hint::black_box;
use std::time::Instant;

use base::WallTime;
use bpf::{Direction, Filter, Insn, Packet, Program, Settings, Shown, Tap};
use clap::{ArgMatches, FromArgMatches};
use serde_json::{Value, json};

use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column};
use crate::{Error, Run};
pub use fit::Line;
use streams::{Allocation, DESCRIBING_BYTES, Stream};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Packets of each size in a round
    #[arg(long, value_name = "N", default_value_t = 4_000,
          value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    packets: u64,
}

/// Sizes of packets, in bytes; the mean on a network is near the second.
const SIZES: [usize; 12] = [60, 100, 150, 200, 300, 400, 550, 700, 850, 1000, 1250, 1514];

/// Rounds of each size.
const ROUNDS: usize = 101;
const QUICK_ROUNDS: usize = 15;

/// Different packets of a size, so that none stays in the nearest cache by itself.
const PACKETS: usize = 64;

/// A way to tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    Streams { allocation: Allocation, frees: bool },
}

impl Way {
    /// A call with the packet in place.
    pub const OURS: Way = Way(Kind::Ours);
    /// Messages whose blocks are allocated each by itself.
    pub const ALLOCATE: Way = Way(Kind::Streams { allocation: Allocation::Apart, frees: false });
    /// And freed.
    pub const ALLOCATE_AND_FREE: Way =
        Way(Kind::Streams { allocation: Allocation::Apart, frees: true });
    /// Messages that are one allocation, and freed.
    pub const TOGETHER: Way = Way(Kind::Streams { allocation: Allocation::Together, frees: true });
}

const WAYS: [(&str, Way); 4] = [
    ("ours", Way::OURS),
    ("STREAMS, allocate", Way::ALLOCATE),
    ("STREAMS, allocate and free", Way::ALLOCATE_AND_FREE),
    ("STREAMS, one allocation", Way::TOGETHER),
];

/// The line through the medians of so many rounds of a way, in ns by bytes.
///
/// # Errors
/// No tap could be made.
pub fn line(way: Way, rounds: usize, packets: u64) -> Result<Option<Line>, Error> {
    let mut times = Vec::new();
    for size in SIZES {
        let mut bench = Bench::new(size, packets)?;
        bench.round(way, packets);
        times.push((0..rounds).map(|_| bench.round(way, packets)).collect());
    }
    Ok(Measured { name: "", times }.line())
}

const COLUMNS: &[Column] = &[
    column("way", "", "", Format::Heading),
    column("bytes", "bytes", "bytes a packet", Format::Number(0)),
    column("ns", "ns", "ns a packet, median", Format::Number(1)),
    column("low_ns", "low", "ns a packet, first percentile", Format::Number(1)),
    column("high_ns", "high", "ns a packet, 99th percentile", Format::Number(1)),
];

/// Nanoseconds a packet of one round.
type Times = Vec<f64>;

/// What was measured of a way.
struct Measured {
    name: &'static str,
    /// By size, in the order of [`SIZES`].
    times: Vec<Times>,
}

impl Measured {
    fn line(&self) -> Option<Line> {
        let points = self.times.iter().zip(SIZES);
        let points: Option<Vec<_>> =
            points.map(|(t, size)| Some((size as f64, Span::of(t.iter().copied())?.mid))).collect();
        Line::through(&points?)
    }
}

fn all() -> Filter {
    // A return of more than any packet has cannot be refused.
    let program = Program::new(&[Insn::new(0x06, 0, 0, 0x4_0000)]);
    Filter::new(program.expect("one return is a program"))
}

/// One round of a way: ns a packet.
struct Bench {
    tap: Tap,
    stream: Stream,
    packets: Vec<Vec<u8>>,
}

impl Bench {
    fn new(size: usize, packets: u64) -> Result<Bench, Error> {
        // The reader has its buffer in the end, not on the way.
        let buffer_bytes = (packets as usize * (size + 64)).clamp(1 << 20, 64 << 20);
        let settings = Settings { buffer_bytes, ..Settings::default() };
        let tap = Tap::new(all(), settings).map_err(|e| Error::Failed(e.to_string()))?;
        let packets = (0..PACKETS).map(|n| vec![n as u8; size]).collect();
        Ok(Bench { tap, stream: Stream::new(all()), packets })
    }

    fn round(&mut self, way: Way, packets: u64) -> f64 {
        let begun = Instant::now();
        for bytes in self.packets.iter().cycle().take(packets as usize) {
            let bytes = black_box(bytes.as_slice());
            match way.0 {
                Kind::Ours => self.tap.see(
                    &Shown {
                        packet: Packet::whole(bytes),
                        direction: Direction::In,
                        time: WallTime(1),
                        segment_bytes: 0,
                    },
                    |_| {},
                ),
                Kind::Streams { allocation, .. } => self.stream.intercept(bytes, allocation),
            }
        }
        let frees = matches!(way.0, Kind::Streams { frees: true, .. });
        if frees {
            self.stream.read_all();
        }
        let ns = begun.elapsed().as_nanos() as f64 / packets as f64;
        if !frees {
            self.stream.read_all();
        }
        while let Some(buffer) = self.tap.take() {
            self.tap.give_back(buffer);
        }
        ns
    }
}

/// Measure all ways at all sizes.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let rounds = if run.common.quick { QUICK_ROUNDS } else { ROUNDS };
    let mut measured: Vec<Measured> =
        WAYS.iter().map(|&(name, _)| Measured { name, times: Vec::new() }).collect();
    for size in SIZES {
        let mut bench = Bench::new(size, options.packets)?;
        let mut times: [Times; WAYS.len()] = Default::default();
        // Memory and caches as they will be.
        for (_, way) in WAYS {
            bench.round(way, options.packets);
        }
        for _ in 0..rounds {
            if run.is_stopped() {
                break;
            }
            for ((_, way), times) in WAYS.iter().zip(&mut times) {
                times.push(bench.round(*way, options.packets));
            }
        }
        for (measured, times) in measured.iter_mut().zip(times) {
            measured.times.push(times);
        }
    }
    Ok(report(&options, rounds, &measured))
}

/// The value below which this share of the times is.
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
            let Some(mid) = percentile(times, 0.5) else { continue };
            let (low, high) = (percentile(times, 0.01), percentile(times, 0.99));
            rows.push(vec![json!(measured.name), json!(size), json!(mid), json!(low), json!(high)]);
        }
    }
    Report {
        settings: json!({ "packets": options.packets, "rounds": rounds, "sizes": SIZES }),
        columns: COLUMNS.to_vec(),
        rows,
        samples: measured.iter().map(told).collect(),
        notes: notes(measured),
        plot: Some(Plot::Dots(dots(measured))),
    }
}

fn told(measured: &Measured) -> Value {
    let line = measured.line().map(|line| {
        json!({
            "intercept_ns": line.intercept,
            "intercept_off_ns": line.intercept_off,
            "slope_ns_per_byte": line.slope,
            "slope_off_ns_per_byte": line.slope_off,
        })
    });
    json!({ "way": measured.name, "line": line, "rounds_ns": measured.times })
}

/// The lines, and what they say of each other.
fn notes(measured: &[Measured]) -> Vec<String> {
    let mut notes = Vec::new();
    let ours = measured.first().and_then(Measured::line);
    for measured in measured {
        let Some(line) = measured.line() else { continue };
        let beside = match ours {
            Some(ours) if measured.name != "ours" => {
                format!("; without the copying {:.1} times ours", line.intercept / ours.intercept)
            }
            _ => String::new(),
        };
        notes.push(format!(
            "{}: {:.2} ns (within {:.2}) and {:.4} ns a byte (within {:.4}), 95 %{beside}.",
            measured.name, line.intercept, line.intercept_off, line.slope, line.slope_off
        ));
    }
    notes.push(format!(
        "To describe a packet STREAMS writes {DESCRIBING_BYTES} bytes in two blocks and reads them \
         again; ours writes {} in front of the copy of a packet that matched, and nothing for one \
         that did not.",
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
            let span = at(0.01).zip(at(0.5)).zip(at(0.99)).and_then(|((l, m), h)| span(l, m, h));
            points.push(Point { row, series, span, quoted: None });
        }
    }
    Dots {
        title: "Showing a packet to a tap".to_owned(),
        subtitle: "Every packet matches and is copied whole; median, first and 99th percentile of \
                   the rounds"
            .to_owned(),
        axis: "ns a packet".to_owned(),
        row_title: "bytes:".to_owned(),
        rows: SIZES.iter().map(ToString::to_string).collect(),
        series: measured.iter().map(|m| m.name.to_owned()).collect(),
        panels: vec![Panel { title: String::new(), points }],
        quoted: String::new(),
    }
}
