//! The table of situations (connections whose limit is known) that `lab explain --over wire` runs
//! in real time: `ttcp` over `wirespeed wire`, with the kernel's TCP at the other end. A situation
//! that is in `situations` too has the same name.
//!
//! Called by: `explained.rs`. `transfer` runs a draw, which is a situation with parameters drawn by
//! seed. The rates are low, so that the processors are not busy even with several draws at the same
//! time: this machine must not be the limit of a connection.

mod transfer;

use base::Duration;
use explain::Limit;

use super::draw::Draw;
use super::programs::quarter_of;
use super::situations::{Drawn, Situation};

pub(super) use transfer::{Heard, said};

/// A transfer between `ttcp`, whose connection is explained, and the kernel.
pub(crate) struct Wired {
    /// Options of `wire`; ttcp is at the first end.
    wire: Vec<String>,
    /// Options of `ttcp`.
    ttcp: Vec<String>,
    /// ttcp receives, and the kernel sends.
    receives: bool,
    /// The pace of the program that sends.
    writes: Pace,
    /// The pace of the kernel's program that reads.
    reads: Pace,
    /// SO_RCVBUF of the kernel's end.
    receive_buffer: Option<usize>,
    /// A command of `ip link set`, and how long after the wire's start it is given.
    event: Option<(Duration, &'static [&'static str])>,
    /// When the looks begin, counted from the wire's start.
    from: Duration,
}

/// How fast a program reads or writes.
#[derive(Clone, Copy)]
enum Pace {
    /// As fast as it goes.
    All,
    /// This many bytes, then a pause, again and again.
    Steps(usize, Duration),
    /// This many bytes, and no more.
    Once(usize),
}

const fn situation(
    name: &'static str,
    limit: Limit,
    ranges: &'static str,
    draw: fn(&mut Draw) -> Wired,
) -> Situation {
    Situation { name, limit, ranges, draw: Drawn::Wired(draw) }
}

/// All situations.
pub(super) const SITUATIONS: &[Situation] = &[
    situation(
        "slow-writer",
        Limit::Application,
        "RTT 1-100 ms; writes of 200-20000 bytes, each 10-60 ms",
        |d| Wired { writes: steps(d, (200.0, 20e3), (10, 60)), ..wired(d.ms(1, 100)) },
    ),
    situation("idle", Limit::Idle, "RTT 1-100 ms; 1-100 kB, then nothing", |d| Wired {
        writes: Pace::Once(d.magnitude(1e3, 1e5) as usize),
        ..wired(d.ms(1, 100))
    }),
    situation("send-buffer", Limit::SendBuffer, "RTT 10-100 ms; -b of 8-64 kB", |d| {
        let mut wired = wired(d.ms(10, 100));
        wired.ttcp.extend(["-b".to_owned(), bytes(d, 8e3, 64e3)]);
        wired
    }),
    situation(
        "slow-reader-at-the-peer",
        Limit::PeerReader,
        "RTT 1-40 ms; SO_RCVBUF 64-200 kB; reads of 4-32 kB, each 20-100 ms, at most a quarter \
         of the buffer a round trip",
        |d| {
            let (round_trip, buffer) = (d.ms(1, 40), d.magnitude(64e3, 200e3) as u64);
            let (bytes, every) = (d.magnitude(4e3, 32e3) as u64, d.ms(20, 100));
            let every = quarter_of(buffer, round_trip, bytes, every);
            Wired {
                receive_buffer: Some(buffer as usize),
                reads: Pace::Steps(bytes as usize, every),
                ..wired(round_trip)
            }
        },
    ),
    situation(
        "peer-stopped-reading",
        Limit::PeerReader,
        "RTT 1-100 ms; SO_RCVBUF 64-200 kB; reads nothing after 0.1-1 MB",
        |d| Wired {
            receive_buffer: Some(d.magnitude(64e3, 200e3) as usize),
            reads: Pace::Once(d.magnitude(1e5, 1e6) as usize),
            ..wired(d.ms(1, 100))
        },
    ),
    situation("peer-window", Limit::ReceiveWindow, "RTT 10-100 ms; SO_RCVBUF 6-64 kB", |d| Wired {
        receive_buffer: Some(d.magnitude(6e3, 64e3) as usize),
        ..wired(d.ms(10, 100))
    }),
    situation(
        "slow-writer-at-the-peer",
        Limit::Peer,
        "at the receiver; RTT 1-100 ms; writes of 200-20000 bytes, each 10-60 ms",
        |d| Wired {
            receives: true,
            writes: steps(d, (200.0, 20e3), (10, 60)),
            ..wired(d.ms(1, 100))
        },
    ),
    situation(
        "our-receive-buffer",
        Limit::ReceiveBuffer,
        "at the receiver; RTT 10-100 ms; -b of 8-64 kB",
        |d| {
            let mut wired = Wired { receives: true, ..wired(d.ms(10, 100)) };
            wired.ttcp.extend(["-b".to_owned(), bytes(d, 8e3, 64e3)]);
            wired
        },
    ),
    situation(
        "dead-path",
        Limit::DeadPath,
        "RTT 10-100 ms; 5-20 Mb/s; the kernel's interface is down after 3-6 s",
        |d| cut(d, &["w1", "down"]),
    ),
    situation(
        "link-down",
        Limit::LinkDown,
        "RTT 10-100 ms; 5-20 Mb/s; our interface is down, or without carrier, after 3-6 s",
        |d| match d.range(0, 1) {
            0 => cut(d, &["w0", "down"]),
            _ => cut(d, &["w0", "carrier", "off"]),
        },
    ),
    situation(
        "path-mtu-black-hole",
        Limit::PathMtu,
        "RTT 5-100 ms; 5-20 Mb/s; after 3-6 s packets of more than 1240-1440 bytes vanish",
        |d| {
            let (round_trip, at) = (d.ms(5, 100), d.ms(3000, 6000));
            let mut wired = bottleneck(round_trip, rate(d), 4.0);
            wired.with("--mtu", format!("ab:{}@{}ms", d.range(1240, 1440), at.as_millis()));
            Wired { from: at.saturating_sub(Duration::from_millis(500)), ..wired }
        },
    ),
    situation(
        "random-loss",
        Limit::Loss,
        "RTT 20-100 ms; 0.3-3 % of the data is lost at random; CUBIC",
        |d| lossy(d, "ab"),
    ),
    situation(
        "loss-on-the-way-to-us",
        Limit::Path,
        "at the receiver; RTT 20-100 ms; 0.3-3 % of the data is lost at random",
        |d| Wired { receives: true, ..lossy(d, "ba") },
    ),
    situation(
        "bufferbloat",
        Limit::Queue,
        "RTT 5-40 ms; 5-20 Mb/s; a queue of 4-10 round trips; CUBIC",
        |d| {
            let wired = bottleneck(d.ms(5, 40), rate(d), d.between(4.0, 10.0));
            Wired { from: Duration::from_secs(9), ..wired }
        },
    ),
    situation(
        "link-rate",
        Limit::LinkRate,
        "RTT 20-80 ms; 5-20 Mb/s; a queue of 0.5-1 round trip; CUBIC",
        |d| bottleneck(d.ms(20, 80), rate(d), d.between(0.5, 1.0)),
    ),
    situation(
        "link-rate-with-marks",
        Limit::LinkRate,
        "RTT 10-30 ms; 5-20 Mb/s; CoDel of 5 ms with ECN; CUBIC",
        |d| {
            let mut wired = bottleneck(d.ms(10, 30), rate(d), 4.0);
            wired.with("--codel", "ab:ecn".to_owned());
            wired.ttcp.extend(["--ecn".to_owned(), "on".to_owned()]);
            wired
        },
    ),
    situation(
        "pacing",
        Limit::Pacing,
        "RTT 10-80 ms; 5-20 Mb/s; a queue of 1-4 round trips; BBR",
        |d| {
            let mut wired = bottleneck(d.ms(10, 80), rate(d), d.between(1.0, 4.0));
            wired.ttcp.extend(["--cc".to_owned(), "bbr".to_owned()]);
            wired
        },
    ),
    situation(
        "reordering",
        Limit::Reordering,
        "RTT 20-60 ms; 60-80 Mb/s; 1-5 % of the data is late by 1.5-3 round trips; CUBIC",
        |d| {
            let round_trip = d.ms(20, 60);
            let mut wired = bottleneck(round_trip, d.range(60_000_000, 80_000_000), 2.0);
            let late_us = round_trip.as_micros() as f64 * d.between(1.5, 3.0);
            wired.with("--late", format!("ab:{:.3}%:{late_us:.0}us", d.between(1.0, 5.0)));
            wired.with("--exempt", "100".to_owned());
            wired
        },
    ),
];

