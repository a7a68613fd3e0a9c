//! The command line of `ttcp`, with the classic flags.
//!
//! Called by: clap, then `plan.rs`, which checks options against each other.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, ValueEnum};
use wirespeed::tcp::{Algorithm, Ecn};
use wirespeed::{Duration, Switch};

use super::values::{Faults, faults, gap, interval, seconds, size, timeout};
use crate::network::Hint;
pub(super) use crate::on_off::OnOff;

/// The options. `-h` shows the common ones, `--help` all.
#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("how_much").args(["bytes", "seconds", "file", "writes"])))]
#[command(group(ArgGroup::new("version").args(["v4", "v6"])))]
#[command(disable_version_flag = true)]
#[command(after_help = "Bytes: 16K and 16KiB are 16 x 1024, 16KB 16,000. --help has every option.")]
#[command(after_long_help = "\
Numbers of bytes: K, M and G are powers of 1024, as KiB, MiB and GiB; KB, MB and GB powers of 1000.
Rates are in powers of 1000.

Two stacks in memory for 3 seconds, then a file, hashed at both ends:
  wirespeed ttcp
  wirespeed ttcp --file big.iso --threads 2
Eight connections at once, both ways on each:
  wirespeed ttcp -P 8 --bidir
Over a TAP, to and from this machine's kernel (any TCP may be at the other end):
  wirespeed ttcp -t 192.0.2.1 --dev tap:ws0 --addr 192.0.2.2/24 -s --seconds 10
  wirespeed ttcp -r --dev tap:ws0 --addr 192.0.2.2/24 -s")]
