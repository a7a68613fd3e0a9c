//! From the rounds to effects, interactions, and the errors of testing one switch at a time.
//!
//! Called by: `ablate`.
//!
//! An effect is the change when a switch is turned on, so that an effect below zero is a saving. It
//! is estimated three ways: averaged over all combinations of the others, with all others off
//! ("alone"), and with all others on.

use serde_json::{Value, json};

use super::{CONFIDENCE, Estimate, Plan};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Notes, Report, Span, column, with_missing};

const COLUMNS: &[Column] = &[
    column("what", "", "", Format::Heading),
    column("term", "switches", "", Format::Text),
    column("effect", "effect", "a segment, on less off, averaged over the others", Format::Text),
    column("effect_value", "", "a segment", Format::Hidden),
    column("effect_interval", "", "a segment", Format::Hidden),
    column("alone", "alone", "a segment, all others off", Format::Text),
    column("alone_value", "", "a segment", Format::Hidden),
    column("alone_interval", "", "a segment", Format::Hidden),
    column("with_others", "others on", "a segment, all others on", Format::Text),
    column("with_others_value", "", "a segment", Format::Hidden),
    column("with_others_interval", "", "a segment", Format::Hidden),
    column("warning", "one at a time", "", Format::Text),
];

/// Two effects differ in size if one is more than this many times the other.
const SIZE: f64 = 1.5;

/// The effects of a switch.
struct Main {
    mask: u32,
    effect: Option<Estimate>,
    alone: Option<Estimate>,
    with_others: Option<Estimate>,
    warning: Option<Warning>,
}

/// The error that testing one at a time would have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warning {
    /// Alone it helps, beside the others it hurts, or the other way around.
    Sign,
    /// Alone it has no visible effect.
    Hidden,
    /// Beside the others it has no visible effect.
    Vanishes,
    /// Alone its effect is much smaller.
    Less,
    /// Alone its effect is much larger.
    More,
}

impl Warning {
    /// From both effects and their difference; each interval has to support it.
    fn of(alone: Estimate, with_others: Estimate, difference: Estimate) -> Option<Warning> {
        if !difference.is_clear() {
            return None;
        }
        let (a, b) = (alone.mid.abs(), with_others.mid.abs());
        match (alone.is_clear(), with_others.is_clear()) {
            (true, true) if alone.mid.signum() != with_others.mid.signum() => Some(Warning::Sign),
            (true, true) if b > SIZE * a => Some(Warning::Less),
            (true, true) if a > SIZE * b => Some(Warning::More),
            (false, true) => Some(Warning::Hidden),
            (true, false) => Some(Warning::Vanishes),
            _ => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Warning::Sign => "the opposite",
            Warning::Hidden => "nothing seen alone",
            Warning::Vanishes => "nothing beside others",
            Warning::Less => "too little alone",
            Warning::More => "too much alone",
        }
    }
}

/// An effect of each round, as an estimate.
fn estimate(rounds: &[Vec<f64>], family: usize, of: impl Fn(&[f64]) -> f64) -> Option<Estimate> {
    let values: Vec<f64> = rounds.iter().map(|round| of(round)).collect();
    Estimate::of(&values, family)
}

/// The change from one combination to another, in a round.
fn change(plan: &Plan, round: &[f64], from: u32, to: u32) -> f64 {
    let at = |point| plan.place(point).and_then(|place| round.get(place)).copied();
    at(to).unwrap_or(f64::NAN) - at(from).unwrap_or(f64::NAN)
}

fn main_effects(plan: &Plan, rounds: &[Vec<f64>]) -> Vec<Main> {
    let (family, all) = (plan.switches.len(), plan.all());
    let terms = plan.design.terms().into_iter().take(family);
    let main = |mask: u32| {
        let alone = |round: &[f64]| change(plan, round, 0, mask);
        let beside = |round: &[f64]| change(plan, round, all & !mask, all);
        let difference = estimate(rounds, family, |round| beside(round) - alone(round));
        let (alone, with_others) =
            (estimate(rounds, family, alone), estimate(rounds, family, beside));
        let both = alone.zip(with_others).zip(difference);
        let warning = both.and_then(|((alone, beside), differ)| Warning::of(alone, beside, differ));
        let effect = estimate(rounds, family, |round| design_effect(plan, mask, round));
        Main { mask, effect, alone, with_others, warning }
    };
    terms.map(main).collect()
}

fn design_effect(plan: &Plan, mask: u32, round: &[f64]) -> f64 {
    plan.design.effect(mask, round.get(..plan.design.points.len()).unwrap_or_default())
}

