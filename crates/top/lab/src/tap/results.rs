//! The report of the experiment: a row for each method and size, the lines that fit them, and
//! sentences about them.
//!
//! Called by: `tap.rs`.

use serde_json::{Value, json};

use super::fit::{CONFIDENCE, Line};
use super::streams::{Allocation, describing_bytes};
use super::{Measured, Method, SIZES, percentile};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, with_missing};

const COLUMNS: &[Column] = &[
    column("method", "", "", Format::Heading),
    column("bytes", "bytes", "bytes a packet", Format::Number(0)),
    column("ns", "ns", "ns a packet, median", Format::Number(1)),
    column("low_ns", "low", "ns a packet, first decile", Format::Number(1)),
    column("high_ns", "high", "ns a packet, ninth decile", Format::Number(1)),
];

pub(super) fn report(bytes: u64, rounds: usize, measured: &[Measured]) -> Report {
    let mut rows = Vec::new();
    for measured in measured {
        for (times, size) in measured.times.iter().zip(SIZES) {
            let [low, mid, high] = [0.1, 0.5, 0.9].map(|share| percentile(times, share));
            rows.push(vec![json!(measured.name), json!(size), json!(mid), json!(low), json!(high)]);
        }
    }
    let notes = notes(measured);
    let all_times = measured.iter().flat_map(|method| &method.times);
    let unmeasured = all_times.filter(|times| times.is_empty()).count();
    let notes = with_missing(notes, unmeasured, rows.len(), "rows");
    Report {
        settings: json!({ "bytes": bytes, "rounds": rounds, "sizes": SIZES }),
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

/// The line that fits a method's medians, and the line that fits their differences to the medians
/// of a copy.
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

/// Sentences on the figures: the cost of the linkage, ours compared with the others, and the cost
/// of a byte.
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
            "A byte costs {:.3} ns with ours and {:.3} to {:.3} ns with the others: if these are \
             alike, the taps differ in the linkage, not in the copy.",
            line.slope, slopes.low, slopes.high
        ),
        false => "The times vary too much to say what a byte costs.".to_owned(),
    };
    vec![
        format!(
            "Apart from the copy, showing a packet to our tap costs {:.1} ns (within {:.1}), and \
             to the models of STREAMS {:.1} to {:.1} ns.",
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
         and none for a packet that did not match.",
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
