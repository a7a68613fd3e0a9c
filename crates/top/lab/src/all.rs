//! `wirespeed lab all`: every experiment one after the other, with its default options. The result
//! is a page, one JSON document, or tables.
//!
//! Called by: the lab. `ended` has the end of each experiment, `page` makes the page, `opening` its
//! first sentences, `series` the data of its plots.
//!
//! If an experiment fails, its error is reported in its place, and the others still run.

mod ended;
mod opening;
mod page;
mod series;
#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::envelope::{Envelope, VERSION};
use crate::experiments::{EXPERIMENTS, Experiment};
use crate::keep::Kept;
use crate::options::One;
use crate::{Error, Finished, Machine, table};
use ended::{End, Ended, rounded};

pub(crate) const ABOUT: &str = "Every experiment, on one page with plots, or in one document";

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// A quick look, not a reliable result: fewer and shorter runs, minutes in all
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a page with plots to hover and zoom; it needs no network
    #[arg(short = 'o', long, value_name = "FILE.html")]
    pub(crate) page: Option<PathBuf>,
    /// Run only these experiments, in this order
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EXPERIMENTS.iter().map(|e| e.name)))]
    pub(crate) only: Vec<String>,
    /// One JSON document on standard output, with the document of each experiment in it
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the JSON document to a file, whatever standard output shows
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

impl Options {
    /// The experiments that are asked for, each once.
    fn experiments(&self) -> Vec<&'static Experiment> {
        if self.only.is_empty() {
            return EXPERIMENTS.iter().collect();
        }
        let named = self.only.iter().enumerate();
        let once = named.filter(|(at, name)| !self.only[..*at].contains(name));
        once.filter_map(|(_, name)| EXPERIMENTS.iter().find(|e| e.name == *name)).collect()
    }

    /// The arguments that each experiment gets.
    fn words(&self) -> Vec<String> {
        self.quick.then(|| "--quick".to_owned()).into_iter().collect()
    }
}

/// A run of several experiments.
pub(crate) struct All {
    pub(crate) ended: Vec<Ended>,
    pub(crate) machine: Machine,
    /// When the run began, in UTC, by the clock of the machine.
    pub(crate) date: String,
    pub(crate) seconds: f64,
    pub(crate) interrupted: bool,
    pub(crate) quick: bool,
    /// The command line that repeats the run.
    pub(crate) command: String,
}

