//! The options of `wg`.
//!
//! Called by: clap, then `wg.rs`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::gateways::Outer;

use crate::proxy;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed wg office.conf -- ssh host.office        this program alone is in the tunnel
  wirespeed wg office.conf --allow '10.1.0.0/16' -- bash
  wirespeed wg office.conf --socks 127.0.0.1:1080    a proxy, whose way out is the tunnel

FILE is a configuration of wg-quick. [Interface] has PrivateKey, Address, and perhaps DNS, MTU and
ListenPort; each [Peer] PublicKey, AllowedIPs, and perhaps PresharedKey, Endpoint and
PersistentKeepalive. What AllowedIPs of no peer has is not reached. Names are asked of DNS, or
without such a line of the host's servers, outside of the tunnel.")]
pub(crate) struct Args {
    /// The tunnel's configuration, as wg-quick reads it
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Run a proxy at this address, by SOCKS5 and HTTP, in the place of a program
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = proxy::address,
          conflicts_with = "command")]
    pub(super) socks: Option<SocketAddr>,
    #[command(flatten)]
    pub(super) outer: Outer,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "socks", last = true)]
    pub(super) command: Vec<OsString>,
}
