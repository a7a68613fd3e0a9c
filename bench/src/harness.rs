//! Runs the rows of a bench, and measures ratios from pairs of runs, in which our stack and the
//! other one take turns. Called by `core.rs` and the other benches, which define what each row
//! measures, and by `main.rs`, which runs the rows. This file does not depend on the stacks.
//! `report.rs` defines the shape of the JSON.

use anyhow::{Result, anyhow, ensure};
use serde::Serialize;

use crate::command_line::Programs;
use crate::learned::Learned;
use crate::measure::{Cores, Measurement, median, pin};

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// A row of a bench's table: its name, its required value, and how its value is measured.
#[derive(Clone, Copy)]
pub struct Spec {
    /// The name of the row.
    pub case: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// The value that the row has to reach.
    pub must: f64,
    /// The value that the row aims at.
    pub aim: f64,
    /// The unit of the value; `x` for a ratio.
    pub unit: &'static str,
    /// Takes the measurement.
    pub run: fn(&Bench) -> Result<Figure>,
}

/// Makes a [`Spec`]; the arguments are in the order in which the benches' tables are written.
pub const fn spec(
    case: &'static str,
    better: Better,
    must: f64,
    aim: f64,
    unit: &'static str,
    run: fn(&Bench) -> Result<Figure>,
) -> Spec {
    Spec { case, better, must, aim, unit, run }
}

/// The result of measuring a row.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// The row's value.
    pub value: f64,
    /// The ratios of all pairs of runs, or the only value.
    pub samples: Vec<f64>,
    /// The settings and the figures of both sides.
    pub note: String,
}

/// A row of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the row.
    pub case: &'static str,
    /// The row's value; null if it could not be measured. Then the note says why.
    pub value: Option<f64>,
    /// The unit of the value; `x` for a ratio.
    pub unit: &'static str,
    /// The value that the row has to reach.
    pub must: Option<f64>,
    /// The value that the row aims at.
    pub aim: Option<f64>,
    /// Which direction is better.
    pub better: Better,
    /// Was the row measured, and does it reach `must`?
    pub ok: bool,
    /// One value for each pair.
    pub samples: Vec<f64>,
    /// Settings and figures, or the reason why the row was not measured.
    pub note: String,
}

impl Row {
    /// Was the row measured, and does it not reach its `must`?
    pub fn missed(&self) -> bool {
        self.value.is_some() && !self.ok
    }
}

/// How this run of a bench measures, and results that are found once and that several rows use.
pub struct Bench {
    /// Pairs for each ratio: 25, or 7 with `--quick`.
    pub pairs: usize,
    /// How long each side of a pair runs.
    pub seconds: f64,
    /// How long each candidate runs while settings are chosen.
    pub trial_s: f64,
    /// `--quick`: samples are fewer and shorter, so the result is not reliable.
    pub is_quick: bool,
    /// The cores to run on.
    pub cores: Cores,
    /// Settings that were found once, and programs that were built once: see `core.rs`.
    pub learned: Learned,
    /// What the command line names.
    pub programs: Programs,
}

impl Bench {
    /// The usual settings of a run: many short pairs rather than a few long ones. Then other load
    /// on the machine spoils some of the pairs, but not the median.
    pub fn new(quick: bool) -> Result<Bench> {
        let (pairs, seconds, trial_s) = if quick { (7, 0.2, 0.15) } else { (25, 0.4, 0.4) };
        let cores = Cores::allowed()?;
        let (learned, programs) = (Learned::default(), Programs::default());
        Ok(Bench { pairs, seconds, trial_s, is_quick: quick, cores, learned, programs })
    }

    /// Runs one row. If it fails, its error becomes the row's note.
    pub fn row(&self, spec: &Spec) -> Row {
        let figure = pin(&[self.cores.first]).and_then(|()| (spec.run)(self));
        let (value, samples, note) = match figure {
            Ok(figure) if figure.value.is_finite() => {
                (Some(figure.value), figure.samples, figure.note)
            }
            Ok(figure) => (None, figure.samples, format!("not a number; {}", figure.note)),
            Err(why) => (None, vec![], format!("{why:#}")),
        };
        let reaches = |value: f64| match spec.better {
            Better::Higher => value >= spec.must,
            Better::Lower => value <= spec.must,
        };
        Row {
            case: spec.case,
            value,
            unit: spec.unit,
            must: Some(spec.must),
            aim: Some(spec.aim),
            better: spec.better,
            ok: value.is_some_and(reaches),
            samples,
            note,
        }
    }

    /// The ratio of `figure` of the first side to that of the second side. Each side runs once
    /// before the pairs: this run warms it up, and shows at once whether the side can be measured.
    pub fn ratio(
        &self,
        figure: fn(&Measurement) -> Result<f64>,
        first: impl FnMut(f64) -> Result<Measurement>,
        second: impl FnMut(f64) -> Result<Measurement>,
    ) -> Result<Figure> {
        self.ratio_of(self.pairs, self.seconds, figure, first, second)
    }

