//! Joins two devices by the model of a link, in real time: a frame received from one device is sent
//! to the other when it arrives in the model. Each side may have several devices ([`side`]), for
//! senders that share one queue.
//!
//! Called by: `wirespeed wire`, the lab, tests, from a loop that sleeps until
//! [`Bridge::next_event`] or a device is ready. The clock is passed in. Counters: [`Carried`].
//!
//! A late call delays packets but loses none: the model begins each transmission where the last one
//! ended. But a frame that is received late enters the queue late, so a long pause drains the queue
//! and then overflows it. The bridge records how late it was ([`BridgeDirection::lateness`]): check
//! that after a measurement.

mod side;

use core::fmt;

use base::{Instant, LinkKind};
use device::Device;
use mbuf::Pool;

use crate::{Counts, Direction, Lateness, Settings, cut};
use side::Side;

/// XORed into the seed, for the random numbers of the second direction.
const OTHER_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Why devices cannot be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The devices have different kinds of link header.
    Kinds([LinkKind; 2]),
    /// A side has several devices, and its frames have no link addresses to tell them apart.
    Shared,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Kinds([a, b]) => write!(
                f,
                "one end carries {a:?} frames and the other {b:?}: use two of a kind, TAP and TAP \
                 or TUN and TUN"
            ),
            Mismatch::Shared => f.write_str(
                "several devices at one side need Ethernet addresses to tell them apart: use TAPs",
            ),
        }
    }
}

impl core::error::Error for Mismatch {}

/// The counters of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The counters of the model.
    pub link: Counts,
    /// Frames received from the sending side's devices; a super-segment is one.
    pub frames_in: u64,
    /// Bytes of the packets that the receiving side's devices took, link headers included.
    pub bytes_out: u64,
    /// Frames and segments lost in [`cut()`]: not TCP or UDP over IP, or no memory.
    pub uncut: u64,
}

/// The direction from one side of the bridge to the other.
pub struct BridgeDirection {
    model: Direction,
    link: LinkKind,
    /// Packets that have arrived and wait for room in a device.
    waiting: usize,
    frames_in: u64,
    bytes_out: u64,
    uncut: u64,
    lateness: Lateness,
}

impl BridgeDirection {
    fn new(settings: Settings, link: LinkKind, seed: u64) -> BridgeDirection {
        BridgeDirection {
            model: Direction::new(Settings { link, ..settings }, seed),
            link,
            waiting: 0,
            frames_in: 0,
            bytes_out: 0,
            uncut: 0,
            lateness: Lateness::default(),
        }
    }

    /// The values of the counters.
    pub fn carried(&self) -> Carried {
        Carried {
            link: *self.model.counts(),
            frames_in: self.frames_in,
            bytes_out: self.bytes_out,
            uncut: self.uncut,
        }
    }

    /// How much later packets were delivered than they arrived in the model.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Packets in the queue and in flight.
    pub fn in_flight(&self) -> usize {
        self.model.len() + self.waiting
    }

    /// Receive a burst from each device of the sending side; returns the number of received frames.
    fn take_in(&mut self, from: &mut Side, pool: &mut Pool, now: Instant) -> usize {
        let count = from.take_in(pool, |taken, pool| {
            for frame in taken.drain(..) {
                let send = |packet, pool: &mut Pool| self.model.send(packet, now, pool);
                self.uncut += cut(frame, self.link, pool, send);
            }
        });
        self.frames_in += count as u64;
        count
    }

    /// Send the packets that have arrived by `now` to the devices of the receiving side; returns
    /// the number of packets that the devices took.
    fn hand_out(&mut self, to: &mut Side, pool: &mut Pool, now: Instant) -> usize {
        let mut handed_out = 0;
        loop {
            while to.has_room()
                && let Some((packet, at)) = self.model.receive(now, pool)
            {
                self.lateness.note(now.since(at));
                to.arrive(packet, pool);
            }
            let (packets, bytes) = to.hand_out(pool);
            self.bytes_out += bytes;
            handed_out += packets;
            if packets == 0 {
                self.waiting = to.waiting();
                return handed_out;
            }
        }
    }
}

