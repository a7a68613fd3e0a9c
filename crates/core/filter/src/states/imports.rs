//! Copies of the partner's states: they become states here, or change those that are here.
//!
//! Called by: the firewall, which has asked rules and placed the mapping of NAT. A copy never makes
//! a state older, evicts no state, and takes the place of another one only if that is over, or the
//! partner's as well, or has had no packet for longer. Limits: `filter_states`,
//! `filter_states_per_source`.

use base::{Budget, Duration, Instant, Limit};

use super::copied::{Copied, Imported, NotImported};
use super::copies::Kind;
use super::events::Why;
use super::insert::{NewState, SourceLimits, sums};
use super::key::Key;
use super::pass::Transport;
use super::record::{Common, Slot, flag};
use super::walk::Cursor;
use super::wheel::{tick_of, ticks_between};
use super::{Direction, StateId, States};

/// The partner's last packet must be later by more than this, in ticks, before its copy counts more
/// than the state here: a copy takes a while to arrive, and the times of both are right to a tick.
const JITTER_TICKS: i32 = 15;

/// A copy that may become a state.
pub(crate) struct Admitted<'a> {
    pub(crate) copied: &'a Copied,
    pub(crate) original: Key,
    pub(crate) reply: Key,
    /// The rule that passes it, and the generation of that rule.
    pub(crate) rule: u16,
    pub(crate) generation: u32,
    /// The caller's number.
    pub(crate) tag: u32,
    /// The rule limits states of a source.
    pub(crate) is_limited: bool,
    pub(crate) version: u64,
}

impl States {
    /// Update the state that a copy is of. `Ok(None)`: there is none, and nothing is in its way any
    /// more.
    pub(crate) fn receive(
        &mut self,
        (original, reply): (&Key, &Key),
        copied: &Copied,
        version: u64,
        now: Instant,
    ) -> Result<Option<Imported>, NotImported> {
        let found = self.find(original);
        if let Some((id, Direction::Original)) = found
            && self.records.key(id.slot, 1) == *reply
        {
            return self.update(id.slot, copied, version, now).map(|()| Some(Imported::Updated));
        }
        let others = [found, self.find(reply)].map(|found| found.map(|(id, _)| id));
        let gives_way = |id: &StateId| {
            let Some(common) = self.live(*id) else { return true };
            let is_unseen = self.copies.is_unseen(id.slot, common);
            let is_older = is_unseen && self.copies.get(id.slot).version <= version;
            is_older || common.phase.is_over() || is_later(copied, common, now)
        };
        if !others.iter().flatten().all(gives_way) {
            return Err(NotImported::InTheWay);
        }
        for id in others.into_iter().flatten() {
            self.kill(id, Why::Partner, now);
        }
        Ok(None)
    }

    fn update(
        &mut self,
        slot: Slot,
        copied: &Copied,
        version: u64,
        now: Instant,
    ) -> Result<(), NotImported> {
        let common = self.records.at(slot);
        if self.copies.is_unseen(slot, common) {
            if version < self.copies.get(slot).version {
                return Err(NotImported::Old);
            }
        } else if !is_later(copied, common, now) {
            return Err(NotImported::Newer);
        }
        let before = common.phase;
        let common = self.records.at_mut(slot);
        if before.is_waiting() || !copied.phase.is_waiting() {
            common.phase = copied.phase;
            // A list uses the fields in which a pending SYN is kept.
            if let Some(tcp) = &copied.tcp {
                tcp.write(common, copied.loose);
            }
        }
        let seen = tick_ago(copied.idle, now);
        if seen.wrapping_sub(common.seen) as i32 > 0 {
            common.seen = seen;
        }
        for which in 0..2 {
            common.packets[which] = common.packets[which].max(copied.packets[which]);
            common.bytes[which] = common.bytes[which].max(copied.bytes[which]);
        }
        let copy = *common;
        self.copies.imported(slot, &copy, version);
        if copy.phase != before {
            self.changed(slot, before);
        }
        self.forget_reported(slot, now);
        Ok(())
    }

    /// Has the table room for a copy? Nothing is evicted for it.
    pub(crate) fn admits_copy(
        &mut self,
        original: &Key,
        copied: &Copied,
        budget: &mut Budget,
    ) -> Result<(), NotImported> {
        let limit = budget.of(Limit::FilterStates);
        let is_waiting = copied.phase.is_waiting();
        if self.count >= limit || is_waiting && self.waiting.len() >= (limit / 2).max(1) {
            budget.admits(Limit::FilterStates, limit);
            return Err(NotImported::Full);
        }
        let admits = budget.admits(Limit::FilterStatesPerSource, self.states_of(original));
        admits.then_some(()).ok_or(NotImported::SourceLimit)
    }

