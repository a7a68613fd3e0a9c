//! The transmit half of an interface: frames in its ring, frames on the wire, and when descriptors
//! are free again.
//!
//! Called by: `wire.rs`, `cable.rs`.

use std::collections::VecDeque;

use base::{Duration, Instant};
use mbuf::Mbuf;

use super::Config;

/// Preamble and start delimiter, before a frame (IEEE 802.3, 3.2.1).
pub(super) const PREAMBLE_BITS: u64 = 64;

/// The frame check sequence, after a frame.
const FCS_BITS: u64 = 32;

/// The interframe gap: 9.6 us at 10 Mb/s (IEEE 802.3, 4.4.2).
pub(super) const GAP_BITS: u64 = 96;

/// A time, and the bytes of the frame that arrives, or whose descriptor is free, at that time.
pub(super) type Ending = (Instant, u32);

/// How long this many bits take at this rate, in whole nanoseconds.
pub(super) fn span(bits: u64, rate_bps: u64) -> Duration {
    let ns = u128::from(bits) * 1_000_000_000 / u128::from(rate_bps.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// The time base of back-to-back frames: bits are counted from one start, so that rounding errors
/// do not add up.
#[derive(Clone, Copy, Debug)]
struct Pace {
    rate_bps: u64,
    from: Instant,
    bits: u64,
}

impl Pace {
    /// When the next frame may begin.
    fn free_at(&self) -> Instant {
        self.from + span(self.bits, self.rate_bps)
    }

    /// A frame of this many bytes begins. Returns the time at which its last bit is sent.
    fn send(&mut self, begin: Instant, bytes: u32) -> Instant {
        if begin > self.free_at() {
            (self.from, self.bits) = (begin, 0);
        }
        self.bits += PREAMBLE_BITS + u64::from(bytes) * 8 + FCS_BITS;
        let end = self.free_at();
        self.bits += GAP_BITS;
        end
    }
}

/// A frame in the ring, and the time when it was put there.
struct Offered {
    at: Instant,
    frame: Mbuf,
}

/// The transmit ring, and the frames on the wire.
pub(super) struct Transmitter {
    delay: Duration,
    service: Duration,
    ring: usize,
    waiting: VecDeque<Offered>,
    pace: Pace,
    /// No frame begins before this time, because the other end sends, or because there was a
    /// collision.
    holds_until: Instant,
    /// How many collisions the frame at the head of the ring has had.
    pub(super) collisions: u32,
    /// The descriptors of sent frames, each in use until its time.
    served: VecDeque<Ending>,
    /// Descriptors that became free since the last frame was offered.
    freed: VecDeque<Ending>,
    /// Frames on the wire, with the time of their arrival.
    pub(super) flying: VecDeque<(Instant, Mbuf)>,
}

impl Transmitter {
    pub(super) fn new(config: &Config) -> Transmitter {
        Transmitter {
            delay: config.delay,
            service: config.service,
            ring: config.tx_ring,
            waiting: VecDeque::new(),
            pace: Pace { rate_bps: config.rate_bps, from: Instant::ZERO, bits: 0 },
            holds_until: Instant::ZERO,
            collisions: 0,
            served: VecDeque::new(),
            freed: VecDeque::new(),
            flying: VecDeque::new(),
        }
    }

    /// The number of free descriptors.
    pub(super) fn room(&self) -> usize {
        self.ring.saturating_sub(self.waiting.len() + self.served.len())
    }

    /// Put a frame into the ring; the caller has checked that there is room.
    pub(super) fn offer(&mut self, frame: Mbuf, at: Instant) {
        self.freed.clear();
        self.waiting.push_back(Offered { at, frame });
    }

    /// When the next frame will begin, if there is one and if the other end does not send.
    pub(super) fn next_begin(&self) -> Option<Instant> {
        self.waiting.front().map(|head| self.earliest(&self.pace, head))
    }

    fn earliest(&self, pace: &Pace, offered: &Offered) -> Instant {
        pace.free_at().max(offered.at).max(self.holds_until)
    }

    /// Let the next frame begin, without a collision. Returns the time at which its last bit is
    /// sent.
    pub(super) fn send(&mut self, begin: Instant) -> Instant {
        self.collisions = 0;
        let Some(Offered { frame, .. }) = self.waiting.pop_front() else { return begin };
        let bytes = frame.len() as u32;
        let end = self.pace.send(begin, bytes);
        self.served.push_back((end + self.service, bytes));
        self.flying.push_back((end + self.delay, frame));
        end
    }

    /// Begin no frame before `until`.
    pub(super) fn hold(&mut self, until: Instant) {
        self.holds_until = self.holds_until.max(until);
    }

    /// Give up the next frame.
    pub(super) fn give_up(&mut self, at: Instant) {
        self.collisions = 0;
        if let Some(Offered { frame, .. }) = self.waiting.pop_front() {
            self.served.push_back((at + self.service, frame.len() as u32));
        }
    }

    /// Free the descriptors whose time has come.
    pub(super) fn serve(&mut self, now: Instant) {
        while let Some(ending) = self.served.pop_front_if(|(at, _)| *at <= now) {
            self.freed.push_back(ending);
        }
    }

    /// When each queued frame will have been sent, if the other end does not send in between.
    fn ends(&self) -> impl Iterator<Item = Ending> {
        let mut pace = self.pace;
        self.waiting.iter().map(move |offered| {
            let bytes = offered.frame.len() as u32;
            (pace.send(self.earliest(&pace, offered), bytes), bytes)
        })
    }

    /// Future arrivals at the other end, in order.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = Ending> {
        let flying = self.flying.iter().map(|(at, frame)| (*at, frame.len() as u32));
        flying.chain(self.ends().map(|(end, bytes)| (end + self.delay, bytes)))
    }

    /// The descriptors that were freed since the last frame was offered, and those that will be
    /// freed, in order of time.
    pub(super) fn room_made(&self) -> impl Iterator<Item = Ending> {
        let made = self.freed.iter().chain(&self.served).copied();
        made.chain(self.ends().map(|(end, bytes)| (end + self.service, bytes)))
    }

    /// How many free descriptors a waiting driver needs at most: it is woken while the other half
    /// of the ring keeps the wire busy.
    pub(super) fn half(&self) -> u32 {
        (self.ring as u32 / 2).max(1)
    }
}
