//! The cost of a driver that offers the next frame only when the last one has left: TCP over a
//! transmit ring of one descriptor compared with a ring of 512. Called by `devices`. It runs in
//! virtual time, with two whole stacks, two interfaces, and a clock that advances to the next
//! event. The figure is the same on every machine.

use std::net::SocketAddr;

use anyhow::{Result, anyhow, ensure};
use base::{Duration, Instant, Owner};
use device::nic;
use stack::pair::{End, PairConfig, VirtualClock, end};
use stack::{CallError, ListenConfig, TcpHandle};

use crate::harness::{Bench, Figure};
use crate::measure::pattern;

const PORT: u16 = 5001;
const WRITE: usize = 64 << 10;

/// The interrupt service time of a workstation in the years when Fast Ethernet appeared.
const SERVICE: Duration = Duration::from_micros(150);

const QUEUED: usize = 512;

/// The virtual time that is measured. Start-up, before it, takes as long.
const SPAN: Duration = Duration::from_millis(500);

/// Two ends, and their virtual time.
struct World {
    client: End,
    server: End,
    clock: VirtualClock,
    received: u64,
}

impl World {
    fn new(tx_ring: usize) -> Result<World> {
        let clock = VirtualClock::default();
        let link = nic::Config { tx_ring, service: SERVICE, ..nic::Config::default() };
        let (first, second) = nic::pair(&link, clock.of_devices())?;
        let config = PairConfig::new([0x1990, 0x1988]);
        let (client, server) = (end(&config, first, 1), end(&config, second, 2));
        Ok(World { client, server, clock, received: 0 })
    }
}

/// The throughput with a transmit ring of `tx_ring` descriptors, in bits of payload per second.
fn throughput(tx_ring: usize) -> Result<f64> {
    let mut world = World::new(tx_ring)?;
    let to = SocketAddr::new(world.server.addr, PORT);
    let listener = world
        .server
        .stack
        .tcp_listen(to, ListenConfig::default())
        .map_err(|error| anyhow!("listen: {error:?}"))?;
    let now = world.clock.now();
    let stream = world
        .client
        .stack
        .tcp_connect(to, None, &tcp::Config::default(), Owner::program(), now)
        .map_err(|error| anyhow!("connect: {error:?}"))?;
    let (data, mut into) = (pattern(WRITE), vec![0; 128 << 10]);
    let mut accepted = None;
    let mut start = None;
    loop {
        let now = world.clock.now();
        world.client.stack.poll(now);
        while world.client.stack.tcp_write(stream, &data).is_ok_and(|n| n == data.len()) {}
        world.server.stack.poll(now);
        accepted = accepted.or_else(|| world.server.stack.tcp_accept(listener));
        if let Some(stream) = accepted {
            world.received += read(&mut world.server, stream, &mut into)?;
        }
        let (from, bytes) = match start {
            None if now >= Instant::ZERO + SPAN => *start.insert((now, world.received)),
            None => (Instant::NEVER, 0),
            Some(known) => known,
        };
        if now.since(from) >= SPAN {
            ensure!(world.received > bytes, "nothing arrived with a ring of {tx_ring}");
            return Ok((world.received - bytes) as f64 * 8.0 / now.since(from).as_secs_f64());
        }
        let goes_on = world.clock.advance([&mut world.client, &mut world.server]);
        ensure!(goes_on, "the transfer stopped with a ring of {tx_ring}");
    }
}

fn read(end: &mut End, stream: TcpHandle, into: &mut [u8]) -> Result<u64> {
    let mut bytes = 0;
    loop {
        match end.stack.tcp_read(stream, into) {
            Ok(0) | Err(CallError::WouldBlock) => return Ok(bytes),
            Ok(n) => bytes += n as u64,
            Err(error) => return Err(anyhow!("read: {error:?}")),
        }
    }
}

pub(super) fn ratio(_: &Bench) -> Result<Figure> {
    let (one, queued) = (throughput(1)?, throughput(QUEUED)?);
    let note = format!(
        "{:.1} Mb/s, and {:.1} Mb/s with {QUEUED} descriptors, virtual time",
        one / 1e6,
        queued / 1e6
    );
    let value = one / queued;
    Ok(Figure { value, samples: vec![value], note })
}
