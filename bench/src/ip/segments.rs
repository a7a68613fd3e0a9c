//! Compares one call for many datagrams (`udp_send_segments`, like Linux's UDP_SEGMENT) with a call
//! for each datagram (`udp_send`), with the same stack, wire and datagrams. Called by `ip`. The
//! wire takes super-datagrams, like a device with USO and like Linux's veth. The row measures the
//! sender's CPU time. The note also gives the ratio without super-datagrams, when the stack makes
//! every frame, and the ratio of both ends' CPU time, with the copy by the receiver's application.

use std::net::SocketAddr;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use base::{Counter, Instant, Owner};
use stack::pair::{End, PairConfig, pair};
use stack::{SEGMENTS_MAX, UdpHandle};

use crate::harness::{Bench, Figure};
use crate::measure::{Measurement, median, pattern, thread_cpu_s};

/// Bytes of a datagram: for the row, and for the row's note.
const SMALL: usize = 64;
const LARGE: usize = 1_472;

/// Datagrams of a round. They have to fit on the wire.
const ROUND_DATAGRAMS: usize = 512;
/// Bytes of a round, at most.
const ROUND_BYTES: usize = 192 << 10;

/// How a round is sent.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum How {
    /// With a call for each datagram.
    Single,
    /// With one call for many datagrams; the stack makes a frame for each datagram.
    Made,
    /// With one call for many datagrams, which pass the wire in one frame.
    Whole,
}

/// The CPU time of both ends.
#[derive(Clone, Copy, Default)]
struct Cost {
    sender_s: f64,
    receiver_s: f64,
    datagrams: u64,
}

impl Cost {
    fn sender_ns(&self) -> f64 {
        self.sender_s * 1e9 / self.datagrams as f64
    }

    fn both_ns(&self) -> f64 {
        (self.sender_s + self.receiver_s) * 1e9 / self.datagrams as f64
    }
}

/// Two hosts with one socket each.
struct Hosts {
    sender: (End, UdpHandle),
    receiver: (End, UdpHandle),
    to: SocketAddr,
    data: Vec<u8>,
    into: Vec<u8>,
    how: How,
    clock: Clock,
}

impl Hosts {
    fn new(size: usize, how: How) -> Result<Hosts> {
        let mut config = PairConfig::new([0x1990, 0x1991]);
        let offloads = &mut config.wire.offloads;
        (offloads.tx_checksum, offloads.rx_checksum) = (true, true);
        offloads.uso_max_bytes = if how == How::Made { 0 } else { 65_535 + 14 };
        let (mut left, mut right) = pair(&config);
        let bind = |end: &mut End| {
            let socket = end.stack.udp_bind(SocketAddr::new(end.addr, 5001), Owner::program());
            socket.map_err(|error| anyhow!("bind: {error:?}"))
        };
        let (from, into) = (bind(&mut left)?, bind(&mut right)?);
        let to = SocketAddr::new(right.addr, 5001);
        let count = SEGMENTS_MAX.min(64_000 / size);
        let (sender, receiver) = ((left, from), (right, into));
        let (data, into) = (pattern(count * size), vec![0; size]);
        Ok(Hosts { sender, receiver, to, data, into, how, clock: Clock::now() })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1)
    }

    /// Send the data once, until all its frames are on the wire.
    fn send(&mut self) -> Result<()> {
        let (now, size) = (self.now(), self.into.len());
        let stack = &mut self.sender.0.stack;
        if self.how == How::Single {
            for datagram in self.data.chunks_exact(size) {
                let sent = stack.udp_send(self.sender.1, self.to, datagram, now);
                sent.map_err(|error| anyhow!("send: {error:?}"))?;
            }
        } else {
            let sent = stack.udp_send_segments(self.sender.1, self.to, &self.data, size, now);
            let sent = sent.map_err(|error| anyhow!("send: {error:?}"))?;
            ensure!(sent == self.data.len(), "{sent} of {} bytes were taken", self.data.len());
        }
        stack.flush();
        Ok(())
    }

    /// Run the receiver's turns until the wire is empty. Returns how many datagrams its application
    /// has copied.
    fn receive(&mut self) -> Result<u64> {
        let (now, stack) = (self.now(), &mut self.receiver.0.stack);
        let mut received = 0;
        while stack.poll(now) > 0 {
            while stack.next_event().is_some() {}
            while let Some(datagram) = stack.udp_receive(self.receiver.1) {
                let payload = datagram.payload.as_slice();
                ensure!(payload.len() == self.into.len(), "{} bytes arrived", payload.len());
                mbuf::copy(payload, &mut self.into);
                stack.give_back(datagram.payload);
                received += 1;
            }
        }
        Ok(received)
    }

    fn rounds(mut self, seconds: f64) -> Result<Cost> {
        let count = self.data.len() / self.into.len();
        let calls = (ROUND_DATAGRAMS / count).min(ROUND_BYTES / self.data.len()).max(1);
        let (start, mut cost, mut warm) = (Clock::now(), Cost::default(), 0);
        while start.elapsed().as_secs_f64() < seconds || cost.datagrams == 0 {
            let before = thread_cpu_s();
            for _ in 0..calls {
                self.send()?;
            }
            let between = thread_cpu_s();
            let received = self.receive()?;
            let after = thread_cpu_s();
            ensure!(received == (calls * count) as u64, "{received} datagrams arrived");
            ensure!(
                self.data.ends_with(&self.into),
                "the bytes that arrived are not those that were sent"
            );
            let now = self.now();
            self.sender.0.stack.poll(now);
            warm += 1;
            if warm > 20 {
                cost.sender_s += between - before;
                cost.receiver_s += after - between;
                cost.datagrams += received;
            }
        }
        let counters = self.sender.0.stack.counters();
        let (frames, sent) = (counters.of(Counter::TxFrames), counters.of(Counter::UdpOut));
        let expected = if self.how == How::Whole { sent / count as u64 } else { sent };
        ensure!(frames == expected, "{sent} datagrams left in {frames} frames");
        Ok(cost)
    }
}

