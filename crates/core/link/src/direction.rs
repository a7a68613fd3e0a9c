//! One direction of a link: packets queue, are transmitted one after the other, and propagate.
//!
//! Called by: `sim` and `bridge`. Counters: [`Counts`].
//!
//! Results do not depend on how often the caller polls: `serve` starts each transmission where the
//! last one ended. Packets in flight are in two queues ordered by arrival, one of late packets and
//! one of all others; the next arrival is the earlier of their heads.

use std::collections::VecDeque;

use base::{Duration, Instant, LinkKind};
use device::fault::Rng;
use mbuf::{Flags, Mbuf, Pool};

use crate::codel::CoDel;
use crate::loss::Losses;
use crate::mark::mark;
use crate::{Aqm, Settings};

/// The mark ([`Mbuf::mark`]) of a packet with a flipped bit, for observers of arrivals.
pub const CORRUPTED: u32 = 0xbad;

/// Maximum packets in flight, for any delay and rate.
const FLYING_MAX: usize = 1 << 20;

/// Maximum lost packets that are kept for an observer.
const LOST_KEPT: usize = 1 << 12;

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The queue was full.
    QueueFull,
    /// CoDel dropped it from the head of the queue.
    CoDel,
    /// The packet was longer than the link's MTU.
    TooLong,
    /// There was an outage.
    Outage,
    /// Random loss, after the queue.
    Loss,
    /// Too many packets were in flight, or there was no memory for a copy.
    Overfull,
}

/// The counters of one direction, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that entered the link.
    pub sent: u64,
    /// Packets that arrived, duplicates included.
    pub arrived: u64,
    /// Lost because the queue was full.
    pub queue_full: u64,
    /// Packets that CoDel dropped.
    pub codel: u64,
    /// Packets that CoDel marked instead of dropping them.
    pub marked: u64,
    /// Lost because they were longer than the MTU.
    pub too_long: u64,
    /// Packets lost in an outage.
    pub cut: u64,
    /// Packets lost at random, after the queue.
    pub lost: u64,
    /// Lost because too many packets were in flight, or there was no memory for a copy.
    pub overfull: u64,
    /// Delivered late.
    pub late: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered with a flipped bit.
    pub corrupted: u64,
    /// The greatest length of the queue, in bytes.
    pub queue_bytes_max: usize,
}

/// A packet that did not arrive, for an observer.
#[derive(Debug)]
pub struct Lost {
    /// When it was lost.
    pub at: Instant,
    /// Why the packet was lost.
    pub why: Why,
    /// The lost packet.
    pub frame: Mbuf,
}

struct Timed {
    at: Instant,
    frame: Mbuf,
}

/// Packets in flight, in order of arrival.
#[derive(Default)]
struct Queue {
    packets: VecDeque<Timed>,
    /// When the last packet arrives or has arrived, also if it was already taken out.
    last: Instant,
}

impl Queue {
    /// Add a packet that arrives after all others of the queue: neither jitter nor changed settings
    /// reorder packets. Packets already taken out count too, or the result would depend on how
    /// often the caller polls.
    fn push(&mut self, frame: Mbuf, at: Instant) {
        self.last = self.last.max(at);
        self.packets.push_back(Timed { at: self.last, frame });
    }

    fn head(&self) -> Instant {
        self.packets.front().map_or(Instant::NEVER, |packet| packet.at)
    }
}

/// One direction of a link.
pub struct Direction {
    settings: Settings,
    rng: Rng,
    waiting: VecDeque<Timed>,
    waiting_bytes: usize,
    /// When the transmitter has finished its last packet.
    free_at: Instant,
    /// The fraction of a nanosecond left over by the last transmission, in units of 1 / rate.
    remainder: u64,
    flying: Queue,
    late: Queue,
    losses: Losses,
    codel: CoDel,
    counts: Counts,
    watched: bool,
    lost: VecDeque<Lost>,
}

impl Direction {
    /// Make a direction without packets; the same seed gives the same results.
    pub fn new(settings: Settings, seed: u64) -> Direction {
        Direction {
            settings,
            rng: Rng::new(seed),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Instant::ZERO,
            remainder: 0,
            flying: Queue::default(),
            late: Queue::default(),
            losses: Losses::default(),
            codel: CoDel::default(),
            counts: Counts::default(),
            watched: false,
            lost: VecDeque::new(),
        }
    }

