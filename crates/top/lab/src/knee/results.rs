//! The report of the experiment: a row for each size of each curve, the verdicts on the knees, and
//! the conclusions that the samples do not support.
//!
//! Called by: `knee.rs`.

use serde_json::{Value, json};

use super::find::{CONFIDENCE, ROUNDS_MIN, SHARE, Verdict, WIDEST};
use super::{Applied, Found, Varied};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::tap::Line;

const COLUMNS: &[Column] = &[
    column("varied", "", "", Format::Heading),
    column("size", "size", "bytes or frames, as the heading says", Format::Number(0)),
    column("gbps", "Gb/s", "Gb/s of payload, median", Format::Number(2)),
    column("low_gbps", "least", "Gb/s, the slowest round", Format::Number(2)),
    column("high_gbps", "most", "Gb/s, the fastest round", Format::Number(2)),
    column("of_best", "of the best", "of the curve's highest median", Format::Number(3)),
    column("knee", "", "", Format::Text),
];

/// A throughput in Gb/s.
fn gbps(bytes_per_s: f64) -> f64 {
    bytes_per_s * 8e-9
}

impl Found {
    fn spans(&self) -> Vec<Option<Span>> {
        self.curve.rounds.iter().map(|rounds| Span::of(rounds.iter().copied())).collect()
    }

    fn best(&self) -> Option<f64> {
        self.spans().into_iter().flatten().map(|span| span.mid).max_by(f64::total_cmp)
    }

    /// The throughput of a size, relative to the highest.
    fn share(&self, size: usize) -> Option<f64> {
        let at = self.curve.sizes.iter().position(|&other| other == size)?;
        Some(self.spans()[at]?.mid / self.best()?)
    }

    fn rows(&self) -> Vec<Vec<Value>> {
        let best = self.best();
        let right = match self.verdict {
            Verdict::Found(knee) => self.curve.right_of(knee),
            _ => None,
        };
        let row = |(&size, span): (&usize, Option<Span>)| {
            let of = |value: fn(&Span) -> f64| json!(span.as_ref().map(value).map(gbps));
            vec![
                json!(self.varied.heading()),
                json!(size),
                of(|span| span.mid),
                of(|span| span.low),
                of(|span| span.high),
                json!(span.and_then(|span| Some(span.mid / best?))),
                json!(if right == Some(size) { "< just right of the knee" } else { "" }),
            ]
        };
        self.curve.sizes.iter().zip(self.spans()).map(row).collect()
    }

    /// The knee, and the line that fits ns a byte over 1/size: the slope is the fixed cost of a
    /// unit, the intercept the cost of a byte.
    fn fit(&self) -> Value {
        let knee = self.verdict.knee();
        let points: Vec<(f64, f64)> = self
            .curve
            .sizes
            .iter()
            .zip(self.spans())
            .filter_map(|(&size, span)| Some((1.0 / size as f64, 1e9 / span?.mid)))
            .collect();
        let line = match self.varied {
            // A burst's size is in frames, not in bytes.
            Varied::Burst => None,
            _ => Line::through(&points),
        };
        let interval = |at: f64, off: f64| [at - off, at + off];
        json!({
            "varied": self.varied.name(),
            "size_unit": self.varied.of(),
            "verdict": self.verdict.name(),
            "share_of_best": SHARE,
            "confidence": CONFIDENCE,
            "knee": knee.map(|knee| knee.at),
            "knee_interval": knee.map(|knee| [knee.low, knee.high]),
            "right_of_knee": knee.and_then(|knee| self.curve.right_of(knee)),
            "fixed_ns": line.map(|line| line.slope),
            "fixed_interval_ns": line.map(|line| interval(line.slope, line.slope_off)),
            "ns_per_byte": line.map(|line| line.intercept),
            "ns_per_byte_interval": line.map(|line| interval(line.intercept, line.intercept_off)),
        })
    }

    fn samples(&self) -> Vec<Value> {
        let sample = |(size, rounds): (&usize, &Vec<f64>)| {
            let rounds: Vec<f64> = rounds.iter().map(|&figure| gbps(figure)).collect();
            json!({ "varied": self.varied.name(), "size": size, "gbps": rounds })
        };
        self.curve.sizes.iter().zip(&self.curve.rounds).map(sample).collect()
    }

    /// This curve's part of the first sentence.
    fn says(&self) -> String {
        let name = self.varied.name();
        match self.verdict {
            Verdict::Found(knee) => format!(
                "{name} {} {} ({} to {})",
                number(knee.at),
                self.varied.of(),
                number(knee.low),
                number(knee.high)
            ),
            Verdict::LeftOfAll(knee) if knee.high <= knee.low => {
                format!("{name} at or left of {}, the smallest", number(knee.at))
            }
            _ => format!("{name} none ({})", why_not(self)),
        }
    }
}

