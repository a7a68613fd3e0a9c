//! `wirespeed lab mitigation`: the effect of each level of interrupt mitigation on a receiver, and
//! on the time of transfers as long as its threshold, in virtual time.
//!
//! Called by: the lab. `sim::interrupts` runs the simulation.

use base::Duration;
use clap::{ArgMatches, FromArgMatches};
use device::mitigation::Level;
use serde_json::{Value, json};
use sim::Cost;
use sim::interrupts::{Outcome, SEGMENT_BYTES, Transfer, measure};

use crate::figures::{Figure, Figures, ends};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::{Error, Run};

/// The number of sizes that are measured on each side of a threshold, one segment apart.
const NEAR: u64 = 3;

/// A time that is more than this many times its neighbours' median is a step, the sign of a lost
/// interrupt.
const STEP: f64 = 3.0;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Rate of the link, in Mb/s
    #[arg(long, value_name = "MBPS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Processor time of an interrupt, in ns
    #[arg(long, value_name = "NS", default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    interrupt_cost: u64,
    /// Processor time of a frame, in ns
    #[arg(long, value_name = "NS", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    frame_cost: u64,
    /// Segments of the bulk transfer [default: 20000, with --quick 4000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    segments: Option<u64>,
}

const COLUMNS: &[Column] = &[
    column("what", "", "", Format::Heading),
    column("level", "level", "level", Format::Number(0)),
    column("segments", "segments", "segments of 1448 bytes", Format::Number(0)),
    column("time_ms", "ms", "ms from the first SYN to the last byte read", Format::Number(3)),
    column("goodput_mbps", "Mb/s", "Mb/s of payload", Format::Number(1)),
    column("frames_each", "frames each", "frames an interrupt", Format::Number(2)),
    column("interrupts_hz", "interrupts/s", "interrupts a second", Format::Number(0)),
    column("busy_percent", "busy %", "% of the receiver's processor", Format::Number(1)),
    column("of_neighbours", "of neighbours", "of its neighbours' median time", Format::Number(2)),
];

/// A transfer to measure.
#[derive(Clone, Copy, Debug)]
struct Asked {
    level: Level,
    segments: u64,
    /// The transfer has a size around a threshold; it is not the bulk transfer.
    is_near: bool,
}

struct Sample {
    asked: Asked,
    outcome: Outcome,
}

impl Sample {
    fn time_ms(&self) -> f64 {
        self.outcome.time.as_nanos() as f64 / 1e6
    }
}

fn levels() -> impl Iterator<Item = Level> {
    (0..=Level::MAX.number()).filter_map(Level::new)
}

/// The sizes around the threshold of a level, in ascending order.
fn sizes(level: Level) -> Vec<u64> {
    let threshold = 1 << level.number();
    (threshold - NEAR.min(threshold - 1)..=threshold + NEAR).collect()
}

/// Measure all levels.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let bulk = options.segments.unwrap_or(if run.common.quick { 4_000 } else { 20_000 });
    let seed = run.common.first_seed;
    let mut asked: Vec<Asked> =
        levels().map(|level| Asked { level, segments: bulk, is_near: false }).collect();
    for level in levels().skip(1) {
        // Level 0 for comparison: the same transfer with an interrupt for each frame.
        for near in [level, Level::default()] {
            let sizes = sizes(level).into_iter();
            asked.extend(sizes.map(|segments| Asked { level: near, segments, is_near: true }));
        }
    }
    let outcomes = run.each(&asked, |asked, stop| {
        if stop() {
            return Ok(None);
        }
        let failed = |violation| {
            Error::Failed(format!(
                "level {}, {} segments: {violation}. This is a defect of the stack: please report \
                 this line",
                asked.level.number(),
                asked.segments
            ))
        };
        measure(&transfer(&options, asked, seed)).map(Some).map_err(failed)
    })?;
    let samples: Vec<Sample> = asked
        .into_iter()
        .zip(outcomes)
        .filter_map(|(asked, outcome)| outcome.map(|outcome| Sample { asked, outcome }))
        .collect();
    Ok(report(&options, &samples, bulk, seed))
}

