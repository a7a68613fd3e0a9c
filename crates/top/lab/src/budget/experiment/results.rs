//! The report of the experiment: a row for each role and stage, with the line that fits its cost
//! over the sizes, and the conclusions (`conclusions`).
//!
//! Called by: `experiment.rs`.

mod conclusions;
mod figures;

use conclusions::{notes, shows};
use figures::{SIZE, What};
use profile::{Event, Stage, bar};
use serde_json::{Value, json};

use super::work::{Role, SIZES};
use super::{Case, Measured};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, with_missing};
use crate::tap::fit::{CONFIDENCE, Line};

const COLUMNS: &[Column] = &[
    column("role", "", "", Format::Heading),
    column("stage", "stage", "", Format::Text),
    column("ns", "ns", "ns a packet of 1,500 bytes", Format::Number(1)),
    column("ns_off", "+-", "ns, half of the 95 % interval", Format::Number(1)),
    column("share", "%", "percent of the role's stages", Format::Number(1)),
    column("bar", "", "", Format::Text),
    column("fixed_ns", "fixed", "ns a packet, whatever its size", Format::Number(1)),
    column("fixed_ns_off", "+-", "ns, half of the 95 % interval", Format::Number(1)),
    column("kilobyte_ns", "ns/KB", "ns for each 1,000 bytes of it", Format::Number(1)),
    column("kilobyte_ns_off", "+-", "ns, half of the 95 % interval", Format::Number(1)),
    column("instructions", "instr.", "instructions a packet of 1,500 bytes", Format::Number(1)),
    column("fixed_instructions", "fixed", "instructions a packet", Format::Number(1)),
    column("kilobyte_instructions", "/KB", "instructions for 1,000 bytes", Format::Number(1)),
    column("cycles", "cycles", "cycles a packet of 1,500 bytes", Format::Number(1)),
    column(
        "stalled_cycles",
        "stalled",
        "stalled cycles a packet of 1,500 bytes",
        Format::Number(1),
    ),
];

/// The report.
pub(super) fn report(measured: &Measured) -> Report {
    let rows = Role::ALL.iter().flat_map(|&role| What::all().map(move |what| (role, what)));
    let rows: Vec<Vec<Value>> = rows.map(|(role, what)| row(measured, role, what)).collect();
    let unmeasured = rows.iter().filter(|row| row[2].is_null()).count();
    // If sampling was refused, a note has the reason.
    let unmeasured = if measured.refused.is_none() { unmeasured } else { 0 };
    let notes = with_missing(notes(measured), unmeasured, rows.len(), "rows");
    Report {
        settings: json!({
            "seconds": measured.seconds,
            "rounds": measured.rounds,
            "hz": measured.hz,
            "sizes": SIZES,
        }),
        columns: COLUMNS.to_vec(),
        rows,
        fits: fits(measured),
        samples: measured.cases.iter().map(|case| sample(measured, case)).collect(),
        shows: shows(measured),
        notes,
        plot: Some(Plot::Dots(dots(measured))),
    }
}

fn row(measured: &Measured, role: Role, what: What) -> Vec<Value> {
    let ns = measured.mean(role, SIZE, what, Event::Time);
    let sum = measured.mean(role, SIZE, What::Sum, Event::Time);
    let share = ns.zip(sum).map(|(ns, sum)| ns.value / sum.value);
    let line = measured.line(role, what, Event::Time);
    let instructions = measured.instructions(role, what);
    let counted = instructions.and_then(|(_, line)| line);
    let of = |event| measured.mean(role, SIZE, what, event).map(|mean| mean.value);
    vec![
        json!(role.name()),
        json!(what.name()),
        json!(ns.map(|ns| ns.value)),
        json!(ns.map(|ns| ns.off).filter(|off| off.is_finite())),
        json!(share.map(|share| share * 100.0)),
        json!(share.filter(|_| matches!(what, What::Stage(_))).map_or_else(String::new, bar)),
        json!(line.map(|line| line.intercept)),
        json!(line.map(|line| line.intercept_off)),
        json!(line.map(|line| line.slope * 1e3)),
        json!(line.map(|line| line.slope_off * 1e3)),
        json!(instructions.map(|(at, _)| at)),
        json!(counted.map(|line| line.intercept)),
        json!(counted.map(|line| line.slope * 1e3)),
        json!(of(Event::Cycles)),
        json!(of(Event::Stalled)),
    ]
}

/// The fitted lines of stages whose cost is not zero.
fn fits(measured: &Measured) -> Vec<Value> {
    let mut fits = Vec::new();
    for role in Role::ALL {
        for what in What::all() {
            let sampled = Event::ALL.into_iter().filter(|&event| measured.has(event));
            let mut lines: Vec<(&str, Option<Line>)> =
                sampled.map(|event| (event.name(), measured.line(role, what, event))).collect();
            if !measured.has(Event::Instructions) {
                let line = measured.instructions(role, what).and_then(|(_, line)| line);
                lines.push((Event::Instructions.name(), line));
            }
            for (of, line) in lines {
                let Some(line) = line else { continue };
                let around = |value: f64, off: f64| json!([value - off, value + off]);
                fits.push(json!({
                    "role": role.name(),
                    "stage": what.name(),
                    "of": of,
                    "fixed": line.intercept,
                    "fixed_interval": around(line.intercept, line.intercept_off),
                    "byte": line.slope,
                    "byte_interval": around(line.slope, line.slope_off),
                    "confidence": CONFIDENCE,
                }));
            }
        }
    }
    fits
}

fn sample(measured: &Measured, case: &Case) -> Value {
    let mean = |stage| measured.mean(case.role, case.size, What::Stage(stage), Event::Time);
    let stages = Stage::ALL
        .into_iter()
        .map(|stage| (stage.name().to_owned(), json!(mean(stage).map(|mean| mean.value))));
    json!({
        "role": case.role.name(),
        "bytes": case.size,
        "unsampled_ns": case.unsampled_ns,
        "clock_ns": case.clock_ns,
        "sum_ns": case.sums_ns().collect::<Vec<f64>>(),
        "sum_over_clock": case.ratio(),
        "stages_ns": stages.collect::<serde_json::Map<String, Value>>(),
    })
}

fn dots(measured: &Measured) -> Dots {
    let mut points = Vec::new();
    for (series, role) in Role::ALL.into_iter().enumerate() {
        for (row, stage) in Stage::ALL.into_iter().enumerate() {
            let case = measured.case(role, SIZE).filter(|_| measured.has(Event::Time));
            let figures = case.map(|case| case.figures(What::Stage(stage), Event::Time));
            let span = Span::of(figures.into_iter().flatten());
            points.push(Point { row, series, span, quoted: None });
        }
    }
    Dots {
        title: "Where the cost of a packet goes".to_owned(),
        subtitle: format!("Packets of {SIZE} bytes, in memory, one core"),
        axis: "ns a packet".to_owned(),
        row_title: "stage:".to_owned(),
        rows: Stage::ALL.iter().map(|stage| stage.name().to_owned()).collect(),
        series: Role::ALL.iter().map(|role| role.name().to_owned()).collect(),
        panels: vec![Panel { title: String::new(), rows: Vec::new(), points }],
        quoted: String::new(),
    }
}
