//! Our router in memory with rules: the cost of a packet of a known flow. Called by `filter`. The
//! cost of generator and sink is subtracted, as in bench `router`.

use std::sync::Barrier;
use std::thread::ScopedJoinHandle;

use anyhow::{Context, Result, anyhow, ensure};
use base::Instant;
use lab::forward::cost::{Cost, Memory};
use lab::forward::{Rig, SMALL, Shape, Transport};

use super::rules::{Rules, masqueraded, stateful};
use crate::harness::{Bench, Figure, paired};
use crate::measure::{Measurement, median, pin};

/// Number of states in the rows with many states.
const MANY: u32 = 1_000_000;

/// Frames of 64 bytes, of 1,000 connections.
pub(super) fn flows() -> Shape {
    Shape { flows: 1_000, transport: Transport::Tcp, ..Shape::default() }
}

/// Frames of a million connections; over IPv6 they are larger than 64 bytes, because the headers do
/// not fit.
pub(super) fn many(v6: bool) -> Shape {
    let sizes = if v6 { &[84] } else { SMALL };
    Shape { v6, sizes, flows: MANY, states: Some(2 * MANY as usize), ..flows() }
}

/// A router for frames of this shape, with these rules; without a filter if `rules` is `None`. The
/// handshakes of its connections have passed.
pub(super) fn router(shape: Shape, rules: Option<Rules>) -> Result<Rig> {
    let mut rig = Rig::new(shape).context("no router of this shape")?;
    let Some(rules) = rules else { return Ok(rig) };
    let published = rules.published(1)?;
    rig.with_stack(|stack| stack.set_filter(Some(published)));
    if shape.transport == Transport::Tcp && rules.has_states {
        let done = rig.shake_hands(shape, Instant::from_nanos(1));
        done.with_context(|| format!("the handshakes did not pass: {:?}", rig.lost()))?;
    }
    Ok(rig)
}

/// A router that is measured again and again.
pub(super) struct Filtered(Memory);

impl Filtered {
    pub(super) fn new(shape: Shape, rules: Option<Rules>) -> Result<Filtered> {
        Ok(Filtered(Memory::around(router(shape, rules)?, shape)?))
    }

    /// The router forwards for `seconds`. `cpu_s` of the result is the router's own time.
    pub(super) fn forwarding(&mut self, seconds: f64) -> Result<Measurement> {
        let Cost { packets, whole_ns, alone_ns } = self.0.measure(seconds, &|| false)?;
        let own_ns = whole_ns - alone_ns;
        ensure!(
            own_ns > 0.0,
            "generator and sink cost {alone_ns:.1} ns, with router {whole_ns:.1}"
        );
        Ok(Measurement {
            units: packets,
            cpu_s: own_ns * packets as f64 * 1e-9,
            wall_s: seconds,
            settings: format!("{own_ns:.1} ns"),
            ..Measurement::default()
        })
    }

    /// The router's time for a packet, in ns.
    fn ns(&mut self, seconds: f64) -> Result<f64> {
        Ok(1e9 / self.forwarding(seconds)?.units_per_cpu_s()?)
    }
}

/// The ns that `rules` add to a packet, divided by the ns of forwarding it without a filter.
fn added(b: &Bench, rules: Rules) -> Result<Figure> {
    let mut with = Filtered::new(flows(), Some(rules))?;
    let mut without = Filtered::new(flows(), None)?;
    let mut ns = (Vec::new(), Vec::new());
    let (pairs, seconds) = (5 * b.pairs, b.seconds / 5.0);
    with.ns(b.trial_s)?;
    without.ns(b.trial_s)?;
    let ratios = paired(
        pairs,
        || {
            let each = with.ns(seconds)?;
            ns.0.push(each);
            Ok(each)
        },
        || {
            let each = without.ns(seconds)?;
            ns.1.push(each);
            Ok(each)
        },
    )?;
    let samples: Vec<f64> = ratios.iter().map(|ratio| ratio - 1.0).collect();
    let note = format!("{:.1} ns a packet with, {:.1} without", median(&ns.0), median(&ns.1));
    Ok(Figure { value: median(&samples), samples, note })
}

