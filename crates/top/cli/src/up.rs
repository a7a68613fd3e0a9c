//! `wirespeed up CONFIG.toml`: a router. All of it is the crate `router`'s.
//!
//! Called by: `lib.rs`.

use std::path::PathBuf;
use std::process::ExitCode;

use router::Daemon;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
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
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,
    #[command(flatten)]
    live: crate::http::Args,
    /// Say what is wrong with the configuration, and end
    #[arg(long)]
    check: bool,
}

/// Run it, or check a configuration.
pub(crate) fn main(args: &Args) -> ExitCode {
    let daemon = Daemon::new(&args.config).version(env!("WIRESPEED_VERSION"));
    if args.check { daemon.check() } else { daemon.page(args.live.http).run() }
}
