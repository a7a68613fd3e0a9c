//! The report of the experiment: a row for each role and stage, its line over the sizes, and what
//! may be concluded.
//!
//! Called by: `experiment.rs`.

use profile::{Event, Kind, Mean, Stage, bar, largest};
use serde_json::{Value, json};

use super::work::{Role, SIZES};
use super::{Case, Measured, mean};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, missing};
use crate::tap::fit::{CONFIDENCE, Line};

/// The size that the table is about: Ethernet's.
const SIZE: usize = 1_500;

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

/// What a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Stage(Stage),
    /// All stages.
    Sum,
    /// By the thread's clock, of the rounds that the stages are of.
    Clock,
    /// The same, of rounds without samples.
    Unsampled,
}

impl What {
    fn all() -> impl Iterator<Item = What> {
        Stage::ALL.into_iter().map(What::Stage).chain([What::Sum, What::Clock, What::Unsampled])
    }

    fn name(self) -> &'static str {
        match self {
            What::Stage(stage) => stage.name(),
            What::Sum => "all stages",
            What::Clock => "by the clock",
            What::Unsampled => "no samples",
        }
    }
}

impl Case {
    /// The figures of each round; none of an event that was not sampled.
    fn figures(&self, what: What, event: Event) -> Vec<f64> {
        let of = |costs: &[f64; Stage::ALL.len()]| match what {
            What::Stage(stage) => costs[stage as usize],
            _ => costs.iter().sum(),
        };
        match (what, event) {
            (What::Clock, Event::Time) => self.clock_ns.clone(),
            (What::Unsampled, Event::Time) => self.unsampled_ns.clone(),
            (What::Clock | What::Unsampled, _) => Vec::new(),
            _ => self.sampled.iter().map(|costs| of(&costs[event as usize])).collect(),
        }
    }
}