pub(super) fn added_by_states(b: &Bench) -> Result<Figure> {
    added(b, stateful(100))
}

pub(super) fn added_by_nat(b: &Bench) -> Result<Figure> {
    added(b, masqueraded(100))
}

/// The ratio of the added costs with a million and with 1,000 states. Each is compared with a
/// router without a filter that forwards the same packets.
pub(super) fn million_states(b: &Bench) -> Result<Figure> {
    let mut routers = Vec::with_capacity(4);
    for shape in [many(false), flows()] {
        for rules in [Some(stateful(100)), None] {
            routers.push(Filtered::new(shape, rules)?);
        }
    }
    let [with_many, many, with_few, few] = routers.as_mut_slice() else {
        return Err(anyhow!("four routers were made"));
    };
    for router in [&mut *with_many, &mut *many, &mut *with_few, &mut *few] {
        router.ns(b.trial_s)?;
    }
    let mut notes = (String::new(), String::new());
    let samples = paired(
        b.pairs,
        || {
            let (with, without) = (with_many.ns(b.seconds)?, many.ns(b.seconds)?);
            notes.0 = format!("{with:.1} - {without:.1} ns");
            Ok(with - without)
        },
        || {
            let (with, without) = (with_few.ns(b.seconds)?, few.ns(b.seconds)?);
            notes.1 = format!("{with:.1} - {without:.1} ns");
            Ok(with - without)
        },
    )?;
    let note = format!("{} over {}, the last pair", notes.0, notes.1);
    Ok(Figure { value: median(&samples), samples, note })
}

/// Bytes of memory for each state.
fn bytes(v6: bool) -> Result<Figure> {
    let mut rig = router(many(v6), Some(stateful(100)))?;
    let (len, memory) = rig.with_stack(|stack| {
        stack
            .filter()
            .map_or((0, 0), |firewall| (firewall.states().len(), firewall.states().memory()))
    });
    ensure!(len == MANY as usize, "{len} states of {MANY}");
    let value = memory as f64 / len as f64;
    Ok(Figure { value, samples: vec![value], note: format!("{memory} bytes, {len} states") })
}

pub(super) fn bytes_v4(_: &Bench) -> Result<Figure> {
    bytes(false)
}

pub(super) fn bytes_v6(_: &Bench) -> Result<Figure> {
    bytes(true)
}

/// Datagrams of 1,000 flows from 100 hosts. All flows of an inside host belong to one shard.
fn shared() -> Shape {
    Shape { flows: 1_000, hosts: 100, ..Shape::default() }
}

/// Two shards forward for `seconds`. The flows begin with the first round, and go in one direction.
fn two_shards(seconds: f64) -> Result<Measurement> {
    let shards = Memory::of_shards(shared(), 2, Some(masqueraded(100).published(1)?))?;
    let begin = Barrier::new(shards.len());
    let costs = std::thread::scope(|scope| {
        let measure = |(core, mut memory): (usize, Memory)| {
            let begin = &begin;
            scope.spawn(move || {
                let pinned = pin(&[core]);
                let warm = memory.measure(0.02, &|| false);
                begin.wait();
                warm?;
                pinned.and_then(|()| Ok(memory.measure(seconds, &|| false)?))
            })
        };
        let threads: Vec<_> = shards.into_iter().enumerate().map(measure).collect();
        let join = |thread: ScopedJoinHandle<_>| thread.join().map_err(|_| anyhow!("a panic"))?;
        threads.into_iter().map(join).collect::<Result<Vec<Cost>>>()
    })?;
    let own = costs.iter().map(|cost| cost.own_ns().context("less than generator and sink"));
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
    let mut one = Filtered::new(shared(), Some(masqueraded(100)))?;
    b.ratio(Measurement::units_per_cpu_s, two_shards, |seconds| one.forwarding(seconds))
}
