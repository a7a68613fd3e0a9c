//! Bulk transfers over rings and a link with transmission time, between hosts whose driver threads
//! sleep; the simulation is exact to the nanosecond.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::Waker;

use base::{Duration, Instant, Owner};
use device::counted::Counted;
use device::mitigation::{Level, Mitigation};
use device::{Device, nic};

use super::idle::Woken;
use crate::pair::{End, PairConfig, end};
use crate::{Armed, ListenConfig, TcpHandle};

/// The result of a transfer.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    bytes: u64,
    /// The wake-ups of both hosts together.
    wakeups: u64,
}

/// A transfer in one direction for 50 ms at a mitigation level, over a link of `rate_bps`.
fn bulk(level: u8, rate_bps: u64) -> Outcome {
    bulk_over(level, rate_bps, |nic| nic)
}

/// The same transfer with a wrapper around the devices.
fn bulk_over<D: Device + 'static>(
    level: u8,
    rate_bps: u64,
    wrap: impl Fn(nic::Nic) -> D,
) -> Outcome {
    let clock = Arc::new(AtomicU64::new(1_000_000_000));
    let link = nic::Config { rate_bps, ..nic::Config::default() };
    let read = clock.clone();
    let now_of = move || Instant::from_nanos(read.load(Ordering::Relaxed));
    let (first, second) = nic::pair(&link, Arc::new(now_of)).expect("a link");
    let config = PairConfig::new([1, 2]);
    let mut hosts = [end(&config, wrap(first), 1), end(&config, wrap(second), 2)];
    let level = Level::new(level).expect("a level");
    for host in &mut hosts {
        host.stack.set_mitigation(host.port, Mitigation::Level(level)).expect("its queue is deep");
    }
    let bells = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let wakers = [Waker::from(bells[0].clone()), Waker::from(bells[1].clone())];

    let start = Instant::from_nanos(1_000_000_000);
    let to = SocketAddr::new(hosts[1].addr, 80);
    let listener = hosts[1].stack.tcp_listen(to, ListenConfig::default()).expect("free");
    let asked = ::tcp::Config::default();
    let connected = hosts[0].stack.tcp_connect(to, None, &asked, Owner::program(), start);
    let stream = connected.expect("a port is free");
    let mut accepted = None;

    let (mut now, mut until) = (start, [start; 2]);
    let mut outcome = Outcome { bytes: 0, wakeups: 0 };
    let mut rung = [0; 2];
    while now.since(start) < Duration::from_millis(50) {
        for side in 0..2 {
            let count = bells[side].times();
            if until[side] > now && count == rung[side] {
                continue;
            }
            rung[side] = count;
            outcome.wakeups += 1;
            let host = &mut hosts[side];
            host.stack.poll(now);
            if side == 0 {
                while host.stack.tcp_write(stream, &[0; 4096]).is_ok_and(|n| n == 4096) {}
            } else {
                accepted = accepted.or_else(|| host.stack.tcp_accept(listener));
                outcome.bytes += read_all(host, accepted);
            }
            host.stack.flush();
            while host.stack.next_event().is_some() {}
            let deadline = host.stack.next_deadline();
            until[side] = match host.stack.arm(&wakers[side]) {
                Armed::Ready => now,
                Armed::Until(at) => deadline.min(at),
                _ => deadline,
            };
        }
        let news = (0..2).any(|side| bells[side].times() != rung[side]);
        if !news {
            now = now.max(until[0].min(until[1]));
        }
        clock.store(now.as_nanos(), Ordering::Relaxed);
    }
    outcome
}

fn read_all(host: &mut End, stream: Option<TcpHandle>) -> u64 {
    let (mut bytes, mut into) = (0, [0; 4096]);
    while let Some(stream) = stream
        && let Ok(n @ 1..) = host.stack.tcp_read(stream, &mut into)
    {
        bytes += n as u64;
    }
    bytes
}

/// The round trip of a fast link is far shorter than the time of level 5: if ACKs were collected
/// that long, the wire would be idle.
#[test]
fn an_awaited_acknowledgment_does_not_wait_for_others() {
    for rate_gbps in [1, 10, 40] {
        let [each, gathered] = [0, 5].map(|level| bulk(level, rate_gbps * 1_000_000_000));
        let share = gathered.bytes as f64 / each.bytes as f64;
        assert!(share >= 0.95, "{share:.3} of level 0's bytes at {rate_gbps} Gb/s");
        let fewer = gathered.wakeups as f64 / each.wakeups as f64;
        assert!(fewer <= 0.1, "{fewer:.3} of level 0's wake-ups at {rate_gbps} Gb/s");
    }
}

/// A device behind a wrapper counts frames too, and wakes as rarely.
#[test]
fn a_level_holds_behind_a_wrapper() {
    for level in [0, 3, 5] {
        let plain = bulk(level, 1_000_000_000);
        let counted = bulk_over(level, 1_000_000_000, |nic| Counted::new(nic).0);
        assert_eq!(counted, plain, "level {level}");
    }
}
