//! The command line of `telnet`.
//!
//! Called by: clap, then `run.rs`.

use std::path::PathBuf;

use wirespeed::IpVersion;

use super::prompt::Escape;
use crate::{names, outside};

/// The port of TELNET (RFC 854), where a server is asked for options at once.
pub(super) const PORT: u16 = 23;

/// The options.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("version_of_ip").args(["v4", "v6"])))]
#[command(after_help = "\
Ctrl-] stops for a command: close, send ip, mode line, status, help. TELNET sends all in the clear.

  wirespeed telnet localhost 2323
  echo 'ls -l' | wirespeed telnet localhost 2323        what a file says; ends when the server does
  sudo wirespeed telnet 192.0.2.1 --dev tap:ws0 --addr 192.0.2.2/24

Exit status: 0 the connection was closed, 1 there was none or it broke, 130 stopped by a signal.")]
pub(crate) struct Args {
    /// Name or address of the host
    #[arg(value_name = "HOST")]
    pub(super) host: String,
    /// Port; the server of another than 23 is asked for nothing, only answered
    #[arg(default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// Characters are sent as they are typed, whatever the server would like
    #[arg(long)]
    pub(super) no_linemode: bool,
    /// The character that stops for a command: ^X, a character, or none
    #[arg(short = 'e', long, value_name = "CHARACTER", default_value = "^]")]
    pub(super) escape: Escape,
    /// Say this user's name to the server
    #[arg(short = 'l', long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// Write what is negotiated to this file, in words and bytes; data is counted, not shown
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// IPv4 only
    #[arg(short = '4')]
    v4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    v6: bool,
    #[command(flatten)]
    pub(super) outside: outside::Args,
    #[command(flatten)]
    pub(super) names: names::Args,
}

impl Args {
    /// The version of IP that is asked for.
    pub(super) fn version(&self) -> Option<IpVersion> {
        match (self.v4, self.v6) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        }
    }
}