/// Why there is no knee to rely on.
pub(super) fn why_not(found: &Found) -> String {
    match found.verdict {
        Verdict::Found(_) => "there is one".to_owned(),
        Verdict::LeftOfAll(_) => {
            format!("the smallest size may have {:.0} % of the best already", SHARE * 100.0)
        }
        Verdict::RightOfAll(_) => "throughput still rises at the largest size".to_owned(),
        Verdict::TooWide(knee) => format!(
            "the samples support no knee: the interval goes from {} to {}, more than {WIDEST:.0} \
             times as much; measure on a quiet machine, with more --rounds",
            number(knee.low),
            number(knee.high)
        ),
        Verdict::TooFew => format!("fewer than {ROUNDS_MIN} rounds"),
    }
}

/// A number such as 1,500, or 1.5 if it is small.
fn number(value: f64) -> String {
    if value < 20.0 {
        return format!("{value:.1}");
    }
    grouped(value.round() as usize)
}

/// A number such as 1,500.
fn grouped(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The whole report.
pub(super) fn report(
    found: &[Found],
    seconds: f64,
    rounds: u16,
    seed: u64,
    applied: &Applied,
) -> Report {
    let rows: Vec<Vec<Value>> = found.iter().flat_map(Found::rows).collect();
    let unmeasured = found.iter().flat_map(|f| &f.curve.rounds).filter(|r| r.is_empty()).count();
    let mut notes = vec![
        "Two stacks joined in memory on one thread; Gb/s are by the thread's processor time, with \
         the work of both ends, copies and checksums. MTU 1,500 and writes of 64 KB unless they \
         are varied; writes of 1 MB if the unit is varied."
            .to_owned(),
        format!(
            "The knee is the smallest size with {:.0} % of the best; its interval of {:.0} % is \
             from 1,000 draws of the rounds. There is no conclusion if the interval ends at more \
             than {WIDEST:.0} times its beginning, begins at the smallest size or ends above the \
             largest but one.",
            SHARE * 100.0,
            CONFIDENCE * 100.0
        ),
    ];
    notes.extend(match applied {
        Applied::NotAsked => None,
        Applied::Stored { unit_bytes, path } => Some(format!(
            "Stored in {path}: on this machine writes have a unit of {unit_bytes} bytes."
        )),
        Applied::Refused(why) => Some(format!("Nothing is stored: {why}.")),
    });
    let notes = with_missing(notes, unmeasured, rows.len(), "rows");
    Report {
        settings: json!({
            "seconds": seconds,
            "rounds": rounds,
            "first_seed": seed,
            "default_write_unit_bytes": stack::StackConfig::WRITE_UNIT_BYTES,
            "applied_unit_bytes": match applied {
                Applied::Stored { unit_bytes, .. } => Some(unit_bytes),
                _ => None,
            },
        }),
        columns: COLUMNS.to_vec(),
        rows,
        fits: found.iter().map(Found::fit).collect(),
        samples: found.iter().flat_map(Found::samples).collect(),
        shows: shows(found),
        notes,
        plot: Some(Plot::Dots(dots(found))),
    }
}

/// Two sentences; none if nothing was measured.
fn shows(found: &[Found]) -> Vec<String> {
    if found.iter().all(|found| found.curve.complete() == 0) {
        return Vec::new();
    }
    let knees: Vec<String> = found.iter().map(Found::says).collect();
    let mut shows = vec![format!("Knees of throughput on this machine: {}.", knees.join("; "))];
    let of = |varied| found.iter().find(|found: &&Found| found.varied == varied);
    if let Some(writes) = of(Varied::Write)
        && let (Verdict::Found(knee), Some(small)) = (writes.verdict, writes.share(64))
        && let Some(right) = writes.curve.right_of(knee)
        && let Some(share) = writes.share(right)
    {
        shows.push(format!(
            "Writes of 64 bytes have {:.0} % of the best throughput and those of {} have {:.0} %: \
             larger writes gain almost nothing.",
            small * 100.0,
            number(right as f64),
            share * 100.0
        ));
    }
    shows
}

/// A panel for each curve: the throughput of each size as a share of the best.
fn dots(found: &[Found]) -> Dots {
    Dots {
        title: "Throughput against the unit of work".to_owned(),
        subtitle: "Both ends on one thread, joined in memory; each panel from small to large"
            .to_owned(),
        axis: "of the best".to_owned(),
        row_title: String::new(),
        rows: Vec::new(),
        series: vec!["median, least and most".to_owned()],
        panels: found.iter().map(panel).collect(),
        quoted: String::new(),
    }
}

fn panel(found: &Found) -> Panel {
    let best = found.best();
    let point = |(row, rounds): (usize, &Vec<f64>)| Point {
        row,
        series: 0,
        span: best.and_then(|best| Span::of(rounds.iter().map(|figure| figure / best))),
        quoted: None,
    };
    let knee = match found.verdict {
        Verdict::Found(knee) => {
            let [at, low, high] = [knee.at, knee.low, knee.high].map(number);
            format!("knee at {at} ({low} to {high})")
        }
        _ => "no knee to rely on".to_owned(),
    };
    let size = |&size: &usize| match found.varied {
        Varied::Burst if size == 1 => "1 frame".to_owned(),
        varied => format!("{} {}", grouped(size), varied.of()),
    };
    Panel {
        title: format!("{}: {knee}", found.varied.name()),
        rows: found.curve.sizes.iter().map(size).collect(),
        points: found.curve.rounds.iter().enumerate().map(point).collect(),
    }
}
