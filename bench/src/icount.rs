//! The program `wirespeed-icount`, whose instructions `cargo xtask icount` counts under valgrind.
//! It runs in virtual time and does the same in every run. `wirespeed-icount list` prints the
//! cases; if a case counts only the instructions inside one function, the function's name follows
//! after a tab. `wirespeed-icount CASE N` does N units of a case: segments, writes, round trips or
//! ACKs.

use anyhow::{Context, Result, bail};
use base::{Switch, Switches};
use lab::forward::Shape;
use wirespeed_bench::drive::{Bulk, Drive};
use wirespeed_bench::filter;
use wirespeed_bench::forwarded;
use wirespeed_bench::outstanding;
use wirespeed_bench::recorded::{self, Ids, Recording};

/// The name of a case, and the function that does this many units of it.
type Case = (&'static str, fn(u64) -> Result<()>);

/// Cases in which only `Outstanding::counted_poll` is counted.
const ACKS: &[Case] = &[
    ("ack-100-outstanding", |n| outstanding::acks(100, n)),
    ("ack-100000-outstanding", |n| outstanding::acks(100_000, n)),
    ("sack-100-outstanding", |n| outstanding::sacks(100, n)),
    ("sack-100000-outstanding", |n| outstanding::sacks(100_000, n)),
];

/// Cases in which only the receiver is counted.
const RECORDED: &[Case] = &[
    ("recorded-linux-v4", |n| recorded(V4, Ids::AsRecorded, n)),
    ("recorded-linux-v4-random-ids", |n| recorded(V4, Ids::Random, n)),
    ("recorded-linux-v6", |n| recorded(V6, Ids::AsRecorded, n)),
    ("recorded-linux-16-flows", |n| recorded(FLOWS, Ids::AsRecorded, n)),
    ("recorded-linux-16-flows-by-segment", by_segment),
];

/// Cases in which only the router is counted.
const FORWARDED: &[Case] = &[
    ("forwarded-64", |n| forwarded::packets(Shape::default(), n)),
    ("forwarded-64-v6", |n| forwarded::packets(Shape { v6: true, ..Shape::default() }, n)),
    ("forwarded-64-tagged", |n| forwarded::packets(Shape { tagged: true, ..Shape::default() }, n)),
    ("filtered-64", |n| forwarded::by(filter::counted(false)?, n)),
    ("translated-64", |n| forwarded::by(filter::counted(true)?, n)),
    ("stateless-64", |n| forwarded::by(filter::stateless()?, n)),
];

const V4: &[u8] = include_bytes!("../recordings/linux-v4.rec");
const V6: &[u8] = include_bytes!("../recordings/linux-v6.rec");
const FLOWS: &[u8] = include_bytes!("../recordings/linux-16-flows.rec");

const CASES: &[Case] = &[
    ("predicted-segment-1500", |n| segments(Bulk::default(), Switches::default(), n)),
    ("predicted-segment-1500-v6", |n| {
        segments(Bulk { v6: true, ..Bulk::default() }, Switches::default(), n)
    }),
    ("predicted-segment-65535", |n| {
        segments(Bulk { mtu: 65_535, write: 64 << 10, ..Bulk::default() }, Switches::default(), n)
    }),
    ("unpredicted-segment-1500", |n| {
        segments(Bulk::default(), Switches::default().with(Switch::Predict, false), n)
    }),
    ("ping-pong-64", |n| ping_pong(Bulk::default(), n)),
    ("ping-pong-64-v6", |n| ping_pong(Bulk { v6: true, ..Bulk::default() }, n)),
    ("one-segment-a-turn-32-flows", flows),
];

fn segments(shape: Bulk, switches: Switches, n: u64) -> Result<()> {
    let mut drive = Drive::new(shape, switches, tcp::Config::default())?;
    while drive.segments() < n {
        drive.advance(10_000);
        drive.bulk_turn()?;
    }
    Ok(())
}

fn recorded(bytes: &[u8], ids: Ids, n: u64) -> Result<()> {
    recorded::replay(&Recording::parse(bytes)?, ids, n).map(|_| ())
}

/// Replays the recorded flows in the order in which a sender without GSO would send them:
/// consecutive segments belong to different flows.
fn by_segment(n: u64) -> Result<()> {
    let recording = Recording::parse(FLOWS)?.by_segment();
    recorded::replay(&recording, Ids::AsRecorded, n).map(|_| ())
}

/// One turn in which each flow has one segment. The segment is written, sent, received, read and
/// acknowledged, and the ACK is received.
fn flows(n: u64) -> Result<()> {
    let shape = Bulk { flows: 32, ..Bulk::default() };
    let mut drive = Drive::new(shape, Switches::default(), tcp::Config::default())?;
    while drive.segments() < n {
        drive.advance(10_000);
        drive.flows_turn(1448)?;
    }
    Ok(())
}

fn ping_pong(shape: Bulk, n: u64) -> Result<()> {
    let config = tcp::Config { no_delay: true, ..tcp::Config::default() };
    let mut drive = Drive::new(shape, Switches::default(), config)?;
    for _ in 0..n {
        drive.advance(1_000);
        drive.ping_pong(64)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [list] if list == "list" => {
            for (name, _) in CASES {
                println!("{name}");
            }
            for (name, _) in ACKS {
                println!("{name}\t{}", outstanding::COUNTED);
            }
            for (name, _) in RECORDED {
                println!("{name}\t{}", recorded::COUNTED);
            }
            for (name, _) in FORWARDED {
                println!("{name}\t{}", forwarded::COUNTED);
            }
            Ok(())
        }
        [case, n] => {
            let n = n.parse().with_context(|| format!("'{n}' is not a number of units"))?;
            let mut cases = CASES.iter().chain(ACKS).chain(RECORDED).chain(FORWARDED);
            match cases.find(|(name, _)| name == case) {
                Some((_, run)) => run(n),
                None => bail!("no case '{case}': see 'wirespeed-icount list'"),
            }
        }
        _ => bail!("usage: wirespeed-icount list | wirespeed-icount CASE UNITS"),
    }
}
