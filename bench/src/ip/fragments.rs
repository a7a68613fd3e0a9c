//! Compares UDP datagrams of 8 KB, which are sent in six fragments, with datagrams of 1,472 bytes,
//! which fit into one frame. Two stacks are joined in memory on one thread; the applications at
//! both ends copy the data. Called by `ip`.

use std::net::SocketAddr;
use std::time::Instant as Clock;

use anyhow::{Result, anyhow, ensure};
use base::{Counter, Instant, Owner};
use stack::UdpHandle;
use stack::pair::{End, PairConfig, pair};

use crate::harness::{Bench, Figure};
use crate::measure::{Measurement, pattern, thread_cpu_s};

/// Bytes that are sent in a turn. The wire in memory has room for all of them.
const TURN_BYTES: usize = 48 << 10;

/// Bytes of a datagram that fits into one frame, and of one that takes six.
pub(super) const WHOLE: usize = 1_472;
pub(super) const IN_SIX: usize = 8_192;

/// Two ends with one socket each.
struct Pair {
    sender: (End, UdpHandle),
    receiver: (End, UdpHandle),
    to: SocketAddr,
    data: Vec<u8>,
    into: Vec<u8>,
    received: u64,
}

impl Pair {
    fn new(size: usize) -> Result<Pair> {
        let (mut left, mut right) = pair(&PairConfig::new([0x1984, 0x1989]));
        let bind = |end: &mut End| {
            let socket = end.stack.udp_bind(SocketAddr::new(end.addr, 2049), Owner::program());
            socket.map_err(|error| anyhow!("bind: {error:?}"))
        };
        let (from, to) = (bind(&mut left)?, bind(&mut right)?);
        let addr = SocketAddr::new(right.addr, 2049);
        let (sender, receiver) = ((left, from), (right, to));
        let (data, into) = (pattern(size), vec![0; size]);
        Ok(Pair { sender, receiver, to: addr, data, into, received: 0 })
    }

    fn turn(&mut self, now: Instant) -> Result<()> {
        let (sender, socket) = &mut self.sender;
        for _ in 0..TURN_BYTES / self.data.len() {
            let sent = sender.stack.udp_send(*socket, self.to, &self.data, now);
            sent.map_err(|error| anyhow!("send: {error:?}"))?;
        }
        sender.stack.flush();
        let (receiver, socket) = &mut self.receiver;
        receiver.stack.poll(now);
        while receiver.stack.next_event().is_some() {}
        while let Some(datagram) = receiver.stack.udp_receive(*socket) {
            let payload = datagram.payload.as_slice();
            ensure!(payload.len() == self.into.len(), "{} bytes arrived", payload.len());
            mbuf::copy(payload, &mut self.into);
            self.received += payload.len() as u64;
            receiver.stack.give_back(datagram.payload);
        }
        self.sender.0.stack.poll(now);
        Ok(())
    }
}

pub(super) fn run(size: usize, seconds: f64) -> Result<Measurement> {
    let mut pair = Pair::new(size)?;
    let clock = Clock::now();
    let now = || Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1);
    for _ in 0..100 {
        pair.turn(now())?;
    }
    let (before, start, cpu) = (pair.received, Clock::now(), thread_cpu_s());
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..16 {
            pair.turn(now())?;
        }
    }
    let cpu_s = thread_cpu_s() - cpu;
    ensure!(pair.into == pair.data, "the bytes that arrived are not those that were sent");
    let sent = pair.sender.0.stack.counters();
    let fragments = sent.of(Counter::FragmentsOut) / sent.of(Counter::UdpOut).max(1);
    let dropped = pair.receiver.0.stack.drops().total();
    ensure!(dropped == 0, "{dropped} packets were dropped");
    let bytes = pair.received - before;
    Ok(Measurement {
        bytes,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s,
        units: bytes / size as u64,
        p50_ns: None,
        settings: format!("{size} bytes in {} frames", fragments.max(1)),
    })
}

pub(super) fn ratio(b: &Bench) -> Result<Figure> {
    b.close_ratio(
        Measurement::gbit_per_cpu_s,
        |seconds| run(IN_SIX, seconds),
        |seconds| run(WHOLE, seconds),
    )
}
