//! Stations on shared Ethernets in virtual time. One station sends at a time; if several want to
//! send, they take turns; all other stations receive the frame. This is a hub without collisions,
//! which would only take time.
//!
//! Called by: `cases.rs`. IEEE 802.3: 10 Mb/s, frames of at least 64 bytes, 9.6 us between frames.

use base::{Duration, Instant};

/// 10 Mb/s: a bit takes 100 ns.
const NS_PER_BYTE: u64 = 800;
const MIN_BYTES: usize = 64;
/// Bytes of preamble and frame check sequence, and the gap after a frame.
const EXTRA_BYTES: usize = 8 + 4;
const GAP_NS: u64 = 9_600;

/// A host or router, with one or more ports.
pub(super) trait Station {
    /// Receive a frame from the wire of a port, whatever its destination.
    fn receive(&mut self, port: usize, frame: &[u8], now: Instant);

    /// Process received frames and expired timers.
    fn run(&mut self, now: Instant);

    /// The next frame that a port sends.
    fn next_frame(&mut self, port: usize) -> Option<Vec<u8>>;

    /// When the station has to run next, even if nothing is received.
    fn next_deadline(&self) -> Instant;
}

/// The traffic of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    /// Frames.
    pub(super) frames: u64,
    /// Time that the frames took.
    pub(super) busy: Duration,
}

struct Wire {
    /// The stations on the wire, each with its port.
    members: Vec<(usize, usize)>,
    /// The member whose turn to send is next.
    turn: usize,
    /// The frame on the wire, the member that sends it, and when the frame ends.
    frame: Option<(Vec<u8>, usize, Instant)>,
    carried: Carried,
}

/// Stations of kind `S` and the wires between them.
pub(super) struct World<S> {
    now: Instant,
    pub(super) stations: Vec<S>,
    wires: Vec<Wire>,
}

impl<S: Station> World<S> {
    pub(super) fn new() -> World<S> {
        World { now: Instant::ZERO, stations: Vec::new(), wires: Vec::new() }
    }

    /// Add a wire; returns its number.
    pub(super) fn add_wire(&mut self) -> usize {
        let (members, frame, carried) = (Vec::new(), None, Carried::default());
        self.wires.push(Wire { members, turn: 0, frame, carried });
        self.wires.len() - 1
    }

    /// Add a station whose ports are on these wires; returns its number.
    pub(super) fn add(&mut self, station: S, wires: &[usize]) -> usize {
        let number = self.stations.len();
        self.stations.push(station);
        for (port, &wire) in wires.iter().enumerate() {
            self.wires[wire].members.push((number, port));
        }
        number
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn carried(&self, wire: usize) -> Carried {
        self.wires[wire].carried
    }

    /// Run until `end`, or until `is_over` returns true; it is called after each event.
    pub(super) fn run_until(&mut self, end: Instant, mut is_over: impl FnMut(&World<S>) -> bool) {
        self.start_frames();
        while !is_over(self) {
            let wires = self.wires.iter().filter_map(|wire| Some(wire.frame.as_ref()?.2));
            let stations = self.stations.iter().map(Station::next_deadline);
            let at = wires.chain(stations).min().unwrap_or(Instant::NEVER);
            if at > end {
                self.now = self.now.max(end);
                return;
            }
            self.now = self.now.max(at);
            self.deliver();
            let now = self.now;
            for station in self.stations.iter_mut().filter(|s| s.next_deadline() <= now) {
                station.run(now);
            }
            self.start_frames();
        }
    }

    /// Deliver frames that have ended to all stations but their sender, and run these stations.
    fn deliver(&mut self) {
        let World { now, stations, wires } = self;
        for wire in wires {
            let Some((frame, sender, _)) = wire.frame.take_if(|(.., at)| *at <= *now) else {
                continue;
            };
            for (place, &(station, port)) in wire.members.iter().enumerate() {
                if place != sender {
                    stations[station].receive(port, &frame, *now);
                    stations[station].run(*now);
                }
            }
        }
    }

    /// On each idle wire, let the next station that has a frame begin to send.
    fn start_frames(&mut self) {
        let World { now, stations, wires } = self;
        for wire in wires.iter_mut().filter(|wire| wire.frame.is_none()) {
            let count = wire.members.len();
            let mut places = (0..count).map(|n| (wire.turn + n) % count);
            let next = places.find_map(|place| {
                let (station, port) = wire.members[place];
                Some((place, stations[station].next_frame(port)?))
            });
            let Some((place, frame)) = next else { continue };
            wire.turn = (place + 1) % count;
            let bytes = (frame.len() + 4).max(MIN_BYTES) + EXTRA_BYTES - 4;
            let takes = Duration::from_nanos(bytes as u64 * NS_PER_BYTE + GAP_NS);
            wire.carried.frames += 1;
            wire.carried.busy = wire.carried.busy + takes;
            wire.frame = Some((frame, place, *now + takes));
        }
    }
}
