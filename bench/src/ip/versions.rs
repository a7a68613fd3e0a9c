//! Compares the stack over IPv6 with the stack over IPv4, in the cases that benches `core` and
//! `outside` measure in memory. The row's value is the worst ratio of all cases. Called by `ip`. At
//! MTU 1500 a segment over IPv6 has 20 bytes of payload less than over IPv4, which is 1.4 % less.

use anyhow::{Context, Result};
use base::IpVersion;

use crate::drive::Bulk;
use crate::harness::{Bench, Figure};
use crate::measure::Measurement;
use crate::memory;
use crate::ours;
use crate::outside;

/// Number of idle connections over which memory is measured.
const IDLE: usize = 10_000;

/// How long small writes run before the measurement begins, in seconds: see [`ours::bulk_after`].
const WARM_S: f64 = 0.1;

/// A name, and the function that measures the ratio of IPv6 to IPv4. A ratio below 1 means that
/// IPv6 is worse.
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

/// The ratio of IPv4's time to IPv6's, because a shorter time is better.
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

/// The ratio of IPv4's bytes to IPv6's, because fewer bytes are better.
fn idle(_: &Bench) -> Result<Figure> {
    let v4 = memory::idle_endpoint_bytes(IDLE, false)?;
    let v6 = memory::idle_endpoint_bytes(IDLE, true)?;
    Ok(Figure { value: v4 / v6, samples: vec![v4 / v6], note: format!("{v6:.0} over {v4:.0}") })
}

/// Measures all cases. The figure is that of the worst case.
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
