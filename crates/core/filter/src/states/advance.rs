//! Time: states end that were idle for longer than their timeout, a bounded number a turn.
//!
//! Called by: the stack once a turn. The wheel names the states to visit. While timeouts shrink,
//! states are due before their visits, so that a hand walks all of them besides, once in about
//! four seconds.

use base::{Budget, Instant};

use super::States;
use super::events::Why;
use super::record::{Slot, flag};
use super::timeouts::Shrink;
use super::wheel::{span_of, tick_of};

/// The hand walks all records in so many ticks.
const HAND_TICKS: usize = 64;

impl States {
    /// Visit at most `most` states that may have ended by `now`. Returns how many it has visited:
    /// `most` means that more may be due.
    pub fn advance(&mut self, now: Instant, most: usize, budget: &Budget) -> usize {
        let (tick, mut visited) = (tick_of(now), 0);
        while visited < most
            && let Some(slot) = self.wheel.next(tick)
        {
            visited += 1;
            let shrink = self.shrink(budget);
            self.visit(slot, tick, shrink, now);
        }
        if self.shrink(budget).is_less() {
            visited += self.walk_hand(most - visited, budget, now);
        }
        visited
    }

    /// When [`States::advance`] has something to do; `None` if there are no states.
    #[must_use]
    pub fn next_deadline(&self, now: Instant, budget: &Budget) -> Option<Instant> {
        let deadline = self.wheel.next_deadline(now)?;
        if self.shrink(budget).is_less() {
            let next_tick = now + span_of(1);
            return Some(deadline.min(if self.hand_rest > 0 { now } else { next_tick }));
        }
        Some(deadline)
    }

    /// How long a record may still be idle, in ticks.
    fn rest(&self, slot: Slot, tick: u32, shrink: Shrink) -> Option<u32> {
        let common = self.records.at(slot);
        let idle = (tick.wrapping_sub(common.seen) as i32).max(0) as u32;
        shrink.apply(self.timeout(common)).checked_sub(idle).filter(|&rest| rest > 0)
    }

    fn visit(&mut self, slot: Slot, tick: u32, shrink: Shrink, now: Instant) {
        match self.rest(slot, tick, shrink) {
            None => self.expire(slot, tick, now),
            Some(rest) => {
                self.wheel.unlink(&mut self.records, slot);
                self.wheel.link(&mut self.records, slot, tick.wrapping_add(rest));
            }
        }
    }

    fn expire(&mut self, slot: Slot, tick: u32, now: Instant) {
        let is_idle = self.rest(slot, tick, Shrink::NONE).is_none();
        self.remove(slot, if is_idle { Why::Idle } else { Why::Pressure }, now);
    }

    /// Move the hand on, by at most `most` records.
    fn walk_hand(&mut self, most: usize, budget: &Budget, now: Instant) -> usize {
        let [v4, v6] = self.records.lens();
        let (tick, all) = (tick_of(now), v4 as usize + v6 as usize);
        if self.hand_ticks != tick {
            (self.hand_ticks, self.hand_rest) = (tick, all.div_ceil(HAND_TICKS));
        }
        let steps = self.hand_rest.min(most);
        self.hand_rest -= steps;
        for _ in 0..steps {
            let shrink = self.shrink(budget);
            if !shrink.is_less() {
                break;
            }
            let at = self.hand;
            self.hand = if at + 1 >= all as u64 { 0 } else { at + 1 };
            let Some(slot) = self.slot_at(at) else { continue };
            let is_live = self.records.at(slot).has(flag::LIVE);
            if is_live && self.rest(slot, tick, shrink).is_none() {
                self.expire(slot, tick, now);
            }
        }
        steps
    }

    /// The slot of a position in a walk through both slabs.
    pub(super) fn slot_at(&self, at: u64) -> Option<Slot> {
        let [v4, v6] = self.records.lens().map(u64::from);
        if at < v4 {
            return Some((at as u32) << 1);
        }
        (at - v4 < v6).then(|| ((at - v4) as u32) << 1 | 1)
    }

    /// The time of a tick that is not later than `now`.
    pub(super) fn time_of(tick: u32, now: Instant) -> Instant {
        // Another shard's clock may be a tick ahead.
        let ago = (tick_of(now).wrapping_sub(tick) as i32).max(0);
        now - span_of(ago as u32)
    }
}
