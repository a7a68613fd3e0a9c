//! Several senders, each Linux or our stack, share one queue in real time. Behind the queue is one
//! sink, a host with Linux.
//!
//! Called by: `fair`, benchmarks. `host` has the two kinds of hosts. Linux only, and needs root.
//!
//! Each sender is a host with its own device; the side of the bridge that they share is the
//! bottleneck. The sink is Linux for all flows, because two kinds of receivers would differ in
//! their ACKs.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use device::Device;
use link::Bridge;
use sim::goodput::ways;

use super::host::Host;
use super::{LOOK, MEMORY_BYTES, PORT, carry, failed, longest_pause};
use crate::Error;
use crate::contest::{Contest, Outcome, Whose};

/// Run a contest. If the bridge paused for too long, run it again, at most `again` times; the
/// result of the last run is returned in any case. `None` once `stop` returns `true`.
///
/// # Errors
/// The hosts cannot be made, or a flow received nothing.
pub fn measure(
    contest: &Contest,
    again: u32,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Outcome>, Error> {
    let mut void = 0;
    loop {
        let Some(outcome) = once(contest, stop)? else { return Ok(None) };
        if outcome.is_quiet || void == again {
            return Ok(Some(Outcome { void, ..outcome }));
        }
        void += 1;
    }
}

fn once(contest: &Contest, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<Outcome>, Error> {
    let seed = contest.path.seed;
    let mut senders = Vec::new();
    let mut wires: Vec<Box<dyn Device>> = Vec::new();
    for (flow, number) in contest.flows.iter().zip(1..) {
        let is_ours = flow.whose == Whose::Ours;
        let (host, wire) = Host::new(number, is_ours, flow.algorithm, seed)?;
        senders.push(host);
        wires.push(wire);
    }
    let number = contest.flows.len() as u8 + 1;
    let (sink, wire) = Host::new(number, false, contest.path.algorithm, seed)?;
    let (there, back) = ways(&contest.path);
    let bridge = Bridge::shared([wires, vec![wire]], [there, back], seed, MEMORY_BYTES)
        .map_err(|error| failed(&error.to_string()))?;
    let over = AtomicBool::new(false);
    let received: Vec<AtomicU64> = contest.flows.iter().map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        let carrier = scope.spawn(|| carry(bridge, &over));
        // In a closure, so that `over` is set after an error too: otherwise the threads would never
        // end.
        let looks = (|| {
            let starts = contest.starts();
            let ports = PORT..;
            for (((count, sender), port), at) in
                received.iter().zip(&senders).zip(ports).zip(starts)
            {
                let to = SocketAddr::new(sink.address().into(), port);
                let listener = sink.listen(to)?;
                let (over, sink) = (&over, &sink);
                scope.spawn(move || sink.serve(listener, core::slice::from_ref(count), over));
                scope.spawn(move || {
                    thread::sleep(Duration::from_nanos(at.as_nanos()));
                    sender.send(to, over);
                });
            }
            let go_on = || !stop() && !carrier.is_finished();
            Ok(watch(contest, &received, &go_on))
        })();
        over.store(true, Ordering::Relaxed);
        let (bottleneck, pause) =
            carrier.join().map_err(|_| failed("the thread of the bridge panicked"))??;
        let looks = looks?;
        if stop() {
            return Ok(None);
        }
        if looks.last().is_none_or(|(_, bytes)| bytes.contains(&0)) {
            return Err(failed("a flow delivered no bytes"));
        }
        let is_quiet = pause.as_nanos() <= longest_pause(&contest.path).as_nanos();
        let pause_ms = pause.as_secs_f64() * 1e3;
        Ok(Some(Outcome { pause_ms, is_quiet, ..contest.outcome(&looks, bottleneck) }))
    })
}

/// The samples of a contest: the seconds since its beginning, and the bytes that each flow has
/// delivered. Once `go_on` returns `false` it no longer waits between samples.
fn watch(
    contest: &Contest,
    received: &[AtomicU64],
    go_on: &dyn Fn() -> bool,
) -> Vec<(f64, Vec<u64>)> {
    let begun = Instant::now();
    let read = || received.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect::<Vec<u64>>();
    let mut looks = vec![(0.0, read())];
    for moment in contest.looks() {
        let moment = Duration::from_nanos(moment.as_nanos());
        while begun.elapsed() < moment && go_on() {
            thread::sleep(LOOK.min(moment.saturating_sub(begun.elapsed())));
        }
        looks.push((begun.elapsed().as_secs_f64(), read()));
    }
    looks
}
