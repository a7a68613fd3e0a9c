//! `wirespeed lab livelock`: how much a receiver delivers to its application when far more packets
//! arrive than it can process, and how much of its processor the application still has.
//!
//! Called by: the lab, the benchmarks.
//!
//! One thread sends UDP datagrams at a fixed rate over a link. Another runs the receiving stack and
//! an application that works on each datagram for a fixed time. Under overload, a receiver that
//! serves its interrupts first does nothing else and delivers nothing: receive livelock (Mogul and
//! Ramakrishnan, "Eliminating Receive Livelock in an Interrupt-driven Kernel", 1997). Here the
//! excess is dropped in the interface's ring, before it costs anything.

mod run;
#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::{ArgMatches, FromArgMatches};
pub use run::{Load, Outcome, datagram, measure};
use serde_json::{Value, json};

use crate::plot::{Dots, Panel, Plot, Point};
use crate::pool::Progress;
use crate::report::{Column, Format, Notes, Report, Span, column, with_missing};
use crate::{Error, Run};

/// Loads, in multiples of the rate that the receiver can process.
pub const LOADS: [f64; 8] = [0.5, 0.8, 1.0, 1.5, 2.0, 4.0, 7.0, 10.0];

/// If less than this fraction of a load was offered, a note says so.
const SHORT: f64 = 0.9;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Time that the application works on a datagram, in ns
    #[arg(long, value_name = "NS", default_value_t = 3_000,
          value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    work: u64,
}

const COLUMNS: &[Column] = &[
    column("load", "load", "asked for, of what the receiver can take", Format::Number(1)),
    column("offered", "offered", "of the highest rate delivered", Format::Number(1)),
    column("offered_pps", "offered/s", "datagrams a second offered", Format::Number(0)),
    column("delivered_pps", "delivered/s", "datagrams a second delivered", Format::Number(0)),
    column("of_peak", "of peak", "of the highest rate delivered", Format::Number(2)),
    column("application_percent", "application %", "% of the processor", Format::Number(1)),
    column("lost_in_ring", "lost in ring", "datagrams lost in the interface", Format::Number(0)),
    column("lost_later", "lost later", "datagrams lost behind it", Format::Number(0)),
];

/// A load, and the outcome of each round.
pub struct Step {
    /// The load, in multiples of the rate that the receiver can process.
    pub load: f64,
    /// One outcome for each round.
    pub outcomes: Vec<Outcome>,
}

impl Step {
    /// The median of a figure; `None` without rounds.
    fn of(&self, figure: fn(&Outcome) -> f64) -> Option<f64> {
        Span::of(self.outcomes.iter().map(figure)).map(|span| span.mid)
    }

    /// Datagrams a second that reached the application, the median; 0 without rounds.
    pub fn delivered_pps(&self) -> f64 {
        self.of(Outcome::delivered_pps).unwrap_or(0.0)
    }

    /// The application's share of the processor, the median; 0 without rounds.
    pub fn share(&self) -> f64 {
        self.of(|outcome| outcome.application_share).unwrap_or(0.0)
    }

    /// The offered rate in multiples of `peak_pps`; sender and link may offer less than the load.
    pub fn offered(&self, peak_pps: f64) -> Option<f64> {
        self.of(Outcome::offered_pps).map(|pps| pps / peak_pps)
    }
}

/// Run all of [`LOADS`] in rounds; `stopped` is polled between two runs.
///
/// # Errors
/// A link or a stack that could not be made.
pub fn sweep(
    work: Duration,
    seconds: f64,
    rounds: usize,
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<Step>, Error> {
    let mut steps: Vec<Step> =
        LOADS.iter().map(|&load| Step { load, outcomes: Vec::new() }).collect();
    if stopped() {
        return Ok(steps);
    }
    // Twice the rate that it could process if only the application's work took time: this saturates
    // it.
    let much = Load { pps: 2e9 / work.as_nanos() as f64, work, seconds };
    measure(&Load { seconds: seconds / 4.0, ..much })?;
    let most = measure(&much)?.delivered_pps();
    let mut progress = Progress::new(rounds * LOADS.len());
    for round in 0..rounds {
        for (at, step) in steps.iter_mut().enumerate() {
            progress.at(round * LOADS.len() + at);
            if stopped() {
                return Ok(steps);
            }
            step.outcomes.push(measure(&Load { pps: step.load * most, work, seconds })?);
        }
    }
    Ok(steps)
}

/// The highest rate delivered at any load.
pub fn peak_pps(steps: &[Step]) -> f64 {
    steps.iter().map(Step::delivered_pps).fold(0.0, f64::max)
}

/// Measure all loads.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let (seconds, rounds) = if run.common.quick { (0.3, 3) } else { (1.0, 9) };
    let work = Duration::from_nanos(options.work);
    let steps = sweep(work, seconds, rounds, &|| run.is_stopped())?;
    Ok(report(&options, seconds, &steps))
}

