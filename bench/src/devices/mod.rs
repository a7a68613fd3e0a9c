//! The rows of bench `devices`: packet filters, taps, rings, wake-ups, small segments, overload.
//! Called by `main.rs`. `filter` compares our packet filters with libpcap's. `rings` compares the
//! stack with a loop that only takes frames. `mitigation` compares two levels of interrupt
//! mitigation. `one_packet` compares a driver that sends one packet at a time with one that queues.

mod filter;
mod mitigation;
mod one_packet;
mod rings;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::livelock::{Step, peak_pps, sweep};
use lab::tap::{Line, Method, lines};

use crate::drive::Bulk;
use crate::harness::{Bench, Better, Figure, Spec, best_of, spec};
use crate::measure::Measurement;
use crate::memory::instructions_with;
use crate::ours;
use crate::outside::small_segments;
use crate::peers::kernel::{Placement, Settings};
use crate::peers::{Kind, SMALL_MTU, Veth};

/// The rows, each with the value that it must reach and the value that it aims at.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "filter tcp and port 80 and host 10.0.0.1, 64 bytes, matching: libpcap interpreter ns \
             / our JIT ns",
            Higher,
            3.0,
            6.0,
            "x",
            filter::compiled,
        ),
        spec(
            "the same filter: libpcap interpreter ns / our interpreter ns",
            Higher,
            1.0,
            1.4,
            "x",
            filter::interpreted,
        ),
        spec(
            "tap intercept: STREAMS allocate-and-free model / ours",
            Higher,
            20.0,
            40.0,
            "x",
            intercept,
        ),
        spec(
            "instructions per packet added by taps with no listener",
            Lower,
            6.0,
            2.0,
            "instructions",
            instructions_without_listener,
        ),
        spec(
            "user ns per 64-byte UDP datagram to the application above the bare ring loop, AF_XDP",
            Lower,
            90.0,
            60.0,
            "ns",
            rings::above_the_ring,
        ),
        spec(
            "total CPU per 64-byte UDP datagram / bare receive loop, AF_PACKET",
            Lower,
            1.10,
            1.05,
            "x",
            rings::total_cpu,
        ),
        spec(
            "wake-ups per MB, bulk between two threads, level 5 / level 0",
            Lower,
            0.05,
            0.03,
            "x",
            mitigation::wakeups,
        ),
        spec(
            "throughput, bulk between two threads, level 5 / level 0",
            Higher,
            1.0,
            1.2,
            "x",
            mitigation::throughput,
        ),
        spec(
            "CPU per byte, bulk between two threads, level 5 / level 0",
            Lower,
            0.9,
            0.7,
            "x",
            mitigation::cpu_per_byte,
        ),
        spec(
            "64-byte flood at level 5: p99 latency in units of the level's time bound",
            Lower,
            2.0,
            1.2,
            "bounds",
            mitigation::flood_latency,
        ),
        spec(
            "64-byte TCP segments to the application over mem / kernel over veth without offload",
            Higher,
            5.0,
            10.0,
            "x",
            over_memory,
        ),
        spec(
            "64-byte TCP segments to the application over TAP / kernel over veth without offload",
            Higher,
            0.9,
            1.3,
            "x",
            over_tap,
        ),
        spec(
            "delivered rate at ten times the load the receiver can take / its peak",
            Higher,
            0.8,
            0.95,
            "x",
            delivered,
        ),
        spec(
            "application's share of the core under that load, percent",
            Higher,
            30.0,
            45.0,
            "%",
            applications_share,
        ),
        spec(
            "one-packet driver / queued driver throughput on a 1 Gb/s mem link with 150 us service",
            Lower,
            0.6,
            0.5,
            "x",
            one_packet::ratio,
        ),
    ]
};

// Segments of 64 bytes: the cost of a transfer that has only small segments. The MTU of the link
// leaves room for 64 bytes after the headers, so that a bulk transfer consists of such segments,
// for the kernel and for us. The figure is bits per CPU-second of both ends.

fn against_veth(b: &Bench, mut ours: impl FnMut(f64) -> Result<Measurement>) -> Result<Figure> {
    ours(b.trial_s)?;
    let veth = Veth::new(Kind::SmallSegments)?;
    let best = best_of(&Placement::all(b.cores), 2, Better::Higher, |placement| {
        veth.bulk(b.cores, Settings::bulk(placement), b.trial_s)?.gbit_per_cpu_s()
    })?;
    let kernel = |seconds| veth.bulk(b.cores, Settings::bulk(best), seconds);
    b.ratio(Measurement::gbit_per_cpu_s, ours, kernel)
}

