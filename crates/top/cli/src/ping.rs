//! `wirespeed ping`: ICMP echo over a device, with the output and the exit codes of other pings: 0
//! an answer, 1 no answer, 2 an error.
//!
//! Called by: `lib.rs`.

mod report;
mod run;
mod within;

use std::path::PathBuf;

use anyhow::Result;
use wirespeed::Duration;

use crate::network::Hint;
use crate::{Outcome, Usage, names, network, output};

/// The options.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("ip_version").args(["v4", "v6"])))]
pub(crate) struct Args {
    /// Name or address to send to
    #[arg(value_name = "HOST")]
    host: String,
    #[command(flatten)]
    network: network::Args,
    #[command(flatten)]
    names: names::Args,
    /// IPv4 only
    #[arg(short = '4')]
    v4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    v6: bool,
    /// Stop after so many requests [default: at Ctrl-C]
    #[arg(short = 'c', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Time between requests
    #[arg(short = 'i', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Bytes of data in a request
    #[arg(short = 's', value_name = "BYTES", default_value_t = 56,
          value_parser = clap::value_parser!(u16).range(0..=PAYLOAD_MAX))]
    size: u16,
    /// What to do with requests larger than the path carries: send them in fragments, refuse them,
    /// or send them whole whatever is known of the path
    #[arg(short = 'M', value_name = "HINT", value_enum, default_value_t = Hint::Want)]
    hint: Hint,
    /// How long to wait for an answer to the last request
    #[arg(short = 'W', value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    wait: Duration,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
    /// Ask from the stack of a running program, by its control socket, as the user that you are
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "network"])]
    socket: Option<PathBuf>,
    /// The same, by the program's process number
    #[arg(long, value_name = "N", conflicts_with = "network")]
    pid: Option<u32>,
}

/// Run it. Errors are printed here, because their exit code is ping's own.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let ran = match args.socket.is_some() || args.pid.is_some() {
        true => within::run(args),
        false => run::run(args),
    };
    match ran {
        Ok(true) => Ok(Outcome::Done),
        Ok(false) => Ok(Outcome::Exit(1)),
        Err(error) if error.is::<Usage>() => Err(error),
        Err(error) => {
            output::err(&format!("error: {error:#}"));
            Ok(Outcome::Exit(2))
        }
    }
}

/// The largest payload of an echo request, in bytes: over IPv6, whose header does not count. An
/// IPv4 packet holds 20 less.
const PAYLOAD_MAX: i64 = 65_527;

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.001..=86_400.0).contains(&s) => Ok(Duration::from_nanos((s * 1e9) as u64)),
        _ => Err("expected seconds from 0.001 to 86400, such as 0.2".to_owned()),
    }
}