fn report(options: &Options, seconds: f64, steps: &[Step]) -> Report {
    let peak = peak_pps(steps);
    let as_json = |step: &Step| {
        let outcomes = step.outcomes.iter().map(|o| {
            json!({
                "offered": o.offered,
                "delivered": o.delivered,
                "seconds": o.seconds,
                "application_share": o.application_share,
                "lost_in_ring": o.lost_in_ring,
                "lost_later": o.lost_later,
            })
        });
        json!({ "load": step.load, "rounds": outcomes.collect::<Vec<Value>>() })
    };
    Report {
        settings: json!({ "work_ns": options.work, "seconds": seconds, "loads": LOADS }),
        columns: COLUMNS.to_vec(),
        rows: steps.iter().map(|step| row(step, peak)).collect(),
        fits: Vec::new(),
        samples: steps.iter().map(as_json).collect(),
        shows: shows(steps, peak),
        notes: notes(options, steps, peak),
        plot: Some(Plot::Dots(dots(steps))),
    }
}

/// The values of [`COLUMNS`], in their order.
fn row(step: &Step, peak: f64) -> Vec<Value> {
    let delivered = step.of(Outcome::delivered_pps);
    vec![
        json!(step.load),
        json!(step.offered(peak)),
        json!(step.of(Outcome::offered_pps)),
        json!(delivered),
        json!(delivered.map(|pps| pps / peak)),
        json!(step.of(|o| o.application_share * 100.0)),
        json!(step.of(|o| o.lost_in_ring as f64)),
        json!(step.of(|o| o.lost_later as f64)),
    ]
}

fn notes(options: &Options, steps: &[Step], peak: f64) -> Notes {
    let mut notes = vec![format!(
        "Two threads and a link of 10 Gb/s; the application takes {} ns for a datagram of 64 \
         bytes.",
        options.work
    )];
    let offered = |step| Step::offered(step, peak).map(|times| (step, times));
    let short = steps.iter().filter_map(offered).filter(|(step, times)| *times < SHORT * step.load);
    let short: Vec<String> =
        short.map(|(step, times)| format!("{times:.1} for {}", step.load)).collect();
    if !short.is_empty() {
        notes.push(format!(
            "Less was offered than asked for, in multiples of the peak: {}. The sender or the link \
             cannot send faster; a larger --work makes the loads lower.",
            short.join(", ")
        ));
    }
    let unmeasured = steps.iter().filter(|step| step.outcomes.is_empty()).count();
    with_missing(notes, unmeasured, steps.len(), "rows")
}

/// Sentences on the figures: how much of the peak is delivered at the highest load, and where the
/// rest is lost.
fn shows(steps: &[Step], peak: f64) -> Vec<String> {
    // The sentence is about the load that was offered, not the one that was asked for: the rest
    // never reached the receiver.
    let offered = |step| Step::offered(step, peak).map(|times| (step, times));
    let Some((last, times)) = steps.iter().rev().find_map(offered) else { return Vec::new() };
    let mut said = vec![format!(
        "Offered {times:.1} times what it can take, the receiver delivers {:.0} % of its peak of \
         {:.0} datagrams a second, and its application has {:.0} % of the processor.",
        last.delivered_pps() * 100.0 / peak,
        peak,
        last.share() * 100.0
    )];
    let lost = |of: fn(&Outcome) -> f64| last.of(of).unwrap_or(0.0);
    let (ring, later) = (lost(|o| o.lost_in_ring as f64), lost(|o| o.lost_later as f64));
    said.push(match ring + later {
        0.0 => "Nothing was lost at that load.".to_owned(),
        all => format!(
            "Of the datagrams lost at that load, {:.0} % is lost in the interface's ring, where \
             they have cost nothing.",
            ring * 100.0 / all
        ),
    });
    said
}

fn dots(steps: &[Step]) -> Dots {
    let points = steps.iter().enumerate().map(|(row, step)| {
        let delivered = step.outcomes.iter().map(|o| o.delivered_pps() / 1e3);
        Point { row, series: 0, span: Span::of(delivered), quoted: None }
    });
    Dots {
        title: "A receiver under more load than it can take".to_owned(),
        subtitle: "Datagrams that reach the application".to_owned(),
        axis: "thousand a second".to_owned(),
        row_title: "load:".to_owned(),
        rows: steps.iter().map(|step| format!("{} times", step.load)).collect(),
        series: vec!["delivered".to_owned()],
        panels: vec![Panel { title: String::new(), rows: Vec::new(), points: points.collect() }],
        quoted: String::new(),
    }
}
