//! The command line of `dump`: tcpdump's letters for what both can do.
//!
//! Called by: clap, then `dump.rs`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ArgAction::Count;
use clap::builder::TypedValueParser;
use dissect::{As, Hex, Style};

use super::run::names::{Names, Rotation};
use super::run::source::Direction;
use crate::Usage;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
FILTER is libpcap's language (pcap-filter(7)); libpcap is loaded for it when there is one.
Names are never looked up, so -n changes nothing. Ctrl-C ends a capture with a summary.

A capture of what a running wirespeed sends and receives, opened in Wireshark:
  wirespeed dump -w out.pcapng tcp port 80
The same, a file an hour:
  wirespeed dump -G 3600 -w out-%d-%H%M.pcapng tcp port 80
What passes the interfaces of this machine, and what is in a file:
  wirespeed dump -i any -c 10 -v
  wirespeed dump -r out.pcapng -X")]
pub(crate) struct Args {
    /// What to keep or show [default: everything]
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    pub(super) filter: Vec<String>,

    /// An interface of this machine; any for all that are up
    #[arg(short, value_name = "NAME", help_heading = "Source",
          conflicts_with_all = ["read", "pid", "socket"])]
    pub(super) interface: Option<String>,
    /// A file, pcap or pcapng; - is standard input
    #[arg(short, value_name = "FILE", help_heading = "Source",
          conflicts_with_all = ["pid", "socket"])]
    pub(super) read: Option<PathBuf>,
    /// A running wirespeed, by its process number [default: the only one that runs]
    #[arg(long, value_name = "N", help_heading = "Source", conflicts_with = "socket")]
    pub(super) pid: Option<u32>,
    /// A running wirespeed, by its control socket
    #[arg(long, value_name = "PATH", help_heading = "Source")]
    pub(super) socket: Option<PathBuf>,
    /// One port of a running wirespeed, as -w names it: sender:0 [default: all of them]
    #[arg(long, value_name = "STACK:N", help_heading = "Source",
          conflicts_with_all = ["interface", "read"])]
    pub(super) port: Option<String>,
    /// List the interfaces of this machine and end
    #[arg(short = 'D', long = "list-interfaces", help_heading = "Source")]
    pub(super) list: bool,
    /// With -D: as JSON
    #[arg(long, help_heading = "Source", requires = "list")]
    pub(super) json: bool,

    /// Stop after this many packets
    #[arg(short, value_name = "N", help_heading = "Which packets",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,
    /// Keep this many bytes of each packet; 0 means the default
    #[arg(short, value_name = "BYTES", default_value_t = bpf::SNAPLEN_MAX,
          help_heading = "Which packets",
          value_parser = clap::value_parser!(u32).range(..=i64::from(bpf::SNAPLEN_MAX)).map(all))]
    pub(super) snaplen: u32,
    /// Only received packets, or only sent ones
    #[arg(short = 'Q', value_name = "in|out|inout", help_heading = "Which packets",
          value_parser = ["in", "out", "inout"])]
    pub(super) directions: Option<String>,
    /// Read the filter from a file; a filter on the command line is ignored
    #[arg(short = 'F', value_name = "FILE", help_heading = "Which packets")]
    pub(super) filter_file: Option<PathBuf>,
    /// Print the filter's instructions and end; -dd as C, -ddd as numbers
    #[arg(short = 'd', action = Count, help_heading = "Which packets")]
    pub(super) code: u8,
    /// Cut super-segments into the packets that go on the wire
    #[arg(long, help_heading = "Which packets")]
    pub(super) segment: bool,

    /// Write packets to a pcapng file, and print none; - is standard output
    #[arg(short, value_name = "FILE", help_heading = "Files")]
    pub(super) write: Option<PathBuf>,
    /// Begin a new file after this many millions of bytes, with a number behind its name
    #[arg(short = 'C', value_name = "MB", requires = "write", help_heading = "Files",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) megabytes: Option<u64>,
    /// Begin a new file after this many seconds by the clock, or with -r by the packets' times; its
    /// name may contain conversions of strftime(3), as in cap-%H%M%S.pcapng, and gets a number
    /// behind it when it repeats
    #[arg(short = 'G', value_name = "SECONDS", requires = "write", help_heading = "Files",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: Option<u64>,
    /// Number of files: with -C the first is overwritten after the last; with -G the capture ends
    /// with the last
    #[arg(short = 'W', value_name = "FILES", requires = "write", help_heading = "Files",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) files: Option<u64>,
    /// Write each packet to the file at once
    #[arg(short = 'U', help_heading = "Files")]
    pub(super) unbuffered: bool,

    /// Print link headers
    #[arg(short = 'e', help_heading = "Lines")]
    pub(super) link: bool,
    /// Print more: fields of the IP header, and whether checksums are right; -vv, -vvv: yet more
    #[arg(short, action = Count, help_heading = "Lines")]
    pub(super) verbose: u8,
    /// Print less about protocols
    #[arg(short = 'q', help_heading = "Lines")]
    pub(super) quiet: bool,
    /// Print packets in hex as well; -xx with the link header
    #[arg(short = 'x', action = Count, help_heading = "Lines")]
    pub(super) hex: u8,
    /// Print packets in hex and ASCII as well; -XX with the link header
    #[arg(short = 'X', action = Count, help_heading = "Lines")]
    pub(super) hex_and_ascii: u8,
    /// Print packets in ASCII as well; -AA with the link header
    #[arg(short = 'A', action = Count, help_heading = "Lines")]
    pub(super) ascii: u8,
    /// Print no times; -tt seconds since 1970, -ttt since the packet before, -tttt with the date,
    /// -ttttt since the first packet
    #[arg(short = 't', action = Count, help_heading = "Lines")]
    pub(super) times: u8,
    /// Print each packet's number
    #[arg(short = '#', long = "number", help_heading = "Lines")]
    pub(super) numbered: bool,
    /// Print sequence numbers as they are
    #[arg(short = 'S', help_heading = "Lines")]
    pub(super) absolute: bool,
    /// Do not verify checksums of IP, TCP and UDP
    #[arg(short = 'K', help_heading = "Lines")]
    pub(super) trusting: bool,
    /// Look up no names, which dump never does
    #[arg(short, action = Count, help_heading = "Lines")]
    pub(super) n: u8,
    /// Print each line at once, also to a pipe
    #[arg(short = 'l', help_heading = "Lines")]
    pub(super) line_buffered: bool,
    /// Print the number of packets instead of the packets
    #[arg(long = "count", help_heading = "Lines", conflicts_with = "write")]
    pub(super) number_alone: bool,
}