fn interactions(plan: &Plan, rounds: &[Vec<f64>]) -> Vec<(u32, Option<Estimate>)> {
    let pairs: Vec<u32> = plan.design.terms().into_iter().skip(plan.switches.len()).collect();
    let family = pairs.len();
    let of = |mask| (mask, estimate(rounds, family, |round| design_effect(plan, mask, round)));
    pairs.into_iter().map(of).collect()
}

/// As `-12.3 ± 0.4`.
fn shown(estimate: Option<Estimate>) -> Value {
    estimate.map_or(Value::Null, |e| {
        let places = if e.off >= 10.0 { 0 } else { 1 };
        json!(format!("{:+.places$} ± {:.places$}", e.mid, e.off))
    })
}

fn interval(estimate: Option<Estimate>) -> Value {
    estimate.map_or(Value::Null, |e| json!([e.mid - e.off, e.mid + e.off]))
}

fn three(estimate: Option<Estimate>) -> [Value; 3] {
    [shown(estimate), json!(estimate.map(|e| e.mid)), interval(estimate)]
}

fn row(plan: &Plan, main: &Main) -> Vec<Value> {
    let mut row = vec![json!("switches"), json!(plan.name(main.mask))];
    for estimate in [main.effect, main.alone, main.with_others] {
        row.extend(three(estimate));
    }
    row.push(json!(main.warning.map(Warning::words).unwrap_or_default()));
    row
}

fn pair_row(plan: &Plan, mask: u32, estimate: Option<Estimate>) -> Vec<Value> {
    let mut row = vec![json!("interactions"), json!(plan.name(mask))];
    row.extend(three(estimate));
    row.extend([json!(""), Value::Null, Value::Null, json!(""), Value::Null, Value::Null]);
    row.push(json!(""));
    row
}

/// The median of a combination over the rounds.
fn median(plan: &Plan, rounds: &[Vec<f64>], point: u32) -> Option<f64> {
    let place = plan.place(point)?;
    Span::of(rounds.iter().filter_map(|round| round.get(place)).copied()).map(|span| span.mid)
}

/// Two sentences; none without figures.
fn shows(
    plan: &Plan,
    rounds: &[Vec<f64>],
    mains: &[Main],
    pairs: &[(u32, Option<Estimate>)],
) -> Vec<String> {
    let unit = plan.response.unit();
    let (Some(off), Some(on)) = (median(plan, rounds, 0), median(plan, rounds, plan.all())) else {
        return Vec::new();
    };
    let largest =
        pairs.iter().filter_map(|(mask, e)| e.filter(|e| e.is_clear()).map(|e| (*mask, e)));
    let largest = largest.max_by(|a, b| a.1.mid.abs().total_cmp(&b.1.mid.abs()));
    let together = match largest {
        Some((mask, e)) => {
            format!("the strongest interaction is {} ({:+.1} {unit})", plan.name(mask), e.mid)
        }
        None => "no interaction of two is larger than its interval".to_owned(),
    };
    let first = format!(
        "With these {} switches on, a segment takes {on:.0} {unit}, with none of them {off:.0}; \
         {together}.",
        plan.switches.len()
    );
    let figure = |e: Option<Estimate>| e.map_or(0.0, |e| e.mid);
    let warnings: Vec<String> = mains
        .iter()
        .filter(|main| main.warning.is_some())
        .map(|main| {
            let (alone, beside) = (figure(main.alone), figure(main.with_others));
            format!(
                "{} ({alone:+.1} {unit} alone, {beside:+.1} with the others)",
                plan.name(main.mask)
            )
        })
        .collect();
    let second = match warnings.as_slice() {
        _ if mains.iter().any(|main| main.alone.is_none()) => {
            "More rounds are needed to say whether one switch at a time misleads.".to_owned()
        }
        [] => "Testing one switch at a time would have misled about none of them.".to_owned(),
        warnings => format!(
            "Testing one switch at a time would have misled about {} of them: {}.",
            warnings.len(),
            warnings.join(", ")
        ),
    };
    vec![first, second]
}

/// The runs behind each warning.
fn witnesses(plan: &Plan, rounds: &[Vec<f64>], mains: &[Main]) -> Vec<String> {
    let all = plan.all();
    let at = |point| median(plan, rounds, point).unwrap_or(f64::NAN);
    let warnings = mains.iter().filter_map(|main| main.warning.map(|warning| (main.mask, warning)));
    warnings.map(|(mask, warning)| {
        format!(
            "{}, {}: none on {:.1} {unit}, it alone {:.1}; all but it {:.1}, all {:.1} (medians of \
             the rounds).",
            plan.name(mask),
            warning.words(),
            at(0),
            at(mask),
            at(all & !mask),
            at(all),
            unit = plan.response.unit()
        )
    })
    .collect()
}