/// Run the experiments, then print or write what the options ask for.
pub(crate) fn perform(
    options: &Options,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Finished, Error> {
    let mut page = options.page.as_deref().map(Kept::open).transpose()?;
    let mut out = options.out.as_deref().map(Kept::open).transpose()?;
    let all = run(options, stopped)?;
    let (mut remarks, mut trouble) = (Vec::new(), None);
    let mut write = |kept: &mut Option<Kept>, text: &dyn Fn() -> String| match kept
        .as_mut()
        .map(|kept| kept.write(&text()))
    {
        Some(Ok(said)) => remarks.push(said),
        Some(Err(error)) => trouble = trouble.take().or(Some(error)),
        None => {}
    };
    let document = || format!("{:#}\n", all.document());
    write(&mut out, &document);
    write(&mut page, &|| page::html(&all));
    let text = match (options.json, &options.page) {
        (true, _) => document(),
        (false, Some(_)) => all.summary(),
        (false, None) => all.tables(),
    };
    Ok(Finished { text, remarks, interrupted: all.interrupted, trouble })
}

/// Run the experiments that are asked for.
fn run(options: &Options, stopped: &(dyn Fn() -> bool + Sync)) -> Result<All, Error> {
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string();
    let (machine, begun) = (Machine::now(), Instant::now());
    let ended = run_each(options, stopped)?;
    Ok(All {
        ended,
        machine,
        date,
        seconds: begun.elapsed().as_secs_f64(),
        interrupted: stopped(),
        quick: options.quick,
        command: command(options),
    })
}

/// The page of all experiments, for benchmarks.
pub(crate) fn page(quick: bool, stopped: &(dyn Fn() -> bool + Sync)) -> Result<String, Error> {
    let options = Options { quick, page: None, only: Vec::new(), json: false, out: None };
    Ok(page::html(&run(&options, stopped)?))
}

/// The command line that repeats the run.
fn command(options: &Options) -> String {
    let quick = if options.quick { " --quick" } else { "" };
    let only = match options.only.is_empty() {
        true => String::new(),
        false => format!(" --only {}", options.only.join(",")),
    };
    format!("wirespeed lab all{quick}{only} -o report.html")
}

fn run_each(options: &Options, stopped: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Ended>, Error> {
    let experiments = options.experiments();
    let (count, words) = (experiments.len(), options.words());
    let mut ended = Vec::new();
    for (at, experiment) in experiments.into_iter().enumerate() {
        let one = One::parsed(experiment, &words)
            .map_err(|error| Error::Usage(format!("lab {}: {error}", experiment.name)))?;
        let end = match stopped() {
            true => End::NotRun,
            false => {
                // A closed standard error is ignored.
                let name = experiment.name;
                let _ = writeln!(io::stderr(), "{} of {count}: {name}", at + 1);
                measured(&one, stopped)
            }
        };
        let command = [&["wirespeed", "lab", experiment.name].map(str::to_owned)[..], &words];
        ended.push(Ended { experiment, command: command.concat().join(" "), end });
    }
    Ok(ended)
}

/// Run one experiment. If it panics, the others still run.
fn measured(one: &One, stopped: &(dyn Fn() -> bool + Sync)) -> End {
    match catch_unwind(AssertUnwindSafe(|| one.run(stopped))) {
        Ok(Ok((report, envelope))) => End::Done(Box::new((report, envelope))),
        Ok(Err((error, envelope))) => End::Failed(error.to_string(), envelope),
        Err(_) => {
            let what = "the experiment panicked: a defect. Please report what is above on standard \
                        error";
            let envelope = Envelope {
                lab: one.experiment.name,
                question: one.experiment.question,
                machine: Machine::now(),
                seconds: 0.0,
                interrupted: stopped(),
            };
            End::Failed(what.to_owned(), Box::new(envelope))
        }
    }
}

impl All {
    /// One document with the documents of all experiments.
    fn document(&self) -> Value {
        json!({
            "lab": "all",
            "version": VERSION,
            "date": self.date,
            "machine": self.machine,
            "settings": {
                "quick": self.quick,
                "experiments": self.ended.iter().map(|e| e.experiment.name).collect::<Vec<_>>(),
            },
            "seconds": rounded(self.seconds),
            "interrupted": self.interrupted,
            "experiments": self.ended.iter().map(Ended::document).collect::<Vec<_>>(),
        })
    }

    /// How each experiment ended, for programs that read the page.
    pub(crate) fn manifest(&self) -> Value {
        json!({
            "lab": "all",
            "version": VERSION,
            "date": self.date,
            "machine": self.machine,
            "quick": self.quick,
            "seconds": rounded(self.seconds),
            "interrupted": self.interrupted,
            "experiments": self.ended.iter().map(Ended::manifest).collect::<Vec<_>>(),
        })
    }

    /// One line about the run.
    pub(crate) fn line(&self) -> String {
        format!(
            "wirespeed {VERSION}, {} · {} · took {:.0} s",
            self.machine.build,
            self.machine.line(),
            self.seconds
        )
    }

    /// For each experiment a line and what it shows, for a terminal.
    fn summary(&self) -> String {
        let mut text = table::wrapped(&self.line()) + "\n";
        if let Some(warning) = self.machine.warning() {
            text += &format!("\n{}\n", table::wrapped(&warning));
        }
        for ended in &self.ended {
            text += &format!("\n{}\n", ended.line());
            for words in ended.says() {
                text += &format!("{}\n", table::wrapped(&words));
            }
        }
        text
    }

    /// The table of each experiment.
    fn tables(&self) -> String {
        let texts = self.ended.iter().map(|ended| match &ended.end {
            End::Done(done) => table::text(&done.0, &done.1),
            _ => format!("{}\n{}\n", ended.line(), table::wrapped(&ended.says().join(" "))),
        });
        let rule = format!("\n{}\n\n", "-".repeat(96));
        texts.collect::<Vec<_>>().join(&rule)
    }
}
