//! The command line of `wire`: two devices, and the impairments of each direction.
//!
//! Called by: clap, then `run.rs`. An option applies to both directions, or to one with `ab:` or
//! `ba:` in front; giving it twice for a direction is an error.

use std::path::PathBuf;
use std::str::FromStr;

use link::real::Timing;
use link::units::{burst, bytes, codel, late, rate, share, time};
use link::{Aqm, Loss, Settings};
use wirespeed::{Duration, Mtu};

use super::values::{OneWay, all_of, mtu, of, on_off, once, once_unless, one_way, timing};
use crate::Usage;
use crate::network::Dev;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Options with [ab:|ba:] stand for both directions, or for one: --rate ab:100Mbit --rate ba:10Mbit.
Values are written as in tc(8), in small or capital letters:
  RATE    100Mbit, 500kbit, 1Gbit: powers of 1000; a bare number is bits a second
  TIME    10ms, 200us, 2s; only 0 may be bare
  SHARE   1%, 0.01%; only 0 may be bare
  SIZE    64k or 64kb, 1M or 1Mb: powers of 1024; a bare number is bytes
Parts of a value are joined by colons.

Two hosts on one machine, 100 Mb/s and 100 ms apart:
  ip netns add blue; ip netns add red
  wirespeed wire tap:w0@blue tap:w0@red --rate 100Mbit --delay 50ms --queue 1250000")]
pub(crate) struct Args {
    /// One end: tap:NAME or tun:NAME, made if it does not exist; packet:NAME, an existing
    /// interface; or vm:PATH, a virtual machine's socket; in a network namespace with @NAMESPACE
    /// behind it
    #[arg(value_name = "A")]
    pub(super) a: End,
    /// The other end
    #[arg(value_name = "B")]
    pub(super) b: End,
    /// Rate of IP packets on the link [default: no limit]
    #[arg(long, value_name = "[ab:|ba:]RATE", value_parser = one_way(rate))]
    rate: Vec<OneWay<u64>>,
    /// From the end of a packet's transmission to its arrival, one way
    #[arg(long, value_name = "[ab:|ba:]TIME", value_parser = one_way(time))]
    delay: Vec<OneWay<Duration>>,
    /// Additional delay, uniform from 0 to TIME; packets stay in order
    #[arg(long, value_name = "[ab:|ba:]TIME", value_parser = one_way(time))]
    jitter: Vec<OneWay<Duration>>,
    /// Packets lost behind the queue, each by itself
    #[arg(long, value_name = "[ab:|ba:]SHARE", value_parser = one_way(share),
          conflicts_with = "burst_loss")]
    loss: Vec<OneWay<f64>>,
    /// Packets lost in bursts: the chance of each packet to begin a burst, and to end it
    #[arg(long, value_name = "[ab:|ba:]SHARE:SHARE", value_parser = one_way(burst))]
    burst_loss: Vec<OneWay<(f64, f64)>>,
    /// Packets that come late and are overtaken: how many, and how late
    #[arg(long, value_name = "[ab:|ba:]SHARE:TIME", value_parser = one_way(late))]
    late: Vec<OneWay<(f64, Duration)>>,
    /// Packets that come twice
    #[arg(long, alias = "dup", value_name = "[ab:|ba:]SHARE", value_parser = one_way(share))]
    duplicate: Vec<OneWay<f64>>,
    /// Packets that come with one bit flipped
    #[arg(long, value_name = "[ab:|ba:]SHARE", value_parser = one_way(share))]
    corrupt: Vec<OneWay<f64>>,
    /// Bytes that may wait to be transmitted [default: 1000000]
    #[arg(long, value_name = "[ab:|ba:]SIZE", value_parser = one_way(bytes))]
    queue: Vec<OneWay<u32>>,
    /// CoDel (RFC 8289) manages the queue; with ecn it marks packets that can be marked
    #[arg(long, value_name = "[ab:|ba:]drop|ecn", value_parser = one_way(codel))]
    codel: Vec<OneWay<bool>>,
    /// Longer packets are lost without a word; @TIME is when that begins
    #[arg(long, value_name = "[ab:|ba:]BYTES[@TIME]", value_parser = one_way(mtu))]
    mtu: Vec<OneWay<(Mtu, Duration)>>,
    /// Packets of at most this many bytes are exempt: with 100, only data is lost, late or broken
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    exempt: usize,
    /// Seed of all random choices; the same seed makes the same choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// How to wait for the next packet: sleep is some 50 us late, spin takes a whole core
    #[arg(long, value_name = "sleep|spin", default_value = "sleep", value_parser = timing)]
    pub(super) timing: Timing,
    /// Devices hand over super-segments, which are cut here; off: packets as they are on the wire
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = on_off,
          action = clap::ArgAction::Set)]
    pub(super) offload: bool,
    /// Stop after this long [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) time: Option<Duration>,
    /// Time between lines of counters; 0s: only at the end
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(super) every: Duration,
    /// Write every frame of the first device to a pcapng file
    #[arg(long, value_name = "FILE")]
    pub(super) capture_a: Option<PathBuf>,
    /// Write every frame of the second device to a pcapng file
    #[arg(long, value_name = "FILE")]
    pub(super) capture_b: Option<PathBuf>,
    /// A JSON document a line, on standard output
    #[arg(long)]
    pub(super) json: bool,
}

