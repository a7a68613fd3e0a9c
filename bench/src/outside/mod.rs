//! The rows of bench `outside`: the stack beside the kernel, over a TAP and with sockets. Called by
//! `main.rs`. `host` and `tap` measure transfers between our stack and the kernel over a TAP. `raw`
//! measures the TAP's system calls without a stack. `sockets` and `connections` measure crate
//! `net`'s sockets, and the kernel's sockets over loopback for comparison.

mod connections;
pub(crate) mod host;
pub(crate) mod raw;
mod sockets;
mod tap;

use anyhow::{Context, Result, bail};
use base::IpVersion;
pub use connections::measure_idle;
use raw::Carried;
use sockets::Answers;
use tap::{Data, Shape};

use crate::core::veth;
use crate::drive::Bulk;
use crate::harness::{Bench, Better, Figure, Spec, best_of, spec};
use crate::measure::{Cores, Measurement};
use crate::ours;
use crate::peers::SMALL_MTU;
use crate::peers::kernel::{Placement, Settings};
use crate::peers::latency::{Waiting, ping_pong};

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "TAP vnet_hdr receive from kernel TCP / kernel over veth GSO, Gb per CPU-second of \
             both ends",
            Higher,
            0.9,
            1.15,
            "x",
            |b| against_veth(b, tap::receive),
        ),
        spec(
            "TAP vnet_hdr send to kernel TCP / kernel over veth GSO, Gb per CPU-second of both \
             ends",
            Higher,
            0.9,
            1.15,
            "x",
            |b| against_veth(b, tap::send),
        ),
        spec(
            "our user-mode ns per 64 KB super-segment sent / raw TAP write",
            Lower,
            0.6,
            0.4,
            "x",
            |b| against_raw(b, tap::send, Carried::writes),
        ),
        spec(
            "our user-mode ns per 64 KB super-segment received / raw TAP read",
            Lower,
            0.8,
            0.5,
            "x",
            |b| against_raw(b, tap::receive, Carried::reads),
        ),
        spec(
            "TAP 1500-byte frames without offload / user-space wire of raw reads and writes, \
             wall Gb/s",
            Higher,
            0.8,
            0.95,
            "x",
            plain_frames,
        ),
        spec(
            "blocking sockets over mem, 64-byte ping-pong: kernel blocking p50 / ours",
            Higher,
            0.9,
            1.5,
            "x",
            blocking_sockets,
        ),
        spec(
            "tokio echo over mem, 64 bytes: kernel loopback with tokio p50 / ours",
            Higher,
            2.0,
            6.0,
            "x",
            tokio_echo,
        ),
        spec("tokio bulk over mem MTU 1500 / polled API", Higher, 0.85, 0.95, "x", tokio_bulk),
        spec(
            "connections per second per core over mem / kernel loopback",
            Higher,
            3.0,
            6.0,
            "x",
            connections_a_second,
        ),
        spec(
            "bytes per endpoint, 100,000 idle async connections",
            Lower,
            2000.0,
            1000.0,
            "bytes",
            |_| single_sample(connections::idle_by_another(100_000)?.0),
        ),
        spec(
            "CPU of an idle stack with 10,000 connections, percent of a core",
            Lower,
            0.5,
            0.1,
            "%",
            |_| single_sample(connections::idle_by_another(10_000)?.1),
        ),
    ]
};

/// Opens and closes connections between two of our stacks for `seconds`. `units` of the result
/// counts the connections.
///
/// # Errors
/// The connections could not be opened.
pub(crate) fn connections_over(
    cores: Cores,
    version: IpVersion,
    seconds: f64,
) -> Result<Measurement> {
    connections::ours(cores, version, seconds)
}

type OverTap = fn(Cores, Shape, f64) -> Result<tap::Ours>;

/// A figure that was measured once.
fn single_sample(value: f64) -> Result<Figure> {
    let note = "measured in a process of its own".to_owned();
    Ok(Figure { value, samples: vec![value], note })
}

/// Measures our side of one row without the side it is compared with. `case` is `tokio-bulk`,
/// `tap-receive` or `tap-send`; the last two may end with `-loaned`. Over a TAP, the kernel's end
/// and ours run on one core.
///
/// # Errors
/// `case` is none of these, or the measurement failed.
pub fn ours(b: &Bench, case: &str, seconds: f64) -> Result<Measurement> {
    let loaned = case.ends_with("-loaned");
    let shape = Shape {
        offload: true,
        placement: Placement::OneCore,
        buffer_bytes: 256 << 10,
        data: if loaned { Data::Loaned } else { Data::Copied },
        mtu: 1500,
    };
    match case {
        "tokio-bulk" => sockets::tokio_bulk(seconds),
        "tap-receive" | "tap-receive-loaned" => {
            Ok(tap::receive(b.cores, shape, seconds)?.measurement())
        }
        "tap-send" | "tap-send-loaned" => Ok(tap::send(b.cores, shape, seconds)?.measurement()),
        _ => bail!("no case '{case}'"),
    }
}

/// The kernel sends segments with 64 bytes of payload over a TAP without offloads, and our stack
/// receives them. The CPU time of the result is that of both ends.
pub(crate) fn small_segments(b: &Bench, seconds: f64) -> Result<Measurement> {
    let shape = Shape {
        offload: false,
        placement: *Placement::all(b.cores).first().context("there is no core")?,
        buffer_bytes: 256 << 10,
        data: Data::Copied,
        mtu: SMALL_MTU,
    };
    Ok(tap::receive(b.cores, shape, seconds)?.both)
}

