//! The command line of the lab: an experiment's name, options of all or several experiments, and
//! the experiment's own options; or `all`, or `compare`.
//!
//! Called by: clap, for `wirespeed lab`.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};

use crate::experiments::{EXPERIMENTS, Experiment};
use crate::run::{Common, Run};
use crate::{Envelope, Error, Machine, Report, all, compare};

/// The ids of options in [`Common`] that not every experiment uses. An experiment refuses those
/// that it does not use, because they would not change its figures.
pub(crate) const SOME: [&str; 3] = ["seeds", "first_seed", "jobs"];

/// The subcommands that are not experiments.
const ALL: &str = "all";
const COMPARE: &str = "compare";

/// The parsed command line.
#[derive(Debug)]
pub struct Args(pub(crate) Asked);

/// The command that is asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// An experiment.
    One(One),
    /// All experiments, or several.
    All(all::Options),
    /// A comparison of two documents.
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
    /// Run the experiment. Returns its report, and the facts about the run.
    pub(crate) fn run(
        &self,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Report, Envelope), (Error, Box<Envelope>)> {
        let machine = Machine::now();
        let run = Run { common: &self.common, stopped };
        let begun = std::time::Instant::now();
        let report = (self.experiment.run)(&self.matches, &run);
        let envelope = Envelope {
            lab: self.experiment.name,
            question: self.experiment.question,
            machine,
            seconds: begun.elapsed().as_secs_f64(),
            interrupted: run.is_stopped(),
        };
        match report {
            Ok(report) => Ok((report, envelope)),
            Err(error) => Err((error, Box::new(envelope))),
        }
    }

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
    // Hidden options are still parsed, so that the error can name the experiments that use them.
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
