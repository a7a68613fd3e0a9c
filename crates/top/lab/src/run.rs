//! The input of an experiment, its result, and the reasons why there is none.
//!
//! Called by: every experiment; clap, for the options of all of them. Plain data.

use std::path::PathBuf;

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is invalid; the text says what to write instead.
    #[error("{0}")]
    Usage(String),
    /// The experiment failed; the text says what to do.
    #[error("{0}")]
    Failed(String),
}

/// The input of an experiment.
pub struct Run<'a> {
    /// The options common to all or several experiments.
    pub common: &'a Common,
    pub(crate) stopped: &'a (dyn Fn() -> bool + Sync),
}

impl Run<'_> {
    /// Was the run asked to stop? Then it ends soon, with the results so far.
    pub fn is_stopped(&self) -> bool {
        (self.stopped)()
    }
}

/// The result of an experiment, for the program.
#[derive(Debug)]
pub struct Finished {
    /// The text for standard output.
    pub text: String,
    /// Messages for people.
    pub remarks: Vec<String>,
    /// The run was stopped before its end.
    pub interrupted: bool,
    /// A file could not be written; the text is complete nevertheless.
    pub trouble: Option<Error>,
}

/// Options of all experiments, and those of several.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Every experiment")]
pub struct Common {
    /// A quick look, not a reliable result: fewer and shorter runs, under 20 s
    #[arg(long)]
    pub quick: bool,
    /// Number of runs of each measurement, each with another seed
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
    /// Write the JSON document to a file, whatever standard output shows
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

    /// The number of threads: the command line's, or one for each processor.
    pub fn jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }
}
