//! The table of states: one for each flow and shard, for both of its directions.
//!
//! Called by: the stack, for every packet that is to be filtered. It knows no rules and no policy
//! of NAT: a state has the tuple of its first packet as it arrived and the tuple of answers as they
//! arrive. Without NAT one is the reverse of the other, and the index has the state once, because
//! its hash is symmetric; with NAT it is in the index twice. RFC 4787, 5382, 5508, 7857. Counters:
//! `filter_no_state`, `filter_window`, `filter_tcp_state`, `filter_state_limit`,
//! `filter_source_limit`, `filter_rate`, `filter_fragment`.
//!
//! A burst is looked up in three steps, so that lines are fetched together:
//! [`States::first_bucket`] for each hash, [`States::guess`] for each, [`States::pass_v4`] for
//! each.

mod advance;
mod copied;
mod copies;
mod copying;
mod events;
mod fragments;
mod imports;
mod index;
mod insert;
mod key;
mod parse;
mod pass;
mod plain;
mod record;
mod reports;
mod segment;
mod sources;
mod tcp;
mod timeouts;
mod walk;
mod wheel;

use base::{Budget, Instant, Limit};
use wire::checksum::Sum;

pub use copied::{Copied, CopiedMapping, CopiedSide, CopiedTcp, Imported, NotImported};
pub use copies::Which;
pub use events::{Event, Reported, State, Wanted, What, Why};
pub use fragments::{Datagram, FirstFragment, Fragments, Later, Verdict};
pub use insert::{NewState, SourceLimits};
pub use key::{Key, KeyHash, KeyV4, KeyV6};
pub use parse::{Kind, Parsed, Piece, key_v4, key_v6, parse, plain_v4, plain_v6};
pub use pass::{Pass, Transport};
pub use plain::{FirstBucket, Flow, Guess, PassedPlain, Terms, is_whole_udp};
pub use segment::Segment;
pub use sources::Rate;
pub use timeouts::{Phase, Timeouts};
pub use walk::Cursor;

pub(crate) use copies::Change;
pub(crate) use imports::Admitted;
pub(crate) use wheel::next_tick;

use copies::Copies;
use events::Events;
use index::{Entry, Index};
use record::{Common, List, Records, Slot, flag, is_v6};
use reports::Reports;
use sources::{Sources, Who};
use timeouts::{Shrink, Ticks};
use wheel::{Wheel, tick_of};

/// The direction of a packet in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// As the first packet.
    Original = 0,
    /// As its answers.
    Reply = 1,
}

impl Direction {
    /// The other direction.
    #[must_use]
    pub const fn reversed(self) -> Direction {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}

/// The name of a state, which no later state has, until its place was used 256 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId {
    slot: Slot,
    life: u8,
}

/// How a packet leaves that NAT translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The tuple that it leaves with.
    pub key: Key,
    /// New addresses less old ones, to add to the sum of an IPv4 header (RFC 1624).
    pub ip: Sum,
    /// To add to the sum of the transport header with its pseudo-header.
    pub transport: Sum,
}

/// The table of one shard.
pub struct States {
    hash: KeyHash,
    index: Index,
    records: Records,
    wheel: Wheel,
    /// States that wait for an answer, and states that are over; the oldest first.
    waiting: List,
    over: List,
    ticks: Ticks,
    sources: Sources,
    events: Events,
    /// What events have reported of states that last.
    reports: Reports,
    /// What the partner has of states.
    copies: Copies,
    count: usize,
    /// How many states have ended.
    ended: u64,
    /// Where the hand is that walks all states while timeouts shrink, and how far it may walk.
    hand: u64,
    hand_ticks: u32,
    hand_rest: usize,
    /// Numbers of the caller's that ended states had.
    freed: Vec<u32>,
}

impl States {
    /// An empty table. `secret` has 128 bits that no other host knows.
    #[must_use]
    pub fn new(timeouts: &Timeouts, secret: [u64; 2], now: Instant) -> States {
        States {
            hash: KeyHash::new(secret),
            index: Index::new(),
            records: Records::new(),
            wheel: Wheel::new(now),
            waiting: List::new(flag::WAITING),
            over: List::new(flag::OVER),
            ticks: Ticks::new(timeouts),
            sources: Sources::new(secret),
            events: Events::default(),
            reports: Reports::default(),
            copies: Copies::default(),
            count: 0,
            ended: 0,
            hand: 0,
            hand_ticks: tick_of(now),
            hand_rest: 0,
            freed: Vec::new(),
        }
    }

    /// Change the timeouts. A state that waits for a longer one is looked at when that is over, or
    /// at its next change of phase.
    pub fn set_timeouts(&mut self, timeouts: &Timeouts) {
        self.ticks = Ticks::new(timeouts);
    }

    /// The hash, for keys of packets.
    #[inline(always)]
    #[must_use]
    pub fn hasher(&self) -> KeyHash {
        self.hash
    }