pub(crate) struct Args {
    /// Move this much
    #[arg(long, value_name = "N[KMG]", value_parser = size, help_heading = HOW_MUCH)]
    pub(super) bytes: Option<u64>,
    /// Move bytes for this long [default: 3]
    #[arg(long, value_name = "S", value_parser = seconds, help_heading = HOW_MUCH)]
    pub(super) seconds: Option<f64>,
    /// Move a file, with SHA-256 at both ends
    ///
    /// Reading and hashing do not count in time and CPU.
    #[arg(long, value_name = "PATH", help_heading = HOW_MUCH)]
    pub(super) file: Option<PathBuf>,
    /// Number of writes
    #[arg(short = 'n', value_name = "N", help_heading = HOW_MUCH, hide_short_help = true)]
    pub(super) writes: Option<u64>,
    /// Bytes of a write [default: 16K], with -u of a datagram
    #[arg(short = 'l', long = "length", value_name = "N[KM]", value_parser = size,
          help_heading = HOW_MUCH)]
    pub(super) length: Option<u64>,

    /// UDP; datagrams that do not arrive are counted
    #[arg(short = 'u', long = "udp", conflicts_with_all = ["file", "loan", "super_segments", "cc"],
          help_heading = PROTOCOL)]
    pub(super) udp: bool,
    /// Let frames to the receiver leave so far apart, start to start: 60us, 0.5ms
    ///
    /// For receivers that lose frames which come one right behind the other.
    #[arg(long, value_name = "TIME", requires = "udp", value_parser = gap,
          help_heading = PROTOCOL, hide_short_help = true)]
    pub(super) gap: Option<Duration>,
    /// Datagrams handed over in one call, of one size (UDP_SEGMENT) [default: 1; without N: 64]
    ///
    /// The first is made like any other, those behind it get its headers. At most 64, and 65,535
    /// bytes. Datagrams that leave in fragments are handed over one by one.
    #[arg(long, value_name = "N", requires = "udp", num_args = 0..=1, default_missing_value = "64",
          value_parser = clap::value_parser!(u8).range(1..=64), help_heading = PROTOCOL,
          hide_short_help = true)]
    pub(super) segments: Option<u8>,
    /// Of datagrams larger than the path carries: want sends them in fragments, do refuses them and
    /// says what fits, probe refuses what is larger than the link
    #[arg(short = 'M', value_name = "HINT", value_enum, default_value_t = Hint::Want,
          requires = "udp", help_heading = PROTOCOL, hide_short_help = true,
          hide_possible_values = true)]
    pub(super) hint: Hint,
    /// IPv4 (the default between stacks in memory); of the host after -t, an address of it
    #[arg(short = '4', help_heading = PROTOCOL, hide_short_help = true)]
    pub(super) v4: bool,
    /// IPv6; of the host after -t, an address of it
    #[arg(short = '6', help_heading = PROTOCOL)]
    pub(super) v6: bool,
    /// The other direction: who connects receives
    ///
    /// In memory data goes from the stack that listens to the one that connects. Over a device -t
    /// connects and receives, as -r does otherwise, and -r accepts and sends.
    #[arg(short = 'R', long, conflicts_with = "bidir", help_heading = PROTOCOL)]
    pub(super) reverse: bool,
    /// Both directions at once, on the same connection
    ///
    /// iperf3 uses two connections for that. Bytes and seconds are those of each direction, and
    /// the transfer ends when both have. Over a device they are those of what we send; without -s
    /// standard input goes out and standard output gets what comes in.
    #[arg(long, help_heading = PROTOCOL)]
    pub(super) bidir: bool,
    /// Connections at once, 1 to 128
    ///
    /// Bytes are those of all together. Data moves once all are there. Of datagrams, pairs of
    /// sockets: the ports are --port and those behind it.
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, help_heading = PROTOCOL,
          value_parser = clap::value_parser!(u8).range(1..=128))]
    pub(super) parallel: u8,
    /// Port to send to
    #[arg(short = 'p', long, default_value_t = 5001, help_heading = PROTOCOL,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// Congestion control: cubic, newreno, bbr, reno or tahoe
    ///
    /// The first is the default.
    #[arg(long, value_name = "NAME", default_value = "cubic", help_heading = PROTOCOL,
          hide_possible_values = true, hide_default_value = true)]
    pub(super) cc: Cc,
    /// Bytes of the socket buffers, sending and receiving [default: 1M and 512K]
    #[arg(short = 'b', long = "socket-buffer", value_name = "N[KM]", value_parser = size,
          help_heading = PROTOCOL, hide_short_help = true)]
    pub(super) socket_buffer: Option<u64>,
    /// Send small segments at once (TCP_NODELAY)
    #[arg(short = 'D', long = "no-delay", help_heading = PROTOCOL, hide_short_help = true)]
    pub(super) no_delay: bool,
    /// Explicit congestion notification (RFC 3168): off, agreed to when the peer asks, or asked for
    #[arg(long, value_name = "off|accept|on", default_value = "accept", hide_short_help = true,
          num_args = 0..=1, default_missing_value = "on", help_heading = PROTOCOL)]
    pub(super) ecn: EcnArg,
    /// Turn an optimisation off, or on again; 'help' lists them
    #[arg(long = "switch", value_name = "NAME=off", action = ArgAction::Append,
          help_heading = PROTOCOL, hide_short_help = true)]
    pub(super) switches: Vec<String>,

    /// Largest IP packet of the link
    ///
    /// 68 to 65535 bytes; IPv6 needs 1280.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, help_heading = MEMORY,
          value_parser = clap::value_parser!(u16).range(68..))]
    pub(super) mtu: u16,
    /// One thread for both stacks, or one each
    #[arg(long, value_name = "1|2", default_value_t = 1, help_heading = MEMORY,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(super) threads: u8,
    /// Loaned buffers instead of copies
    ///
    /// Filled where they are sent from, by one pass that copies and sums as a write does, and
    /// compared where they arrive, without a copy.
    #[arg(long, help_heading = MEMORY)]
    pub(super) loan: bool,
    /// A link that takes segments of 64 KB, as devices with segmentation offload do
    #[arg(long = "super", help_heading = MEMORY, hide_short_help = true)]
    pub(super) super_segments: bool,

    /// Transmit to a host over --dev: any TCP may be there
    #[arg(short = 't', value_name = "HOST", conflicts_with = "receive", help_heading = DEVICE)]
    #[arg(conflicts_with_all = ["udp", "threads", "loan", "super_segments"])]
    pub(super) transmit: Option<String>,
    /// Receive over --dev from the first host that connects
    ///
    /// Into --file if that is given, else to standard output.
    #[arg(short = 'r', conflicts_with_all = ["udp", "threads", "loan", "super_segments"],
          help_heading = DEVICE)]
    pub(super) receive: bool,
    /// A pattern out, nothing in: no standard input and output
    ///
    /// With -t a pattern is sent instead of standard input, with -r received data is discarded
    /// instead of written to standard output.
    #[arg(short = 's', help_heading = DEVICE)]
    pub(super) source_sink: bool,
    #[command(flatten)]
    pub(super) network: crate::network::Args,
    #[command(flatten)]
    pub(super) names: crate::names::Args,
    /// Fail when the peer has acknowledged nothing for this long [default: 20]
    #[arg(long, value_name = "S", requires = "dev", value_parser = timeout,
          help_heading = DEVICE, hide_short_help = true)]
    pub(super) user_timeout: Option<f64>,
    /// Checksums and cutting of large segments left to the device
    #[arg(long, value_name = "on|off", default_value = "on", help_heading = DEVICE,
          hide_short_help = true)]
    pub(super) offload: OnOff,
    /// Bursts to the device by one system call, where the kernel has io_uring; off: one for a frame
    #[arg(long, value_name = "on|off", default_value = "on", requires = "dev",
          help_heading = DEVICE, hide_short_help = true)]
    pub(super) io_uring: OnOff,

    /// Seconds between progress lines [1 on a terminal]
    ///
    /// 0 for none. Elsewhere there are none unless this says so.
    #[arg(short = 'i', long, value_name = "S", value_parser = interval, help_heading = MEASURE)]
    pub(super) interval: Option<f64>,
    /// Unit of the last lines: kmg bits, KMG bytes
    ///
    /// k, m and g are bits a second, K, M and G bytes, in powers of 1000.
    #[arg(short = 'f', value_name = "kmgKMG", default_value = "K", help_heading = MEASURE,
          hide_possible_values = true)]
    pub(super) format: Format,
    /// One JSON document on standard output
    #[arg(long, help_heading = MEASURE)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) live: crate::http::Args,
    /// Write every frame of the device to a pcapng file
    #[arg(long, value_name = "FILE", requires = "dev", help_heading = MEASURE,
          hide_short_help = true)]
    pub(super) capture: Option<PathBuf>,

    /// Break frames of the device on purpose, both ways:
    /// drop=P,duplicate=P,reorder=P,corrupt=P,seed=N
    #[arg(long, value_name = "drop=P,...", requires = "dev", value_parser = faults,
          help_heading = FAULTS, hide_short_help = true)]
    pub(super) fault: Option<Faults>,
}

