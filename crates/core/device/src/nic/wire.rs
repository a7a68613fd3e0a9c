//! A link and the rings at its ends, computed up to the caller's time.
//!
//! Called by: `nic.rs`, under the link's lock. Counters: [`Counts`] for each end.
//!
//! `serve` begins every transmission, delivers every frame and frees every descriptor whose time
//! has come, each at its own time. `news_at` predicts the next event without changing anything.

use std::collections::VecDeque;

use base::{Duration, Instant};
use mbuf::Mbuf;

use super::cable::Cable;
use super::counts::Counts;
use super::transmit::{Ending, Transmitter};
use super::{Config, Duplex};
use crate::mitigation::Threshold;

/// The receive half of an interface.
struct Receiver {
    ring: VecDeque<(Instant, Mbuf)>,
    depth: usize,
    threshold: Threshold,
    /// The receiver's driver sleeps until this time; [`Instant::ZERO`] if the driver is awake.
    sleeps_until: Instant,
    wants_room: bool,
    is_gone: bool,
}

/// Both ends and the link between them.
pub(super) struct Wire {
    transmitters: [Transmitter; 2],
    receivers: [Receiver; 2],
    /// The shared cable in half duplex.
    cable: Option<Cable>,
    counts: [Counts; 2],
}

impl Wire {
    pub(super) fn new(config: &Config) -> Wire {
        let receiver = || Receiver {
            ring: VecDeque::new(),
            depth: config.rx_ring,
            threshold: Threshold::EACH,
            sleeps_until: Instant::ZERO,
            wants_room: false,
            is_gone: false,
        };
        Wire {
            transmitters: [Transmitter::new(config), Transmitter::new(config)],
            receivers: [receiver(), receiver()],
            cable: match config.duplex {
                Duplex::Full => None,
                Duplex::Half { seed } => Some(Cable::new(config, seed)),
            },
            counts: [Counts::default(); 2],
        }
    }

    /// Compute everything that has happened by `now`.
    pub(super) fn serve(&mut self, now: Instant) {
        match &mut self.cable {
            Some(cable) => cable.serve(&mut self.transmitters, &mut self.counts, now),
            None => {
                for transmitter in &mut self.transmitters {
                    while let Some(begin) = transmitter.next_begin()
                        && begin <= now
                    {
                        transmitter.send(begin);
                    }
                }
            }
        }
        for side in 0..2 {
            self.transmitters[side].serve(now);
            while let Some(arrived) =
                self.transmitters[side].flying.pop_front_if(|(at, _)| *at <= now)
            {
                self.deliver(side, arrived);
            }
        }
    }

    /// Let a frame that `side` has sent reach the other end.
    fn deliver(&mut self, side: usize, (at, frame): (Instant, Mbuf)) {
        let bytes = frame.len() as u64;
        self.counts[side].tx_frames += 1;
        self.counts[side].tx_bytes += bytes;
        let (receiver, counts) = (&mut self.receivers[1 - side], &mut self.counts[1 - side]);
        if receiver.is_gone {
            return;
        }
        if receiver.ring.len() >= receiver.depth {
            counts.rx_ring_full += 1;
            return;
        }
        counts.rx_frames += 1;
        counts.rx_bytes += bytes;
        receiver.ring.push_back((at, frame));
    }

    /// The next frame that has arrived at `side`.
    pub(super) fn receive(&mut self, side: usize) -> Option<Mbuf> {
        let receiver = &mut self.receivers[side];
        // The driver is awake.
        receiver.sleeps_until = Instant::ZERO;
        receiver.ring.pop_front().map(|(_, frame)| frame)
    }

    /// Frames in the receive ring of `side`.
    pub(super) fn received(&self, side: usize) -> usize {
        self.receivers[side].ring.len()
    }

    /// Is anything received, or on its way to `side`?
    pub(super) fn has_more(&self, side: usize) -> bool {
        self.received(side) > 0 || self.transmitters[1 - side].arrivals().next().is_some()
    }

    /// Free descriptors in the transmit ring of `side`.
    pub(super) fn room(&self, side: usize) -> usize {
        self.transmitters[side].room()
    }

    /// Put a frame on the transmit ring of `side`, which must have room.
    pub(super) fn offer(&mut self, side: usize, frame: Mbuf, now: Instant) {
        self.transmitters[side].offer(frame, now);
    }

    /// Set whether the driver of `side` waits for room.
    pub(super) fn wants_room(&mut self, side: usize, wants: bool) {
        self.receivers[side].wants_room = wants;
    }

    pub(super) fn set_threshold(&mut self, side: usize, threshold: Threshold) {
        self.receivers[side].threshold = threshold;
    }

    /// The driver of `side` goes to sleep. Returns the time until which it can sleep, as far as is
    /// known now. A driver that coalesces polls again after its level's time.
    pub(super) fn sleep(&mut self, side: usize, now: Instant) -> Instant {
        let threshold = self.receivers[side].threshold;
        let looks =
            if threshold == Threshold::EACH { Instant::NEVER } else { now + threshold.within };
        let at = self.news_at(side).min(looks);
        self.receivers[side].sleeps_until = at;
        at
    }

    /// Must the sleeping driver of `side` be woken earlier because of frames offered since?
    pub(super) fn has_news_sooner(&self, side: usize) -> bool {
        let until = self.receivers[side].sleeps_until;
        until > Instant::ZERO && self.news_at(side) < until
    }

    /// When the driver of `side` will have enough frames, or enough room if it waits for that.
    fn news_at(&self, side: usize) -> Instant {
        let receiver = &self.receivers[side];
        let ring = receiver.ring.iter().map(|(at, frame)| (*at, frame.len() as u32));
        let frames = ring.chain(self.transmitters[1 - side].arrivals());
        let received = gathered(frames, receiver.threshold);
        if !receiver.wants_room {
            return received;
        }
        // The other half of the ring keeps the wire busy, so bytes and time do not matter.
        let transmitter = &self.transmitters[side];
        let frames = receiver.threshold.frames.min(transmitter.half());
        let enough = Threshold { frames, bytes: u32::MAX, within: Duration::MAX };
        received.min(gathered(transmitter.room_made(), enough))
    }

    /// Note that the end `side` was dropped.
    pub(super) fn leave(&mut self, side: usize) {
        self.receivers[side].is_gone = true;
        self.receivers[side].ring.clear();
    }

    pub(super) fn is_gone(&self, side: usize) -> bool {
        self.receivers[side].is_gone
    }

    pub(super) fn counts(&self, side: usize) -> Counts {
        self.counts[side]
    }
}

/// When `endings`, which are in order of time, reach the threshold.
fn gathered(endings: impl Iterator<Item = Ending>, threshold: Threshold) -> Instant {
    let (mut frames, mut bytes) = (0, 0);
    let mut latest = Instant::NEVER;
    for (at, len) in endings {
        latest = latest.min(at + threshold.within);
        frames += 1;
        bytes += u64::from(len);
        if frames >= threshold.frames || bytes >= u64::from(threshold.bytes) {
            return latest.min(at);
        }
        if at >= latest {
            break;
        }
    }
    latest
}