    /// Like [`Bench::ratio`], for two sides that differ in one setting and start quickly. It uses
    /// many more and shorter pairs, because the difference is small.
    pub fn close_ratio(
        &self,
        figure: fn(&Measurement) -> Result<f64>,
        first: impl FnMut(f64) -> Result<Measurement>,
        second: impl FnMut(f64) -> Result<Measurement>,
    ) -> Result<Figure> {
        self.ratio_of(5 * self.pairs, self.seconds / 5.0, figure, first, second)
    }

    /// Like [`Bench::ratio`], for sides whose runs have a length of their own, of seconds, so that
    /// there are few pairs.
    pub fn long_ratio(
        &self,
        pairs: usize,
        figure: fn(&Measurement) -> Result<f64>,
        first: impl FnMut(f64) -> Result<Measurement>,
        second: impl FnMut(f64) -> Result<Measurement>,
    ) -> Result<Figure> {
        self.ratio_of(pairs, self.seconds, figure, first, second)
    }

    /// Like [`Bench::close_ratio`], for work within a cache. The speed of such work changes with
    /// other load on the machine from one second to the next. Each half of a pair takes 10 ms, so
    /// that the two halves mostly run at the same speed.
    pub fn hot_ratio(
        &self,
        figure: fn(&Measurement) -> Result<f64>,
        first: impl FnMut(f64) -> Result<Measurement>,
        second: impl FnMut(f64) -> Result<Measurement>,
    ) -> Result<Figure> {
        self.ratio_of(40 * self.pairs, self.seconds / 40.0, figure, first, second)
    }

    fn ratio_of(
        &self,
        pairs: usize,
        seconds: f64,
        figure: fn(&Measurement) -> Result<f64>,
        mut first: impl FnMut(f64) -> Result<Measurement>,
        mut second: impl FnMut(f64) -> Result<Measurement>,
    ) -> Result<Figure> {
        first(self.trial_s)?;
        second(self.trial_s)?;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut settings = (String::new(), String::new());
        let samples = paired(
            pairs,
            || {
                let measured = first(seconds)?;
                a.push(figure(&measured)?);
                settings.0 = measured.settings;
                Ok(a[a.len() - 1])
            },
            || {
                let measured = second(seconds)?;
                b.push(figure(&measured)?);
                settings.1 = measured.settings;
                Ok(b[b.len() - 1])
            },
        )?;
        let note =
            format!("{:.4} [{}] over {:.4} [{}]", median(&a), settings.0, median(&b), settings.1);
        Ok(Figure { value: median(&samples), samples, note })
    }
}

/// `n` ratios of the first figure to the second. The two sides run in turn, and their order changes
/// from pair to pair, so that a machine that slows down favours neither side.
pub fn paired(
    n: usize,
    mut first: impl FnMut() -> Result<f64>,
    mut second: impl FnMut() -> Result<f64>,
) -> Result<Vec<f64>> {
    let mut samples = Vec::with_capacity(n);
    for pair in 0..n {
        let (a, b) = if pair % 2 == 0 {
            let a = first()?;
            (a, second()?)
        } else {
            let b = second()?;
            (first()?, b)
        };
        ensure!(b > 0.0, "the second figure of a pair is zero");
        samples.push(a / b);
        eprintln!("    pair {}: {a:.4} / {b:.4} = {:.4}", pair + 1, a / b);
    }
    Ok(samples)
}

/// The candidate with the best figure, after `rounds` rounds in which each candidate is measured
/// once. Candidates that fail are skipped; if all fail, the first error is returned.
pub fn best_of<T: Copy + std::fmt::Debug>(
    candidates: &[T],
    rounds: usize,
    better: Better,
    mut figure: impl FnMut(T) -> Result<f64>,
) -> Result<T> {
    let mut figures = vec![Vec::new(); candidates.len()];
    let mut failed = None;
    for _ in 0..rounds.max(1) {
        for (at, &candidate) in candidates.iter().enumerate() {
            match figure(candidate) {
                Ok(value) => figures[at].push(value),
                Err(why) => {
                    failed.get_or_insert(why);
                }
            }
        }
    }
    let mut best: Option<(f64, T)> = None;
    for (values, &candidate) in figures.iter().zip(candidates).filter(|(v, _)| !v.is_empty()) {
        let value = median(values);
        eprintln!("    trial: {value:.3} with {candidate:?}");
        let wins = best.is_none_or(|(so_far, _)| match better {
            Better::Higher => value > so_far,
            Better::Lower => value < so_far,
        });
        if wins {
            best = Some((value, candidate));
        }
    }
    best.map(|(_, candidate)| candidate).ok_or_else(|| {
        failed.unwrap_or_else(|| anyhow!("there are no settings to try on this machine"))
    })
}
