//! IPv6 against IPv4 in what the rows of benches `core` and `outside` measure over memory: the
//! worst ratio counts. Called by `ip`. A segment of IPv6 at MTU 1500 has 20 bytes of payload less,
//! which is 1.4 % of the bytes.

use anyhow::{Context, Result};
use base::IpVersion;

use crate::drive::Bulk;
use crate::harness::{Bench, Figure};
use crate::measure::Measurement;
use crate::memory;
use crate::ours;
use crate::outside;

/// Idle connections that are counted.
const IDLE: usize = 10_000;

/// Seconds until small writes flow.
const WARM_S: f64 = 0.1;

/// A name, and the ratio of IPv6 to IPv4 of which more is better.
type Case = (&'static str, fn(&Bench) -> Result<Figure>);

const CASES: &[Case] = &[
    ("bulk MTU 1500", |b| bulk(b, Bulk::default())),
    ("bulk MTU 65535", |b| bulk(b, Bulk { mtu: 65_535, ..Bulk::default() })),
    ("super-segments", |b| {
        bulk(b, Bulk { super_segments: true, link_checksums: true, ..Bulk::default() })
    }),
    ("64-byte writes", small_writes),
    ("1,000 flows", |b| bulk(b, Bulk { flows: 1000, ..Bulk::default() })),
    ("64-byte ping-pong", ping_pong),
    ("connections a second", connections),
    ("bytes per idle endpoint", idle),
];

fn bulk(b: &Bench, shape: Bulk) -> Result<Figure> {
    let v6 = |seconds| ours::bulk(Bulk { v6: true, ..shape }, seconds);
    b.close_ratio(Measurement::gbit_per_cpu_s, v6, |seconds| ours::bulk(shape, seconds))
}

fn small_writes(b: &Bench) -> Result<Figure> {
    let shape = |v6| Bulk { mtu: 65_535, write: 64, v6, ..Bulk::default() };
    let over = |v6| move |seconds| ours::bulk_after(shape(v6), WARM_S, seconds);
    b.close_ratio(Measurement::gbit_per_cpu_s, over(true), over(false))
}

/// Less is better: IPv4 over IPv6.
fn ping_pong(b: &Bench) -> Result<Figure> {
    let shape = |v6| Bulk { v6, ..Bulk::default() };
    let over = |v6| move |seconds| ours::ping_pong_over(shape(v6), 64, seconds);
    b.close_ratio(Measurement::p50_ns, over(false), over(true))
}

fn connections(b: &Bench) -> Result<Figure> {
    let cores = b.cores;
    let over = |version| move |seconds| outside::connections_over(cores, version, seconds);
    b.close_ratio(Measurement::units_per_cpu_s, over(IpVersion::V6), over(IpVersion::V4))
}

fn idle(_: &Bench) -> Result<Figure> {
    let v4 = memory::idle_endpoint_bytes(IDLE, false)?;
    let v6 = memory::idle_endpoint_bytes(IDLE, true)?;
    Ok(Figure { value: v4 / v6, samples: vec![v4 / v6], note: format!("{v6:.0} over {v4:.0}") })
}

pub(super) fn worst(b: &Bench) -> Result<Figure> {
    let mut figures = Vec::with_capacity(CASES.len());
    for (name, measure) in CASES {
        let figure = measure(b).with_context(|| format!("measuring {name}"))?;
        eprintln!("    {name}: {:.4}", figure.value);
        figures.push((*name, figure));
    }
    let words: Vec<String> =
        figures.iter().map(|(name, figure)| format!("{name} {:.3}", figure.value)).collect();
    let worst = figures.into_iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let (name, figure) = worst.context("there are cases")?;
    let note = format!("worst is {name}; {}", words.join(", "));
    Ok(Figure { note, ..figure })
}