impl Args {
    /// When a file of `-w` is full, and how many files there may be.
    pub(super) fn rotation(&self) -> Rotation {
        Rotation { megabytes: self.megabytes, seconds: self.seconds, files: self.files }
    }

    /// `-Q`; `None` for both.
    pub(super) fn direction(&self) -> Option<Direction> {
        self.directions.as_deref().and_then(Direction::of_option)
    }

    /// The style of lines.
    pub(super) fn style(&self) -> Style {
        let hex = |as_what, count: u8| (count > 0).then_some(Hex { as_what, with_link: count > 1 });
        Style {
            verbose: self.verbose,
            quiet: self.quiet,
            link: self.link,
            hex: hex(As::Both, self.hex_and_ascii)
                .or_else(|| hex(As::Hex, self.hex))
                .or_else(|| hex(As::Ascii, self.ascii)),
            absolute: self.absolute,
            trusting: self.trusting,
            numbered: self.numbered,
        }
    }

    /// Checks that clap cannot make.
    ///
    /// # Errors
    /// [`crate::Usage`]: too many `-t`, `-W` without `-C` or `-G`, or an impossible name for `-w`.
    pub(super) fn check(&self) -> Result<()> {
        if self.times > 5 {
            bail!(Usage(
                "-t five times is the most: -ttttt is the time since the first".to_owned()
            ));
        }
        if self.files.is_some() && self.megabytes.is_none() && self.seconds.is_none() {
            bail!(Usage("-W is a number of files, which -C or -G fills: give one".to_owned()));
        }
        match &self.write {
            Some(path) => Names::new(path, self.rotation()).map(drop),
            None => Ok(()),
        }
    }
}

/// The snapshot length for `-s`: 0 stands for the maximum, as with tcpdump.
fn all(snaplen: u32) -> u32 {
    if snaplen == 0 { bpf::SNAPLEN_MAX } else { snaplen }
}
