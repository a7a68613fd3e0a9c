//! Our router in memory. Called by `router`. Generator, router and sink share a thread. The cost of
//! generator and sink without the router, over one wire, is measured and subtracted. What remains
//! is the cost of the router with its links.

use std::sync::Barrier;
use std::thread::ScopedJoinHandle;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use base::Instant;
use lab::forward::cost::{Cost, Memory};
use lab::forward::{DEPTH, FULL, Rig, Shape};

use crate::harness::{Bench, Figure};
use crate::measure::{Measurement, median, pin};

/// Bytes that a full-size frame takes on the wire. Preamble, check sequence and gap have 24 bytes.
const ON_WIRE: usize = FULL[0] + 24;

/// The router forwards for `seconds`. `cpu_s` of the result is the router's CPU time.
pub(super) fn forwarding(shape: Shape, seconds: f64) -> Result<Measurement> {
    let Cost { packets, whole_ns, alone_ns } = Memory::new(shape)?.measure(seconds, &|| false)?;
    let own_ns = whole_ns - alone_ns;
    ensure!(
        own_ns > 0.0,
        "generator and sink alone cost {alone_ns:.1} ns, with the router {whole_ns:.1}"
    );
    Ok(Measurement {
        units: packets,
        bytes: (packets as f64 * shape.mean_bytes()) as u64,
        cpu_s: own_ns * packets as f64 * 1e-9,
        wall_s: seconds,
        settings: format!("{own_ns:.1} ns: {whole_ns:.1} less {alone_ns:.1} of generator and sink"),
        ..Measurement::default()
    })
}

fn ours(shape: Shape) -> impl FnMut(f64) -> Result<Measurement> {
    move |seconds| forwarding(shape, seconds)
}

/// The median of a figure that is not a ratio, over as many runs as a ratio has pairs.
fn alone(b: &Bench, shape: Shape, figure: impl Fn(&Measurement) -> Result<f64>) -> Result<Figure> {
    forwarding(shape, b.trial_s)?;
    let (mut samples, mut note) = (Vec::with_capacity(b.pairs), String::new());
    for _ in 0..b.pairs {
        let measured = forwarding(shape, b.seconds)?;
        samples.push(figure(&measured)?);
        note = measured.settings;
    }
    Ok(Figure { value: median(&samples), samples, note: format!("{note}, the last of them") })
}

pub(super) fn one_route(b: &Bench) -> Result<Figure> {
    alone(b, Shape::default(), |m| Ok(m.units_per_cpu_s()? * 1e-6))
}

pub(super) fn million_routes(b: &Bench) -> Result<Figure> {
    let many = Shape { routes: 1_000_000, flows: 1_000_000, ..Shape::default() };
    b.ratio(Measurement::units_per_cpu_s, ours(many), ours(Shape::default()))
}

pub(super) fn v6_over_v4(b: &Bench) -> Result<Figure> {
    let v6 = Shape { v6: true, ..Shape::default() };
    b.close_ratio(Measurement::units_per_cpu_s, ours(v6), ours(Shape::default()))
}

pub(super) fn tagged(b: &Bench) -> Result<Figure> {
    let tagged = Shape { tagged: true, ..Shape::default() };
    b.close_ratio(Measurement::units_per_cpu_s, ours(tagged), ours(Shape::default()))
}

/// Packets of 1,000 flows, which can be divided between two shards.
fn shared() -> Shape {
    Shape { flows: 1_000, ..Shape::default() }
}

/// Two shards, each with its own generator, sink and core. Their rates are added.
fn two_shards(seconds: f64) -> Result<Measurement> {
    let shards = Memory::of_shards(shared(), 2, None)?;
    let begin = Barrier::new(shards.len());
    let costs = std::thread::scope(|scope| {
        let measure = |(core, mut memory): (usize, Memory)| {
            let begin = &begin;
            scope.spawn(move || {
                let pinned = pin(&[core]);
                begin.wait();
                pinned.and_then(|()| Ok(memory.measure(seconds, &|| false)?))
            })
        };
        let threads: Vec<_> = shards.into_iter().enumerate().map(measure).collect();
        let join = |thread: ScopedJoinHandle<_>| thread.join().map_err(|_| anyhow!("a panic"))?;
        threads.into_iter().map(join).collect::<Result<Vec<Cost>>>()
    })?;
    let own = costs
        .iter()
        .map(|cost| cost.own_ns().context("a shard cost less than generator and sink alone"));
    let own = own.collect::<Result<Vec<f64>>>()?;
    let rate: f64 = own.iter().map(|ns| 1e9 / ns).sum();
    Ok(Measurement {
        units: (rate * seconds) as u64,
        cpu_s: seconds,
        wall_s: seconds,
        settings: format!("{:.1} and {:.1} ns a packet", own[0], own[1]),
        ..Measurement::default()
    })
}

/// The rate of two shards on two cores, divided by that of one stack on one core without shards.
pub(super) fn two_cores(b: &Bench) -> Result<Figure> {
    b.ratio(Measurement::units_per_cpu_s, two_shards, ours(shared()))
}

/// The share of a core that the router needs for 10 Gb/s of full-size Ethernet frames.
pub(super) fn ten_gigabit(b: &Bench) -> Result<Figure> {
    let frames_per_s = 10e9 / (ON_WIRE * 8) as f64;
    let shape = Shape { sizes: FULL, ..Shape::default() };
    alone(b, shape, |m| Ok(frames_per_s / m.units_per_cpu_s()?))
}

/// Packets per second of the router's own turns. Before each turn `offered` packets arrive. The
/// ring takes as many as it has room for, and the interface drops the others before they cost
/// anything.
fn under_load(offered: usize, seconds: f64) -> Result<f64> {
    let mut rig =
        Rig::new(Shape::default()).context("making a router for packets of this shape")?;
    let (clock, mut spent, mut packets) = (Clock::now(), 0.0, 0);
    while clock.elapsed().as_secs_f64() < seconds {
        rig.offer(offered);
        let before = clock.elapsed();
        rig.turn(Instant::from_nanos(before.as_nanos() as u64 + 1));
        spent += (clock.elapsed() - before).as_secs_f64();
        packets += rig.drain() as u64;
    }
    ensure!(rig.lost().is_none(), "the router itself lost packets: {:?}", rig.lost());
    Ok(packets as f64 / spent)
}

/// In each turn the router takes at most eight bursts from a port. Ten times as many frames are
/// more than the port's ring holds.
pub(super) fn overload(b: &Bench) -> Result<Figure> {
    let turn = 8 * device::BURST;
    let loads = [turn / 8, turn / 4, turn / 2, turn, 2 * turn, 10 * turn];
    let mut samples = Vec::with_capacity(b.pairs);
    let mut note = String::new();
    under_load(turn, b.trial_s)?;
    for _ in 0..b.pairs {
        let each = b.seconds / loads.len() as f64;
        let rates = loads.iter().map(|&load| under_load(load, each));
        let rates = rates.collect::<Result<Vec<f64>>>()?;
        let peak = rates.iter().copied().fold(0.0, f64::max);
        let last = rates.last().copied().unwrap_or(0.0);
        samples.push(last / peak);
        note = format!(
            "{:.2} Mpps with {} offered to a ring of {DEPTH} for each turn of {turn}, peak {:.2}",
            last * 1e-6,
            10 * turn,
            peak * 1e-6
        );
    }
    Ok(Figure { value: median(&samples), samples, note })
}