/// The effects that the design cannot tell apart.
fn aliases(plan: &Plan) -> String {
    let words: Vec<String> = plan.design.words.iter().map(|word| plan.name(*word)).collect();
    match plan.design.resolution() {
        None => format!("A round has all {} combinations.", plan.design.points.len()),
        Some(shortest) => format!(
            "A round has {} of {} combinations, those in which an even number of switches is off \
             among {}: effects of one and two switches are mixed only with effects of {} and more \
             switches.",
            plan.design.points.len(),
            1_u32 << plan.design.factors,
            words.join(", and among "),
            shortest - 2
        ),
    }
}

fn notes(plan: &Plan, rounds: &[Vec<f64>], mains: &[Main]) -> Notes {
    let unit = plan.response.unit();
    let mut notes = witnesses(plan, rounds, mains);
    notes.push(format!(
        "An effect is the change when a switch is turned on, in {unit} of a full segment, both \
         ends together; below 0 it is a saving. It is given averaged over all settings of the \
         others; alone, with all others off; and with all others on. An interaction is half of the \
         change that one switch makes to the other's effect. All {} % intervals hold together.",
        CONFIDENCE * 100.0
    ));
    notes.push(aliases(plan));
    let spread = |e: &Main| e.effect.map(|e| e.off);
    let widest = mains.iter().filter_map(spread).fold(0.0, f64::max);
    let all_on = median(plan, rounds, plan.all()).unwrap_or(f64::INFINITY);
    if widest > 0.05 * all_on {
        notes.push(format!(
            "The machine was not quiet: intervals reach {:.0} % of a segment's cost. Effects \
             within their intervals are not there or too small to see; --rounds narrows them.",
            100.0 * widest / all_on
        ));
    }
    let unmeasured = if rounds.len() < 2 { plan.design.terms().len() } else { 0 };
    let mut notes = with_missing(notes, unmeasured, plan.design.terms().len(), "rows");
    if (2..plan.rounds).contains(&rounds.len()) {
        notes.push(format!("{} of {} rounds were run.", rounds.len(), plan.rounds));
    }
    notes
}

fn dots(plan: &Plan, mains: &[Main]) -> Dots {
    let span = |e: Estimate| Span { low: e.mid - e.off, mid: e.mid, high: e.mid + e.off };
    let points = mains.iter().enumerate().flat_map(|(row, main)| {
        let lanes = [main.alone, main.effect, main.with_others].into_iter().enumerate();
        lanes.map(move |(series, e)| Point { row, series, span: e.map(span), quoted: None })
    });
    Dots {
        title: "What each switch changes, alone and beside the others".to_owned(),
        subtitle: format!(
            "Bulk in memory, MTU {}, flows: {}, both ends; below 0 is saved",
            plan.mtu, plan.flows
        ),
        axis: format!("{} a segment", plan.response.unit()),
        row_title: "switch:".to_owned(),
        rows: mains.iter().map(|main| plan.name(main.mask)).collect(),
        series: ["all others off", "averaged over all", "all others on"]
            .map(str::to_owned)
            .to_vec(),
        panels: vec![Panel { title: String::new(), rows: Vec::new(), points: points.collect() }],
        quoted: String::new(),
    }
}

/// The report of the rounds that were run.
pub(super) fn report(plan: &Plan, rounds: &[Vec<f64>]) -> Report {
    let (mains, pairs) = (main_effects(plan, rounds), interactions(plan, rounds));
    let names = |point: u32| {
        let on = plan.switches.iter().enumerate().filter(|(bit, _)| point >> bit & 1 == 1);
        on.map(|(_, switch)| switch.name()).collect::<Vec<_>>()
    };
    let samples = plan.points.iter().enumerate().map(|(place, point)| {
        let values: Vec<f64> = rounds.iter().map(|round| round[place]).collect();
        json!({ "on": names(*point), "values": values })
    });
    let pair_rows = pairs.iter().map(|(mask, e)| pair_row(plan, *mask, *e));
    Report {
        settings: json!({
            "switches": names(plan.all()),
            "response": plan.response.unit(),
            "mtu": plan.mtu,
            "flows": plan.flows,
            "rounds": plan.rounds,
            "combinations": plan.design.points.len(),
            "generators": plan.design.words.iter().map(|word| names(*word)).collect::<Vec<_>>(),
            "first_seed": plan.seed,
        }),
        columns: COLUMNS.to_vec(),
        rows: mains.iter().map(|main| row(plan, main)).chain(pair_rows).collect(),
        fits: Vec::new(),
        samples: samples.collect(),
        shows: shows(plan, rounds, &mains, &pairs),
        notes: notes(plan, rounds, &mains),
        plot: Some(Plot::Dots(dots(plan, &mains))),
    }
}

#[cfg(test)]
mod tests;
