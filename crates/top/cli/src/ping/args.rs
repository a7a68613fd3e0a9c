//! The command line of `ping`, with the letters of iputils' ping.
//!
//! Called by: clap, then `run.rs`.

use std::path::PathBuf;

use wirespeed::Duration;

use crate::names;
use crate::outside::{self, Hint};

/// The largest payload of an echo request, in bytes: over IPv6, whose header does not count. An
/// IPv4 packet holds 20 less.
const PAYLOAD_MAX: i64 = 65_527;

/// The options.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("ip_version").args(["v4", "v6"])))]
pub(crate) struct Args {
    /// Name or address to send to
    #[arg(value_name = "HOST")]
    pub(super) host: String,
    #[command(flatten)]
    pub(super) outside: outside::Args,
    #[command(flatten)]
    pub(super) names: names::Args,
    /// IPv4 only
    #[arg(short = '4')]
    pub(super) v4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    pub(super) v6: bool,
    /// Stop after so many requests [default: at Ctrl-C]
    #[arg(short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// Time between requests
    #[arg(short = 'i', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(super) interval: Duration,
    /// Bytes of data in a request
    #[arg(short = 's', value_name = "BYTES", default_value_t = 56,
          value_parser = clap::value_parser!(u16).range(0..=PAYLOAD_MAX))]
    pub(super) size: u16,
    /// Of requests larger than the path carries: send them in fragments, refuse them, or send them
    /// whole whatever is known of the path
    #[arg(short = 'M', value_name = "HINT", value_enum, default_value_t = Hint::Want)]
    pub(super) hint: Hint,
    /// How long to wait for an answer to the last request
    #[arg(short = 'W', value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(super) wait: Duration,
    /// One JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Ask from the stack of a running program, by its control socket, as the user that you are
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "outside"])]
    pub(super) socket: Option<PathBuf>,
    /// The same, by the program's process number
    #[arg(long, value_name = "N", conflicts_with = "outside")]
    pub(super) pid: Option<u32>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.001..=86_400.0).contains(&s) => Ok(Duration::from_nanos((s * 1e9) as u64)),
        _ => Err("expected seconds from 0.001 to 86400, such as 0.2".to_owned()),
    }
}
