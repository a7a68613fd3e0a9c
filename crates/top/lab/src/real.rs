//! A path in real time, with Linux at both ends, our stack at one end, or our stack at both.
//!
//! Called by: `wan`, for `--peer kernel`; benchmarks. `host` has the two kinds of hosts. Linux
//! only, and needs root: a host of Linux is a network namespace with a TAP.
//!
//! A run has two hosts, a bridge between them on its own thread, a sink at one host, and at the
//! other as many senders as the cell has flows. Time runs from the first connect. The bytes that
//! the sink has read at the end are the goodput. A run in which the bridge paused for longer than
//! [`longest_pause`] says more about this machine than about TCP, and is repeated.

mod host;
pub mod shared;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use link::real::{Runner, Timing};
use link::{Bridge, Counts};
use sim::goodput::{Goodput, fairness, share_of, ways};
use tcp::cc::Algorithm;

use crate::Error;
use host::{Host, Stream};

/// How often a run is repeated because the bridge paused; the last one is used in any case.
const AGAIN: u32 = 5;
/// How often threads check whether the run is over.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a read and of a write.
const CHUNK: usize = 64 << 10;
const PORT: u16 = 5001;
const MEMORY_BYTES: usize = 1 << 30;

/// The TCPs at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Linux sends to Linux.
    Linux,
    /// Ours sends to Linux.
    OursToLinux,
    /// Ours sends to ours.
    Ours,
}

impl Ends {
    /// In the order of comparison.
    pub const ALL: [Ends; 3] = [Ends::Linux, Ends::OursToLinux, Ends::Ours];

