//! Two devices and the model of a link between them, in real time: frames received from one device
//! are sent to the other when the model says that they arrive.
//!
//! Called by: `wirespeed wire`, the lab, tests, from a loop that sleeps until
//! [`Bridge::next_event`] or a device has something. Its clock is passed in. Counters: [`Carried`].
//!
//! A late call changes when packets are delivered, never whether: the model begins each
//! transmission where the last one ended. But a packet that is received late enters the queue late,
//! and a long pause drains the queue and then overflows it. So the bridge records how late it was
//! ([`BridgeDirection::lateness`]); check that after a measurement.

use core::fmt;

use base::{Instant, LinkKind};
use device::{Burst, Device};
use mbuf::Pool;

use crate::{Counts, Direction, Lateness, Settings, cut};

/// Gives the two directions different random numbers.
const OTHER_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Devices of different link kinds cannot be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch([LinkKind; 2]);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.0;
        write!(
            f,
            "one end carries {a:?} frames and the other {b:?}: use two of a kind, TAP and TAP or \
             TUN and TUN"
        )
    }
}

impl core::error::Error for Mismatch {}

/// Packets that passed from one end to the other, and those that did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// What the model did.
    pub link: Counts,
    /// Frames of the device at the beginning, super-segments not cut yet.
    pub frames_in: u64,
    /// Bytes of the packets that were handed to the device at the end, link headers included.
    pub bytes_out: u64,
    /// Frames that could not be segmented or checksummed: no TCP or UDP over IP, or no memory.
    pub uncut: u64,
}

/// The direction from one end to the other.
pub struct BridgeDirection {
    model: Direction,
    link: LinkKind,
    /// Taken from the device, not on the link yet; empty between two turns.
    taken: Burst,
    /// Arrived, and waiting for the device at the end.
    arrived: Burst,
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
            taken: Burst::new(),
            arrived: Burst::new(),
            frames_in: 0,
            bytes_out: 0,
            uncut: 0,
            lateness: Lateness::default(),
        }
    }

    /// What passed so far.
    pub fn carried(&self) -> Carried {
        Carried {
            link: *self.model.counts(),
            frames_in: self.frames_in,
            bytes_out: self.bytes_out,
            uncut: self.uncut,
        }
    }

    /// How much later than the model said packets were delivered.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Packets in the queue and in flight.
    pub fn in_flight(&self) -> usize {
        self.model.len() + self.arrived.len()
    }

    /// Take a burst from the device at the beginning; returns how many frames it had.
    fn take_in(&mut self, from: &mut dyn Device, pool: &mut Pool, now: Instant) -> usize {
        let count = from.rx_burst(pool, &mut self.taken);
        self.frames_in += count as u64;
        for frame in self.taken.drain(..) {
            let send = |packet, pool: &mut Pool| self.model.send(packet, now, pool);
            self.uncut += cut(frame, self.link, pool, send);
        }
        count
    }

    /// Give what has arrived by `now` to the device at the end; returns how many packets went.
    fn hand_out(&mut self, to: &mut dyn Device, pool: &mut Pool, now: Instant) -> usize {
        let mut handed_out = 0;
        loop {
            while !self.arrived.is_full()
                && let Some((packet, at)) = self.model.receive(now, pool)
            {
                self.lateness.note(now.since(at));
                self.arrived.push(packet);
            }
            if self.arrived.is_empty() {
                return handed_out;
            }
            let waiting: usize = self.arrived.iter().map(|packet| packet.len()).sum();
            let count = to.tx_burst(pool, &mut self.arrived);
            let left: usize = self.arrived.iter().map(|packet| packet.len()).sum();
            self.bytes_out += (waiting - left) as u64;
            handed_out += count;
            if count == 0 {
                return handed_out;
            }
        }
    }
}

/// Two devices, and the link between them in both directions.
pub struct Bridge {
    ends: [Box<dyn Device>; 2],
    directions: [BridgeDirection; 2],
    pool: Pool,
}

impl Bridge {
    /// `settings` are those of the direction from the first end to the second, and back; the same
    /// `seed` gives the same results. Packets in queue and in flight take `memory_bytes` at most.
    ///
    /// # Errors
    /// The two carry different kinds of frames.
    pub fn new(
        ends: [Box<dyn Device>; 2],
        settings: [Settings; 2],
        seed: u64,
        memory_bytes: usize,
    ) -> Result<Bridge, Mismatch> {
        let [link, other] = [0, 1].map(|end: usize| ends[end].limits().link);
        if link != other {
            return Err(Mismatch([link, other]));
        }
        let [there, back] = settings;
        let directions = [
            BridgeDirection::new(there, link, seed),
            BridgeDirection::new(back, link, seed ^ OTHER_SEED),
        ];
        Ok(Bridge { ends, directions, pool: Pool::new(memory_bytes) })
    }

    /// Receive from both devices and deliver what has arrived, in both directions; returns the
    /// number of packets handled. `clock` is read before each of the four steps.
    pub fn turn(&mut self, mut clock: impl FnMut() -> Instant) -> usize {
        let Bridge { ends: [a, b], directions: [there, back], pool } = self;
        let mut done = there.take_in(a.as_mut(), pool, clock());
        done += back.take_in(b.as_mut(), pool, clock());
        done += there.hand_out(b.as_mut(), pool, clock());
        done += back.hand_out(a.as_mut(), pool, clock());
        if done == 0 {
            pool.flush();
        }
        done
    }

    /// When the next packet may arrive; devices announce received frames themselves.
    pub fn next_event(&self) -> Instant {
        self.directions[0].model.next_event().min(self.directions[1].model.next_event())
    }

    /// Did the device at this end, 0 or 1, push packets back? They wait until it has room.
    pub fn wants_room(&self, end: usize) -> bool {
        self.directions.get(1 - end.min(1)).is_some_and(|direction| !direction.arrived.is_empty())
    }

    /// The direction from the first end to the second, and back.
    pub fn directions(&self) -> &[BridgeDirection; 2] {
        &self.directions
    }

    /// The devices.
    pub fn ends(&self) -> &[Box<dyn Device>; 2] {
        &self.ends
    }

    /// The devices, to ask them for a wake-up.
    pub fn ends_mut(&mut self) -> &mut [Box<dyn Device>; 2] {
        &mut self.ends
    }

    /// Change the settings of a direction, 0 there and 1 back; packets in flight are not affected.
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
