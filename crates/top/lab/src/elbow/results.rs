//! The report: a row for each curve, all points as samples, the lines as fits, and the plot.
//!
//! Called by: `elbow.rs`.

use serde_json::{Value, json};

use super::Effort;
use super::line::ELBOW;
use super::point::{Curve, Hosts, Over, Point};
use super::sizes::{PUBLISHED, PUBLISHED_REMEDY};
use crate::plot::{Lines, Plot, Series, Strip};
use crate::report::{Column, Format, Report, column, with_missing};

const COLUMNS: &[Column] = &[
    column("over", "", "", Format::Heading),
    column("ends", "ends", "", Format::Text),
    column("transport", "transport", "", Format::Text),
    column("sizes", "sizes", "sizes that were measured", Format::Number(0)),
    column("empty_us", "empty us", "us of the line's call without argument", Format::Number(2)),
    column("byte_ns", "ns/byte", "ns of the line for a byte", Format::Number(3)),
    column("worst", "worst", "of the line at the size where it is most", Format::Number(2)),
    column("worst_bytes", "at bytes", "bytes of argument there", Format::Number(0)),
    column("elbows", "elbows", "sizes over 1.2 of the line", Format::Number(0)),
    column("why", "why, or what is missing", "", Format::Text),
];

/// The whole report.
pub(super) fn report(curves: &[Curve], effort: Effort) -> Report {
    let rows: Vec<Vec<Value>> = curves.iter().map(row).collect();
    let unmeasured = curves.iter().filter(|curve| curve.measured().len() < curve.points.len());
    let mut notes = vec![format!(
        "A null call with an argument of each size, {} calls x {} averages; a point is the median \
         of the averages. The line has the least sum of absolute deviations, each as a share of \
         its point. A point at more than {ELBOW} of the line is an elbow.",
        effort.calls, effort.averages
    )];
    if curves.iter().any(|curve| curve.over == Over::Wire) {
        notes.push(
            "The wire has 10 Mb/s and is in virtual time. Hosts of 1989 take as much processor \
             time as a workstation of that year, and both directions share the cable; ours take no \
             processor time."
                .to_owned(),
        );
    }
    notes.extend(curves.iter().filter_map(elbows));
    notes.extend(curves.iter().filter_map(beside_published));
    let notes = with_missing(notes, unmeasured.count(), curves.len(), "curves");
    Report {
        settings: json!({
            "calls": effort.calls, "averages": effort.averages, "first_seed": effort.seed,
        }),
        columns: COLUMNS.to_vec(),
        rows,
        fits: curves.iter().filter_map(fit).collect(),
        samples: curves.iter().flat_map(samples).collect(),
        shows: shows(curves),
        notes,
        plot: Some(Plot::Lines(lines(curves))),
    }
}

/// Two sentences: the highest elbow, or that there is none; and the worst points of our stack.
fn shows(curves: &[Curve]) -> Vec<String> {
    let worst = |curve: &&Curve| curve.worst().map_or(0.0, |(_, ratio)| ratio);
    let highest = curves.iter().max_by(|a, b| worst(a).total_cmp(&worst(b)));
    let mut shows = Vec::new();
    if let Some(curve) = highest
        && let Some((point, ratio)) = curve.worst()
        && let Some(ns) = point.ns()
    {
        let (name, over) = (format!("{} {}", curve.ends, curve.transport.name()), curve.over);
        shows.push(match ratio > ELBOW {
            true => format!(
                "The highest elbow is of {name}, {}: a call of {} bytes takes {}, {ratio:.1} times \
                 what the line through all sizes says, with {}.",
                heading(over),
                point.bytes,
                time(ns),
                point.why()
            ),
            false => format!(
                "There is no elbow: the worst of all points, of {name}, {}, {} bytes, takes \
                 {ratio:.2} of the line through all sizes.",
                heading(over),
                point.bytes
            ),
        });
    }
    let is_ours = |curve: &&Curve| curve.ends.starts_with(Hosts::Ours.name());
    let ours = curves.iter().filter(is_ours).filter_map(|curve| {
        let (_, ratio) = curve.worst()?;
        Some(format!("{ratio:.2} ({}, {})", heading(curve.over), curve.transport.name()))
    });
    let ours: Vec<String> = ours.collect();
    if !ours.is_empty() {
        let acks = curves.iter().filter(is_ours).flat_map(|curve| &curve.points);
        let (acks, calls) = acks.fold((0, 0), |(acks, calls), point| {
            (acks + point.causes.delayed_acks, calls + point.calls)
        });
        let acks = match acks {
            0 => format!("none of {calls} calls waited for a delayed ACK"),
            acks => format!("{acks} ACKs of {calls} calls came when their timer had expired"),
        };
        shows.push(format!(
            "Our stack's worst points are at {} of their lines; {acks}.",
            ours.join(", ")
        ));
    }
    shows
}

