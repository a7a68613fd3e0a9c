//! The command line of `services`.
//!
//! Called by: clap, then `run.rs`.

use crate::outside;

/// The options.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) outside: outside::Args,
    /// Connections at a time; more are reset
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) most: u32,
}
