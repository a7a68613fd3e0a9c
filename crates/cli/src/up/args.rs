//! The command line of `up`.
//!
//! Called by: clap, then `up.rs`.

use std::num::ParseIntError;
use std::path::PathBuf;
use std::str::FromStr;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
  sudo wirespeed up router.toml             run it
  wirespeed up --check router.toml          look whether the file is valid; --check alone needs no
                                            privileges
  kill -HUP PID                             let the changed file take effect: what is the same in it
                                            is not touched, and an invalid file changes nothing
  kill -TERM PID                            send what is queued, and end
  wirespeed show routes                     and neigh, addr, ports, drops, limits ... of the router

A file to begin with is examples/router.toml, and docs/router.md explains it; dist/wirespeed.service
starts it with the machine.")]
pub(crate) struct Args {
    /// The configuration
    #[arg(value_name = "CONFIG.toml", required_unless_present = "worker")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) live: crate::http::Args,
    /// Say what is wrong with the configuration, and end
    #[arg(long)]
    pub(super) check: bool,
    /// The second process; its orders come by standard input
    #[arg(long, hide = true, conflicts_with_all = ["config", "check"])]
    pub(super) worker: bool,
    /// The user that it becomes
    #[arg(long, hide = true, requires = "worker")]
    pub(super) worker_user: Option<WorkerUser>,
}

/// Whom the second process has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerUser {
    /// One who owns nothing.
    OfItsOwn,
    /// This one, by number.
    Of(u32),
}

impl WorkerUser {
    pub(super) fn text(self) -> String {
        match self {
            WorkerUser::OfItsOwn => "own".to_owned(),
            WorkerUser::Of(uid) => uid.to_string(),
        }
    }
}

impl FromStr for WorkerUser {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<WorkerUser, ParseIntError> {
        if text == "own" { Ok(WorkerUser::OfItsOwn) } else { text.parse().map(WorkerUser::Of) }
    }
}