fn shapes(b: &Bench, offload: bool) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for placement in Placement::all(b.cores) {
        for buffer_bytes in [192 << 10, 256 << 10, 384 << 10] {
            for data in [Data::Copied, Data::Loaned] {
                shapes.push(Shape { offload, placement, buffer_bytes, data, mtu: 1500 });
            }
        }
    }
    shapes
}

fn against_veth(b: &Bench, over_tap: OverTap) -> Result<Figure> {
    let both = |shape, seconds| Ok(over_tap(b.cores, shape, seconds)?.both);
    let best = best_of(&shapes(b, true), 2, Better::Higher, |shape| {
        both(shape, b.trial_s)?.gbit_per_cpu_s()
    })?;
    let veth = veth(b)?;
    let kernel = best_of(&Placement::all(b.cores), 2, Better::Higher, |placement| {
        veth.bulk(b.cores, Settings::bulk(placement), b.trial_s)?.gbit_per_cpu_s()
    })?;
    b.ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| both(best, seconds),
        |seconds| veth.bulk(b.cores, Settings::bulk(kernel), seconds),
    )
}

/// The ratio of the stack's user-mode time for a super-segment to the time of a raw TAP read or
/// write of the same size (`calls` chooses which). The stack's time in the kernel is not counted.
/// The two ends of the TAP run on one core, so that they do not contend for locks.
fn against_raw(b: &Bench, over_tap: OverTap, calls: fn(Carried) -> Measurement) -> Result<Figure> {
    let ours = |shape, seconds| Ok(over_tap(b.cores, shape, seconds)?.user_time());
    let on_one_core = shapes(b, true).into_iter().filter(|s| s.placement == Placement::OneCore);
    let on_one_core: Vec<Shape> = on_one_core.collect();
    let best =
        best_of(&on_one_core, 2, Better::Lower, |shape| ns_a_unit(&ours(shape, b.trial_s)?))?;
    let wire = raw::Wire::new(true)?;
    let theirs = |settings, seconds| Ok(calls(wire.bulk(b.cores, settings, seconds)?.1));
    let fastest = best_of(&raw::Wire::candidates(b.cores), 2, Better::Lower, |settings| {
        ns_a_unit(&theirs(settings, b.trial_s)?)
    })?;
    b.ratio(ns_a_unit, |seconds| ours(best, seconds), |seconds| theirs(fastest, seconds))
}

fn ns_a_unit(measured: &Measurement) -> Result<f64> {
    Ok(1e9 / measured.units_per_cpu_s()?)
}

pub(crate) fn wall_gbit_per_s(measured: &Measurement) -> Result<f64> {
    (measured.wall_s > 0.0)
        .then(|| measured.bytes as f64 * 8e-9 / measured.wall_s)
        .context("the transfer took no measurable time")
}

fn plain_frames(b: &Bench) -> Result<Figure> {
    let ours = |shape, seconds| tap::both_ways(b.cores, shape, seconds);
    let best = best_of(&shapes(b, false), 2, Better::Higher, |shape| {
        wall_gbit_per_s(&ours(shape, b.trial_s)?)
    })?;
    let wire = raw::Wire::new(false)?;
    let theirs = |settings, seconds| Ok(wire.bulk(b.cores, settings, seconds)?.0);
    let kernel = best_of(&raw::Wire::candidates(b.cores), 2, Better::Higher, |settings| {
        wall_gbit_per_s(&theirs(settings, b.trial_s)?)
    })?;
    b.ratio(wall_gbit_per_s, |seconds| ours(best, seconds), |seconds| theirs(kernel, seconds))
}

fn blocking_sockets(b: &Bench) -> Result<Figure> {
    let ours = |placement, seconds| sockets::blocking_ping_pong(b.cores, placement, seconds);
    let best = best_of(&Placement::all(b.cores), 2, Better::Lower, |placement| {
        ours(placement, b.trial_s)?.p50_ns()
    })?;
    let theirs = |waiting, seconds| ping_pong(b.cores, waiting, seconds);
    let kernel = best_of(&Waiting::blocking(b.cores), 2, Better::Lower, |waiting| {
        theirs(waiting, b.trial_s)?.p50_ns()
    })?;
    b.ratio(Measurement::p50_ns, |seconds| theirs(kernel, seconds), |seconds| ours(best, seconds))
}

fn tokio_echo(b: &Bench) -> Result<Figure> {
    let theirs = |answers, seconds| sockets::kernel_tokio_echo(b.cores, answers, seconds);
    let both = [Answers::SameThread, Answers::OtherCore];
    let kernel = best_of(&both, 2, Better::Lower, |answers| theirs(answers, b.trial_s)?.p50_ns())?;
    b.ratio(Measurement::p50_ns, |seconds| theirs(kernel, seconds), sockets::tokio_echo)
}

fn tokio_bulk(b: &Bench) -> Result<Figure> {
    let polled = |seconds| ours::bulk(Bulk::default(), seconds);
    b.hot_ratio(Measurement::gbit_per_cpu_s, sockets::tokio_bulk, polled)
}

fn connections_a_second(b: &Bench) -> Result<Figure> {
    b.ratio(
        Measurement::units_per_cpu_s,
        |seconds| connections_over(b.cores, IpVersion::V4, seconds),
        |seconds| connections::kernel(b.cores, seconds),
    )
}
