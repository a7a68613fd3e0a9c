//! A server and several clients on one Ethernet cable, 10 Mb/s, CSMA/CD, in virtual time: the
//! clients call over UDP, with as many fragments as their arguments need.
//!
//! Called by: the benchmarks, tests. IEEE 802.3 clause 4: a station begins to send when the cable
//! has been silent for the gap. Stations that begin within the propagation delay collide: they jam,
//! and wait a random number of slots, from a range that doubles with each collision of the frame.
//! `device::nic` has the same rules for two ends.

use std::collections::VecDeque;
use std::net::SocketAddr;

use base::{Duration, Instant};
use device::fault::Rng;
use device::{Burst, Device, mem};
use mbuf::{Mbuf, Pool};
use stack::pair::{addresses, mac};
use stack::{PortConfig, Stack, StackConfig};

use super::ends::{Answerer, Caller, PORT, failed};
use super::point::Transport;
use crate::Error;

const NS_PER_BYTE: u64 = 800;
/// The shortest frame, without its check sequence; preamble and check sequence.
const MIN_BYTES: usize = 60;
const EXTRA_BYTES: usize = 8 + 4;
const GAP: Duration = Duration::from_nanos(9_600);
const SLOT: Duration = Duration::from_nanos(51_200);
/// Preamble and jam of a collision.
const JAM: Duration = Duration::from_nanos(9_600);
/// The propagation delay of a cable of a kilometre.
const DELAY: Duration = Duration::from_micros(5);
const ATTEMPTS: u32 = 16;
const DOUBLINGS: u32 = 10;

const POOL_BYTES: usize = 64 << 20;

/// The outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shared {
    /// Calls that had a reply.
    pub calls: u64,
    /// Bytes of argument a second.
    pub bytes_per_s: f64,
    /// Frames that arrived.
    pub frames: u64,
    /// Collisions: times that two or more stations sent at once.
    pub collisions: u64,
    /// Frames that were given up after 16 collisions.
    pub given_up: u64,
    /// Calls that were sent again.
    pub repeats: u64,
}

struct Station {
    stack: Stack,
    near: mem::Mem,
    caller: Option<Caller>,
    /// Frames that the stack has handed to its interface.
    queue: VecDeque<Mbuf>,
    /// Collisions of the first frame in the queue, and when its backoff is over.
    attempts: u32,
    ready: Instant,
}

/// The frame on the cable.
struct Sent {
    frame: Mbuf,
    by: usize,
    end: Instant,
}

struct Cable {
    stations: Vec<Station>,
    answerer: Answerer,
    pool: Pool,
    rng: Rng,
    now: Instant,
    sent: Option<Sent>,
    /// When the cable will have been silent for the gap.
    silent: Instant,
    argument: Vec<u8>,
    counts: Shared,
}

/// Let `clients` hosts call with `bytes` of argument for `seconds`. The same seed gives the same
/// frames.
///
/// # Errors
/// A call failed for another reason than the cable.
pub fn shared(clients: u8, bytes: usize, seconds: u64, seed: u64) -> Result<Shared, Error> {
    let mut cable = Cable::new(clients, bytes, seed)?;
    let end = Instant::ZERO + Duration::from_secs(seconds);
    while cable.now < end {
        cable.step()?;
    }
    let callers = cable.stations.iter().filter_map(|station| station.caller.as_ref());
    let repeats = callers.map(Caller::repeats).sum();
    let bytes = cable.counts.calls as f64 * bytes as f64;
    Ok(Shared { repeats, bytes_per_s: bytes / seconds as f64, ..cable.counts })
}

impl Cable {
    /// Station 1 is the server.
    fn new(clients: u8, bytes: usize, seed: u64) -> Result<Cable, Error> {
        let stations = (1..=clients + 1).map(|number| station(number, clients + 1, seed));
        let mut stations: Vec<Station> = stations.collect();
        let at = SocketAddr::new(addresses(1)[0].addr, PORT);
        let answerer = Answerer::new(&mut stations[0].stack, Transport::Udp, at)?;
        let (now, mut rng) = (Instant::from_nanos(1), Rng::new(seed));
        let argument = vec![0x5a; bytes];
        for station in &mut stations[1..] {
            let keys = (rng.next_u64(), rng.next_u64());
            let mut caller = Caller::new(&mut station.stack, Transport::Udp, at, keys, now)?;
            caller.call(&argument, now)?;
            station.caller = Some(caller);
        }
        let mut cable = Cable {
            stations,
            answerer,
            pool: Pool::new(POOL_BYTES),
            rng,
            now,
            sent: None,
            silent: now,
            argument,
            counts: Shared::default(),
        };
        (0..cable.stations.len()).try_for_each(|station| cable.run(station))?;
        Ok(cable)
    }

