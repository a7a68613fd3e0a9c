//! The rows of bench `rpc`: how long an empty procedure takes, by the number of bytes in its
//! argument, with our RPC at both ends and with libtirpc as the server; and libtirpc over loopback
//! compared with our RPC in memory. Called by `main.rs`. The calls are those of `lab elbow`. The
//! rows with libtirpc need cc, libtirpc-dev and root. The rows about NFS are in `rpc/nfs.rs`.

mod nfs;

use std::cell::OnceCell;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use lab::elbow::memory::Memory;
use lab::elbow::{Curve, Effort, Over, Peer, Transport, curve, shared};

use crate::harness::{Bench, Better, Figure, Spec, best_of, spec};
use crate::measure::{Measurement, median, pin, thread_cpu_s};
use crate::peers::kernel::Placement;
use nfs::{Action, Ours};

/// The rows, each with the value that it must reach and the value that it aims at.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "worst point over the fitted line, TCP, ours at both ends",
            Lower,
            1.2,
            1.08,
            "x",
            |b| worst(b, Over::Memory, Transport::Tcp),
        ),
        spec(
            "worst point over the fitted line, TCP, ours to libtirpc",
            Lower,
            1.3,
            1.15,
            "x",
            |b| over_tap(b, Transport::Tcp),
        ),
        spec(
            "worst point over the fitted line, UDP, ours at both ends",
            Lower,
            1.2,
            1.08,
            "x",
            |b| worst(b, Over::Memory, Transport::Udp),
        ),
        spec(
            "null RPC over TCP in memory: kernel with libtirpc over loopback p50 / ours",
            Higher,
            5.0,
            15.0,
            "x",
            latency,
        ),
        spec(
            "calls per CPU-second, 16 in flight, 64 bytes / 16 libtirpc client threads",
            Higher,
            5.0,
            12.0,
            "x",
            calls_per_cpu,
        ),
        spec(
            "NFS read of 1 GB over TAP / raw TCP on the same path, our server",
            Higher,
            0.6,
            0.85,
            "x",
            |b| nfs::row(b, Ours::Server, Action::Read),
        ),
        spec(
            "NFS write of 1 GB over TAP / raw TCP on the same path, our server",
            Higher,
            0.5,
            0.75,
            "x",
            |b| nfs::row(b, Ours::Server, Action::Write),
        ),
        spec(
            "NFS read of 1 GB over TAP / raw TCP on the same path, our client",
            Higher,
            0.6,
            0.85,
            "x",
            |b| nfs::row(b, Ours::Client, Action::Read),
        ),
        spec(
            "NFS write of 1 GB over TAP / raw TCP on the same path, our client",
            Higher,
            0.5,
            0.75,
            "x",
            |b| nfs::row(b, Ours::Client, Action::Write),
        ),
        spec(
            "20 UDP clients and one server on a 10 Mb/s CSMA/CD link: goodput / one client's",
            Higher,
            0.7,
            0.9,
            "x",
            one_cable,
        ),
        spec(
            "TELNET packets for an 80-character line: character / line mode",
            Higher,
            40.0,
            60.0,
            "x",
            |_| telnet(),
        ),
    ]
};

/// In the row about CPU time: how many calls of ours are in flight, and how many client threads
/// libtirpc has.
const IN_FLIGHT: u32 = 16;
/// The argument of the calls in that row.
const ARGUMENT: [u8; 64] = [0x5a; 64];

/// The largest ratio of a measured point of a curve to the line through the curve, and a text that
/// describes this point.
fn said(curve: &Curve) -> Result<(f64, String)> {
    let line = curve.line().context("too few sizes were measured")?;
    let (point, ratio) = curve.worst().context("nothing was measured")?;
    let words = format!(
        "line {:.2} us + {:.3} ns a byte; worst of {} sizes {} bytes: {}",
        line.intercept / 1e3,
        line.slope,
        curve.measured().len(),
        point.bytes,
        point.why()
    );
    Ok((ratio, words))
}

/// Measures the largest ratio of a point to the line in several runs. The row's value is their
/// median.
fn worst(b: &Bench, over: Over, transport: Transport) -> Result<Figure> {
    let (runs, averages) = if b.is_quick { (1, 10) } else { (5, 20) };
    let (mut samples, mut notes) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let effort = Effort { calls: 100, averages, seed: 1 + run };
        let curve = curve(over, transport, effort, false)?;
        let (ratio, words) = said(&curve)?;
        eprintln!("    run {}: {ratio:.3}: {words}", run + 1);
        samples.push(ratio);
        notes.push(words);
    }
    let value = median(&samples);
    let near = |at: &usize| (samples[*at] - value).abs();
    let middle = (0..samples.len()).min_by(|a, b| near(a).total_cmp(&near(b)));
    let note = middle.map_or_else(String::new, |at| notes.swap_remove(at));
    Ok(Figure { value, samples, note })
}

