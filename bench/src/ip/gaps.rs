//! Writes of 8 KB to a receiver that loses each frame that ends less than 50 us after the frame
//! before it, with and without a gap between frames. Called by `ip`. It runs in virtual time, with
//! two whole stacks, an Ethernet of 10 Gb/s, and a clock that advances to the next event. The
//! figure is the same on every machine.
//!
//! A gap is the time from the start of one frame to the start of the next. The last of six
//! fragments is shorter than the others. So the time from the end of the fifth frame to the end of
//! the last is shorter than the gap, by the difference of the two frames' times on the wire. The
//! gap has to be longer by this difference, which is half a microsecond at 10 Gb/s.

use std::net::SocketAddr;

use anyhow::{Result, anyhow, bail, ensure};
use base::{Cidr, Duration, Owner};
use device::busy::Busy;
use device::nic;
use stack::UdpError;
use stack::pair::{End, PairConfig, VirtualClock, end};

use crate::harness::{Bench, Figure};
use crate::measure::pattern;

const WRITE: usize = 8 << 10;
const WRITES: u64 = 2_000;
/// Frames of a write. For a write the receiver needs at least this many times [`BUSY`].
const FRAMES: u64 = 6;
/// How long a frame keeps the receiver busy.
const BUSY: Duration = Duration::from_micros(50);
const GAP: Duration = Duration::from_micros(51);
const RATE_BPS: u64 = 10_000_000_000;

/// Two ends, and their virtual time.
struct World {
    sender: End,
    receiver: End,
    clock: VirtualClock,
}

/// The result of [`WRITES`] writes.
struct Outcome {
    delivered: u64,
    /// The time until the last write had arrived.
    took: Duration,
}

impl World {
    fn new(gap: Option<Duration>) -> Result<World> {
        let clock = VirtualClock::default();
        let link = nic::Config { rate_bps: RATE_BPS, ..nic::Config::default() };
        let (first, second) = nic::pair(&link, clock.of_devices())?;
        let config = PairConfig::new([0x1984, 0x1989]);
        let receiver = end(&config, Busy::new(second, BUSY, clock.of_devices()), 2);
        let mut sender = end(&config, first, 1);
        if let Some(host) = Cidr::new(receiver.addr, 32) {
            sender.stack.set_burst_gap(host, gap)?;
        }
        Ok(World { sender, receiver, clock })
    }

    fn run(mut self) -> Result<Outcome> {
        let bind = |end: &mut End| {
            let socket = end.stack.udp_bind(SocketAddr::new(end.addr, 2049), Owner::program());
            socket.map_err(|error| anyhow!("bind: {error:?}"))
        };
        let (from, into) = (bind(&mut self.sender)?, bind(&mut self.receiver)?);
        let (to, data) = (SocketAddr::new(self.receiver.addr, 2049), pattern(WRITE));
        let (begun, mut sent) = (self.clock.now(), 0);
        let mut outcome = Outcome { delivered: 0, took: Duration::ZERO };
        loop {
            let now = self.clock.now();
            self.sender.stack.poll(now);
            while sent < WRITES {
                match self.sender.stack.udp_send(from, to, &data, now) {
                    Ok(()) => sent += 1,
                    Err(UdpError::WouldBlock) => break,
                    Err(error) => bail!("send: {error:?}"),
                }
            }
            self.receiver.stack.poll(now);
            while let Some(datagram) = self.receiver.stack.udp_receive(into) {
                ensure!(datagram.payload.as_slice() == data, "wrong data arrived");
                self.receiver.stack.give_back(datagram.payload);
                outcome.delivered += 1;
                outcome.took = now.since(begun);
            }
            if !self.clock.advance([&mut self.sender, &mut self.receiver]) {
                ensure!(sent == WRITES, "{sent} of {WRITES} writes were taken");
                return Ok(outcome);
            }
        }
    }
}

fn note(without: &Outcome) -> String {
    format!(
        "{WRITES} writes, gap {} us from start to start, {} Gb/s, receiver busy {} us a frame, \
         virtual time; without a gap {} writes arrive",
        GAP.as_micros(),
        RATE_BPS / 1_000_000_000,
        BUSY.as_micros(),
        without.delivered
    )
}

fn figure(value: impl Fn(&Outcome) -> f64) -> Result<Figure> {
    let (without, with) = (World::new(None)?.run()?, World::new(Some(GAP))?.run()?);
    let value = value(&with);
    Ok(Figure { value, samples: vec![value], note: note(&without) })
}

pub(super) fn delivered(_: &Bench) -> Result<Figure> {
    figure(|outcome| outcome.delivered as f64 / WRITES as f64)
}

/// The number of writes that arrived, divided by the number that the receiver could have taken in
/// the same time with one frame every 50 us.
pub(super) fn goodput(_: &Bench) -> Result<Figure> {
    figure(|outcome| {
        let own = outcome.took.as_secs_f64() / (BUSY.as_secs_f64() * FRAMES as f64);
        outcome.delivered as f64 / own
    })
}
