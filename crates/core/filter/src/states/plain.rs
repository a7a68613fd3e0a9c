//! The usual packet of a known flow, in one step: its record is found by a guess, judged and
//! counted without a second look at the index.
//!
//! Called by: the burst path (`firewall/quick.rs`). It may only refuse a packet, with nothing
//! changed, or do exactly what [`States::find`] and [`States::pass`] do. An estimate for IPv4: the
//! two lines of the record are read and written, and nothing else.

use core::net::{Ipv4Addr, Ipv6Addr};

use base::Instant;

use super::key::{Key, KeyV4, KeyV6};
use super::pass::{self, Pass, Transport};
use super::record::{Common, NONE, RecordV4, RecordV6, Slot, flag, is_v6};
use super::timeouts::Phase;
use super::wheel::tick_of;
use super::{Direction, StateId, States, Translation};
use wire::checksum::Sum;

/// The record that the index most likely has for a hash; most likely it is fetched already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess(Slot);

impl Guess {
    /// No record.
    pub const NONE: Guess = Guess(NONE);
}

/// What judging needs beside the key.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    /// What the packet is.
    pub transport: Transport<'a>,
    /// Its bytes with the IP header.
    pub len: u32,
    /// The time.
    pub now: Instant,
    /// The state must have been judged by these rules.
    pub generation: u32,
}

/// A packet that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedPlain {
    /// Its state.
    pub id: StateId,
    /// Its direction.
    pub direction: Direction,
    /// It leaves with another tuple.
    pub is_translated: bool,
    /// The rule of the state.
    pub rule: u16,
}

impl States {
    /// Fetch the record that the index has for this hash.
    #[inline(always)]
    #[must_use]
    pub fn guess(&self, hash: u64) -> Guess {
        match self.index.candidate(hash) {
            Some(entry) => {
                self.records.prefetch(entry.slot());
                Guess(entry.slot())
            }
            None => Guess::NONE,
        }
    }

    /// Pass an IPv4 packet, if `accepts` the destination that it leaves with. `None`, with nothing
    /// changed, if it is no packet of a state of these rules, or does not pass.
    #[inline(always)]
    pub fn pass_v4(
        &mut self,
        key: &KeyV4,
        Guess(guess): Guess,
        packet: &Plain<'_>,
        accepts: impl FnOnce(Ipv4Addr) -> bool,
    ) -> Option<PassedPlain> {
        let found = if is_v6(guess) { None } else { self.records.v4.get_mut(guess >> 1) };
        let (slot, record, direction) = match found.and_then(|r| Some((r.direction(key)?, r))) {
            Some((direction, record)) => (guess, record, direction),
            None => {
                let (slot, direction) = self.search_v4(*key)?;
                (slot, self.records.v4.get_mut(slot >> 1)?, direction)
            }
        };
        if !accepts(record.dst(direction)) {
            return None;
        }
        let (passed, before) = judged(&mut record.common, slot, direction, packet)?;
        let phase = record.common.phase;
        if phase != before {
            self.changed(slot, before);
        }
        Some(passed)
    }

    /// The same for an IPv6 packet.
    #[inline(always)]
    pub fn pass_v6(
        &mut self,
        key: &KeyV6,
        Guess(guess): Guess,
        packet: &Plain<'_>,
        accepts: impl FnOnce(Ipv6Addr) -> bool,
    ) -> Option<PassedPlain> {
        let found = if is_v6(guess) { self.records.v6.get_mut(guess >> 1) } else { None };
        let (slot, record, direction) = match found.and_then(|r| Some((r.direction(key)?, r))) {
            Some((direction, record)) => (guess, record, direction),
            None => {
                let (slot, direction) = self.search_v6(*key)?;
                (slot, self.records.v6.get_mut(slot >> 1)?, direction)
            }
        };
        if !accepts(record.dst(direction)) {
            return None;
        }
        let (passed, before) = judged(&mut record.common, slot, direction, packet)?;
        let phase = record.common.phase;
        if phase != before {
            self.changed(slot, before);
        }
        Some(passed)
    }

    /// The guess was wrong: another flow has the same tag.
    #[cold]
    #[inline(never)]
    fn search_v4(&self, key: KeyV4) -> Option<(Slot, Direction)> {
        self.find(&Key::V4(key)).map(|(id, direction)| (id.slot, direction))
    }

    #[cold]
    #[inline(never)]
    fn search_v6(&self, key: KeyV6) -> Option<(Slot, Direction)> {
        self.find(&Key::V6(key)).map(|(id, direction)| (id.slot, direction))
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

/// Judge a packet of the record at `slot`; returns the phase before as well.
#[inline(always)]
fn judged(
    common: &mut Common,
    slot: Slot,
    direction: Direction,
    packet: &Plain<'_>,
) -> Option<(PassedPlain, Phase)> {
    if !common.has(flag::LIVE) || common.generation != packet.generation {
        return None;
    }
    let before = common.phase;
    let tick = tick_of(packet.now);
    if pass::judge(common, direction, packet.transport, packet.len, tick) != Ok(Pass::Known) {
        return None;
    }
    let passed = PassedPlain {
        id: StateId { slot, life: common.life },
        direction,
        is_translated: common.has(flag::TRANSLATED),
        rule: common.rule,
    };
    Some((passed, before))
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
