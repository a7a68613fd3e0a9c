//! The usual packet of a known flow, in one step: its record is found by a guess, judged and
//! counted without a second look at the index.
//!
//! Called by: the burst path (`firewall/quick.rs`). It may only refuse a packet, with nothing
//! changed, or do exactly what [`States::find`] and [`States::pass`] do. An estimate for IPv4: the
//! two lines of the record are read and written, and nothing else.

use core::net::{Ipv4Addr, Ipv6Addr};

use base::Instant;
use wire::checksum::Sum;
use wire::protocol::TCP;
use wire::{ipv4, ipv6};

use super::index;
use super::key::{Key, KeyV4, KeyV6};
use super::parse::{key_v4, key_v6};
use super::pass::{self, Pass, Transport};
use super::record::{Common, NONE, RecordV4, RecordV6, Slot, flag, is_v6};
use super::segment::{Segment, Usual};
use super::tcp;
use super::timeouts::Phase;
use super::wheel::tick_of;
use super::{Direction, StateId, States, Translation};

/// The record that the index most likely has for a hash; most likely it is fetched already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess(Slot);

impl Guess {
    /// No record.
    pub const NONE: Guess = Guess(NONE);
}

/// Where the index has a hash, most likely.
#[derive(Clone, Copy)]
pub struct FirstBucket<'a>(&'a index::Bucket);

/// What all packets of a burst are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The time.
    pub now: Instant,
    /// The states must have been judged by these rules.
    pub generation: u32,
}

/// A packet of a known flow, by its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    slot: Slot,
    life: u8,
    direction: Direction,
    /// Its packets leave with another tuple.
    pub is_translated: bool,
}

const _: () = assert!(size_of::<Flow>() == 8);

impl Flow {
    /// A packet of this state in this direction.
    #[must_use]
    pub fn new(StateId { slot, life }: StateId, direction: Direction, is_translated: bool) -> Flow {
        Flow { slot, life, direction, is_translated }
    }

    /// Its state.
    #[inline(always)]
    #[must_use]
    pub fn id(&self) -> StateId {
        StateId { slot: self.slot, life: self.life }
    }

    /// Its direction.
    #[inline(always)]
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.direction
    }
}

/// A packet that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedPlain {
    /// Its flow.
    pub flow: Flow,
    /// The rule of the state.
    pub rule: u16,
}

