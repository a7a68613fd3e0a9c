//! The command line of `trace`.
//!
//! Called by: clap, then `trace.rs`.

use std::path::PathBuf;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
What passes an interface, then what became of it:
  wirespeed dump -i eth0 -s 100 -w out.pcapng tcp
  wirespeed trace out.pcapng -o out.html

The counts are those of Wireshark's TCP analysis; they are guesses from what the capture shows.
FILTER is libpcap's language (pcap-filter(7)); libpcap is loaded for it when there is one.")]
pub(crate) struct Args {
    /// The capture, pcap or pcapng; - is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Which packets to look at [default: all]
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    /// Write a page with graphs, one file that needs no network
    #[arg(short, long, value_name = "PAGE.html")]
    pub(super) out: Option<PathBuf>,
    /// One JSON document on standard output, with all connections
    #[arg(long)]
    pub(super) json: bool,
    /// Connections in the table and on the page, those with most bytes first
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) most: u16,
    /// Take all interfaces of the file as one, as Wireshark does
    ///
    /// Without it, a connection that was captured on two interfaces is listed for each: what passes
    /// both was not sent twice. For connections whose directions take different interfaces.
    #[arg(long)]
    pub(super) together: bool,
}