/// Measures one way of sending small datagrams, for a profile.
pub(super) fn run(how: How, seconds: f64) -> Result<Measurement> {
    let cost = Hosts::new(SMALL, how)?.rounds(seconds)?;
    let settings = format!("{:.1} ns at the sender, {:.1} both", cost.sender_ns(), cost.both_ns());
    Ok(Measurement { cpu_s: cost.sender_s, units: cost.datagrams, settings, ..Default::default() })
}

/// Measures pairs of runs for one size. Returns the row's ratios and the row's note.
fn pairs(b: &Bench, size: usize) -> Result<(Vec<f64>, String)> {
    let seconds = b.seconds / 5.0;
    let run = |how| Hosts::new(size, how)?.rounds(seconds);
    // Ratios of the cost of single sends to that of the other two ways, for the sender and for both
    // ends; and the sender's costs.
    let (mut ratios, mut ns) = ([const { Vec::new() }; 4], [const { Vec::new() }; 3]);
    for pair in 0..5 * b.pairs {
        let mut order = [How::Single, How::Made, How::Whole];
        order.rotate_left(pair % 3);
        let mut costs = [Cost::default(); 3];
        for how in order {
            costs[how as usize] = run(how)?;
        }
        let [single, made, whole] = costs;
        ratios[0].push(single.sender_ns() / whole.sender_ns());
        ratios[1].push(single.both_ns() / whole.both_ns());
        ratios[2].push(single.sender_ns() / made.sender_ns());
        ratios[3].push(single.both_ns() / made.both_ns());
        costs.iter().zip(&mut ns).for_each(|(cost, ns)| ns.push(cost.sender_ns()));
    }
    let [_, both, made, made_both] = ratios.each_ref().map(|samples| median(samples));
    let [single, made_ns, whole] = ns.map(|samples| median(&samples));
    let note = format!(
        "{size} bytes, the sender's ns a datagram: {whole:.1} in super-datagrams, {made_ns:.1} in \
         frames that the stack makes, {single:.1} by single sends; both ends' CPU {both:.2}x; \
         without super-datagrams {made:.2}x, both ends {made_both:.2}x"
    );
    let [samples, ..] = ratios;
    Ok((samples, note))
}

pub(super) fn against_single(b: &Bench) -> Result<Figure> {
    let (samples, small) = pairs(b, SMALL)?;
    let (large_samples, large) = pairs(b, LARGE).context("measuring large datagrams")?;
    let note = format!("{small}; {:.2}x with {large}", median(&large_samples));
    Ok(Figure { value: median(&samples), samples, note })
}
