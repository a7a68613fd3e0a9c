//! `wirespeed lab forward`: what it costs a router to forward a packet: our router in memory, over
//! TAP and over AF_XDP, and the kernel's.
//!
//! Called by: the lab.
//!
//! Each row has a router of its own. Generator, router and sink share a thread, whose processor
//! time is measured; the cost of generator and sink alone is measured as well, and subtracted.
//! Packets a second are for one core that does nothing but forward.

use clap::{ArgMatches, FromArgMatches};
use serde_json::{Value, json};

use super::Direction;
use super::cases::{Case, Choice, Frame, Over};
use super::cost::{Cost, Memory};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::pool::Progress;
use crate::report::{Column, Format, Notes, Report, Span, column, with_missing};
use crate::{Error, Run};

/// The most rows: more are taken for a mistake.
const ROWS_MAX: usize = 2_000;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Seconds of a measurement, half of it without the router [default: 0.2, with --quick 0.04]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
}

const COLUMNS: &[Column] = &[
    column("over", "", "", Format::Heading),
    column("frame", "frame", "bytes without tag and check sequence", Format::Text),
    column("ip", "IP", "version", Format::Number(0)),
    column("tagged", "tags", "", Format::Text),
    column("routes", "routes", "routes", Format::Number(0)),
    column("flows", "flows", "flows", Format::Number(0)),
    column("direction", "direction", "", Format::Text),
    column("pps", "packets/s", "packets a second of one core, median", Format::Number(0)),
    column("ns", "ns each", "ns a packet of the router, median", Format::Number(1)),
    column("low_ns", "least", "ns a packet, the fastest round", Format::Number(1)),
    column("high_ns", "most", "ns a packet, the slowest round", Format::Number(1)),
    column("whole_ns", "with generator", "ns a packet, generator included", Format::Number(1)),
    column("gbps", "Gb/s", "Gb/s of frames", Format::Number(2)),
];

/// A row, with its measurements.
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) rounds: Vec<Cost>,
    /// Why the row was not measured.
    pub(super) trouble: Option<String>,
}

impl Row {
    fn span(&self, figure: impl Fn(&Cost) -> Option<f64>) -> Option<Span> {
        Span::of(self.rounds.iter().filter_map(figure))
    }

    fn own(&self) -> Option<Span> {
        self.span(Cost::own_ns)
    }
}

/// Measure all cases.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let quick = run.common.quick;
    let seconds = options.seconds.unwrap_or(if quick { 0.04 } else { 0.2 });
    if !(0.01..=60.0).contains(&seconds) {
        return Err(Error::Usage("--seconds takes 0.01 to 60".to_owned()));
    }
    if options.choice.ip.contains(&5) {
        return Err(Error::Usage("--ip takes 4, 6 or both: 4,6".to_owned()));
    }
    let cases = options.choice.cases(quick);
    if cases.len() > ROWS_MAX {
        let said = format!(
            "these options make {} rows, but {ROWS_MAX} is the most: give fewer values",
            cases.len()
        );
        return Err(Error::Usage(said));
    }
    let rounds = if quick { 3 } else { 7 };
    let mut rows: Vec<Row> = Vec::with_capacity(cases.len());
    let mut progress = Progress::new(cases.len());
    for case in cases {
        progress.at(rows.len());
        let mut row = Row { case, rounds: Vec::new(), trouble: None };
        let known = |other: &&Row| other.case.over == case.over && other.trouble.is_some();
        // A machine may permit a device and still refuse one of its rows, such as tags without the
        // module 8021q.
        let works = |row: &Row| row.case.over == case.over && !row.rounds.is_empty();
        let first = rows.iter().find(known).filter(|_| !rows.iter().any(works));
        let trouble = first.and_then(|row: &Row| row.trouble.clone());
        if trouble.is_some() || run.is_stopped() {
            row.trouble = trouble;
        } else if let Err(error) = measure(&mut row, rounds, seconds, &|| run.is_stopped()) {
            // The device was asked for with `--over`: an error ends the experiment.
            if case.over == Over::Mem || !options.choice.over.is_empty() {
                return Err(error);
            }
            row.trouble = Some(error.to_string());
        }
        rows.push(row);
    }
    Ok(report(seconds, rounds, &rows))
}

/// Measure a row.
fn measure(
    row: &mut Row,
    rounds: usize,
    seconds: f64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    let shape = row.case.shape;
    let repeat = |each: &mut dyn FnMut() -> Result<Cost, Error>| {
        (0..rounds).take_while(|_| !stop()).map(|_| each()).collect::<Result<Vec<Cost>, Error>>()
    };
    match row.case.over {
        Over::Mem => {
            let mut router = Memory::new(shape)?;
            row.rounds = repeat(&mut || router.measure(seconds, stop))?;
        }
        #[cfg(target_os = "linux")]
        over => {
            use super::outside::{Kind, Outside};
            let kind = match over {
                Over::Tap => Kind::Tap,
                Over::Xdp => Kind::Xdp,
                Over::Mem | Over::Kernel => Kind::Kernel,
            };
            let namespace = crate::namespace::new_namespace()?;
            let inside = || {
                let mut router = Outside::new(kind, shape)?;
                repeat(&mut || router.measure(seconds, stop))
            };
            let measured = namespace.inside(inside);
            row.rounds = measured.map_err(|error| Error::Failed(error.to_string()))??;
        }
        #[cfg(not(target_os = "linux"))]
        _ => return Err(Error::Failed("only Linux has this: ask for --over mem".to_owned())),
    }
    Ok(())
}