    /// Do what is next in time.
    fn step(&mut self) -> Result<(), Error> {
        let deadlines = self.stations.iter().map(Station::deadline);
        let timer = deadlines.min().unwrap_or(Instant::NEVER);
        let cable = match &self.sent {
            Some(sent) => sent.end,
            None => self.next_begin(),
        };
        let next = timer.min(cable);
        if next == Instant::NEVER {
            return Err(failed("nobody has anything to send: please report this line"));
        }
        self.now = self.now.max(next);
        if timer < cable {
            let now = self.now;
            let due = |station: &usize| self.stations[*station].deadline() <= now;
            let due: Vec<usize> = (0..self.stations.len()).filter(due).collect();
            return due.into_iter().try_for_each(|station| self.run(station));
        }
        match self.sent.take() {
            Some(sent) => self.deliver(sent),
            None => {
                self.begin();
                Ok(())
            }
        }
    }

    /// When the next station begins.
    fn next_begin(&self) -> Instant {
        let begins = self.stations.iter().filter_map(Station::wants);
        begins.min().map_or(Instant::NEVER, |ready| ready.max(self.silent))
    }

    /// A station begins to send. Others that want to send and have not heard it yet begin too, and
    /// collide.
    fn begin(&mut self) {
        let heard = self.now + DELAY;
        let silent = self.silent;
        let begins = |station: &Station| station.wants().map(|ready| ready.max(silent));
        let those: Vec<usize> = (0..self.stations.len())
            .filter(|&at| begins(&self.stations[at]).is_some_and(|begin| begin <= heard))
            .collect();
        if let [by] = those[..] {
            let station = &mut self.stations[by];
            station.attempts = 0;
            let Some(frame) = station.queue.pop_front() else { return };
            let bytes = (frame.len().max(MIN_BYTES) + EXTRA_BYTES) as u64;
            let end = self.now + Duration::from_nanos(bytes * NS_PER_BYTE);
            self.sent = Some(Sent { frame, by, end });
            self.silent = end + GAP;
            self.counts.frames += 1;
            return;
        }
        self.counts.collisions += 1;
        for by in those {
            let station = &mut self.stations[by];
            station.attempts += 1;
            if station.attempts >= ATTEMPTS {
                station.attempts = 0;
                self.counts.given_up += 1;
                station.queue.drain(..1).for_each(|frame| self.pool.free(frame));
                continue;
            }
            let slots = self.rng.below(1 << station.attempts.min(DOUBLINGS)) as u64;
            station.ready = self.now + JAM + SLOT.saturating_mul(slots);
        }
        self.silent = self.now + JAM + DELAY + GAP;
    }

    fn deliver(&mut self, sent: Sent) -> Result<(), Error> {
        let to = sent.frame.as_slice().get(..6).map(<[u8]>::to_vec).unwrap_or_default();
        let number =
            self.stations.iter().enumerate().position(|(at, _)| mac(at as u8 + 1).0 == *to);
        let mut burst = Burst::new();
        burst.push(sent.frame);
        if let Some(station) = number {
            // A full ring drops the frame, as the ring of an interface does.
            self.stations[station].near.tx_burst(&mut self.pool, &mut burst);
        }
        burst.drain(..).for_each(|frame| self.pool.free(frame));
        if let Some(station) = number {
            self.run(station)?;
        }
        // The sender's queue has room for more frames now.
        self.run(sent.by)
    }

    /// A station processes received frames and expired timers.
    fn run(&mut self, at: usize) -> Result<(), Error> {
        let station = &mut self.stations[at];
        loop {
            let moved = station.stack.poll(self.now);
            match &mut station.caller {
                None => self.answerer.go_on(&mut station.stack, self.now)?,
                Some(caller) => {
                    if caller.go_on(&mut station.stack, self.now)? > 0 {
                        self.counts.calls += 1;
                        caller.call(&self.argument, self.now)?;
                        caller.go_on(&mut station.stack, self.now)?;
                    }
                }
            }
            while station.stack.next_event().is_some() {}
            station.stack.flush();
            if station.queue.is_empty() {
                let mut burst = Burst::new();
                station.near.rx_burst(&mut self.pool, &mut burst);
                station.queue.extend(burst.drain(..));
            }
            if moved == 0 {
                return Ok(());
            }
        }
    }
}

impl Station {
    /// When the station would begin to send if the cable were silent.
    fn wants(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then_some(self.ready)
    }

    fn deadline(&self) -> Instant {
        let caller = self.caller.as_ref().map_or(Instant::NEVER, Caller::deadline);
        self.stack.next_deadline().min(caller)
    }
}

/// A station that knows the others' addresses.
fn station(number: u8, count: u8, seed: u64) -> Station {
    let (device, near) = mem::pair(&mem::Config::default());
    let mut stack = Stack::new(StackConfig {
        solicited_node_reports: false,
        ..StackConfig::new([seed, u64::from(number)])
    });
    let config = PortConfig {
        mac: mac(number),
        addresses: addresses(number)[..1].to_vec(),
        ..PortConfig::default()
    };
    let port = stack.add_port(Box::new(device), config);
    for other in (1..=count).filter(|&other| other != number) {
        stack.add_neighbour(port, addresses(other)[0].addr, mac(other));
    }
    let (caller, queue, ready) = (None, VecDeque::new(), Instant::ZERO);
    Station { stack, near, caller, queue, attempts: 0, ready }
}