    /// The settings of this direction.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Change the settings; packets in flight are not affected. The link kind stays as it was,
    /// since the bytes of queued packets were counted without its header.
    pub fn set_settings(&mut self, settings: Settings, now: Instant, pool: &mut Pool) {
        self.serve(now, pool);
        self.settings = Settings { link: self.settings.link, ..settings };
    }

    /// From now on, keep lost packets for [`Direction::next_lost`], up to 4,096 of them.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// The next lost packet, oldest first, if lost packets are kept.
    pub fn next_lost(&mut self) -> Option<Lost> {
        self.lost.pop_front()
    }

    /// The values of the counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Packets in the queue and in flight.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.in_flight()
    }

    /// Is a packet queued, or in transmission at time `now`?
    pub fn is_sending(&self, now: Instant) -> bool {
        !self.waiting.is_empty() || self.free_at > now
    }

    /// When the transmitter ends, or ended, the last transmission that it has begun.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    fn in_flight(&self) -> usize {
        self.flying.packets.len() + self.late.packets.len()
    }

    /// Is nothing queued and nothing in flight?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A packet enters the link at `now`, which never decreases.
    pub fn send(&mut self, frame: Mbuf, now: Instant, pool: &mut Pool) {
        self.serve(now, pool);
        self.counts.sent += 1;
        let bytes = self.bytes(&frame);
        if self.settings.is_out(now) {
            return self.lose(frame, Why::Outage, now, pool);
        }
        if bytes > self.settings.mtu.bytes() {
            return self.lose(frame, Why::TooLong, now, pool);
        }
        let is_full = self.waiting_bytes + bytes > self.settings.queue_bytes;
        if is_full && !self.waiting.is_empty() {
            return self.lose(frame, Why::QueueFull, now, pool);
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(Timed { at: now, frame });
        self.serve(now, pool);
        self.counts.queue_bytes_max = self.counts.queue_bytes_max.max(self.waiting_bytes);
    }

    /// When to call [`Direction::receive`] next; that call may return nothing.
    #[inline]
    pub fn next_event(&self) -> Instant {
        let arrival = self.flying.head().min(self.late.head());
        // A queued packet cannot arrive before the packets in flight, so it matters only if none is
        // in flight.
        match self.waiting.front() {
            Some(waits) if self.flying.packets.is_empty() => {
                arrival.min(self.free_at.max(waits.at))
            }
            _ => arrival,
        }
    }

    /// The next packet that has arrived by `now`, and its arrival time; call this until it returns
    /// `None`.
    pub fn receive(&mut self, now: Instant, pool: &mut Pool) -> Option<(Mbuf, Instant)> {
        // Serve first: a packet that is still queued may arrive before a late one.
        self.serve(now, pool);
        let arrived = self.arrival(now)?;
        self.counts.arrived += 1;
        Some((arrived.frame, arrived.at))
    }

    fn arrival(&mut self, now: Instant) -> Option<Timed> {
        let is_late = self.late.head() < self.flying.head();
        let queue = if is_late { &mut self.late } else { &mut self.flying };
        queue.packets.pop_front_if(|packet| packet.at <= now)
    }

    /// Begin every transmission that is due by `now`.
    fn serve(&mut self, now: Instant, pool: &mut Pool) {
        while let Some(head) = self.waiting.front() {
            let begin = self.free_at.max(head.at);
            if begin > now {
                break;
            }
            let sojourn = begin.since(head.at);
            let Some(Timed { mut frame, .. }) = self.waiting.pop_front() else { break };
            let bytes = self.bytes(&frame);
            self.waiting_bytes -= bytes;
            if let Aqm::CoDel { target, interval, ecn } = self.settings.aqm
                && self.codel.drops((target, interval), sojourn, self.waiting_bytes, begin)
            {
                if !ecn || !mark(&mut frame, self.settings.link, pool) {
                    self.lose(frame, Why::CoDel, begin, pool);
                    continue;
                }
                self.counts.marked += 1;
            }
            if begin > self.free_at {
                self.remainder = 0;
            }
            self.free_at = begin + self.transmission(bytes);
            self.fly(frame, self.free_at, pool);
        }
    }

    /// The transmission time of `bytes` bytes; rounding errors do not accumulate.
    fn transmission(&mut self, bytes: usize) -> Duration {
        let Some(rate) = self.settings.rate_bps.filter(|&rate| rate > 0) else {
            return Duration::ZERO;
        };
        // 65,535 bytes give 5.2e14 here, which is far below 2^64. The remainder is less than the
        // rate, which may be any number.
        let ns_by_rate = (bytes as u64 * 8_000_000_000).saturating_add(self.remainder.min(rate));
        self.remainder = ns_by_rate % rate;
        Duration::from_nanos(ns_by_rate / rate)
    }

    /// The transmission of a packet ends at `at`: apply loss, corruption, lateness and duplication
    /// to it.
    fn fly(&mut self, mut frame: Mbuf, at: Instant, pool: &mut Pool) {
        if !self.settings.outages.is_empty() && self.settings.is_out(at) {
            return self.lose(frame, Why::Outage, at, pool);
        }
        if self.in_flight() >= FLYING_MAX {
            return self.lose(frame, Why::Overfull, at, pool);
        }
        let jitter = self.rng_below(self.settings.jitter);
        let mut arrival = at + self.settings.delay + jitter;
        if self.bytes(&frame) <= self.settings.exempt_bytes {
            return self.flying.push(frame, arrival);
        }
        if self.losses.takes(self.settings.loss, &mut self.rng) {
            return self.lose(frame, Why::Loss, at, pool);
        }
        let corrupt = self.settings.corrupt > 0.0 && self.rng.happens(self.settings.corrupt);
        if corrupt && !self.is_arp(&frame) {
            let flipped = self.flipped(&frame, pool);
            let whole = core::mem::replace(
                &mut frame,
                match flipped {
                    Some(flipped) => flipped,
                    None => return self.lose(frame, Why::Overfull, at, pool),
                },
            );
            pool.free(whole);
            self.counts.corrupted += 1;
        }
        let is_late = self.settings.late > 0.0 && self.rng.happens(self.settings.late);
        if is_late {
            arrival += self.settings.late_by;
            self.counts.late += 1;
        }
        let twice = self.settings.duplicate > 0.0 && self.rng.happens(self.settings.duplicate);
        let copy = if twice { pool.copy_of(frame.as_slice()) } else { None };
        self.counts.duplicated += u64::from(copy.is_some());
        let queue = if is_late { &mut self.late } else { &mut self.flying };
        if let Some(mut copy) = copy {
            copy.set_mark(frame.mark());
            queue.push(copy, arrival);
        }
        queue.push(frame, arrival);
    }

    /// A copy of the frame in which one bit after the link header is flipped. The sender's own
    /// bytes do not change.
    fn flipped(&mut self, frame: &Mbuf, pool: &mut Pool) -> Option<Mbuf> {
        let mut copy = pool.copy_of(frame.as_slice())?;
        let header = self.settings.link.header_len();
        let bit = self.rng.below(copy.len().saturating_sub(header) * 8);
        if let Some(byte) = copy.as_mut_slice().and_then(|b| b.get_mut(header + bit / 8)) {
            *byte ^= 1 << (bit % 8);
        }
        copy.clear(Flags::CSUM_VERIFIED | Flags::CSUM_PARTIAL);
        copy.set_mark(CORRUPTED);
        Some(copy)
    }

    /// Is it an ARP packet? ARP has no checksum, so a receiver could not detect a flipped bit.
    fn is_arp(&self, frame: &Mbuf) -> bool {
        self.settings.link == LinkKind::Ethernet
            && frame.as_slice().get(12..14) == Some(&[0x08, 0x06])
    }

    fn rng_below(&mut self, most: Duration) -> Duration {
        if most == Duration::ZERO {
            return most;
        }
        Duration::from_nanos(self.rng.below((most.as_nanos() as usize).saturating_add(1)) as u64)
    }

    /// The length without the link header, which takes no transmission time in this model.
    #[inline(always)]
    fn bytes(&self, frame: &Mbuf) -> usize {
        frame.len().saturating_sub(self.settings.link.header_len())
    }

    fn lose(&mut self, frame: Mbuf, why: Why, at: Instant, pool: &mut Pool) {
        let counter = match why {
            Why::QueueFull => &mut self.counts.queue_full,
            Why::CoDel => &mut self.counts.codel,
            Why::TooLong => &mut self.counts.too_long,
            Why::Outage => &mut self.counts.cut,
            Why::Loss => &mut self.counts.lost,
            Why::Overfull => &mut self.counts.overfull,
        };
        *counter += 1;
        if self.watched && self.lost.len() < LOST_KEPT {
            self.lost.push_back(Lost { at, why, frame });
        } else {
            pool.free(frame);
        }
    }
}