/// Like [`worst`], over a TAP. Trial runs find out whether calls are faster with both ends on one
/// core or on two. Then all sizes are measured on the faster placement.
fn over_tap(b: &Bench, transport: Transport) -> Result<Figure> {
    const LIKE: f64 = 4_096.0;
    let trial = |placement| {
        let effort = Effort { calls: 100, averages: 3, seed: 1 };
        on(b, placement, || {
            let curve = curve(Over::Tap, transport, effort, true)?;
            Ok(curve.line().context("too few sizes were measured")?.at(LIKE))
        })
    };
    let placement = best_of(&Placement::all(b.cores), 1, Better::Lower, trial)?;
    let mut figure = on(b, placement, || worst(b, Over::Tap, transport))?;
    let words = words(placement);
    figure.note = format!(
        "{words} in all runs; a client without work sleeps until the TAP has a frame; {}",
        figure.note
    );
    Ok(figure)
}

/// A placement in words, for a note. Both ends may use all cores of the placement.
fn words(placement: Placement) -> &'static str {
    match placement {
        Placement::OneCore => "both ends on one core",
        Placement::TwoCores => "both ends on the same two cores",
    }
}

/// A server of libtirpc on these cores. Its clients run on the same cores.
struct Theirs {
    peer: Peer,
    words: &'static str,
}

impl Theirs {
    fn new(b: &Bench, placement: Placement) -> Result<Theirs> {
        let (client, server) = placement.split(b.cores)?;
        pin(&[client, server])?;
        let started = Peer::new(|| Ok(()));
        pin(&[b.cores.first])?;
        let (peer, ()) = started?;
        Ok(Theirs { peer, words: words(placement) })
    }

    /// A new server, in the placement that has the better figure.
    fn best(
        b: &Bench,
        better: Better,
        figure: impl Fn(&Theirs) -> Result<f64>,
    ) -> Result<(Theirs, Placement)> {
        let candidates = Placement::all(b.cores);
        let placement = best_of(&candidates, 3, better, |placement| {
            on(b, placement, || figure(&Theirs::new(b, placement)?))
        })?;
        Ok((Theirs::new(b, placement)?, placement))
    }

    fn latency(&self, seconds: f64) -> Result<Measurement> {
        const NS_A_CALL: f64 = 20e3;
        let calls = (seconds * 1e9 / NS_A_CALL).max(100.0) as u32;
        let said = self.peer.ask("latency", &[calls.to_string(), "0".to_owned()])?;
        let p50 = said.trim().parse().context("the client printed no number")?;
        let settings = format!("libtirpc, {}, {p50:.0} ns", self.words);
        Ok(Measurement { p50_ns: Some(p50), settings, ..Measurement::default() })
    }

    fn busy(&self, seconds: f64) -> Result<Measurement> {
        let before = cpu_s_of(self.peer.server_id())?;
        let words = [IN_FLIGHT.to_string(), seconds.to_string(), ARGUMENT.len().to_string()];
        let said = self.peer.ask("busy", &words)?;
        let server = cpu_s_of(self.peer.server_id())? - before;
        let mut figures = said.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(units)), Some(Ok(client_ns))) = (figures.next(), figures.next()) else {
            return Err(anyhow!("the client printed '{}'", said.trim()));
        };
        ensure!(units > 0, "no call got a reply");
        let cpu_s = client_ns as f64 * 1e-9 + server;
        let settings = format!("libtirpc, {IN_FLIGHT} client threads, {}", self.words);
        Ok(Measurement { units, cpu_s, settings, ..Measurement::default() })
    }
}

/// Run `what` on the cores of a placement, with all threads and processes that it starts.
fn on<T>(b: &Bench, placement: Placement, what: impl FnOnce() -> Result<T>) -> Result<T> {
    let (client, server) = placement.split(b.cores)?;
    pin(&[client, server])?;
    let done = what();
    pin(&[b.cores.first])?;
    done
}

/// The processor time of a process so far, in seconds, exact to the nanosecond.
fn cpu_s_of(process: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat"))?;
    let ns: f64 = text.split(' ').next().unwrap_or_default().parse().context("schedstat")?;
    Ok(ns * 1e-9)
}

