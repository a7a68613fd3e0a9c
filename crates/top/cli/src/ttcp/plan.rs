//! The command line, checked and with defaults filled in.
//!
//! Called by: `ttcp.rs`; all other modules read it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::Serialize;
use wirespeed::device::{Offloads, mem};
use wirespeed::pair::PairConfig;
use wirespeed::tcp::Config;
use wirespeed::{Duration, IpVersion, Limit, Mtu, MtuDiscovery, Switch, Switches};

use super::args::{self, Args, Format};
use super::values::Faults;
use crate::Usage;
use crate::dump::FileId;
use crate::units::WriteUnit;

/// A longer write only costs memory.
const LENGTH_MAX: u64 = 64 << 20;
/// A larger window cannot be advertised (RFC 7323 section 2.3).
const SOCKET_BUFFER_MAX: u64 = 1 << 30;
/// Largest frame of a link with segmentation offload: an IP packet and an Ethernet header.
const SUPER_FRAME_MAX: usize = 65_535 + 14;
/// The default of -l: the knee, past which larger writes gain nothing (docs/perf.md).
const KNEE_BYTES: usize = 16 << 10;
const UDP_QUEUE_BYTES: usize = 1 << 20;
/// Default of `--user-timeout`, in seconds.
const USER_TIMEOUT_S: f64 = 20.0;

/// How much to move.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Goal {
    Bytes(u64),
    Seconds(f64),
    File(PathBuf),
}

/// Where bytes go, as the end sees it that is named: over a device ours, of two stacks in memory
/// the one that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    Tx,
    Rx,
}

/// The name of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// Its connection, counted from 1; `None` for all of the direction.
    pub(super) stream: Option<usize>,
    pub(super) direction: Direction,
}

impl Label {
    /// `[  1]`, `[SUM]`, and with two directions `[  1][TX]`.
    pub(super) fn text(self, has_both: bool) -> String {
        let stream = self.stream.map_or("SUM".to_owned(), |n| format!("{n:3}"));
        let direction = match (has_both, self.direction) {
            (false, _) => "",
            (true, Direction::Tx) => "[TX]",
            (true, Direction::Rx) => "[RX]",
        };
        format!("[{stream}]{direction}")
    }
}

/// The settings of a transfer.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) goal: Goal,
    pub(super) mtu: u16,
    /// Bytes of a write or of a datagram.
    pub(super) length: usize,
    pub(super) port: u16,
    pub(super) version: IpVersion,
    /// What moves: of two stacks as the one sees it that connects, over a device as we see it.
    pub(super) directions: &'static [Direction],
    /// Connections, or pairs of UDP sockets.
    pub(super) parallel: usize,
    pub(super) udp: bool,
    pub(super) threads: u8,
    pub(super) loan: bool,
    pub(super) super_segments: bool,
    pub(super) switches: Switches,
    /// The unit in which long writes go down.
    pub(super) write_unit: WriteUnit,
    pub(super) tcp: Config,
    pub(super) udp_queue_bytes: usize,
    /// Of UDP: between the frames to the receiver.
    pub(super) gap: Option<Duration>,
    /// Of UDP: datagrams in a call.
    pub(super) segments: usize,
    /// Of UDP: what becomes of datagrams larger than the path carries.
    pub(super) mtu_discovery: MtuDiscovery,
    pub(super) format: Format,
    /// Time between progress lines, if `-i` is given.
    pub(super) interval: Option<Duration>,
    /// Over a device: no standard input or output.
    pub(super) sources: bool,
    /// Over a device: the faults to inject.
    pub(super) fault: Option<Faults>,
    /// Over a device: how long the peer may acknowledge nothing.
    pub(super) user_timeout: Duration,
}

