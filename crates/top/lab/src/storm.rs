//! `wirespeed lab storm`: what happens to a broadcast if hosts disagree about the broadcast
//! address.
//!
//! Called by: the lab, the benchmarks.
//!
//! Twenty hosts share a 10 Mb/s Ethernet. For half of them the broadcast address has a host part of
//! zeros, for the others a host part of ones. Their programs broadcast routes (RIP) and the state
//! of their host (rwho). A host of 1984 takes the other form for the address of another host, and
//! forwards the packet; each host that receives the forwarded packet does the same.

mod cases;
mod legacy;
mod ours;
mod segment;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use base::{Duration, Instant};
pub use cases::{
    Behind, Bystander, Settings, Storm, behind_router, bystander, legacy_hosts, our_hosts,
};
use clap::{ArgMatches, FromArgMatches};
use device::fault::Rng;
use serde_json::{Value, json};

use crate::pool::Progress;
use crate::report::{Column, Format, Notes, Report, column, with_missing};
use crate::{Error, Run};

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Hosts on a wire, half of them with the old form of the broadcast address
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u8).range(4..=100))]
    hosts: u8,
}

const COLUMNS: &[Column] = &[
    column("case", "case", "", Format::Text),
    column("originals", "originals", "datagrams that programs broadcast", Format::Number(0)),
    column("frames", "frames", "frames on the wire; behind the router: across", Format::Number(0)),
    column("per_original", "per original", "frames per original frame", Format::Number(1)),
    column("seconds", "s", "s of virtual time", Format::Number(2)),
    column("busy_percent", "wire busy %", "% of the time", Format::Number(0)),
    column("quiet_bytes_per_s", "TCP quiet B/s", "bytes/s before the storm", Format::Number(0)),
    column("bytes_per_s", "TCP storm B/s", "bytes/s in the storm", Format::Number(0)),
    column("unicasts_crossed", "crossed", "datagrams to one host that crossed", Format::Number(0)),
];

/// The rows of the table, in their order.
pub const CASES: [&str; 4] = ["legacy hosts", "our hosts", "behind our router", "bystander"];

/// The measurements; `None` for cases that were not run to their end.
#[derive(Default)]
struct Found {
    legacy: Option<Storm>,
    ours: Option<Storm>,
    behind: Option<Behind>,
    bystander: Option<Bystander>,
}

/// Run the cases one after the other.
pub(crate) fn run(matches: &ArgMatches, run: &Run<'_>) -> Result<Report, Error> {
    let options = Options::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))?;
    if run.common.plot.is_some() {
        return Err(Error::Usage("'lab storm' has no plot: leave --plot out".to_owned()));
    }
    let seed = run.common.first_seed;
    let usual = Settings::new(run.common.quick);
    let settings = Settings { hosts: usize::from(options.hosts), seed, ..usual };
    let mut found = Found::default();
    let mut progress = Progress::new(CASES.len());
    let mut go = |done| {
        progress.at(done);
        !run.is_stopped()
    };
    found.legacy = go(0).then(|| legacy_hosts(&settings));
    found.ours = go(1).then(|| our_hosts(&settings));
    found.behind = go(2).then(|| behind_router(&settings));
    found.bystander = go(3).then(|| bystander(&settings));
    drop(progress);
    Ok(report(&settings, &found))
}

fn report(settings: &Settings, found: &Found) -> Report {
    let behind = found.behind.as_ref();
    let beside = found.bystander.as_ref();
    let rows = vec![
        row(CASES[0], found.legacy.as_ref(), [None; 3]),
        row(CASES[1], found.ours.as_ref(), [None; 3]),
        row(
            CASES[2],
            behind.map(|behind| &behind.storm),
            [None, None, behind.map(|behind| behind.unicasts.1 as f64)],
        ),
        row(
            CASES[3],
            beside.map(|beside| &beside.storm),
            [
                beside.map(|beside| beside.quiet_bytes_per_s),
                beside.map(|beside| beside.storm_bytes_per_s),
                None,
            ],
        ),
    ];
    Report {
        settings: json!({
            "hosts": settings.hosts,
            "frames_max": settings.frames_max,
            "connection_seconds": settings.seconds,
            "seed": settings.seed,
        }),
        columns: COLUMNS.to_vec(),
        rows,
        fits: Vec::new(),
        samples: samples(found),
        shows: shows(found),
        notes: notes(settings, found),
        plot: None,
    }
}

/// The values of [`COLUMNS`], in their order.
fn row(
    case: &str,
    storm: Option<&Storm>,
    [quiet, beside, crossed]: [Option<f64>; 3],
) -> Vec<Value> {
    vec![
        json!(case),
        json!(storm.map(|storm| storm.originals)),
        json!(storm.map(|storm| storm.frames)),
        json!(storm.and_then(Storm::per_original)),
        json!(storm.map(|storm| storm.seconds)),
        json!(storm.map(|storm| storm.busy_percent)),
        json!(quiet),
        json!(beside),
        json!(crossed),
    ]
}

fn samples(found: &Found) -> Vec<Value> {
    let behind = found.behind.as_ref().map(|behind| {
        json!({
            "case": CASES[2],
            "storming_frames": behind.storming_frames,
            "crossed_frames": behind.storm.frames,
            "unicasts_sent": behind.unicasts.0,
            "unicasts_crossed": behind.unicasts.1,
        })
    });
    let beside = found.bystander.as_ref().map(|beside| {
        json!({
            "case": CASES[3],
            "connected": beside.is_connected,
            "knows_peer": beside.knows_peer,
            "neighbours": beside.neighbours,
            "retransmits": beside.retransmits,
            "named": beside.names,
        })
    });
    behind.into_iter().chain(beside).collect()
}