/// The median time of one of our calls without an argument. Eight calls are timed together, because
/// reading the clock takes time too.
fn our_latency(seconds: f64) -> Result<Measurement> {
    const AT_A_TIME: u32 = 8;
    let mut pair = Memory::new(Transport::Tcp)?;
    pair.calls(&[], 1_000)?;
    let (start, mut samples) = (Clock::now(), Vec::new());
    while start.elapsed().as_secs_f64() < seconds {
        samples.push(pair.calls(&[], AT_A_TIME)? as f64 / f64::from(AT_A_TIME));
    }
    let p50 = median(&samples);
    let settings = format!("ours in memory, {p50:.0} ns");
    Ok(Measurement { p50_ns: Some(p50), settings, ..Measurement::default() })
}

fn our_busy(seconds: f64) -> Result<Measurement> {
    const AT_A_TIME: u32 = 4_096;
    let mut pair = Memory::new(Transport::Tcp)?;
    pair.in_flight(&ARGUMENT, IN_FLIGHT, AT_A_TIME)?;
    let (start, cpu, mut units) = (Clock::now(), thread_cpu_s(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        pair.in_flight(&ARGUMENT, IN_FLIGHT, AT_A_TIME)?;
        units += u64::from(AT_A_TIME);
    }
    let cpu_s = thread_cpu_s() - cpu;
    let settings = format!("ours in memory, {IN_FLIGHT} in flight");
    Ok(Measurement { units, cpu_s, settings, ..Measurement::default() })
}

fn latency(b: &Bench) -> Result<Figure> {
    let figure = |theirs: &Theirs| theirs.latency(b.trial_s)?.p50_ns();
    let (theirs, placement) = Theirs::best(b, Better::Lower, figure)?;
    b.ratio(
        Measurement::p50_ns,
        |seconds| on(b, placement, || theirs.latency(seconds)),
        our_latency,
    )
}

fn calls_per_cpu(b: &Bench) -> Result<Figure> {
    let figure = |theirs: &Theirs| theirs.busy(b.trial_s)?.units_per_cpu_s();
    let (theirs, placement) = Theirs::best(b, Better::Higher, figure)?;
    b.ratio(Measurement::units_per_cpu_s, our_busy, |seconds| {
        on(b, placement, || theirs.busy(seconds))
    })
}

/// Clients on one shared cable. It runs in virtual time, so the figure is the same on every
/// machine.
fn one_cable(b: &Bench) -> Result<Figure> {
    const BYTES: usize = 1_024;
    const IN_SIX: usize = 8_192;
    let (seconds, seeds) = if b.is_quick { (10, 1) } else { (30, 5) };
    let (mut samples, note) = (Vec::new(), OnceCell::new());
    for seed in 1..=seeds {
        let (alone, many) = (shared(1, BYTES, seconds, seed)?, shared(20, BYTES, seconds, seed)?);
        samples.push(many.bytes_per_s / alone.bytes_per_s);
        note.get_or_init(|| {
            format!(
                "1 KB of argument, virtual time, {seconds} s, seed {seed}: {:.0} of {:.0} KB/s; {} \
                 frames, {} collisions, {} frames given up, {} repeats of {} calls",
                many.bytes_per_s / 1e3,
                alone.bytes_per_s / 1e3,
                many.frames,
                many.collisions,
                many.given_up,
                many.repeats,
                many.calls
            )
        });
    }
    let (alone, many) = (shared(1, IN_SIX, seconds, 1)?, shared(20, IN_SIX, seconds, 1)?);
    let note = format!(
        "{}; 8 KB in six fragments {:.2}x",
        note.into_inner().unwrap_or_default(),
        many.bytes_per_s / alone.bytes_per_s
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// The smaller of the two programs' ratios. It runs in virtual time, so the figure is the same on
/// every machine.
fn telnet() -> Result<Figure> {
    let (mut samples, mut notes) = (Vec::new(), Vec::new());
    for (prints, program) in [(false, "prints nothing"), (true, "prints the line")] {
        let packets = lab::telnet::packets(prints)?;
        samples.push(packets.by_character as f64 / packets.by_line as f64);
        notes.push(format!(
            "a program that {program}: {} / {} packets",
            packets.by_character, packets.by_line
        ));
    }
    let note = format!(
        "{}; 10 characters a second, round trip 200 ms, both directions with ACKs, virtual time",
        notes.join(", ")
    );
    Ok(Figure { value: samples[0].min(samples[1]), samples, note })
}
