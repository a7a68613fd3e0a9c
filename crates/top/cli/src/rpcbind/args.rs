//! The command line of `rpcbind`.
//!
//! Called by: clap, then `run.rs`.

use std::net::IpAddr;
use std::path::PathBuf;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
It takes mappings from loopback addresses and its own socket alone, sends no calls on (CALLIT), and
lists its mappings over UDP to loopback alone, so that nobody can use it to flood others.

Try:  sudo wirespeed rpcbind &
      wirespeed rpcinfo -p")]
pub(crate) struct Args {
    /// Address to listen at, port 111 [default: all, IPv4 and IPv6]
    #[arg(long, value_name = "ADDR", default_values = ["0.0.0.0", "::"], hide_default_value = true)]
    pub(super) bind: Vec<IpAddr>,
    /// Path of a socket for programs of this machine [default: /run/rpcbind.sock if root runs it]
    #[arg(long, value_name = "PATH", conflicts_with = "no_socket")]
    pub(super) socket: Option<PathBuf>,
    /// Serve no such socket
    #[arg(long)]
    pub(super) no_socket: bool,
    /// Connections at a time; more are closed
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) most: u32,
}
