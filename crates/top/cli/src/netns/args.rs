//! The options of `netns`.
//!
//! Called by: clap, then `launch.rs`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::gateways::Options;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed netns -- curl https://www.example.org/      a network of its own: no root, no TUN
  wirespeed netns --link rtt=200ms,loss=1% -- firefox   on a bad network
  wirespeed netns --link lte -- ./load-test             or on one that people have
  wirespeed netns --allow '*.debian.org:443' -- bash    fenced: nothing else can be reached
  wirespeed netns -p 8080:80 -- ./server                a server that the host's port 8080 leads to
  wirespeed netns --to-host 5432 -- ./program           its localhost:5432 is the host's
  wirespeed show tcp, top, dump, explain                what it does, from another terminal

--link takes dsl, 3g, lte, wifi-bad or satellite, or settings, or both, joined by commas:
  rate=10mbit,delay=50ms,jitter=5ms,loss=0.5%,burst-loss=1%:25%,late=1%:10ms,duplicate=1%,
  corrupt=1%,queue=64k,codel=ecn,mtu=1400,seed=7; rtt=100ms is a delay of 50ms each way.
  up:rate=1mbit is for what the program sends, down:loss=1% for what it receives.

The exit status is the program's, or 128 and the number of the signal that ended it; 125 if the
network cannot be made, 127 if there is no such program.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) options: Options,
    /// The program's 127.0.0.1:PORT and [::1]:PORT lead to the host's own
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) to_host: Vec<u16>,
    /// The program sees itself as root; it gets no rights by that
    #[arg(long)]
    pub(super) root: bool,
    /// The program sees only its own processes, and all that it leaves behind end with it; always
    /// so with rules
    #[arg(long)]
    pub(super) pid: bool,
    /// Cover a file or a folder: it is empty for the program
    #[arg(long, value_name = "PATH")]
    pub(super) hide: Vec<PathBuf>,
    /// Stay until the last process in the program's network has ended
    #[arg(long)]
    pub(super) keep: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(super) command: Vec<OsString>,
}

impl Args {
    /// A command whose user is root inside, with these ports of the host.
    pub(crate) fn for_command(options: Options, to_host: Vec<u16>, command: Vec<OsString>) -> Args {
        let hide = Vec::new();
        Args { options, to_host, root: true, pid: false, hide, keep: false, command }
    }

    /// A program behind a gateway with these options.
    pub(crate) fn of(options: Options, command: Vec<OsString>) -> Args {
        let (to_host, hide) = (Vec::new(), Vec::new());
        Args { options, to_host, root: false, pid: false, hide, keep: false, command }
    }
}