/// A path without a bottleneck or loss, and a bulk flow from ttcp over it.
fn wired(round_trip: Duration) -> Wired {
    Wired {
        wire: vec!["--delay".to_owned(), format!("{}us", round_trip.as_micros() / 2)],
        ttcp: Vec::new(),
        receives: false,
        writes: Pace::All,
        reads: Pace::All,
        receive_buffer: None,
        event: None,
        from: Duration::from_secs(5),
    }
}

impl Wired {
    fn with(&mut self, option: &str, value: String) {
        self.wire.extend([option.to_owned(), value]);
    }
}

fn rate(d: &mut Draw) -> u64 {
    d.magnitude(5e6, 20e6) as u64
}

fn bytes(d: &mut Draw, low: f64, high: f64) -> String {
    (d.magnitude(low, high) as u64).to_string()
}

fn steps(d: &mut Draw, bytes: (f64, f64), ms: (u64, u64)) -> Pace {
    Pace::Steps(d.magnitude(bytes.0, bytes.1) as usize, d.ms(ms.0, ms.1))
}

/// A bottleneck of this rate from ttcp to the kernel, and a queue of this many round trips.
fn bottleneck(round_trip: Duration, rate_bps: u64, round_trips: f64) -> Wired {
    let mut wired = wired(round_trip);
    let queue = rate_bps as f64 / 8.0 * round_trip.as_secs_f64() * round_trips;
    wired.with("--rate", format!("ab:{rate_bps}"));
    wired.with("--queue", format!("ab:{queue:.0}"));
    wired
}

fn cut(d: &mut Draw, event: &'static [&'static str]) -> Wired {
    let (wired, at) = (bottleneck(d.ms(10, 100), rate(d), 1.0), d.ms(3000, 6000));
    Wired { event: Some((at, event)), from: at + Duration::from_secs(1), ..wired }
}

fn lossy(d: &mut Draw, way: &str) -> Wired {
    let mut wired = wired(d.ms(20, 100));
    wired.with("--loss", format!("{way}:{:.3}%", d.magnitude(0.3, 3.0)));
    wired.with("--exempt", "100".to_owned());
    wired
}