    /// Make a state of a copy that [`States::admits_copy`] has admitted and whose tuples are free.
    pub(crate) fn place(
        &mut self,
        new: &Admitted<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<StateId, NotImported> {
        let translated = new.reply != new.original.reversed();
        let taken = self.records.take(new.original, new.reply);
        let slot = taken.ok_or(NotImported::Full)?;
        let life = self.records.at(slot).life;
        *self.records.at_mut(slot) = record(new, translated, life, now);
        if !self.enter(slot, translated) {
            self.records.give_back(slot);
            budget.admits(Limit::FilterStates, usize::MAX);
            return Err(NotImported::Full);
        }
        self.count += 1;
        self.count_source(slot, &as_new(new), budget, now);
        let common = *self.records.at(slot);
        let due = common.seen.wrapping_add(self.timeout(&common));
        self.wheel.link(&mut self.records, slot, due);
        if common.phase.is_waiting() {
            self.waiting.push(&mut self.records, slot);
        }
        if common.phase.is_over() {
            self.over.push(&mut self.records, slot);
        }
        self.copies.imported(slot, &common, new.version);
        self.forget_reported(slot, now);
        Ok(StateId { slot, life })
    }

    /// The partner's state with this original tuple has ended: end ours, if it is a copy that has
    /// had no packet here.
    pub(crate) fn end_copy(&mut self, original: &Key, version: u64, now: Instant) -> bool {
        let Some((id, Direction::Original)) = self.find(original) else { return false };
        let Some(common) = self.live(id) else { return false };
        let is_meant =
            self.copies.is_unseen(id.slot, common) && self.copies.get(id.slot).version <= version;
        is_meant && self.kill(id, Why::Partner, now).is_some()
    }

    /// Look at up to `most` records from `cursor` on, and end the copies among them whose version
    /// is one of `versions` and which have had no packet here. Returns where to go on; `None` at
    /// the end.
    pub(crate) fn sweep_copies(
        &mut self,
        cursor: Cursor,
        most: usize,
        versions: &core::ops::Range<u64>,
        now: Instant,
    ) -> Option<Cursor> {
        let mut at = cursor;
        for _ in 0..most {
            let (slot, next) = self.step(at)?;
            at = next;
            let (entry, common) = (self.copies.get(slot), self.records.at(slot));
            let is_meant = entry.kind == Kind::Imported && versions.contains(&entry.version);
            if is_meant && common.has(flag::LIVE) && self.copies.is_unseen(slot, common) {
                self.remove(slot, Why::Partner, now);
            }
        }
        self.step(at).map(|_| at)
    }
}

/// Has the partner had a packet of the flow later than we have?
fn is_later(copied: &Copied, common: &Common, now: Instant) -> bool {
    tick_ago(copied.idle, now).wrapping_sub(common.seen) as i32 > JITTER_TICKS
}

/// The tick of a time that was `span` ago.
fn tick_ago(span: Duration, now: Instant) -> u32 {
    tick_of(now).wrapping_sub(ticks_between(span))
}

fn as_new<'a>(new: &Admitted<'_>) -> NewState<'a> {
    NewState {
        original: new.original,
        reply: new.reply,
        first: Transport::Other,
        icmp: new.copied.icmp,
        len: 0,
        in_port: new.copied.in_port,
        out_port: new.copied.out_port,
        rule: new.rule,
        generation: new.generation,
        tag: new.tag,
        loose: new.copied.loose,
        limits: SourceLimits { states: new.is_limited.then_some(u32::MAX), rate: None },
    }
}

fn record(new: &Admitted<'_>, translated: bool, life: u8, now: Instant) -> Common {
    let copied = new.copied;
    let mut common = Common {
        packets: copied.packets,
        bytes: copied.bytes,
        seen: tick_ago(copied.idle, now),
        created: tick_ago(copied.age, now),
        generation: new.generation,
        tag: new.tag,
        rule: new.rule,
        in_port: copied.in_port,
        out_port: copied.out_port,
        flags: flag::LIVE | if translated { flag::TRANSLATED } else { 0 },
        sums: if translated { sums(&new.original, &new.reply) } else { [0; 2] },
        protocol: new.original.protocol(),
        phase: copied.phase,
        life,
        ..Common::EMPTY
    };
    if let Some(tcp) = &copied.tcp {
        tcp.write(&mut common, copied.loose);
    }
    if let Some(icmp) = copied.icmp {
        common.set_icmp(icmp);
    }
    common
}