/// The groups of `--help`.
const HOW_MUCH: &str = "How much";
const PROTOCOL: &str = "Protocol";
const MEMORY: &str = "Two stacks in memory";
const DEVICE: &str = crate::network::HEADING;
const MEASURE: &str = "What is measured and printed";
const FAULTS: &str = "Faults";

impl Args {
    pub(super) fn lists_switches(&self) -> bool {
        self.switches.iter().any(|s| s == "help")
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum EcnArg {
    Off,
    Accept,
    On,
}

impl EcnArg {
    pub(super) fn setting(self) -> Ecn {
        match self {
            EcnArg::Off => Ecn::Off,
            EcnArg::Accept => Ecn::Accept,
            EcnArg::On => Ecn::On,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Cc {
    Cubic,
    Newreno,
    Bbr,
    Reno,
    Tahoe,
}

impl Cc {
    pub(super) fn algorithm(self) -> Algorithm {
        match self {
            Cc::Cubic => Algorithm::Cubic,
            Cc::Newreno => Algorithm::NewReno,
            Cc::Bbr => Algorithm::Bbr,
            Cc::Reno => Algorithm::Reno,
            Cc::Tahoe => Algorithm::Tahoe,
        }
    }
}

/// The classic letters: small for bits, capital for bytes; powers of 1000, as for all rates.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(super) enum Format {
    #[value(name = "k")]
    Kbit,
    #[value(name = "K")]
    Kbyte,
    #[value(name = "m")]
    Mbit,
    #[value(name = "M")]
    Mbyte,
    #[value(name = "g")]
    Gbit,
    #[value(name = "G")]
    Gbyte,
}

impl Format {
    /// A rate in bytes per second, as ttcp prints it.
    pub(super) fn rate(self, bytes_per_s: f64) -> String {
        let (bits, power, unit) = match self {
            Format::Kbit => (8.0, 1, "Kbit"),
            Format::Kbyte => (1.0, 1, "KB"),
            Format::Mbit => (8.0, 2, "Mbit"),
            Format::Mbyte => (1.0, 2, "MB"),
            Format::Gbit => (8.0, 3, "Gbit"),
            Format::Gbyte => (1.0, 3, "GB"),
        };
        format!("{:.2} {unit}/sec", bytes_per_s * bits / 1000_f64.powi(power))
    }
}

/// All switches, whether each is on, and what off means.
pub(super) fn switch_table() -> String {
    let mut table = String::from("Switches; each can be turned off by --switch NAME=off:\n");
    for s in Switch::ALL {
        let on = if s.default_on() { "on" } else { "off" };
        let _ = writeln!(table, "  {:<12} {on:<3}  off: {}", s.name(), s.off_means());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_powers_of_1000() {
        assert_eq!(Format::Kbyte.rate(2000.0), "2.00 KB/sec");
        assert_eq!(Format::Kbit.rate(2000.0), "16.00 Kbit/sec");
        assert_eq!(Format::Gbyte.rate(1e9), "1.00 GB/sec");
    }
}
