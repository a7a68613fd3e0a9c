//! The command line of `telnetd`.
//!
//! Called by: clap, then `run.rs`.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use crate::outside;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
PROGRAM runs as you, without a login: whoever connects may do what it lets him do. TELNET sends all
in the clear. The default address is loopback; use another where every host is trusted.
PROGRAM gets no variables of your environment but PATH, HOME, USER, LOGNAME, SHELL, TZ and LANG;
give it others by env(1). A client that says nothing is disconnected after --patience.

  wirespeed telnetd -- bash                   then: wirespeed telnet localhost 2323
  wirespeed telnetd --listen 192.0.2.1:2323 -- nano /tmp/notes
  wirespeed telnetd -- env EDITOR=vi bash
  sudo wirespeed telnetd --dev tap:ws0 --addr 192.0.2.2/24 -- login")]
pub(crate) struct Args {
    /// Where to listen [default: 127.0.0.1:2323, with --dev port 23 of all our addresses]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Sessions at a time; further connections are closed
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) most: u32,
    /// Sessions at a time of one address, or of one IPv6 network of 64 bits
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) per_address: u32,
    /// How long a client may say nothing at first, and read nothing of a program that has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) patience: u32,
    #[command(flatten)]
    pub(super) outside: outside::Args,
    /// Be PROGRAM, on the terminal that standard input is
    #[arg(long, hide = true)]
    pub(super) on_terminal: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}

impl Args {
    /// Where to listen.
    pub(super) fn listen(&self) -> SocketAddr {
        self.listen.unwrap_or_else(|| match self.outside.dev {
            None => SocketAddr::from((Ipv4Addr::LOCALHOST, 2323)),
            Some(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 23)),
        })
    }
}