/// Two sides with their devices, and the link between them in both directions.
pub struct Bridge {
    sides: [Side; 2],
    directions: [BridgeDirection; 2],
    pool: Pool,
}

impl Bridge {
    /// Join two devices. `settings[0]` apply from the first device to the second, `settings[1]` in
    /// the other direction; the same `seed` gives the same results. Packets take at most
    /// `memory_bytes` of memory.
    ///
    /// # Errors
    /// The two devices have different kinds of link header.
    pub fn new(
        ends: [Box<dyn Device>; 2],
        settings: [Settings; 2],
        seed: u64,
        memory_bytes: usize,
    ) -> Result<Bridge, Mismatch> {
        Bridge::shared(ends.map(|device| vec![device]), settings, seed, memory_bytes)
    }

    /// Join two sides with several devices each. Devices of a side share the direction to the other
    /// side. Each device gets the frames for addresses that were learned from it, and frames for
    /// groups and for unknown addresses. The first device has number 0, and the numbers go on from
    /// the first side to the second.
    ///
    /// # Errors
    /// The devices have different kinds of link header, or a side has several that are not
    /// Ethernet.
    pub fn shared(
        sides: [Vec<Box<dyn Device>>; 2],
        settings: [Settings; 2],
        seed: u64,
        memory_bytes: usize,
    ) -> Result<Bridge, Mismatch> {
        let mut kinds = sides.iter().flatten().map(|device| device.limits().link);
        let link = kinds.next().unwrap_or(LinkKind::Ethernet);
        if let Some(other) = kinds.find(|&other| other != link) {
            return Err(Mismatch::Kinds([link, other]));
        }
        if link != LinkKind::Ethernet && sides.iter().any(|side| side.len() > 1) {
            return Err(Mismatch::Shared);
        }
        let [there, back] = settings;
        let directions = [
            BridgeDirection::new(there, link, seed),
            BridgeDirection::new(back, link, seed ^ OTHER_SEED),
        ];
        Ok(Bridge { sides: sides.map(Side::new), directions, pool: Pool::new(memory_bytes) })
    }

    /// Receive from all devices and deliver what has arrived, in both directions; returns the
    /// number of packets handled. `clock` is read before each of the four steps.
    pub fn turn(&mut self, mut clock: impl FnMut() -> Instant) -> usize {
        let Bridge { sides: [a, b], directions: [there, back], pool } = self;
        let mut done = there.take_in(a, pool, clock());
        done += back.take_in(b, pool, clock());
        done += there.hand_out(b, pool, clock());
        done += back.hand_out(a, pool, clock());
        if done == 0 {
            pool.flush();
        }
        done
    }

    /// When the next packet may arrive. Devices wake by themselves for received frames.
    pub fn next_event(&self) -> Instant {
        self.directions[0].model.next_event().min(self.directions[1].model.next_event())
    }

    /// Did this device push packets back? The bridge keeps them until the device has room.
    pub fn wants_room(&self, device: usize) -> bool {
        let [a, b] = &self.sides;
        match device.checked_sub(a.len()) {
            None => a.wants_room(device),
            Some(device) => b.wants_room(device),
        }
    }

    /// The direction from the first side to the second, and the opposite direction.
    pub fn directions(&self) -> &[BridgeDirection; 2] {
        &self.directions
    }

    /// The devices, those of the first side first.
    pub fn devices(&self) -> impl Iterator<Item = &dyn Device> {
        self.sides.iter().flat_map(Side::devices)
    }

    /// The devices, for a caller that arms them before it sleeps.
    pub fn devices_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Device>> {
        self.sides.iter_mut().flat_map(Side::devices_mut)
    }

    /// Change the settings of a direction: 0 is from the first side to the second, 1 is the
    /// opposite one. Packets in flight are not affected.
    pub fn set_settings(&mut self, direction: usize, settings: Settings, now: Instant) {
        let Bridge { directions, pool, .. } = self;
        if let Some(direction) = directions.get_mut(direction) {
            let settings = Settings { link: direction.link, ..settings };
            direction.model.set_settings(settings, now, pool);
        }
    }
}

#[cfg(test)]
mod tests;
