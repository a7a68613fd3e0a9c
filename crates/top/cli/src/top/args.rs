//! The command line of `top`.
//!
//! Called by: clap, then `run.rs`.

use std::path::PathBuf;

use super::view::Order;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "Keys: ? for help; b, f, r, t and n order tables by bits, frames, round \
                        trip, retransmissions and\nname, s by the next of these; e says what \
                        limits a connection, j and k go to others; q ends it.")]
pub(crate) struct Args {
    /// An interface of this machine
    #[arg(short, value_name = "NAME", conflicts_with_all = ["pid", "socket"])]
    pub(super) interface: Option<String>,
    /// A running wirespeed, by its process number [default: the only one that runs]
    #[arg(long, value_name = "N", conflicts_with = "socket")]
    pub(super) pid: Option<u32>,
    /// A running wirespeed, by its control socket
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Seconds between screens
    #[arg(short = 'd', long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(super) delay: f64,
    /// Stop after this many screens
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// Order of tables; keys change it
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(super) sort: Order,
    /// Print the tables as text, whole, one screen below the other
    #[arg(short, long)]
    pub(super) batch: bool,
}