impl Measured {
    fn has(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// The figures at a size.
    fn mean(&self, role: Role, size: usize, what: What, event: Event) -> Option<Mean> {
        if what != What::Unsampled && !self.has(event) {
            return None;
        }
        mean::of(&self.case(role, size)?.figures(what, event))
    }

    /// The line over all sizes. An error is a share of the whole: so is a weight.
    fn line(&self, role: Role, what: What, event: Event) -> Option<Line> {
        if what != What::Unsampled && !self.has(event) {
            return None;
        }
        let mut points = Vec::new();
        for case in self.cases.iter().filter(|case| case.role == role) {
            let whole = mean::of(&case.figures(What::Sum, event)).map_or(1.0, |m| m.value);
            let weight = 1.0 / whole.max(1.0).powi(2);
            let figures = case.figures(what, event).into_iter();
            points.extend(figures.map(|y| (case.size as f64, y, weight)));
        }
        Line::weighted(&points)
    }

    /// Instructions: sampled, or counted by the simulator, with their line.
    fn instructions(&self, role: Role, what: What) -> Option<(f64, Option<Line>)> {
        if self.has(Event::Instructions) {
            let mean = self.mean(role, SIZE, what, Event::Instructions)?;
            return Some((mean.value, self.line(role, what, Event::Instructions)));
        }
        let counted = self.counted.as_ref()?.as_ref().ok()?;
        let of = |stages: &[f64; Stage::ALL.len()]| match what {
            What::Stage(stage) => Some(stages[stage as usize]),
            What::Sum => Some(stages.iter().sum()),
            What::Clock | What::Unsampled => None,
        };
        let of_role = counted.iter().filter(|counted| counted.role == role);
        let mut points = Vec::new();
        for counted in of_role {
            let weight = 1.0 / counted.stages.iter().sum::<f64>().max(1.0).powi(2);
            points.push((counted.size as f64, of(&counted.stages)?, weight));
        }
        let at = points.iter().find(|(size, _, _)| *size == SIZE as f64)?.1;
        Some((at, Line::weighted(&points)))
    }
}

/// The report.
pub(super) fn report(measured: &Measured) -> Report {
    let rows = Role::ALL.iter().flat_map(|&role| What::all().map(move |what| (role, what)));
    let rows: Vec<Vec<Value>> = rows.map(|(role, what)| row(measured, role, what)).collect();
    let unmeasured = rows.iter().filter(|row| row[2].is_null()).count();
    let mut notes = notes(measured);
    if measured.refused.is_none() {
        notes.extend(missing(unmeasured, rows.len(), "rows"));
    }
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

/// The lines of stages that cost anything.
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

/// Two sentences: which end limits, and what to do next.
fn shows(measured: &Measured) -> Vec<String> {
    let cost = |role| measured.mean(role, SIZE, What::Unsampled, Event::Time);
    let all = [Role::Sender, Role::Receiver].map(|role| cost(role).map(|mean| (role, mean)));
    let ([Some(sender), Some(receiver)], Some(forwarder)) = (all, cost(Role::Forwarder)) else {
        return Vec::new();
    };
    let limiting = largest(&[sender, receiver]);
    let limits = match limiting.as_slice() {
        [one] => format!("on a core each, the {} limits", one.name()),
        _ => "the rounds do not tell which end limits".to_owned(),
    };
    let first = format!(
        "A packet of {SIZE} bytes costs the sender {:.0} ns, the receiver {:.0} ns and a router \
         {:.0} ns: {limits}.",
        sender.1.value, receiver.1.value, forwarder.value
    );
    let role = limiting.first().copied().unwrap_or(Role::Sender);
    vec![first, next(measured, role)]
}

/// What to fix, for a role.
fn next(measured: &Measured, role: Role) -> String {
    let of = |stage| measured.mean(role, SIZE, What::Stage(stage), Event::Time);
    let stages = Stage::ALL.into_iter().filter(|&stage| stage != Stage::Other);
    let stages: Vec<(Stage, Mean)> = stages.filter_map(|s| of(s).map(|mean| (s, mean))).collect();
    let sum = measured.mean(role, SIZE, What::Sum, Event::Time).map_or(0.0, |sum| sum.value);
    match largest(&stages).as_slice() {
        [] => "Nothing was sampled, so it is not known what to fix.".to_owned(),
        [stage] => {
            let ns = of(*stage).unwrap_or_default().value;
            let line = measured.line(role, What::Stage(*stage), Event::Time);
            let bytes = line.map_or(0.0, |line| line.slope * SIZE as f64 / ns.max(1e-9));
            let grows = if bytes > 0.5 { "by the byte" } else { "by the packet" };
            format!(
                "To go faster, fix this next: {} at the {}, {ns:.0} of its {sum:.0} ns, paid \
                 {grows}: {}.",
                stage.name(),
                role.name(),
                stage.remedy()
            )
        }
        several => {
            let names: Vec<&str> = several.iter().take(3).map(|stage| stage.name()).collect();
            format!(
                "To go faster at the {}, fix one of {}: the samples do not tell which is the \
                 largest; more rounds do (without --quick, on a quiet machine).",
                role.name(),
                names.join(", ")
            )
        }
    }
}

fn notes(measured: &Measured) -> Vec<String> {
    let mut notes = vec![format!(
        "The stages are from {} samples of the thread, {} a second, by whose code they are in; {} \
         had no room. 'by the clock' is the processor time of the thread in the same rounds, 'no \
         samples' that in rounds without any, in turn with those.",
        measured.samples, measured.hz, measured.lost
    )];
    if let Some(why) = &measured.refused {
        notes.push(format!("Only figures without samples are there: {why}."));
    }
    let ratios = measured.cases.iter().filter(|case| case.size == SIZE);
    let ratios = ratios.filter_map(|case| {
        let (all, span) = (case.ratio()?, Span::of(case.ratios())?);
        Some(format!("{} {all:.3} (rounds {:.3} to {:.3})", case.role.name(), span.low, span.high))
    });
    let ratios: Vec<String> = ratios.collect();
    if !ratios.is_empty() {
        let all = ratios.join(", ");
        notes.push(format!("All stages over the clock at {SIZE} bytes: {all}."));
    }
    if let Some(added) = Span::of(measured.cases.iter().flat_map(Case::added)) {
        notes.push(format!("The samples add {:.1} % to the cost.", added.mid * 100.0));
    }
    notes.extend(shares(measured));
    notes.extend(counters(measured));
    notes.extend(noise(measured));
    notes.push(
        "The sum is made while the sender copies: that pass is 'copy'; 'checksum' are passes that \
         only sum. In memory there is no system call, so that 'driver' is the rings and no \
         wake-ups are paid: `wirespeed show budget` has those of a running program."
            .to_owned(),
    );
    notes
}

/// The kinds of work of both ends, beside those of 1988.
fn shares(measured: &Measured) -> Option<String> {
    let mut kinds = [0.0; 4];
    for role in [Role::Sender, Role::Receiver] {
        for stage in Stage::ALL {
            let mean = measured.mean(role, SIZE, What::Stage(stage), Event::Time)?;
            kinds[stage.kind() as usize] += mean.value;
        }
    }
    let all: f64 = kinds.iter().sum();
    let percent = |kind: Kind| kinds[kind as usize] / all * 100.0;
    (all > 0.0).then(|| {
        format!(
            "Both ends together: protocol {:.0} %, bytes copied and summed {:.0} %, device and \
             buffers {:.0} %, rest {:.0} %. In 1988 it was protocol 30 %, stalls 15 %, device, \
             interrupt and task 55 %.",
            percent(Kind::Protocol),
            percent(Kind::Bytes),
            percent(Kind::Device),
            percent(Kind::Outside)
        )
    })
}

/// What the processor did not count.
fn counters(measured: &Measured) -> Vec<String> {
    let mut notes = Vec::new();
    if measured.refused.is_some() || measured.events.is_empty() {
        return notes;
    }
    let absent: Vec<&str> = [(Event::Cycles, "cycles"), (Event::Stalled, "stalled cycles")]
        .into_iter()
        .filter(|(event, _)| !measured.has(*event))
        .map(|(_, name)| name)
        .collect();
    if !absent.is_empty() {
        notes.push(format!(
            "No {}: the processor does not count them for us. A virtual machine has counters if \
             its host passes them on (a virtual PMU).",
            absent.join(" and ")
        ));
    }
    match &measured.counted {
        Some(Ok(_)) => notes.push(
            "Instructions are counted one by one by valgrind's callgrind, of the same work: exact, \
             the same in every run, of a processor without AVX-512."
                .to_owned(),
        ),
        Some(Err(why)) => notes.push(format!("No instructions: {why}.")),
        None => {}
    }
    notes
}

/// How far apart equal rounds are.
fn noise(measured: &Measured) -> Option<String> {
    let spread = |case: &Case| {
        let span = Span::of(case.unsampled_ns.iter().copied())?;
        Some((span.high - span.low) / span.mid)
    };
    let middle = Span::of(measured.cases.iter().filter_map(spread))?.mid;
    (middle > 0.1).then(|| {
        format!(
            "The machine is noisy: equal rounds differ by {:.0} % (the median of the cases). The \
             intervals have that in them; what they leave open is not concluded.",
            middle * 100.0
        )
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
