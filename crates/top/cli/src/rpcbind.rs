//! `wirespeed rpcbind`: a port mapper (RFC 1833) over the system's sockets, until Ctrl-C.
//!
//! Called by: `lib.rs`. `run` has the loop, `local` the socket of this machine.

mod local;
mod run;

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Result;
use rpc::portmap::PORT;
use rpc::server::Server;
use run::Mapper;

use crate::clock::Interrupt;
use crate::{Outcome, output};

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
    bind: Vec<IpAddr>,
    /// Path of a socket for programs of this machine [default: /run/rpcbind.sock if root runs it]
    #[arg(long, value_name = "PATH", conflicts_with = "no_socket")]
    socket: Option<PathBuf>,
    /// Serve no such socket
    #[arg(long)]
    no_socket: bool,
    /// Connections at a time; more are closed
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    most: u32,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let interrupt = Interrupt::install()?;
    let mut mapper = Mapper::open(args)?;
    output::out(&begin(&args.bind, mapper.socket()))?;
    let ended = mapper.serve(&interrupt);
    output::out(&end(&mapper.server))?;
    ended.map(|()| Outcome::Done)
}

/// The first line.
fn begin(addresses: &[IpAddr], socket: Option<&str>) -> String {
    let shown: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let socket = socket.map(|path| format!(", and {path}")).unwrap_or_default();
    let shown = shown.join(", ");
    format!("port mapper at {shown}, port {PORT}, UDP and TCP{socket}; Ctrl-C ends it\n")
}

/// The last line.
fn end(server: &Server) -> String {
    let mut text = format!("{} calls answered", server.answered());
    for (reason, count) in server.drops().nonzero() {
        text += &format!(", {count} dropped: {}", reason.meaning());
    }
    text + "\n"
}