/// A time in words.
fn time(ns: f64) -> String {
    if ns < 1e6 { format!("{:.2} us", ns / 1e3) } else { format!("{:.1} ms", ns / 1e6) }
}

fn heading(over: Over) -> &'static str {
    match over {
        Over::Wire => "10 Mb/s, virtual time",
        Over::Memory => "in memory",
        Over::Tap => "over a TAP, to the kernel",
        Over::Kernel => "over the kernel's loopback",
    }
}

/// The values of [`COLUMNS`], in their order.
fn row(curve: &Curve) -> Vec<Value> {
    let (line, worst) = (curve.line(), curve.worst());
    let elbows = line.map(|line| {
        let ratios = curve.points.iter().filter_map(|point| curve.over_line(&line, point));
        ratios.filter(|&ratio| ratio > ELBOW).count()
    });
    let why = curve.trouble.clone().or(worst.map(|(point, _)| point.why()));
    vec![
        json!(heading(curve.over)),
        json!(curve.ends),
        json!(curve.transport.name()),
        json!(curve.measured().len()),
        json!(line.map(|line| line.intercept / 1e3)),
        json!(line.map(|line| line.slope)),
        json!(worst.map(|(_, ratio)| ratio)),
        json!(worst.map(|(point, _)| point.bytes)),
        json!(elbows),
        json!(why),
    ]
}

fn fit(curve: &Curve) -> Option<Value> {
    let line = curve.line()?;
    Some(json!({
        "over": curve.over.name(),
        "ends": curve.ends,
        "transport": curve.transport.name(),
        "fit": "least absolute deviation, each as a share of its point",
        "intercept_us": line.intercept / 1e3,
        "ns_per_byte": line.slope,
    }))
}

/// The published time for a size, in milliseconds a call.
fn published(curve: &Curve, bytes: u32) -> Option<f64> {
    let of = |table: &[(u32, f64)]| table.iter().find(|row| row.0 == bytes).map(|row| row.1);
    match curve.ends.as_str() {
        ends if ends == Hosts::Delivered.name() => of(&PUBLISHED),
        ends if ends == Hosts::Remedy.name() => of(&PUBLISHED_REMEDY),
        _ => None,
    }
}

fn samples(curve: &Curve) -> Vec<Value> {
    let line = curve.line();
    let sample = |point: &Point| {
        let ratio = line.and_then(|line| curve.over_line(&line, point));
        json!({
            "over": curve.over.name(),
            "ends": curve.ends,
            "transport": curve.transport.name(),
            "bytes": point.bytes,
            "ns": point.ns(),
            "of_line": ratio,
            "is_elbow": ratio.map(|ratio| ratio > ELBOW),
            "averages_ns": point.averages_ns,
            "calls": point.calls,
            "packets": point.causes.segments,
            "delayed_acks": point.causes.delayed_acks,
            "nagle_holds": point.causes.nagle_holds,
            "blocked_us": point.causes.blocked_ns as f64 / 1e3,
            "published_ms": published(curve, point.bytes),
        })
    };
    curve.points.iter().map(sample).collect()
}

