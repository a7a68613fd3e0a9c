//! `wirespeed nc`: a TCP connection, a listener or datagrams in the stack of a running program,
//! with the options of nc(1). The sockets are owned by the user that runs the tool.
//!
//! Called by: `lib.rs`. `run` moves the bytes.

mod run;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::{Outcome, Usage, network};

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed nc --socket /run/wirespeed.sock 192.0.2.7 7007     a connection from the router there
  wirespeed nc -u --socket /run/wirespeed.sock 192.0.2.7 7007  datagrams, one for each line or block
  wirespeed nc --socket /run/wirespeed.sock fe80::1%lan 7007   by the link of the port called lan
  wirespeed nc -l --socket /run/wirespeed.sock 7007            the first that connects to port 7007

The kernel tells the program which user asks: routes that are not for that user do not exist for the
socket. Ports below 1024 are root's.")]
pub(crate) struct Args {
    /// ADDRESS and PORT; with -l our ADDRESS, or none for all, and PORT
    #[arg(value_name = "ADDRESS PORT", required = true, num_args = 1..=2)]
    ends: Vec<String>,
    /// Wait for a connection, or for datagrams, instead of beginning
    #[arg(short = 'l')]
    listen: bool,
    /// UDP
    #[arg(short = 'u')]
    udp: bool,
    /// A UDP socket that is not connected: each datagram is given its destination
    #[arg(long, requires = "udp", conflicts_with = "listen")]
    unconnected: bool,
    /// End once connected, or once an empty datagram was sent
    #[arg(short = 'z', conflicts_with = "listen")]
    only_try: bool,
    /// How long to wait for a connection, and then for bytes when there are no more to send
    #[arg(short = 'w', value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    wait: Duration,
    /// With -l: IPv6 [default: IPv4]
    #[arg(short = '6')]
    v6: bool,
    /// The control socket of the program
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    socket: Option<PathBuf>,
    /// The program's process number [default: the only one that runs]
    #[arg(long)]
    pid: Option<u32>,
}

impl Args {
    /// The other end, or with -l ours, and its link if one is given.
    fn end(&self) -> Result<(SocketAddr, Option<String>)> {
        let every: IpAddr =
            if self.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let (address, port) = match self.ends.as_slice() {
            [port] if self.listen => (Ok((every, None)), port.parse()),
            [address, port] => (network::with_link(address), port.parse()),
            _ => bail!(Usage("give an ADDRESS and a PORT, as 192.0.2.1 7007".to_owned())),
        };
        match (address, port) {
            (Ok((address, link)), Ok(port @ 1..)) => Ok((SocketAddr::new(address, port), link)),
            (Err(why), _) if self.ends[0].contains('%') => {
                bail!(Usage(format!("'{}': {why}", self.ends[0])))
            }
            _ => bail!(Usage(format!(
                "'{}' is no address and port: write 192.0.2.1 7007",
                self.ends.join(" ")
            ))),
        }
    }
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    run::run(args)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.001..=86_400.0).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("expected seconds from 0.001 to 86400, such as 0.2".to_owned()),
    }
}