    /// How many states there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many states have ended so far.
    #[inline]
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Does the state live?
    #[inline]
    #[must_use]
    pub fn is_alive(&self, id: StateId) -> bool {
        self.live(id).is_some()
    }

    /// How many states wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of memory for the index and the records.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.index.bytes() + self.records.bytes()
    }

    /// The state of a packet with this key, and the packet's direction. An ICMP error has the
    /// direction opposite to the one of the packet that it quotes.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<(StateId, Direction)> {
        let hash = self.hash.of(key);
        match key {
            Key::V4(key) => self.index.find(hash, |entry| self.is_of_v4(key, entry)),
            Key::V6(key) => self.index.find(hash, |entry| self.is_of_v6(key, entry)),
        }
    }

    #[inline(always)]
    fn is_of_v4(&self, key: &KeyV4, entry: Entry) -> Option<(StateId, Direction)> {
        let slot = entry.slot();
        let record = self.records.v4.get(slot >> 1).filter(|_| !is_v6(slot))?;
        Some((StateId { slot, life: record.common.life }, record.direction(key)?))
    }

    #[inline(always)]
    fn is_of_v6(&self, key: &KeyV6, entry: Entry) -> Option<(StateId, Direction)> {
        let slot = entry.slot();
        let record = self.records.v6.get(slot >> 1).filter(|_| is_v6(slot))?;
        Some((StateId { slot, life: record.common.life }, record.direction(key)?))
    }

    /// The record of a state that still lives.
    #[inline(always)]
    fn live(&self, id: StateId) -> Option<&Common> {
        let common = self.records.get(id.slot)?;
        (common.has(flag::LIVE) && common.life == id.life).then_some(common)
    }

    /// The caller's number of a state.
    #[inline]
    #[must_use]
    pub fn tag(&self, id: StateId) -> Option<u32> {
        self.live(id).map(|common| common.tag)
    }

    /// The rule of a state.
    #[inline]
    #[must_use]
    pub fn rule(&self, id: StateId) -> Option<u16> {
        self.live(id).map(|common| common.rule)
    }

    /// The ports that packets of this direction come by and leave by, as the first packet had them.
    #[inline]
    #[must_use]
    pub fn ports(&self, id: StateId, direction: Direction) -> Option<[u16; 2]> {
        let common = self.live(id)?;
        Some(match direction {
            Direction::Original => [common.in_port, common.out_port],
            Direction::Reply => [common.out_port, common.in_port],
        })
    }

    /// How much timeouts shrink now.
    fn shrink(&self, budget: &Budget) -> Shrink {
        Shrink::of(self.count, budget.of(Limit::FilterStates))
    }

    /// The timeout of a record, in ticks.
    #[inline]
    fn timeout(&self, common: &Common) -> u32 {
        self.ticks.of(common.phase, common.has(flag::TRANSLATED))
    }

    /// The hash of the key that an entry stands for.
    fn hash_of(hash: KeyHash, records: &Records, entry: Entry) -> u64 {
        hash.of(&records.key(entry.slot(), entry.which()))
    }

    /// Whom a state counts for: its source, and its source by its rule.
    fn owners(&self, slot: Slot) -> [Who; 2] {
        let (common, addr) = (self.records.at(slot), self.records.key(slot, 0).source());
        [
            Who::source(addr, is_v6(slot)),
            Who::by_rule(addr, is_v6(slot), common.rule, common.generation),
        ]
    }

    /// End a state.
    fn remove(&mut self, slot: Slot, why: Why, now: Instant) {
        if self.events.wanted.ended {
            self.report_end(slot, why, now);
        }
        if self.copies.is_on {
            self.note_end(slot, why);
        }
        let (flags, [source, by_rule]) = (self.records.at(slot).flags, self.owners(slot));
        if flags & flag::OF_SOURCE != 0 {
            self.sources.remove(source);
        }
        if flags & flag::OF_RULE != 0 {
            self.sources.remove(by_rule);
        }
        let entries = if flags & flag::TRANSLATED != 0 { 2 } else { 1 };
        for which in 0..entries {
            let entry = Entry::new(slot, which);
            self.index.remove(States::hash_of(self.hash, &self.records, entry), entry);
        }
        let tag = self.records.at(slot).tag;
        if tag != 0 {
            self.freed.push(tag);
        }
        self.wheel.unlink(&mut self.records, slot);
        self.waiting.remove(&mut self.records, slot);
        self.over.remove(&mut self.records, slot);
        self.records.give_back(slot);
        self.count -= 1;
        self.ended += 1;
    }

    /// The number that the caller gave to a state, after the state has ended. A caller with numbers
    /// other than 0 takes them after each call that may end states.
    pub fn next_freed(&mut self) -> Option<u32> {
        self.freed.pop()
    }
}

#[cfg(test)]
mod tests;