    /// Sender and receiver.
    pub fn name(self) -> &'static str {
        match self {
            Ends::Linux => "linux > linux",
            Ends::OursToLinux => "ours > linux",
            Ends::Ours => "ours > ours",
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Goodput of all flows / (rate x 1448 / 1500).
    pub share: f64,
    /// Jain's index of the flows.
    pub fairness: f64,
    /// The counters of the bottleneck.
    pub bottleneck: Counts,
    /// The longest pause of the bridge, in milliseconds.
    pub pause_ms: f64,
    /// Runs that were discarded before this one.
    pub void: u32,
}

/// Measure a path. A run in which the bridge paused for too long is repeated. `None` once `stop`
/// returns `true`.
///
/// # Errors
/// The hosts cannot be made, or a flow received nothing.
pub fn measure(
    path: &Goodput,
    ends: Ends,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Outcome>, Error> {
    let mut void = 0;
    loop {
        let Some(outcome) = once(path, ends, stop)? else { return Ok(None) };
        let is_quiet = outcome.pause_ms <= longest_pause(path).as_secs_f64() * 1e3;
        if is_quiet || void == AGAIN {
            return Ok(Some(Outcome { void, ..outcome }));
        }
        void += 1;
    }
}

/// The longest pause of the bridge in a valid run: a quarter of the round trip, and no more than
/// the time in which half of the queue is transmitted. Packets that come at once after a shorter
/// pause find room in the queue, or would have filled it anyway.
pub(crate) fn longest_pause(path: &Goodput) -> base::Duration {
    let queue_ns = (path.queue_bytes as f64 * 8e9 / path.rate_bps as f64) as u64;
    base::Duration::from_nanos((path.delay.as_nanos() / 2).min(queue_ns / 2))
}

fn once(
    path: &Goodput,
    ends: Ends,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Outcome>, Error> {
    let ours = [ends != Ends::Linux, ends == Ends::Ours];
    let seed = path.seed;
    let (sender, wire_a) = Host::new(1, ours[0], path.algorithm, seed)?;
    let (sink, wire_b) = Host::new(2, ours[1], path.algorithm, seed + 1)?;
    let (there, back) = ways(path);
    let bridge = Bridge::new([wire_a, wire_b], [there, back], seed, MEMORY_BYTES)
        .map_err(|error| Error::Failed(error.to_string()))?;
    let over = AtomicBool::new(false);
    let received: Vec<AtomicU64> = (0..path.flows).map(|_| AtomicU64::new(0)).collect();
    let read = || received.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect::<Vec<u64>>();
    let length = Duration::from_nanos(path.length.as_nanos());
    thread::scope(|scope| {
        let carrier = scope.spawn(|| carry(bridge, &over));
        // In a closure, so that `over` is set after an error too: otherwise the threads would never
        // end.
        let flows = (|| {
            let listener = sink.listen(SocketAddr::new(sink.address().into(), PORT))?;
            let to = SocketAddr::new(sink.address().into(), PORT);
            let (over, received, sender, sink) = (&over, &received, &sender, &sink);
            scope.spawn(move || sink.serve(listener, received, over));
            let begun = Instant::now();
            for flow in 0..path.flows {
                let apart = 2.0 * path.delay.as_secs_f64() * flow as f64 / path.flows as f64;
                scope.spawn(move || {
                    thread::sleep(Duration::from_secs_f64(apart));
                    sender.send(to, over)
                });
            }
            while begun.elapsed() < length && !stop() && !carrier.is_finished() {
                thread::sleep(LOOK.min(length.saturating_sub(begun.elapsed())));
            }
            Ok((read(), begun.elapsed().as_secs_f64()))
        })();
        over.store(true, Ordering::Relaxed);
        let carried = carrier.join().map_err(|_| failed("the thread of the bridge panicked"))??;
        let (bytes, seconds) = flows?;
        if stop() {
            return Ok(None);
        }
        if bytes.contains(&0) {
            let what = format!("{}: a flow delivered no bytes in {seconds:.0} s", ends.name());
            return Err(failed(&what));
        }
        let flows_bps: Vec<f64> = bytes.iter().map(|&n| n as f64 * 8.0 / seconds).collect();
        Ok(Some(Outcome {
            share: share_of(path, flows_bps.iter().sum()),
            fairness: fairness(&flows_bps),
            bottleneck: carried.0,
            pause_ms: carried.1.as_nanos() as f64 / 1e6,
            void: 0,
        }))
    })
}

/// Nice value of the thread that carries packets, so that it runs before the hosts' threads, which
/// may be late.
const CARRIER_NICE: i32 = -20;

/// Carry packets until `over`. Returns the counts of the data's direction, and the longest pause.
fn carry(bridge: Bridge, over: &AtomicBool) -> Result<(Counts, base::Duration), Error> {
    // Only the calling thread gets this priority. If the system refuses it, pauses may be longer;
    // they are measured all the same.
    let _ = rustix::process::setpriority_process(None, CARRIER_NICE);
    let mut runner = Runner::new(bridge, Timing::Sleep)
        .map_err(|error| failed(&format!("no descriptor for the bridge: {error}")))?;
    let look = base::Duration::from(LOOK);
    while !over.load(Ordering::Relaxed) {
        let until = runner.now() + look;
        runner.run_until(until).map_err(|gone| failed(&gone.to_string()))?;
    }
    Ok((runner.bridge().directions()[0].carried().link, runner.pauses().max()))
}

fn failed(what: &str) -> Error {
    Error::Failed(what.to_owned())
}

/// The address of the host with this number.
fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 97, 0, number)
}

/// Linux's name of a congestion control; `None` if Linux does not have it. Linux's reno recovers
/// with SACK, as our newreno does.
fn linux_name(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm.name() {
        "cubic" => Some("cubic"),
        "newreno" => Some("reno"),
        "bbr" => Some("bbr"),
        _ => None,
    }
}

/// Does Linux have this congestion control?
pub fn linux_has(algorithm: Algorithm) -> bool {
    linux_name(algorithm).is_some()
}

/// Read and count until `over`.
fn drain(mut from: Box<dyn Stream>, count: &AtomicU64, over: &AtomicBool) {
    let mut into = vec![0; CHUNK];
    while !over.load(Ordering::Relaxed) {
        match from.read(&mut into) {
            Ok(0) => return,
            Ok(n) => {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(error) if host::is_pause(&error) => {}
            Err(_) => return,
        }
    }
}

/// Write until `over`.
fn fill(mut to: Box<dyn Stream>, over: &AtomicBool) {
    let data = vec![0x5a; CHUNK];
    while !over.load(Ordering::Relaxed) {
        match to.write(&data) {
            Ok(_) => {}
            Err(error) if host::is_pause(&error) => {}
            Err(_) => return,
        }
    }
}
