//! The command line of the lab: the experiment's name, options of all or several experiments, and
//! its own options; or `all`, or `compare`.
//!
//! Called by: clap, for `wirespeed lab`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};

use crate::{EXPERIMENTS, Error, Experiment, all, compare};

/// The ids of options in [`Common`] that not every experiment uses. An experiment refuses those
/// that it does not use, because they would not change its figures.
pub(crate) const SOME: [&str; 3] = ["seeds", "first_seed", "jobs"];

/// The subcommands that are no experiments.
const ALL: &str = "all";
const COMPARE: &str = "compare";

/// Options of all experiments, and those of several.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Every experiment")]
pub struct Common {
    /// A look, not a result: less of everything, under 20 s
    #[arg(long)]
    pub quick: bool,
    /// How often each thing is measured, each time with another seed
    #[arg(long, value_name = "N", help_heading = "Some experiments",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = "Some experiments",
          value_parser = clap::value_parser!(u64).range(..=1 << 53))]
    pub first_seed: u64,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Write that document to a file, whatever standard output shows
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Draw the result into FILE.svg
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N", help_heading = "Some experiments",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
}

impl Common {
    /// The range of `usual` seeds, or `quick` with `--quick`, unless the command line gives a
    /// number.
    pub fn seeds(&self, usual: u64, quick: u64) -> std::ops::Range<u64> {
        let seeds = self.seeds.unwrap_or(if self.quick { quick } else { usual });
        self.first_seed..self.first_seed + seeds
    }

    /// Number of threads.
    pub fn jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }
}

/// The parsed command line.
#[derive(Debug)]
pub struct Args(pub(crate) Asked);

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// An experiment.
    One(One),
    /// All of them, or several.
    All(all::Options),
    /// Two documents, one against the other.
    Compare(compare::Options),
}

/// An experiment and its options.
pub(crate) struct One {
    pub(crate) experiment: &'static Experiment,
    pub(crate) common: Common,
    pub(crate) matches: ArgMatches,
}

#[cfg(test)]
impl Args {
    /// The experiment that is asked for.
    pub(crate) fn one(&self) -> &One {
        match &self.0 {
            Asked::One(one) => one,
            other => panic!("no experiment: {other:?}"),
        }
    }
}

impl One {
    /// An experiment with these words as its command line.
    pub(crate) fn parsed(
        experiment: &'static Experiment,
        words: &[String],
    ) -> Result<One, clap::Error> {
        let command = command(experiment).no_binary_name(true);
        One::from(experiment, &command.try_get_matches_from(words)?)
    }

    fn from(experiment: &'static Experiment, matches: &ArgMatches) -> Result<One, clap::Error> {
        let common = Common::from_arg_matches(matches)?;
        Ok(One { experiment, common, matches: matches.clone() })
    }

    /// Refuse options that the experiment does not use.
    pub(crate) fn refuse_unused(&self) -> Result<(), Error> {
        let is_given = |id: &str| self.matches.value_source(id) == Some(ValueSource::CommandLine);
        for id in SOME {
            if self.experiment.takes.contains(&id) || !is_given(id) {
                continue;
            }
            let takers = EXPERIMENTS.iter().filter(|other| other.takes.contains(&id));
            let takers: Vec<&str> = takers.map(|other| other.name).collect();
            return Err(Error::Usage(format!(
                "'lab {}' has no use for --{}; experiments that take it: {}",
                self.experiment.name,
                id.replace('_', "-"),
                takers.join(", ")
            )));
        }
        Ok(())
    }
}

impl std::fmt::Debug for One {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("One").field(&self.experiment.name).field(&self.common).finish()
    }
}

fn command(experiment: &Experiment) -> Command {
    let own = (experiment.options)(Command::new(experiment.name));
    let all = <Common as clap::Args>::augment_args(own);
    let unused = SOME.into_iter().filter(|id| !experiment.takes.contains(id));
    // They stay known, so that the refusal can name the experiments that use them.
    let all = unused.fold(all, |command, id| command.mut_arg(id, |arg| arg.hide(true)));
    // Replaces the doc comments of the derived options, which are not for users.
    all.about(experiment.summary)
        .long_about(format!("{}\n\n{}", experiment.summary, experiment.question))
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand_value_name("EXPERIMENT")
            .subcommand_help_heading("Experiments")
            .subcommands(EXPERIMENTS.iter().map(self::command))
            .subcommand(
                <all::Options as clap::Args>::augment_args(Command::new(ALL)).about(all::ABOUT),
            )
            .subcommand(
                <compare::Options as clap::Args>::augment_args(Command::new(COMPARE))
                    .about(compare::ABOUT),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Args, clap::Error> {
        let asked = match matches.subcommand() {
            Some((ALL, matches)) => Asked::All(all::Options::from_arg_matches(matches)?),
            Some((COMPARE, matches)) => {
                Asked::Compare(compare::Options::from_arg_matches(matches)?)
            }
            other => {
                let named = other.and_then(|(name, matches)| {
                    Some((EXPERIMENTS.iter().find(|e| e.name == name)?, matches))
                });
                let Some((experiment, matches)) = named else {
                    let what = "name an experiment; 'wirespeed lab --help' lists them\n";
                    return Err(clap::Error::raw(ErrorKind::MissingSubcommand, what));
                };
                Asked::One(One::from(experiment, matches)?)
            }
        };
        Ok(Args(asked))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