/// A device and its network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(super) dev: Dev,
    /// A name under /run/netns; `None` for the namespace of this process.
    pub(super) namespace: Option<String>,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<End, String> {
        let (dev, namespace) = match text.split_once('@') {
            Some((_, "")) => return Err("the @ wants the name of a namespace behind it".to_owned()),
            Some((_, name)) if name.contains('/') => {
                return Err("a namespace is a name that `ip netns` lists, not a path".to_owned());
            }
            Some((dev, name)) => (dev, Some(name.to_owned())),
            None => (text, None),
        };
        Ok(End { dev: dev.parse()?, namespace })
    }
}

impl core::fmt::Display for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.dev.name)?;
        self.namespace.as_ref().map_or(Ok(()), |name| write!(f, "@{name}"))
    }
}

impl Args {
    /// Check that the options fit together.
    ///
    /// # Errors
    /// [`Usage`]: both ends are one device, or an option is given twice for a direction.
    pub(super) fn check(&self) -> Result<(), Usage> {
        if self.a == self.b {
            return Err(Usage(format!("both ends are {}: a wire has two", self.a)));
        }
        once("--rate", &self.rate)?;
        once("--delay", &self.delay)?;
        once("--jitter", &self.jitter)?;
        once("--loss", &self.loss)?;
        once("--burst-loss", &self.burst_loss)?;
        once("--late", &self.late)?;
        once("--duplicate", &self.duplicate)?;
        once("--corrupt", &self.corrupt)?;
        once("--queue", &self.queue)?;
        once("--codel", &self.codel)?;
        once_unless("--mtu", &self.mtu, |(_, one), (_, other)| one != other)
    }

    /// The initial settings of a direction.
    pub(super) fn settings(&self, direction: usize) -> Settings {
        let base = Settings::default();
        let (late, late_by) = of(&self.late, direction).unwrap_or((0.0, Duration::ZERO));
        let loss = match (of(&self.loss, direction), of(&self.burst_loss, direction)) {
            (_, Some((begin, end))) => Loss::Burst { begin, end, good: 0.0, bad: 1.0 },
            (Some(share), None) if share > 0.0 => Loss::Random(share),
            _ => Loss::Never,
        };
        let codel = |ecn| Aqm::CoDel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn,
        };
        Settings {
            rate_bps: of(&self.rate, direction),
            delay: of(&self.delay, direction).unwrap_or(base.delay),
            jitter: of(&self.jitter, direction).unwrap_or(base.jitter),
            loss,
            late,
            late_by,
            duplicate: of(&self.duplicate, direction).unwrap_or(0.0),
            corrupt: of(&self.corrupt, direction).unwrap_or(0.0),
            mtu: self.mtu_at(direction, Duration::ZERO).unwrap_or(base.mtu),
            queue_bytes: of(&self.queue, direction)
                .map_or(base.queue_bytes, |bytes| bytes as usize),
            aqm: of(&self.codel, direction).map_or(Aqm::None, codel),
            exempt_bytes: self.exempt,
            ..base
        }
    }

    /// The MTU of a direction, this long after the beginning.
    pub(super) fn mtu_at(&self, direction: usize, after: Duration) -> Option<Mtu> {
        let begun = all_of(&self.mtu, direction).filter(|(_, from)| *from <= after);
        begun.max_by_key(|(_, from)| *from).map(|(mtu, _)| mtu)
    }

    /// When MTUs change, counted from the beginning.
    pub(super) fn changes(&self) -> Vec<Duration> {
        let of_directions = [0, 1].map(|direction| all_of(&self.mtu, direction));
        let mut all: Vec<Duration> =
            of_directions.into_iter().flatten().map(|(_, at)| at).collect();
        all.retain(|&at| at > Duration::ZERO);
        all.sort();
        all.dedup();
        all
    }
}