/// Ranges of neighbouring sizes that are all elbows: the first and the last size of each range, its
/// worst point, and that point's ratio to the line.
fn ranges(curve: &Curve) -> Vec<(u32, u32, &Point, f64)> {
    let Some(line) = curve.line() else { return Vec::new() };
    let mut ranges: Vec<(u32, u32, &Point, f64)> = Vec::new();
    let mut is_inside = false;
    for point in &curve.points {
        let Some(ratio) = curve.over_line(&line, point) else { continue };
        match ranges.last_mut().filter(|_| is_inside) {
            _ if ratio <= ELBOW => {}
            None => ranges.push((point.bytes, point.bytes, point, ratio)),
            Some(range) => {
                range.1 = point.bytes;
                if ratio > range.3 {
                    (range.2, range.3) = (point, ratio);
                }
            }
        }
        is_inside = ratio > ELBOW;
    }
    ranges
}

/// A sentence on the elbows of a curve.
fn elbows(curve: &Curve) -> Option<String> {
    const SAID: usize = 6;
    curve.line()?;
    let name = format!("{} {}", curve.ends, curve.transport.name());
    let ranges = ranges(curve);
    if ranges.is_empty() {
        let (point, ratio) = curve.worst()?;
        return Some(format!(
            "{}, {name}: no elbow. The worst of {} sizes, {} bytes, takes {ratio:.2} of the line.",
            heading(curve.over),
            curve.measured().len(),
            point.bytes
        ));
    }
    let said: Vec<String> = ranges
        .iter()
        .take(SAID)
        .map(|(from, to, point, ratio)| {
            let sizes = if from == to { format!("{from}") } else { format!("{from} to {to}") };
            format!("at {sizes}, {ratio:.1} of the line ({})", point.why())
        })
        .collect();
    let more = ranges.len().saturating_sub(SAID);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(format!("{}, {name}: elbows {}{more}.", heading(curve.over), said.join("; ")))
}

/// A sentence that compares a curve with the published times.
fn beside_published(curve: &Curve) -> Option<String> {
    let pairs: Vec<String> = curve
        .points
        .iter()
        .filter_map(|point| Some((point, published(curve, point.bytes)?, point.ns()?)))
        .map(|(point, ms, ns)| format!("{}: {:.1} ({ms:.1})", point.bytes, ns / 1e6))
        .collect();
    let said = pairs.join(", ");
    (!pairs.is_empty())
        .then(|| format!("{}, ms a call by bytes, as published in brackets: {said}.", curve.ends))
}

/// The largest ratio that the plot shows: a single disturbed point should not flatten all others.
const SHOWN_MAX: f64 = 10.0;

/// A strip for each medium: the time of a call divided by the line's.
fn lines(curves: &[Curve]) -> Lines {
    let strips = Over::ALL.into_iter().filter_map(|over| {
        let curves = curves.iter().filter(|curve| curve.over == over);
        let series: Vec<Series> = curves
            .map(|curve| {
                let line = curve.line();
                let point = |point: &Point| {
                    let ratio = curve.over_line(&line?, point)?;
                    Some((f64::from(point.bytes), ratio.min(SHOWN_MAX)))
                };
                let (over, transport) = (curve.over.name(), curve.transport.name());
                Series {
                    name: format!("{over}: {} {transport}", curve.ends),
                    points: curve.points.iter().filter_map(point).collect(),
                }
            })
            .collect();
        (!series.is_empty()).then(|| Strip { title: heading(over).to_owned(), series })
    });
    Lines {
        title: "A null RPC by the bytes of its argument".to_owned(),
        subtitle: format!(
            "Time of a call divided by that of the line through all sizes; above {ELBOW} is an \
             elbow, {SHOWN_MAX} is {SHOWN_MAX} or more"
        ),
        across: "bytes".to_owned(),
        up: "of the line".to_owned(),
        strips: strips.collect(),
    }
}