/// The values of [`COLUMNS`], in their order.
fn values(row: &Row) -> Vec<Value> {
    let (shape, own) = (row.case.shape, row.own());
    let ns = own.map(|span| span.mid);
    let direction = match shape.direction {
        Direction::There => "there",
        Direction::Back => "back",
        Direction::Both => "both",
    };
    vec![
        json!(row.case.over.name()),
        json!(Frame::name(shape.sizes)),
        json!(if shape.v6 { 6 } else { 4 }),
        json!(if shape.tagged { "yes" } else { "no" }),
        json!(shape.routes),
        json!(shape.flows),
        json!(direction),
        json!(ns.map(|ns| 1e9 / ns)),
        json!(ns),
        json!(own.map(|span| span.low)),
        json!(own.map(|span| span.high)),
        json!(row.span(|cost| Some(cost.whole_ns)).map(|span| span.mid)),
        json!(ns.map(|ns| shape.mean_bytes() * 8.0 / ns)),
    ]
}

fn report(seconds: f64, rounds: usize, rows: &[Row]) -> Report {
    let as_json = |row: &Row| {
        let of = |figure: &dyn Fn(&Cost) -> Value| row.rounds.iter().map(figure).collect::<Value>();
        json!({
            "over": row.case.over.name(),
            "shape": format!("{:?}", row.case.shape),
            "packets": of(&|cost| json!(cost.packets)),
            "whole_ns": of(&|cost| json!(cost.whole_ns)),
            "alone_ns": of(&|cost| json!(cost.alone_ns)),
        })
    };
    Report {
        settings: json!({ "seconds": seconds, "rounds": rounds }),
        columns: COLUMNS.to_vec(),
        rows: rows.iter().map(values).collect(),
        fits: Vec::new(),
        samples: rows.iter().map(as_json).collect(),
        shows: shows(rows),
        notes: notes(rows),
        plot: Some(Plot::Dots(dots(rows))),
    }
}

pub(super) fn notes(rows: &[Row]) -> Notes {
    let mut notes = vec![
        "One thread has generator, router and sink; the cost of generator and sink alone is \
         subtracted, and packets/s are for one core that does nothing but forward. Direction \
         'there' is from one host to the routes' prefixes, 'back' is to that host."
            .to_owned(),
    ];
    for over in Over::ALL {
        let said = rows.iter().find(|row| row.case.over == over && row.trouble.is_some());
        let said = said.and_then(|row| row.trouble.as_ref());
        notes.extend(said.map(|why| format!("Not measured: {}. {why}.", over.name())));
    }
    let unmeasured = rows.iter().filter(|row| row.rounds.is_empty()).count();
    with_missing(notes, unmeasured, rows.len(), "rows")
}

/// The figures in two sentences: the lowest and the highest cost of a packet in our router, and our
/// cost compared with the kernel's. The second is left out if one of the two was not measured.
fn shows(rows: &[Row]) -> Vec<String> {
    let of = |row: &Row| Some((row.own()?.mid, row.case));
    let memory = rows.iter().filter(|row| row.case.over == Over::Mem).filter_map(of);
    let memory: Vec<(f64, Case)> = memory.collect();
    let least = memory.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = memory.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(least), Some(most)) = (least, most) else { return Vec::new() };
    let mut said = vec![format!(
        "In memory our router takes {:.0} ns for a packet at least ({}) and {:.0} ns at most ({}).",
        least.0,
        words(&least.1),
        most.0,
        words(&most.1)
    )];
    let kernels = rows.iter().filter(|row| row.case.over == Over::Kernel).filter_map(of);
    let beside = kernels.filter_map(|(ns, case)| {
        let ours = memory.iter().find(|(_, ours)| ours.shape == case.shape)?;
        Some(ns / ours.0)
    });
    if let Some(times) = Span::of(beside) {
        said.push(format!(
            "The kernel between two veths takes {:.1} to {:.1} times as long for the same packets.",
            times.low, times.high
        ));
    }
    said
}

/// A case in words, without its devices.
fn words(case: &Case) -> String {
    let Case { shape, .. } = case;
    let version = if shape.v6 { "IPv6" } else { "IPv4" };
    let tagged = if shape.tagged { ", tagged" } else { "" };
    let direction = match shape.direction {
        Direction::There => "",
        Direction::Back => ", back",
        Direction::Both => ", both ways",
    };
    let size = Frame::name(shape.sizes);
    format!(
        "{size} {version}{tagged}{direction}, {} routes, {} flows",
        short(shape.routes),
        short(shape.flows)
    )
}

/// A count as the options have it.
fn short(count: u32) -> String {
    match count {
        n if n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        n if n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

fn dots(rows: &[Row]) -> Dots {
    let mut named: Vec<String> = Vec::new();
    let mut points = Vec::new();
    for row in rows {
        let name = words(&row.case);
        let at = named.iter().position(|known| *known == name).unwrap_or_else(|| {
            named.push(name);
            named.len() - 1
        });
        let series = Over::ALL.iter().position(|over| *over == row.case.over).unwrap_or(0);
        points.push(Point { row: at, series, span: row.own(), quoted: None });
    }
    Dots {
        title: "What it costs to forward a packet".to_owned(),
        subtitle: "Without generator and sink".to_owned(),
        axis: "ns".to_owned(),
        row_title: "packets:".to_owned(),
        rows: named,
        series: Over::ALL.map(|over| over.name().to_owned()).to_vec(),
        panels: vec![Panel { title: String::new(), rows: Vec::new(), points }],
        quoted: String::new(),
    }
}