impl States {
    /// Where the index has this hash, most likely; the line is fetched.
    #[inline(always)]
    #[must_use]
    pub fn first_bucket(&self, hash: u64) -> FirstBucket<'_> {
        let bucket = self.index.first(hash);
        mbuf::prefetch(bucket);
        FirstBucket(bucket)
    }

    /// Fetch the record that the index has for this hash, whose place is `place`.
    #[inline(always)]
    #[must_use]
    pub fn guess(&self, hash: u64, FirstBucket(bucket): FirstBucket<'_>) -> Guess {
        match self.index.candidate(hash, bucket) {
            Some(entry) => {
                self.records.prefetch(entry.slot());
                Guess(entry.slot())
            }
            None => Guess::NONE,
        }
    }

    /// Pass an IPv4 packet without padding that [`super::plain_v4`] has found plain, if `accepts`
    /// the destination that it leaves with. `None`, with nothing changed, if it is no packet of a
    /// state of these rules, or does not pass.
    #[inline(always)]
    pub fn pass_v4(
        &mut self,
        packet: &[u8],
        Guess(guess): Guess,
        terms: Terms,
        accepts: impl FnOnce(Ipv4Addr) -> bool,
    ) -> Option<PassedPlain> {
        let key = key_v4(packet.first_chunk()?);
        let found = if is_v6(guess) { None } else { self.records.v4.get_mut(guess >> 1) };
        let (slot, record, direction) = match found.and_then(|r| Some((r.direction(&key)?, r))) {
            Some((direction, record)) => (guess, record, direction),
            None => {
                let (slot, direction) = self.search_v4(packet)?;
                (slot, self.records.v4.get_mut(slot >> 1)?, direction)
            }
        };
        if !accepts(record.dst(direction)) {
            return None;
        }
        let bytes = packet.get(ipv4::HEADER_LEN..)?;
        match usual(&mut record.common, direction, (bytes, packet.len()), terms) {
            Outcome::Passes => Some(passed(&record.common, slot, direction)),
            Outcome::Fails => None,
            Outcome::Unusual => self.pass_unusual((slot, direction), (bytes, packet.len()), terms),
        }
    }

    /// The same for an IPv6 packet that [`super::plain_v6`] has found plain.
    #[inline(always)]
    pub fn pass_v6(
        &mut self,
        packet: &[u8],
        Guess(guess): Guess,
        terms: Terms,
        accepts: impl FnOnce(Ipv6Addr) -> bool,
    ) -> Option<PassedPlain> {
        let key = key_v6(packet.first_chunk()?);
        let found = if is_v6(guess) { self.records.v6.get_mut(guess >> 1) } else { None };
        let (slot, record, direction) = match found.and_then(|r| Some((r.direction(&key)?, r))) {
            Some((direction, record)) => (guess, record, direction),
            None => {
                let (slot, direction) = self.search_v6(packet)?;
                (slot, self.records.v6.get_mut(slot >> 1)?, direction)
            }
        };
        if !accepts(record.dst(direction)) {
            return None;
        }
        let bytes = packet.get(ipv6::HEADER_LEN..)?;
        match usual(&mut record.common, direction, (bytes, packet.len()), terms) {
            Outcome::Passes => Some(passed(&record.common, slot, direction)),
            Outcome::Fails => None,
            Outcome::Unusual => self.pass_unusual((slot, direction), (bytes, packet.len()), terms),
        }
    }

    /// The guess was wrong: another flow has the same tag.
    #[cold]
    #[inline(never)]
    fn search_v4(&self, packet: &[u8]) -> Option<(Slot, Direction)> {
        let key = Key::V4(key_v4(packet.first_chunk()?));
        self.find(&key).map(|(id, direction)| (id.slot, direction))
    }

    #[cold]
    #[inline(never)]
    fn search_v6(&self, packet: &[u8]) -> Option<(Slot, Direction)> {
        let key = Key::V6(key_v6(packet.first_chunk()?));
        self.find(&key).map(|(id, direction)| (id.slot, direction))
    }

    /// Pass any packet of the record at `slot` by its transport header and data, and its length.
    #[cold]
    #[inline(never)]
    fn pass_unusual(
        &mut self,
        (slot, direction): (Slot, Direction),
        (bytes, len): (&[u8], usize),
        terms: Terms,
    ) -> Option<PassedPlain> {
        let common = self.records.get_mut(slot)?;
        let segment;
        let transport = if common.protocol == TCP {
            segment = Segment::parse(bytes, bytes.len() as u32).ok()?;
            Transport::Tcp(&segment)
        } else {
            Transport::Other
        };
        let (before, tick) = (common.phase, tick_of(terms.now));
        if pass::judge(common, direction, transport, len as u32, tick) != Ok(Pass::Known) {
            return None;
        }
        let passed = passed(common, slot, direction);
        if common.phase != before {
            self.changed(slot, before);
        }
        Some(passed)
    }

    /// [`States::translation`] of a state of IPv4, without a detour by the version.
    #[inline(always)]
    #[must_use]
    pub fn translation_v4(&self, id: StateId, direction: Direction) -> Option<(KeyV4, [Sum; 2])> {
        let record = self.records.v4.get(id.slot >> 1).filter(|_| !is_v6(id.slot))?;
        let sums = record.common.translation(id, direction)?;
        Some((record.key(direction as usize ^ 1).reversed(), sums))
    }

    /// What NAT does to a packet of a state; `None` if nothing.
    #[inline]
    #[must_use]
    pub fn translation(&self, id: StateId, direction: Direction) -> Option<Translation> {
        let [ip, transport] = self.records.get(id.slot)?.translation(id, direction)?;
        let key: Key = self.records.key(id.slot, direction.reversed() as usize).reversed();
        Some(Translation { key, ip, transport })
    }
}

