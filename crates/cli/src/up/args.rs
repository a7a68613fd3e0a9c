//! The command line of `up`.
//!
//! Called by: clap, then `up.rs`.

use std::path::PathBuf;

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
}