impl Plan {
    pub(super) fn new(args: &Args) -> Result<Plan> {
        let directions = directions(args);
        combined(args, directions)?;
        if let (Some(file), Some(capture)) = (&args.file, &args.capture)
            && FileId::is_same(file, capture)
        {
            bail!(Usage("--capture names the file of --file: name another".to_owned()));
        }
        let version = if args.v6 { IpVersion::V6 } else { IpVersion::V4 };
        if args.v6 && usize::from(args.mtu) < Mtu::MIN_V6.bytes() {
            bail!(Usage(format!(
                "--mtu {}: IPv6 needs a link MTU of at least 1280 (RFC 8200 section 5); use \
                 --mtu 1280 or more, or -4",
                args.mtu
            )));
        }
        let length = length(args, version)?;
        let goal = match (args.bytes, args.seconds, &args.file, args.writes) {
            (Some(bytes), ..) => Goal::Bytes(bytes),
            (_, Some(seconds), ..) => Goal::Seconds(seconds),
            (_, _, Some(path), _) => Goal::File(path.clone()),
            (.., Some(n)) => Goal::Bytes(n.saturating_mul(length as u64)),
            _ => Goal::Seconds(3.0),
        };
        let tcp = tcp_config(args)?;
        Ok(Plan {
            goal,
            mtu: args.mtu,
            length,
            port: args.port,
            version,
            directions,
            parallel: usize::from(args.parallel),
            udp: args.udp,
            threads: args.threads,
            loan: args.loan,
            super_segments: args.super_segments,
            switches: switches(args)?,
            write_unit: WriteUnit::of_this_machine(),
            tcp,
            udp_queue_bytes: args.socket_buffer.map_or(UDP_QUEUE_BYTES, |b| b as usize),
            gap: args.gap,
            segments: usize::from(args.segments.unwrap_or(1)),
            mtu_discovery: args.hint.discovery(),
            format: args.format,
            interval: args.interval.map(|s| Duration::from_nanos((s * 1e9) as u64)),
            sources: sources(args),
            fault: args.fault,
            user_timeout: Duration::from_nanos(
                (args.user_timeout.unwrap_or(USER_TIMEOUT_S) * 1e9) as u64,
            ),
        })
    }

    /// The link and the stacks.
    pub(super) fn pair(&self, seed: [u64; 2]) -> PairConfig {
        let mut pair = PairConfig::new(seed);
        pair.version = self.version;
        pair.wire = mem::Config {
            mtu: Mtu::new(usize::from(self.mtu)).unwrap_or(Mtu::ETHERNET),
            ..mem::Config::default()
        };
        if self.super_segments {
            pair.wire.offloads = Offloads { tso_max_bytes: SUPER_FRAME_MAX, ..Offloads::default() };
        }
        pair.stack.switches = self.switches;
        pair.stack.write_unit_bytes = self.write_unit.bytes;
        pair.stack.budget.set(Limit::UdpQueueBytes, self.udp_queue_bytes);
        pair
    }

    /// Are checksums computed or verified at all?
    pub(super) fn checksum(&self) -> bool {
        self.switches.on(Switch::ChecksumRx) || self.switches.on(Switch::ChecksumTx)
    }

    /// The unit in which long writes go down; `None` if they do not.
    pub(super) fn write_unit_bytes(&self) -> Option<usize> {
        let is_used = self.switches.on(Switch::WriteUnits) && !self.udp;
        is_used.then_some(self.write_unit.bytes)
    }

    /// The same for people.
    pub(super) fn write_unit_text(&self) -> String {
        match self.write_unit_bytes() {
            Some(bytes) => {
                format!("{bytes} bytes of a long write at a time ({})", self.write_unit.from())
            }
            None => "none: switch write-units is off".to_owned(),
        }
    }

    pub(super) fn file(&self) -> Option<&PathBuf> {
        match &self.goal {
            Goal::File(path) => Some(path),
            _ => None,
        }
    }

    /// Do we send? In memory one of the stacks does.
    pub(super) fn sends(&self) -> bool {
        self.directions.contains(&Direction::Tx)
    }

    /// Do we receive?
    pub(super) fn receives(&self) -> bool {
        self.directions.contains(&Direction::Rx)
    }

    /// Bytes that the one who sends moves, if known beforehand.
    pub(super) fn bytes(&self) -> Option<u64> {
        match &self.goal {
            Goal::Bytes(bytes) => Some(*bytes),
            Goal::Seconds(_) => None,
            Goal::File(path) => std::fs::metadata(path).ok().map(|m| m.len()),
        }
    }

    /// All that moves one way: the connections of the first direction, then of the second.
    pub(super) fn labels(&self) -> impl Iterator<Item = Label> + use<> {
        let connections = 1..=self.parallel;
        self.directions.iter().flat_map(move |&direction| {
            connections.clone().map(move |n| Label { stream: Some(n), direction })
        })
    }