impl Common {
    /// What a translated packet adds to its sums.
    #[inline(always)]
    fn translation(&self, id: StateId, direction: Direction) -> Option<[Sum; 2]> {
        const BOTH: u16 = flag::LIVE | flag::TRANSLATED;
        // The sums of the reply direction are the negative ones, which are the complements.
        let sign = if direction == Direction::Reply { u16::MAX } else { 0 };
        let is_meant = self.flags & BOTH == BOTH && self.life == id.life;
        is_meant.then(|| self.sums.map(|sum| Sum(sum ^ sign)))
    }
}

/// What becomes of a packet of a state.
enum Outcome {
    /// It was counted.
    Passes,
    /// It does not pass as a packet of the state.
    Fails,
    /// It takes more to judge it.
    Unusual,
}

/// Judge a packet, by its transport header and data and its length, that changes nothing but
/// windows and counters: a segment of an established connection, or a datagram of a flow that goes
/// on. Nothing has changed with any other packet.
#[inline(always)]
fn usual(
    common: &mut Common,
    direction: Direction,
    (bytes, len): (&[u8], usize),
    terms: Terms,
) -> Outcome {
    let from = direction as usize;
    if !common.has(flag::LIVE) || common.generation != terms.generation {
        return Outcome::Fails;
    }
    if common.protocol == TCP {
        let Some(segment) = Usual::of(bytes) else { return Outcome::Unusual };
        if common.phase != Phase::TcpEstablished || common.has(flag::LOOSE) {
            return Outcome::Unusual;
        }
        if tcp::usual(common, from, &segment).is_err() {
            return Outcome::Fails;
        }
    } else if !is_whole_udp(bytes) {
        return Outcome::Fails;
    } else if direction == Direction::Reply && common.phase != common.phase.replied() {
        return Outcome::Unusual;
    }
    common.count(from, len as u32, tick_of(terms.now));
    Outcome::Passes
}

#[inline(always)]
fn passed(common: &Common, slot: Slot, direction: Direction) -> PassedPlain {
    let is_translated = common.has(flag::TRANSLATED);
    let flow = Flow { slot, life: common.life, direction, is_translated };
    PassedPlain { flow, rule: common.rule }
}

const UDP_HEADER_LEN: usize = 8;

/// Is the length of a UDP datagram one that the packet has room for? Others take the long way.
#[must_use]
#[inline(always)]
pub fn is_whole_udp(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<UDP_HEADER_LEN>() else { return false };
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    UDP_HEADER_LEN <= len && len <= bytes.len()
}

impl RecordV4 {
    /// The direction of a packet with this key, if it is one of the flow.
    #[inline(always)]
    pub(super) fn direction(&self, key: &KeyV4) -> Option<Direction> {
        if self.key(0) == *key {
            Some(Direction::Original)
        } else {
            (self.key(1) == *key).then_some(Direction::Reply)
        }
    }

    /// The destination that a packet leaves with: the source of the answers to it.
    #[inline(always)]
    fn dst(&self, direction: Direction) -> Ipv4Addr {
        let [a, b, c, d, ..] = self.addrs[direction as usize ^ 1].to_ne_bytes();
        Ipv4Addr::new(a, b, c, d)
    }
}

impl RecordV6 {
    #[inline(always)]
    pub(super) fn direction(&self, key: &KeyV6) -> Option<Direction> {
        if self.key(0) == *key {
            Some(Direction::Original)
        } else {
            (self.key(1) == *key).then_some(Direction::Reply)
        }
    }

    #[inline(always)]
    fn dst(&self, direction: Direction) -> Ipv6Addr {
        let [a, b, ..] = self.addrs[direction as usize ^ 1];
        super::key::addr_v6(a, b)
    }
}
