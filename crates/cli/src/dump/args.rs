//! The command line of `dump`: tcpdump's letters, where both have the thing.
//!
//! Called by: clap, then `dump.rs`.

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::TypedValueParser;

use super::names::Names;
use super::names::Rotation;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
FILTER is libpcap's language (pcap-filter(7)); libpcap is loaded for it when there is one.
Names are never looked up, so -n changes nothing. Ctrl-C ends a capture, and tells what it saw.

A capture of what a running wirespeed sends and receives, opened in Wireshark:
  wirespeed dump -w out.pcapng tcp port 80
The same, a file an hour:
  wirespeed dump -G 3600 -w out-%d-%H%M.pcapng tcp port 80
What passes an interface of this machine, and what is in a file:
  wirespeed dump -i eth0 -c 10 -v
  wirespeed dump -r out.pcapng -X")]
pub(crate) struct Args {
    /// What to keep or show [default: everything]
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    pub(super) filter: Vec<String>,
    /// An interface of this machine
    #[arg(short, value_name = "NAME", conflicts_with_all = ["read", "pid", "socket"])]
    pub(super) interface: Option<String>,
    /// A file, pcap or pcapng; - is standard input
    #[arg(short, value_name = "FILE", conflicts_with_all = ["pid", "socket"])]
    pub(super) read: Option<PathBuf>,
    /// A running wirespeed, by its process number [default: the only one that runs]
    #[arg(long, value_name = "N", conflicts_with = "socket")]
    pub(super) pid: Option<u32>,
    /// A running wirespeed, by its control socket
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// One port of a running wirespeed, as -w names it: sender:0 [default: all of them]
    #[arg(long, value_name = "STACK:N", conflicts_with_all = ["interface", "read"])]
    pub(super) port: Option<String>,
    /// Write packets to a pcapng file, and print none; - is standard output
    #[arg(short, value_name = "FILE")]
    pub(super) write: Option<PathBuf>,
    /// A new file after so many millions of bytes, with a number behind its name
    #[arg(short = 'C', value_name = "MB", requires = "write",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) megabytes: Option<u64>,
    /// A new file after so many seconds, by the packets' times; its name may say when it begins, as
    /// in cap-%H%M%S.pcapng (strftime(3)), and gets a number behind it when it comes again
    #[arg(short = 'G', value_name = "SECONDS", requires = "write",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: Option<u64>,
    /// Each packet reaches the file, or the terminal, at once
    #[arg(short = 'U')]
    pub(super) unbuffered: bool,
    /// End after so many packets
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// Keep so many bytes of each packet; 0 is the default
    #[arg(short, value_name = "BYTES", default_value_t = bpf::SNAPLEN_MAX,
          value_parser = clap::value_parser!(u32).range(..=i64::from(bpf::SNAPLEN_MAX)).map(all))]
    pub(super) snaplen: u32,
    /// Look no names up; it never does
    #[arg(short, action = clap::ArgAction::Count)]
    pub(super) n: u8,
    /// Print link headers
    #[arg(short = 'e')]
    pub(super) link: bool,
    /// Print more: fields of the IP header, and whether checksums are right; -vv: those of UDP too
    #[arg(short, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// Print packets in hex and ASCII
    #[arg(short = 'X')]
    pub(super) hex: bool,
    /// Print sequence numbers as they are
    #[arg(short = 'S')]
    pub(super) absolute: bool,
    /// Print the filter's instructions and end; -dd as C, -ddd as numbers
    #[arg(short = 'd', action = clap::ArgAction::Count)]
    pub(super) code: u8,
    /// Cut super-segments into the packets that go on the wire
    #[arg(long)]
    pub(super) segment: bool,
}

impl Args {
    /// When a file of `-w` is full.
    pub(super) fn rotation(&self) -> Rotation {
        Rotation { megabytes: self.megabytes, seconds: self.seconds }
    }

    /// May it be so?
    ///
    /// # Errors
    /// [`crate::Usage`] for what clap cannot see: files of `-w` that cannot be called so.
    pub(super) fn check(&self) -> Result<()> {
        match &self.write {
            Some(path) => Names::new(path, self.rotation()).map(drop),
            None => Ok(()),
        }
    }
}

/// The snapshot length that is meant: of 0, as tcpdump has it, the longest there is.
fn all(snaplen: u32) -> u32 {
    if snaplen == 0 { bpf::SNAPLEN_MAX } else { snaplen }
}