/// Sentences on the figures: frames of a broadcast among legacy hosts and among ours; how much of a
/// storm crosses a router, and how it affects a bystander.
fn shows(found: &Found) -> Vec<String> {
    let each = |storm: &Option<Storm>| storm.as_ref().and_then(Storm::per_original);
    let mut said = Vec::new();
    if let (Some(legacy), Some(ours)) = (each(&found.legacy), each(&found.ours)) {
        said.push(format!(
            "Among legacy hosts a broadcast becomes {legacy:.1} frames each, among ours {ours:.1}."
        ));
    }
    let across = found.behind.as_ref().map(|behind| {
        let (crossed, all) = (behind.storm.frames, behind.storming_frames);
        format!("of {all} frames of a storm {crossed} cross our router")
    });
    let beside = found.bystander.as_ref().filter(|beside| beside.quiet_bytes_per_s > 0.0);
    let beside = beside.map(|beside| {
        let share = beside.storm_bytes_per_s * 100.0 / beside.quiet_bytes_per_s;
        format!(
            "a bystander's connection carries {share:.0} % of the bytes that it carries without a \
             storm"
        )
    });
    let both: Vec<String> = across.into_iter().chain(beside).collect();
    if !both.is_empty() {
        let words = both.join(", and ");
        let mut letters = words.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        said.push(first.into_iter().chain(letters).collect::<String>() + ".");
    }
    said
}

fn notes(settings: &Settings, found: &Found) -> Notes {
    let mut notes = vec![format!(
        "{} hosts on a 10 Mb/s Ethernet in virtual time, every second one with the old form of the \
         broadcast address (zeros); RIP every 30 s and rwho every 60 s. A storm is ended at {} \
         frames.",
        settings.hosts, settings.frames_max
    )];
    if let Some(behind) = &found.behind {
        notes.push(format!(
            "Behind our router: a storm of {} frames on one wire, of which {} reached the other; \
             of {} datagrams that were sent during the storm to a single host there, {} arrived.",
            behind.storming_frames, behind.storm.frames, behind.unicasts.0, behind.unicasts.1
        ));
    }
    if let Some(beside) = &found.bystander {
        let connection = if beside.is_connected { "is up" } else { "broke" };
        let entries = if beside.knows_peer { "still know each other" } else { "lost each other" };
        notes.push(format!(
            "Bystander: two hosts of ours on the wire of a storm. Their connection {connection}, \
             after {} retransmissions; by ARP they {entries}, among {} neighbours.",
            beside.retransmits, beside.neighbours
        ));
        if let Some(first) = beside.names.first() {
            let count = beside.names.len();
            notes.push(format!(
                "They report {count} neighbours with another configuration: {first}"
            ));
        }
    }
    let measured = [
        found.legacy.is_some(),
        found.ours.is_some(),
        found.behind.is_some(),
        found.bystander.is_some(),
    ];
    let unmeasured = measured.iter().filter(|is| !**is).count();
    with_missing(notes, unmeasured, CASES.len(), "rows")
}

// The datagrams that programs broadcast (routes, and the state of their host), and the broadcast
// addresses.
//
// RFC 1058 (RIP: every 30 s to UDP port 520); rwhod(8): every minute to UDP port 513.

/// The programs' UDP ports.
const PORTS: [u16; 2] = [520, 513];
const PERIODS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(60)];
/// A response with four routes, and an rwho packet of two users.
const PAYLOADS: [&[u8]; 2] = [&[2; 84], &[1; 108]];
/// The TTL of a datagram, that of 4.3BSD.
const HOPS: u8 = 30;

/// A host's form of the broadcast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The host part is zeros: 4.2BSD.
    Zeros,
    /// The host part is ones: RFC 919, 4.3BSD.
    Ones,
}

impl Form {
    const BOTH: [Form; 2] = [Form::Zeros, Form::Ones];

    /// The form of this host: every second host has the old one.
    fn of(host: usize) -> Form {
        Form::BOTH[host % 2]
    }

    /// The broadcast address of a network of 24 bits.
    fn address(self, of: Ipv4Addr) -> Ipv4Addr {
        let bits = of.to_bits() & !0xff;
        Ipv4Addr::from(if self == Form::Ones { bits | 0xff } else { bits })
    }
}

/// The network of an address.
fn prefix(addr: Ipv4Addr) -> u32 {
    addr.to_bits() >> 8
}

/// The times at which a host's programs send next.
#[derive(Clone, Copy, Debug)]
struct Clock {
    due: [Instant; 2],
}

impl Clock {
    /// The clock of programs that were started at random times after `from`.
    fn new(from: Instant, rng: &mut Rng) -> Clock {
        let due = PERIODS.map(|period| {
            from + Duration::from_nanos(rng.below(period.as_nanos() as usize) as u64)
        });
        Clock { due }
    }

    /// The clock of programs that send nothing.
    const SILENT: Clock = Clock { due: [Instant::NEVER; 2] };

    /// The next datagram that is due: its port and payload.
    fn next(&mut self, now: Instant) -> Option<(u16, &'static [u8])> {
        let program = self.due.iter().position(|&at| at <= now)?;
        self.due[program] += PERIODS[program];
        Some((PORTS[program], PAYLOADS[program]))
    }

    fn next_deadline(&self) -> Instant {
        self.due[0].min(self.due[1])
    }
}
