//! `wirespeed lab explain`: connections that are limited on purpose, each in another way, and the
//! verdicts of [`explain`] on them. The verdicts are from looks (the figures of a connection at one
//! time), as in real use.
//!
//! Called by: the lab. `situations` is the table: what limits a connection, and the ranges that the
//! parameters are drawn from by seed. `world` runs a situation in virtual time and takes the looks;
//! the verdict has no other data. With `--over wire`, `over_wire` has the table, and everything is
//! as in real use: processes, devices, and the program `wirespeed explain`.

mod draw;
#[cfg(target_os = "linux")]
mod over_wire;
mod paths;
mod programs;
mod situations;
#[cfg(test)]
mod tests;
mod world;

use clap::{ArgMatches, FromArgMatches};
use explain::{Limit, Verdict, Words};
use serde_json::{Value, json};

use crate::report::{Column, Format, Report, column, with_missing};
use crate::{Error, Run};
pub(crate) use situations::SITUATIONS;
use situations::{Drawn, Situation};

/// The number of draws of each situation, usually and with `--quick`.
const DRAWS: (u64, u64) = (20, 2);
/// The same numbers over the wire, where a draw takes ten seconds or more.
const DRAWS_OVER_WIRE: (u64, u64) = (20, 1);
/// How many draws over the wire run at a time on each processor: a draw waits most of the time.
const AT_A_TIME: usize = 4;

/// The network that carries the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Over {
    /// The simulator, in virtual time.
    #[default]
    Sim,
    /// `wirespeed wire` between ttcp and the kernel, in real time; needs root.
    #[cfg(target_os = "linux")]
    Wire,
}

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only these situations, by their names as the table prints them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    situation: Vec<String>,
    /// What carries the packets
    #[arg(long, value_enum, default_value_t)]
    over: Over,
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

/// The verdict on a draw.
struct Said {
    limit: Option<Limit>,
    words: String,
    seed: u64,
    /// The longest pause of the wire.
    pause_ms: Option<f64>,
}

impl Options {
    fn situations(&self) -> Result<Vec<&'static Situation>, Error> {
        let all = self.over.situations();
        if self.situation.is_empty() {
            return Ok(all.iter().collect());
        }
        let of = |name: &String| {
            let found = all.iter().find(|situation| situation.name == name);
            found.ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|s| s.name).collect();
                Error::Usage(format!("no situation '{name}'; there are: {}", names.join(", ")))
            })
        };
        self.situation.iter().map(of).collect()
    }
}

impl Over {
    fn situations(self) -> &'static [Situation] {
        match self {
            Over::Sim => SITUATIONS,
            #[cfg(target_os = "linux")]
            Over::Wire => over_wire::SITUATIONS,
        }
    }

    fn draws(self) -> (u64, u64) {
        if self == Over::Sim { DRAWS } else { DRAWS_OVER_WIRE }
    }

    fn name(self) -> &'static str {
        if self == Over::Sim { "sim" } else { "wire" }
    }

    fn note(self) -> &'static str {
        match self {
            Over::Sim => {
                "Each draw is a world in virtual time with parameters from the ranges of its \
                 situation (`ranges` in the document); explain gets the figures that the control \
                 socket would give, 20 times a second, and nothing else."
            }
            #[cfg(target_os = "linux")]
            Over::Wire => {
                "Each draw is a transfer in real time between ttcp and the kernel over wirespeed \
                 wire, with parameters from the ranges of its situation (`ranges` in the \
                 document), and what `wirespeed explain` said of it. A draw was repeated, three \
                 times at most, if the process of the wire had paused for more than 50 ms."
            }
        }
    }

    /// The number of threads: the command line's, or a default.
    fn jobs(self, run: &Run<'_>) -> usize {
        match run.common.jobs {
            None if self != Over::Sim => AT_A_TIME * run.common.jobs(),
            _ => run.common.jobs(),
        }
    }
}

/// Run the draws of each situation, and compare the verdicts with the limits.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    let situations = options.situations()?;
    let (usual, quick) = options.over.draws();
    let seeds = run.common.seeds(usual, quick);
    let runs: Vec<(&Situation, u64)> =
        seeds.clone().flat_map(|seed| situations.iter().map(move |&one| (one, seed))).collect();
    let said = run.each_on(options.over.jobs(run), &runs, |&(situation, seed), stop| {
        if stop() {
            return Ok(None);
        }
        said_of(situation, seed, stop)
    })?;
    let of = |situation: &Situation| -> Vec<&Said> {
        let all = runs.iter().zip(&said).filter(|((one, _), _)| one.name == situation.name);
        all.filter_map(|(_, said)| said.as_ref()).collect()
    };
    let rows: Vec<Vec<Value>> = situations.iter().map(|one| row(one, &of(one))).collect();
    let unmeasured = situations.iter().filter(|one| of(one).is_empty()).count();
    let notes = vec![options.over.note().to_owned()];
    let notes = with_missing(notes, unmeasured, situations.len(), "situations");
    let samples =
        runs.iter().zip(&said).filter_map(|((one, _), said)| Some(sample(one, said.as_ref()?)));
    Ok(Report {
        settings: json!({
            "over": options.over.name(),
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

/// The verdict of explain on a draw; `None` if the experiment was stopped.
fn said_of(
    situation: &Situation,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Said>, Error> {
    let of = |what: &str| format!("{}; seed {seed}: {what}", situation.name);
    match situation.draw {
        Drawn::World(draw) => {
            let looks = world::looks(draw, seed).map_err(|what| {
                let what = of(&what.to_string());
                Error::Failed(format!(
                    "{what}. This is a defect of the stack: please report this line"
                ))
            })?;
            let verdict = Verdict::of(&looks);
            let words = verdict.as_ref().map_or_else(String::new, |v| Words::of(v).answer);
            let limit = verdict.and_then(|verdict| verdict.limit);
            Ok(Some(Said { limit, words, seed, pause_ms: None }))
        }
        #[cfg(target_os = "linux")]
        Drawn::Wired(draw) => {
            let wired = draw(&mut draw::Draw::new(seed));
            let heard = over_wire::said(&wired, seed, stop);
            let heard = heard.map_err(|error| Error::Failed(of(&error.to_string())))?;
            Ok(heard.map(|over_wire::Heard { limit, words, pause_ms }| Said {
                limit,
                words,
                seed,
                pause_ms,
            }))
        }
    }
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
        "pause_ms": said.pause_ms,
    })
}

/// Two sentences about the figures.
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
