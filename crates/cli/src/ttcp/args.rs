//! The command line of `ttcp`: classic flags where there were any.
//!
//! Called by: clap, then `plan.rs`, which checks what one option alone cannot know.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, ValueEnum};
use wirespeed::Switch;
use wirespeed::tcp::{Algorithm, Ecn};

/// The options.
#[derive(clap::Args, Debug)]
#[command(group(ArgGroup::new("how_much").args(["bytes", "seconds", "file", "writes"])))]
#[command(group(ArgGroup::new("version").args(["v4", "v6"])))]
#[command(disable_version_flag = true)]
pub(crate) struct Args {
    /// Largest IP packet of the link, 68 to 65535 bytes (IPv6: from 1280)
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = clap::value_parser!(u16).range(68..))]
    pub(super) mtu: u16,
    /// Move this much; K, M and G are powers of 1024
    #[arg(long, value_name = "N[KMG]", value_parser = size)]
    pub(super) bytes: Option<u64>,
    /// Move bytes for this long [default: 3]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Move the bytes of a file, with SHA-256 at both ends (not counted in time and CPU)
    #[arg(long, value_name = "PATH")]
    pub(super) file: Option<PathBuf>,
    /// Number of writes
    #[arg(short = 'n', value_name = "N")]
    pub(super) writes: Option<u64>,
    /// Bytes of a write [default: 16K], or of a datagram with -u [default: what the MTU takes]
    #[arg(short = 'l', long = "length", value_name = "N[KM]", value_parser = size)]
    pub(super) length: Option<u64>,
    /// Bytes of the socket buffers, sending and receiving [default: 1M and 512K]
    #[arg(short = 'b', long = "socket-buffer", value_name = "N[KM]", value_parser = size)]
    pub(super) socket_buffer: Option<u64>,
    /// Send small segments at once (TCP_NODELAY)
    #[arg(short = 'D', long = "no-delay")]
    pub(super) no_delay: bool,
    /// Port to send to
    #[arg(short = 'p', long, default_value_t = 5001,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// Unit of the closing lines: k, m or g for bits, K, M or G for bytes a second
    #[arg(short = 'f', value_name = "kmgKMG", default_value = "K")]
    pub(super) format: Format,
    /// IPv4 (the default)
    #[arg(short = '4')]
    pub(super) v4: bool,
    /// IPv6
    #[arg(short = '6')]
    pub(super) v6: bool,
    /// UDP datagrams; those that do not arrive are counted
    #[arg(short = 'u', long = "udp", conflicts_with_all = ["file", "loan", "super_segments", "cc"])]
    pub(super) udp: bool,
    /// 1: both stacks on one thread; 2: one stack a thread, each on a core of its own
    #[arg(long, value_name = "1|2", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(super) threads: u8,
    /// Checksums made and verified; off is switches checksum-tx and checksum-rx together
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub(super) checksum: OnOff,
    /// Header prediction; off is switch predict
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub(super) predict: OnOff,
    /// Loaned buffers at both ends: filled where they are sent from, by one pass that copies and
    /// sums as a write does, and compared where they arrive, without a copy
    #[arg(long)]
    pub(super) loan: bool,
    /// A link that takes segments of 64 KB, as devices with segmentation offload do
    #[arg(long = "super")]
    pub(super) super_segments: bool,
    /// Congestion control
    #[arg(long, value_name = "cubic|newreno", default_value = "cubic")]
    pub(super) cc: Cc,
    /// Explicit congestion notification (RFC 3168): off, agreed to when the peer asks, or asked for
    #[arg(long, value_name = "off|accept|on", default_value = "accept",
          num_args = 0..=1, default_missing_value = "on")]
    pub(super) ecn: EcnArg,
    /// Turn an optimisation off, or on again; 'help' lists them
    #[arg(long = "switch", value_name = "NAME=off", action = ArgAction::Append)]
    pub(super) switches: Vec<String>,
    /// One JSON document on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// With -t send a pattern, with -r throw away what comes, instead of standard input and output
    #[arg(short = 's')]
    pub(super) source_sink: bool,
    /// Transmit to a host over --dev; any TCP may be at the other end
    #[arg(short = 't', value_name = "HOST", conflicts_with = "receive")]
    #[arg(conflicts_with_all = ["udp", "threads", "loan", "super_segments"])]
    pub(super) transmit: Option<String>,
    /// Receive over --dev from whoever connects; with --file PATH, into that file
    #[arg(short = 'r', conflicts_with_all = ["udp", "threads", "loan", "super_segments"])]
    #[arg(conflicts_with_all = ["bytes", "seconds", "writes"])]
    pub(super) receive: bool,
    /// The device and our addresses on it, for -t and -r
    #[command(flatten)]
    pub(super) outside: crate::outside::Args,
    /// With -t and -r: the peer may answer nothing for this long, then the transfer has failed
    /// [default: 20]
    #[arg(long, value_name = "S", requires = "dev", value_parser = patience)]
    pub(super) user_timeout: Option<f64>,
    /// Checksums and cutting of large segments left to the device
    #[arg(long, value_name = "on|off", default_value = "on")]
    pub(super) offload: OnOff,
    /// Bursts to the device by one system call, where the kernel has io_uring; off: one for a frame
    #[arg(long, value_name = "on|off", default_value = "on", requires = "dev")]
    pub(super) io_uring: OnOff,
    /// Write every frame of the device to a pcapng file
    #[arg(long, value_name = "FILE", requires = "dev")]
    pub(super) capture: Option<PathBuf>,
    /// Break frames on purpose, both ways: drop=P,duplicate=P,reorder=P,corrupt=P,seed=N
    #[arg(long, value_name = "drop=P,...", requires = "dev", value_parser = faults)]
    pub(super) fault: Option<Faults>,
}