fn transfer(options: &Options, asked: &Asked, seed: u64) -> Transfer {
    Transfer {
        interrupt: asked.level.threshold(),
        cost: Cost {
            interrupt: Duration::from_nanos(options.interrupt_cost),
            frame: Duration::from_nanos(options.frame_cost),
        },
        rate_bps: options.rate * 1_000_000,
        delay: Duration::from_micros(10),
        bytes: asked.segments * SEGMENT_BYTES,
        seed,
    }
}

/// The sample of a size around a threshold.
fn near(samples: &[Sample], level: Level, segments: u64) -> Option<&Sample> {
    let is_it =
        |s: &&Sample| s.asked.is_near && s.asked.level == level && s.asked.segments == segments;
    samples.iter().find(is_it)
}

/// A transfer's time, relative to the median of those around its threshold.
fn of_neighbours(samples: &[Sample], level: Level, sample: &Sample) -> Option<f64> {
    let times = sizes(level).into_iter().filter_map(|n| near(samples, level, n));
    let middle = Span::of(times.map(Sample::time_ms))?.mid;
    Some(sample.time_ms() / middle)
}

fn report(options: &Options, samples: &[Sample], bulk: u64, seed: u64) -> Report {
    let (rows, most) = rows(samples, bulk);
    let near = samples.iter().filter(|s| s.asked.is_near && s.asked.level != Level::default());
    let (near, bulks) = (near.count(), samples.iter().filter(|s| !s.asked.is_near).count());
    let notes = vec![format!(
        "Virtual time, {} Mb/s, 10 us each way, MTU 1500. An interrupt takes {} ns of the \
         receiver's processor and a frame {} ns; while the processor is busy, frames gather \
         without mitigation too.",
        options.rate, options.interrupt_cost, options.frame_cost
    )];
    let mut shows = saved(&Figures::of(COLUMNS, &rows));
    shows.push(verdict(near, most));
    let notes = with_missing(notes, rows.len() - near - bulks, rows.len(), "rows");
    Report {
        settings: json!({
            "rate_bps": options.rate * 1_000_000,
            "delay_us": 10,
            "interrupt_cost_ns": options.interrupt_cost,
            "frame_cost_ns": options.frame_cost,
            "bulk_segments": bulk,
            "first_seed": seed,
        }),
        columns: COLUMNS.to_vec(),
        rows,
        fits: Vec::new(),
        samples: samples.iter().map(as_json).collect(),
        shows,
        notes,
        plot: Some(Plot::Dots(dots(options, samples))),
    }
}

/// All rows, measured or not, and the largest time relative to its neighbours.
fn rows(samples: &[Sample], bulk: u64) -> (Vec<Vec<Value>>, f64) {
    let (mut rows, mut most) = (Vec::new(), 0.0_f64);
    for level in levels() {
        let sample = samples.iter().find(|s| !s.asked.is_near && s.asked.level == level);
        rows.push(row(&format!("bulk of {bulk} segments"), level, bulk, sample, None));
    }
    for level in levels().skip(1) {
        let heading = format!("around the threshold of level {}", level.number());
        for segments in sizes(level) {
            let sample = near(samples, level, segments);
            let share = sample.and_then(|sample| of_neighbours(samples, level, sample));
            most = most.max(share.unwrap_or(0.0));
            rows.push(row(&heading, level, segments, sample, share));
        }
    }
    (rows, most)
}

/// The sentence about what the levels save in a bulk transfer.
fn saved(figures: &Figures<'_>) -> Vec<String> {
    let bulk = figures.rows().filter(|row| row.text("what").starts_with("bulk"));
    let bulk = bulk.filter(|row| row.number("interrupts_hz").is_some());
    let Some([(low, least), (high, most)]) = ends(bulk, "level") else { return Vec::new() };
    let rate = |row: Figure<'_>| row.number("interrupts_hz").unwrap_or(0.0);
    let mut said = format!(
        "In a bulk transfer a receiver is interrupted {:.0} times a second at level {low} and \
         {:.0} times at level {high}",
        rate(least),
        rate(most)
    );
    if let (Some(all), Some(few)) = (least.number("busy_percent"), most.number("busy_percent")) {
        said += &format!(", and its processor is busy for {all:.0} and {few:.0} % of the time");
    }
    vec![said + "."]
}

