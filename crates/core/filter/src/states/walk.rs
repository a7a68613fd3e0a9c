//! Walks for tools and for reloads: pages of states, ending those that a user names, judging states
//! again under new rules.
//!
//! Called by: the stack's snapshot, its calls of programs, and its sweep after a reload. Every call
//! looks at a bounded number of records and returns where to go on. A walk sees each state that
//! lives during all of it once, or twice if IPv4 states began meanwhile.

use base::Instant;

use super::events::{State, Why};
use super::record::{Slot, flag};
use super::wheel::span_of;
use super::{StateId, States};

/// Where a walk is; the default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u64);

impl Cursor {
    /// As a number that grows from step to step, for clients that ask for pages; 0 is the
    /// beginning.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The cursor with this number; any number is one.
    #[must_use]
    pub fn of(number: u64) -> Cursor {
        Cursor(number)
    }
}

/// A step of a walk has this bit if it is in the slab of IPv6.
const V6: u64 = 1 << 32;

impl States {
    /// Look at up to `most` records from `cursor` on, and give `each` the states among them.
    /// Returns where to go on; `None` at the end.
    pub fn page(
        &self,
        cursor: Cursor,
        most: usize,
        now: Instant,
        mut each: impl FnMut(StateId, &State),
    ) -> Option<Cursor> {
        let mut at = cursor;
        for _ in 0..most {
            let (slot, next) = self.step(at)?;
            at = next;
            if let Some(id) = self.id_at(slot) {
                each(id, &self.state_at(slot, now));
            }
        }
        self.step(at).map(|_| at)
    }

    /// Look at up to `most` records from `cursor` on, and give `each` the states among them that
    /// rules of another generation have judged. Returns where to go on; `None` at the end.
    pub fn stale(
        &self,
        cursor: Cursor,
        most: usize,
        generation: u32,
        mut each: impl FnMut(StateId),
    ) -> Option<Cursor> {
        let mut at = cursor;
        for _ in 0..most {
            let (slot, next) = self.step(at)?;
            at = next;
            if let Some(id) = self.id_at(slot)
                && self.records.at(slot).generation != generation
            {
                each(id);
            }
        }
        self.step(at).map(|_| at)
    }

    /// Look at up to `most` records from `cursor` on, and end the states for which `is_meant` says
    /// so. Returns where to go on, `None` at the end; and how many it has ended.
    pub fn kill_if(
        &mut self,
        cursor: Cursor,
        most: usize,
        why: Why,
        now: Instant,
        mut is_meant: impl FnMut(StateId, &State) -> bool,
    ) -> (Option<Cursor>, usize) {
        let (mut at, mut ended) = (cursor, 0);
        for _ in 0..most {
            let Some((slot, next)) = self.step(at) else { return (None, ended) };
            at = next;
            if let Some(id) = self.id_at(slot)
                && is_meant(id, &self.state_at(slot, now))
            {
                self.remove(slot, why, now);
                ended += 1;
            }
        }
        (self.step(at).map(|_| at), ended)
    }

    /// End one state. Returns the state as it was, or `None` if it has ended already.
    pub fn kill(&mut self, id: StateId, why: Why, now: Instant) -> Option<State> {
        let state = self.state(id, now)?;
        self.remove(id.slot, why, now);
        Some(state)
    }

    /// A state as tools see it.
    #[must_use]
    pub fn state(&self, id: StateId, now: Instant) -> Option<State> {
        self.live(id).map(|_| self.state_at(id.slot, now))
    }

    /// Was the state judged by other rules than those of `generation`? Its next packet asks the
    /// rules again, by the original tuple, and calls [`States::adopt`] or [`States::kill`].
    #[inline(always)]
    #[must_use]
    pub fn is_stale(&self, id: StateId, generation: u32) -> bool {
        self.live(id).is_some_and(|common| common.generation != generation)
    }

    /// The rules of `generation` pass the state, by `rule`. If that rule limits states of a source
    /// (`is_limited`), the state counts, though it is never refused for it.
    pub fn adopt(
        &mut self,
        id: StateId,
        rule: u16,
        generation: u32,
        is_limited: bool,
        sources: usize,
        now: Instant,
    ) {
        if self.live(id).is_none() {
            return;
        }
        let [_, before] = self.owners(id.slot);
        let common = self.records.at_mut(id.slot);
        let was_counted = common.has(flag::OF_RULE);
        (common.rule, common.generation) = (rule, generation);
        common.flags &= !flag::OF_RULE;
        common.flags |= if is_limited { flag::OF_RULE } else { 0 };
        let [_, after] = self.owners(id.slot);
        if was_counted {
            self.sources.remove(before);
        }
        if is_limited {
            self.sources.add(after, sources, now);
        }
    }

    /// How many sources with states were forgotten, because there are more than
    /// [`base::Limit::FilterSources`].
    #[must_use]
    pub fn sources_forgotten(&self) -> u64 {
        self.sources.forgotten()
    }

    /// The slot that a cursor names, and the cursor behind it.
    pub(super) fn step(&self, cursor: Cursor) -> Option<(Slot, Cursor)> {
        let [v4, v6] = self.records.lens().map(u64::from);
        let at = cursor.0;
        if at < v4 {
            return Some(((at as u32) << 1, Cursor(at + 1)));
        }
        let at = at.saturating_sub(V6);
        (at < v6).then(|| ((at as u32) << 1 | 1, Cursor(V6 + at + 1)))
    }

    fn id_at(&self, slot: Slot) -> Option<StateId> {
        let common = self.records.at(slot);
        common.has(flag::LIVE).then_some(StateId { slot, life: common.life })
    }

    pub(super) fn state_at(&self, slot: Slot, now: Instant) -> State {
        let common = self.records.at(slot);
        let seen = States::time_of(common.seen, now);
        State {
            original: self.records.key(slot, 0).tuple(),
            reply: self.records.key(slot, 1).tuple(),
            packets: common.packets,
            bytes: common.bytes,
            phase: common.phase,
            icmp: common.icmp(),
            rule: common.rule,
            generation: common.generation,
            in_port: common.in_port,
            out_port: common.out_port,
            tag: common.tag,
            loose: common.has(flag::LOOSE),
            created: States::time_of(common.created, now),
            seen,
            expires: seen + span_of(self.timeout(common)),
        }
    }
}