impl Args {
    pub(super) fn lists_switches(&self) -> bool {
        self.switches.iter().any(|s| s == "help")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnOff {
    On,
    Off,
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

/// The classic letters: small for bits, capital for bytes; powers of 1024 as they always were.
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
    /// Bytes a second, as ttcp prints it.
    pub(super) fn rate(self, bytes_per_s: f64) -> String {
        let (bits, power, unit) = match self {
            Format::Kbit => (8.0, 1, "Kbit"),
            Format::Kbyte => (1.0, 1, "KB"),
            Format::Mbit => (8.0, 2, "Mbit"),
            Format::Mbyte => (1.0, 2, "MB"),
            Format::Gbit => (8.0, 3, "Gbit"),
            Format::Gbyte => (1.0, 3, "GB"),
        };
        format!("{:.2} {unit}/sec", bytes_per_s * bits / 1024_f64.powi(power))
    }
}

/// `16K`, `4G`, `1000`: a number of bytes.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err("expected a number of bytes such as 1000, 16K, 4M or 2G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number such as 16K".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than 64 bits can count".to_owned())
}

/// What `--fault` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Faults {
    pub(super) odds: wirespeed::device::fault::Odds,
    pub(super) seed: u64,
}

fn faults(text: &str) -> Result<Faults, String> {
    let expected = || {
        "expected NAME=VALUE, separated by commas: drop, duplicate, reorder and corrupt from 0 to \
         1, seed a whole number"
            .to_owned()
    };
    let mut faults = Faults { seed: 1, ..Faults::default() };
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(expected)?;
        if name == "seed" {
            faults.seed = value.parse().map_err(|_| expected())?;
            continue;
        }
        let p: f64 = value.parse().ok().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(expected)?;
        match name {
            "drop" => faults.odds.drop = p,
            "duplicate" => faults.odds.duplicate = p,
            "reorder" => faults.odds.reorder = p,
            "corrupt" => faults.odds.corrupt = p,
            _ => return Err(expected()),
        }
    }
    Ok(faults)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(s),
        _ => Err("expected seconds between 0 and 86400, such as 2.5".to_owned()),
    }
}

/// Below a second the timers of TCP themselves are in the way.
fn patience(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (1.0..=86_400.0).contains(&s) => Ok(s),
        _ => Err("expected seconds from 1 to 86400, such as 2.5".to_owned()),
    }
}

/// Every switch, whether it is on, and what its absence means.
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
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("16K"), Ok(16 << 10));
        assert_eq!(size("4g"), Ok(4 << 30));
        assert_eq!(size("3MiB"), Ok(3 << 20));
        for bad in ["", "K", "-1", "1T", "1.5M", "18446744073709551615K"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_have_the_classic_units() {
        assert_eq!(Format::Kbyte.rate(2048.0), "2.00 KB/sec");
        assert_eq!(Format::Kbit.rate(2048.0), "16.00 Kbit/sec");
        assert_eq!(Format::Gbyte.rate(1024.0 * 1024.0 * 1024.0), "1.00 GB/sec");
    }
}