    /// The names of two stacks in memory.
    pub(super) fn stack_names(&self) -> [&'static str; 2] {
        // With both directions each sends and receives.
        if self.directions.len() > 1 { ["client", "server"] } else { ["sender", "receiver"] }
    }

    /// The port of pair `n` of UDP sockets.
    pub(super) fn udp_port(&self, n: usize) -> u16 {
        self.port.saturating_add(n as u16)
    }

    /// Bytes of a pattern on connection `n`, counted from 0: all have the same, and the first ones
    /// what is left over.
    pub(super) fn share(&self, bytes: u64, n: usize) -> u64 {
        let parallel = self.parallel as u64;
        bytes / parallel + u64::from((n as u64) < bytes % parallel)
    }
}

/// What moves, of two stacks as the one sees it that connects, over a device as we see it.
fn directions(args: &Args) -> &'static [Direction] {
    match (args.bidir, args.reverse != args.receive) {
        (true, _) => &[Direction::Tx, Direction::Rx],
        (false, false) => &[Direction::Tx],
        (false, true) => &[Direction::Rx],
    }
}

/// Is there neither standard input nor output?
fn sources(args: &Args) -> bool {
    args.source_sink || args.seconds.is_some()
}

/// Options that have a meaning, but not together.
fn combined(args: &Args, directions: &[Direction]) -> Result<()> {
    let with_host = args.transmit.is_some() || args.receive;
    let (many, file) = (args.parallel > 1, args.file.is_some());
    let how_much = args.bytes.is_some() || args.seconds.is_some() || args.writes.is_some();
    let receives = directions.contains(&Direction::Rx);
    let last_port = u32::from(args.port) + u32::from(args.parallel) - 1;
    let what = if args.network.dev.is_some() && !with_host {
        "--dev is for -t HOST and -r: say which"
    } else if file && (many || args.bidir) {
        "--file moves one file one way on one connection: leave -P and --bidir out"
    } else if args.udp && args.reverse {
        "-R turns connections around, and -u has none: leave one of them out"
    } else if args.udp && last_port > u32::from(u16::MAX) {
        "-P takes a port for each pair of UDP sockets: give a lower --port"
    } else if with_host && directions == [Direction::Rx] && how_much {
        "who sends says how much: give --bytes, --seconds and -n to the other end. This one \
         receives until that closes"
    } else if with_host
        && many
        && !sources(args)
        && (receives || args.bytes.or(args.writes).is_none())
    {
        "-P: connections cannot share standard input and output: add -s"
    } else if with_host && receives && args.json && !sources(args) && !file {
        "what is received goes to standard output, where --json writes too: add --file PATH, or \
         -s to throw it away"
    } else {
        return Ok(());
    };
    bail!(Usage(what.to_owned()))
}

fn length(args: &Args, version: IpVersion) -> Result<usize> {
    if !args.udp {
        return match args.length.unwrap_or(KNEE_BYTES as u64) {
            n @ 1..=LENGTH_MAX => Ok(n as usize),
            n => bail!(Usage(format!("-l {n}: a write has 1 byte to 64 MB"))),
        };
    }
    // What is larger than a packet leaves in fragments.
    let (headers, most) =
        if version == IpVersion::V4 { (20 + 8, 65_507) } else { (40 + 8, 65_527) };
    match args.length.unwrap_or(u64::from(args.mtu) - headers) {
        n if (1..=most).contains(&n) => Ok(n as usize),
        n => bail!(Usage(format!("-l {n}: a datagram has 1 to {most} bytes; use a smaller -l"))),
    }
}

fn tcp_config(args: &Args) -> Result<Config> {
    let mut config = Config {
        no_delay: args.no_delay,
        algorithm: args.cc.algorithm(),
        ecn: args.ecn.setting(),
        ..Config::default()
    };
    match args.socket_buffer {
        None => {}
        Some(bytes @ 1..=SOCKET_BUFFER_MAX) => {
            config.set_fixed_buffers(bytes as u32, bytes as u32);
        }
        Some(bytes) => bail!(Usage(format!("-b {bytes}: a socket buffer has 1 byte to 1 GB"))),
    }
    Ok(config)
}

fn switches(args: &Args) -> Result<Switches> {
    let mut switches = Switches::default();
    for setting in &args.switches {
        switches = switches.parse_setting(setting).map_err(|why| {
            Usage(format!("--switch: {why}\n\n{}", args::switch_table().trim_end()))
        })?;
    }
    Ok(switches)
}
