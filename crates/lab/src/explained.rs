//! `wirespeed lab explain`: connections that are limited on purpose, each in another way, and what
//! [`explain`] says of them by the looks that it has in real use.
//!
//! Called by: the lab. `situations` is the table: what limits a connection, and the ranges that the
//! parameters are drawn from by seed. `world` runs one in virtual time and looks at it. The verdict
//! gets nothing but the looks.

mod draw;
mod paths;
mod programs;
mod situations;
#[cfg(test)]
mod tests;
mod world;

use clap::{ArgMatches, FromArgMatches};
use explain::{Limit, Verdict, Words};
use serde_json::{Value, json};

use crate::report::{Column, Format, Report, column, missing};
use crate::{Error, Run};
pub(crate) use situations::SITUATIONS;
use situations::Situation;

/// Draws of a situation, usually and with `--quick`.
const DRAWS: (u64, u64) = (20, 2);

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only these situations, by their names as the table prints them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    situation: Vec<String>,
}

const COLUMNS: &[Column] = &[
    column("situation", "situation", "", Format::Text),
    column("limit", "is", "", Format::Text),
    column("right", "right", "draws", Format::Number(0)),
    column("draws", "of", "draws", Format::Number(0)),
    column("share", "share", "of draws named right", Format::Number(2)),
    column("wrong", "named instead", "", Format::Text),
    column("ranges", "", "", Format::Hidden),
];

/// What was said of a draw.
struct Said {
    limit: Option<Limit>,
    words: String,
    seed: u64,
}

impl Options {
    fn situations(&self) -> Result<Vec<&'static Situation>, Error> {
        if self.situation.is_empty() {
            return Ok(SITUATIONS.iter().collect());
        }
        let of = |name: &String| {
            let found = SITUATIONS.iter().find(|situation| situation.name == name);
            found.ok_or_else(|| {
                let names: Vec<&str> = SITUATIONS.iter().map(|s| s.name).collect();
                Error::Usage(format!("there is no situation '{name}', but {}", names.join(", ")))
            })
        };
        self.situation.iter().map(of).collect()
    }
}

/// Draw each situation, and compare.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let situations = options.situations()?;
    let seeds = run.common.seeds(DRAWS.0, DRAWS.1);
    let runs: Vec<(&Situation, u64)> =
        seeds.clone().flat_map(|seed| situations.iter().map(move |&one| (one, seed))).collect();
    let said = run.each(&runs, |&(situation, seed), stop| {
        if stop() {
            return Ok(None);
        }
        said_of(situation, seed).map(Some)
    })?;
    let of = |situation: &Situation| -> Vec<&Said> {
        let all = runs.iter().zip(&said).filter(|((one, _), _)| one.name == situation.name);
        all.filter_map(|(_, said)| said.as_ref()).collect()
    };
    let rows: Vec<Vec<Value>> = situations.iter().map(|one| row(one, &of(one))).collect();
    let unmeasured = situations.iter().filter(|one| of(one).is_empty()).count();
    let mut notes = vec![
        "Each draw is a world in virtual time with parameters from the ranges of its situation \
         (`ranges` in the document); explain gets looks as the control socket gives them, 20 a \
         second, and nothing else."
            .to_owned(),
    ];
    notes.extend(missing(unmeasured, situations.len(), "situations"));
    let samples =
        runs.iter().zip(&said).filter_map(|((one, _), said)| Some(sample(one, said.as_ref()?)));
    Ok(Report {
        settings: json!({
            "first_seed": seeds.start,
            "seeds": seeds.end - seeds.start,
            "situations": situations.len(),
            "quick": run.common.quick,
        }),
        shows: shows(&situations, &of),
        columns: COLUMNS.to_vec(),
        rows,
        fits: Vec::new(),
        samples: samples.collect(),
        notes,
        plot: None,
    })
}

/// What explain says of a draw.
fn said_of(situation: &Situation, seed: u64) -> Result<Said, Error> {
    let looks = world::looks(situation, seed).map_err(|what| {
        Error::Failed(format!(
            "{}; seed {seed}: {what}. This is a defect of the stack: please report this line",
            situation.name
        ))
    })?;
    let verdict = Verdict::of(&looks);
    let words = verdict.as_ref().map_or_else(String::new, |verdict| Words::of(verdict).answer);
    Ok(Said { limit: verdict.and_then(|verdict| verdict.limit), words, seed })
}

fn name(limit: Option<Limit>) -> &'static str {
    limit.map_or("none", Limit::name)
}

/// The values of [`COLUMNS`], in their order.
fn row(situation: &Situation, all: &[&Said]) -> Vec<Value> {
    let right = all.iter().filter(|said| said.limit == Some(situation.limit)).count();
    let mut wrong: Vec<&str> = all
        .iter()
        .filter(|said| said.limit != Some(situation.limit))
        .map(|said| name(said.limit))
        .collect();
    wrong.sort_unstable();
    wrong.dedup();
    let share = (!all.is_empty()).then(|| right as f64 / all.len() as f64);
    vec![
        json!(situation.name),
        json!(situation.limit.name()),
        json!(right),
        json!(all.len()),
        json!(share),
        json!(wrong.join(", ")),
        json!(situation.ranges),
    ]
}

fn sample(situation: &Situation, said: &Said) -> Value {
    json!({
        "situation": situation.name,
        "seed": said.seed,
        "said": name(said.limit),
        "is_right": said.limit == Some(situation.limit),
        "words": said.words,
    })
}

/// Two sentences of the figures.
fn shows<'a>(situations: &[&Situation], of: &dyn Fn(&Situation) -> Vec<&'a Said>) -> Vec<String> {
    let right = |one: &Situation| of(one).iter().filter(|s| s.limit == Some(one.limit)).count();
    let (all, good): (usize, usize) =
        situations.iter().fold((0, 0), |(all, good), one| (all + of(one).len(), good + right(one)));
    if all == 0 {
        return Vec::new();
    }
    let enough = situations.iter().filter(|one| 20 * right(one) >= 19 * of(one).len()).count();
    vec![format!(
        "explain named {good} of {all} draws right, and {enough} of {} situations in at least 19 \
         of 20 draws.",
        situations.len()
    )]
}