/// The sentence about steps; if sizes are missing, it says only that.
fn verdict(measured: usize, most: f64) -> String {
    let wanted: usize = levels().skip(1).map(|level| sizes(level).len()).sum();
    if measured < wanted {
        format!(
            "{measured} of {wanted} sizes near thresholds were measured: too few to say whether \
             there is a step."
        )
    } else if most > STEP {
        format!("A transfer takes {most:.2} times as long as its neighbours: a step.")
    } else {
        format!(
            "No step: near a threshold no transfer takes more than {most:.2} times the median of \
             its neighbours ({STEP} would be one)."
        )
    }
}

/// The values of [`COLUMNS`], in their order.
fn row(
    what: &str,
    level: Level,
    segments: u64,
    sample: Option<&Sample>,
    of_neighbours: Option<f64>,
) -> Vec<Value> {
    let outcome = sample.map(|sample| &sample.outcome);
    let of = |figure: &dyn Fn(&Outcome) -> f64| json!(outcome.map(figure));
    let seconds = |o: &Outcome| o.time.as_nanos() as f64 / 1e9;
    vec![
        json!(what),
        json!(level.number()),
        json!(segments),
        json!(sample.map(Sample::time_ms)),
        of(&|o| (segments * SEGMENT_BYTES * 8) as f64 / 1e6 / seconds(o)),
        of(&|o| o.frames as f64 / o.interrupts as f64),
        of(&|o| o.interrupts as f64 / seconds(o)),
        of(&|o| o.busy.as_nanos() as f64 / 1e7 / seconds(o)),
        json!(of_neighbours),
    ]
}

fn as_json(sample: &Sample) -> Value {
    json!({
        "level": sample.asked.level.number(),
        "segments": sample.asked.segments,
        "time_ms": sample.time_ms(),
        "interrupts": sample.outcome.interrupts,
        "frames": sample.outcome.frames,
        "busy_us": sample.outcome.busy.as_nanos() as f64 / 1e3,
    })
}

/// A panel for each threshold, a row for each size, with and without mitigation.
fn dots(options: &Options, samples: &[Sample]) -> Dots {
    let offsets: Vec<i64> = (-(NEAR as i64)..=NEAR as i64).collect();
    let panels = levels().skip(1).map(|level| {
        let threshold = 1_i64 << level.number();
        let mut points = Vec::new();
        for (row, offset) in offsets.iter().enumerate() {
            let segments = u64::try_from(threshold + offset).ok().filter(|&segments| segments > 0);
            let Some(segments) = segments else { continue };
            for (series, of) in [level, Level::default()].into_iter().enumerate() {
                // The times of level 0 are shown in each panel, for comparison.
                let time = near(samples, of, segments).map(Sample::time_ms);
                let span = time.map(|ms| Span { low: ms, mid: ms, high: ms });
                points.push(Point { row, series, span, quoted: None });
            }
        }
        Panel {
            rows: Vec::new(),
            title: format!("level {}: {threshold} segments", level.number()),
            points,
        }
    });
    Dots {
        title: "Transfers as long as a threshold of interrupt mitigation".to_owned(),
        subtitle: format!(
            "Time from the first SYN to the last byte read, {} Mb/s, virtual time",
            options.rate
        ),
        axis: "ms".to_owned(),
        row_title: "segments:".to_owned(),
        rows: offsets.iter().map(|n| format!("threshold {n:+}")).collect(),
        series: vec!["at the level".to_owned(), "each frame interrupts".to_owned()],
        panels: panels.collect(),
        quoted: String::new(),
    }
}
