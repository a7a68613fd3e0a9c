//! The command line of `show`.
//!
//! Called by: clap, then `run.rs`.

use std::path::PathBuf;

use crate::running::Section;

/// The options.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What to show [default: all of it]
    pub(super) section: Option<Section>,
    /// One JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// The control socket of the program
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(super) socket: Option<PathBuf>,
    /// The program's process number [default: the only one that runs]
    #[arg(long)]
    pub(super) pid: Option<u32>,
}