fn over_memory(b: &Bench) -> Result<Figure> {
    let shape = Bulk { mtu: SMALL_MTU, ..Bulk::default() };
    against_veth(b, move |seconds| ours::bulk(shape, seconds))
}

fn over_tap(b: &Bench) -> Result<Figure> {
    against_veth(b, |seconds| small_segments(b, seconds))
}

// The cost of passing a packet to a tap, compared with a model of STREAMS, and the instructions of
// the hook for taps if there is no tap. The first figure is measured as in `wirespeed lab tap`; it
// is the median of five measurements.

/// The ratio of the constant cost of a packet in the model, which allocates and frees a buffer, to
/// ours. The constant cost is the intercept of a line through the times for packets of several
/// sizes, minus the intercept for a loop that only copies.
fn intercept(b: &Bench) -> Result<Figure> {
    let rounds = if b.is_quick { 15 } else { 101 };
    let (mut samples, mut figures) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let methods = [Method::OURS, Method::ALLOCATE_AND_FREE, Method::UNLOCKED];
        let [ours, model, unlocked] = lines(methods, rounds)?.map(|lines| lines.context(NO_LINE));
        let (ours, model, unlocked) = (ours?, model?, unlocked?);
        let Line { intercept, intercept_off, .. } = ours.above_copy;
        ensure!(
            intercept > intercept_off,
            "our {intercept:.2} ns are not larger than their error, {intercept_off:.2}"
        );
        let ratio = model.above_copy.intercept / intercept;
        samples.push(ratio);
        let note = format!(
            "{:.1} ns over {intercept:.2} above a copy alone, by least squares; model without \
             locks {:.1}, {:.1} times ours; with the copy's constant cost: model {:.1}, without \
             locks {:.1}, ours {:.1}",
            model.above_copy.intercept,
            unlocked.above_copy.intercept,
            unlocked.above_copy.intercept / intercept,
            model.all.intercept,
            unlocked.all.intercept,
            ours.all.intercept,
        );
        figures.push((ratio, note));
    }
    figures.sort_by(|a, b| a.0.total_cmp(&b.0));
    let note = figures.swap_remove(figures.len() / 2).1;
    Ok(Figure { value: crate::measure::median(&samples), samples, note })
}

const NO_LINE: &str = "no line fits the times by size";

/// The instructions that the hook for taps adds to a predicted segment, over both ends: the count
/// with the hook but without a tap, minus the count for a build without the hook.
fn instructions_without_listener(_: &Bench) -> Result<Figure> {
    const CASE: &str = "predicted-segment-1500";
    let with = instructions_with(CASE, &[])?;
    let without = instructions_with(CASE, &["--untapped"])?;
    let value = with - without;
    let note = format!("{with:.1} with the hook, {without:.1} without, by valgrind, both ends");
    Ok(Figure { value, samples: vec![value], note })
}

/// How long the application works on each datagram, in the rows about overload.
const WORK: Duration = Duration::from_micros(3);

/// Measures the delivered rate at increasing loads.
fn steps(b: &Bench) -> Result<Vec<Step>> {
    let (seconds, rounds) = if b.is_quick { (0.2, 3) } else { (0.5, 9) };
    Ok(sweep(WORK, seconds, rounds, &|| false)?)
}

/// The figure of a row: `value`, with one sample for each run at the highest load.
fn of_last(steps: &[Step], figure: impl Fn(f64, f64) -> f64, value: f64) -> Result<Figure> {
    let last = steps.last().context("no load was offered")?;
    let offered = last.offered(peak_pps(steps)).context("the last load was not offered")?;
    let outcomes = last.outcomes.iter();
    let samples = outcomes.map(|o| figure(o.delivered_pps(), o.application_share)).collect();
    let note = format!(
        "{:.0} datagrams/s delivered, {offered:.1} times the peak offered, the application works \
         {} ns on each",
        last.delivered_pps(),
        WORK.as_nanos()
    );
    Ok(Figure { value, samples, note })
}

fn delivered(b: &Bench) -> Result<Figure> {
    let steps = steps(b)?;
    let peak = peak_pps(&steps);
    let value = steps.last().context("no load was offered")?.delivered_pps() / peak;
    of_last(&steps, |pps, _| pps / peak, value)
}

fn applications_share(b: &Bench) -> Result<Figure> {
    let steps = steps(b)?;
    let value = steps.last().context("no load was offered")?.share() * 100.0;
    of_last(&steps, |_, share| share * 100.0, value)
}
