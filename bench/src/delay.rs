//! A path with delay in virtual time, for the row about the send-space estimate
//! (`Switch::SendSpace`). Called by `ours.rs`. Each frame arrives a fixed time after it was sent,
//! and no frame is lost.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use base::{Counter, Duration, Instant, LinkKind, Mtu, Owner, Switch, Switches};
use device::{Burst, Device, Limits, Offloads};
use mbuf::{Mbuf, Pool};
use stack::pair::{PairConfig, end};
use stack::{CallError, Event, ListenConfig};

type Line = Arc<Mutex<VecDeque<(u64, Mbuf)>>>;

/// One end of the path: a device whose frames arrive at the other end after `one_way_ns`.
struct Delayed {
    clock_ns: Arc<AtomicU64>,
    one_way_ns: u64,
    out: Line,
    incoming: Line,
}

fn lock(line: &Line) -> std::sync::MutexGuard<'_, VecDeque<(u64, Mbuf)>> {
    line.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Device for Delayed {
    fn limits(&self) -> Limits {
        Limits {
            link: LinkKind::Ethernet,
            mtu: Mtu::ETHERNET,
            max_frame: 1522,
            max_segments: 1,
            tx_depth: usize::MAX,
            offloads: Offloads::default(),
        }
    }

    fn rx_burst(&mut self, _pool: &mut Pool, into: &mut Burst) -> usize {
        let now = self.clock_ns.load(Ordering::Relaxed);
        let mut line = lock(&self.incoming);
        let mut count = 0;
        while !into.is_full() && line.front().is_some_and(|(due, _)| *due <= now) {
            into.extend(line.pop_front().map(|(_, m)| m));
            count += 1;
        }
        count
    }

    fn tx_burst(&mut self, _pool: &mut Pool, from: &mut Burst) -> usize {
        let due = self.clock_ns.load(Ordering::Relaxed) + self.one_way_ns;
        let count = from.len();
        lock(&self.out).extend(from.drain(..).map(|m| (due, m)));
        count
    }

    fn rx_ready(&self) -> bool {
        let now = self.clock_ns.load(Ordering::Relaxed);
        lock(&self.incoming).front().is_some_and(|(due, _)| *due <= now)
    }

    fn tx_ready(&self) -> bool {
        true
    }

    fn link_up(&self) -> bool {
        true
    }
}

/// How long the transfer is measured, in seconds of virtual time.
const SECONDS: u64 = 30;

/// How many bytes a second the receiver's application gets from a sender with a send buffer of
/// 2,048 bytes. The window is 32 KB, the round trip is 10 ms, ACKs are delayed by 200 ms, and tail
/// loss probes are off.
pub fn small_sender_bytes_per_s(switches: Switches) -> Result<f64> {
    let clock_ns = Arc::new(AtomicU64::new(1));
    let (there, back): (Line, Line) = Default::default();
    let side = |out: &Line, incoming: &Line| Delayed {
        clock_ns: clock_ns.clone(),
        one_way_ns: 5_000_000,
        out: out.clone(),
        incoming: incoming.clone(),
    };
    let mut config = PairConfig::new([3, 4]);
    // Without the estimate the sender waits for the delayed ACK. A tail loss probe would cause an
    // earlier ACK, and hide the effect.
    config.stack.switches = switches.with(Switch::TailProbe, false);
    let mut client = end(&config, side(&there, &back), 1);
    config.stack.switches = switches;
    let mut server = end(&config, side(&back, &there), 2);
    let tcp = tcp::Config {
        send_buffer_bytes: 2048,
        send_buffer_max_bytes: 0,
        receive_buffer_bytes: 32 << 10,
        receive_buffer_max_bytes: 0,
        ack_delay: Duration::from_millis(200),
        no_delay: true,
        ..tcp::Config::default()
    };
    let to = SocketAddr::new(server.addr, 5001);
    let listen = ListenConfig { tcp, ..ListenConfig::default() };
    let listener = server.stack.tcp_listen(to, listen).map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let mut now = Instant::from_nanos(1);
    let c = client
        .stack
        .tcp_connect(to, None, &tcp, Owner::program(), now)
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let (mut accepted, mut received) = (None, 0u64);
    let (data, mut into) = (vec![7; 2048], vec![0; 32 << 10]);
    let step = Duration::from_micros(500);
    while now.as_nanos() < SECONDS * 1_000_000_000 {
        now += step;
        clock_ns.store(now.as_nanos(), Ordering::Relaxed);
        client.stack.poll(now);
        server.stack.poll(now);
        while let Some(event) = server.stack.next_event() {
            if matches!(event, Event::Accept(_)) {
                accepted = server.stack.tcp_accept(listener);
            }
        }
        match client.stack.tcp_write(c, &data) {
            Ok(_) | Err(CallError::WouldBlock | CallError::Closed) => {}
            Err(error) => anyhow::bail!("write: {error:?}"),
        }
        if let Some(s) = accepted {
            received += server.stack.tcp_read(s, &mut into).unwrap_or(0) as u64;
        }
    }
    accepted.context("nobody connected")?;
    let resent = client.stack.counters().of(Counter::TcpRetransmits);
    // An ACK that is delayed by 200 ms arrives after the first time-out, as the RTO has not adapted
    // yet.
    anyhow::ensure!(resent <= 2, "{resent} retransmissions on a path that loses nothing");
    Ok(received as f64 / SECONDS as f64)
}
