//! The timer wheel: four levels of 256 slots, a millisecond to eleven days, with at most one entry
//! for each connection while its deadlines only become later; and one time for all rare timers.
//!
//! Called by: `poll.rs` and `tx.rs`. Lazy: a deadline that becomes later costs nothing until its
//! entry comes up and is put further on; one that becomes earlier adds an entry. Varghese and
//! Lauck, "Hashed and hierarchical timing wheels", 1987.

use base::Instant;

use crate::handles::TcpHandle;

/// One tick: 2^20 ns, a little over a millisecond. Timers come late by up to one, never early.
const TICK_SHIFT: u32 = 20;
const LEVELS: usize = 4;
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
/// With more entries than `ENTRIES_EACH` for each connection and `ENTRIES_SPARE`, old ones are
/// removed.
const ENTRIES_EACH: usize = 8;
const ENTRIES_SPARE: usize = 8 * LEVELS * SLOTS;

/// Entries by the tick they are due in.
pub(crate) struct Wheel {
    slots: Vec<Vec<Entry>>,
    /// The next tick to look at; everything before has been handed out.
    tick: u64,
    entries: usize,
    /// The part of `entries` on each level.
    on_level: [usize; LEVELS],
    /// No entry is due before this; may be too early, never too late.
    earliest: Instant,
}

#[derive(Clone, Copy)]
struct Entry {
    due: u64,
    handle: TcpHandle,
}

impl Default for Wheel {
    fn default() -> Wheel {
        Wheel {
            slots: (0..LEVELS * SLOTS).map(|_| Vec::new()).collect(),
            tick: 0,
            entries: 0,
            on_level: [0; LEVELS],
            earliest: Instant::NEVER,
        }
    }
}

fn tick_of(deadline: Instant) -> u64 {
    (deadline.as_nanos() >> TICK_SHIFT) + 1
}

fn start_of(tick: u64) -> Instant {
    Instant::from_nanos(tick << TICK_SHIFT)
}

impl Wheel {
    /// Hand out `handle` soon after `deadline`. An empty wheel has nothing to hand out before
    /// `now`, so it is advanced there in one step, however long ago the last call was.
    pub(crate) fn insert(&mut self, handle: TcpHandle, deadline: Instant, now: Instant) {
        if deadline == Instant::NEVER {
            return;
        }
        if self.entries == 0 {
            self.tick = self.tick.max(now.as_nanos() >> TICK_SHIFT);
        }
        let due = tick_of(deadline).max(self.tick);
        self.entries += 1;
        self.earliest = self.earliest.min(start_of(due));
        self.place(Entry { due, handle });
    }

    fn place(&mut self, entry: Entry) {
        let ahead = entry.due - self.tick;
        let mut level = 0;
        while level + 1 < LEVELS && ahead >> (SLOT_BITS * (level as u32 + 1)) != 0 {
            level += 1;
        }
        let within = (entry.due >> (SLOT_BITS * level as u32)) as usize & (SLOTS - 1);
        self.slots[level * SLOTS + within].push(entry);
        self.on_level[level] += 1;
    }

    fn take_slot(&mut self, level: usize, within: usize) -> Vec<Entry> {
        let taken = core::mem::take(&mut self.slots[level * SLOTS + within]);
        self.on_level[level] -= taken.len();
        taken
    }

    /// May something be due?
    #[inline(always)]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.earliest <= now
    }

    /// Move on to `now`, adding what is due to `into`.
    pub(crate) fn advance(&mut self, now: Instant, into: &mut Vec<TcpHandle>) {
        let last = now.as_nanos() >> TICK_SHIFT;
        while self.tick <= last {
            if self.entries == 0 {
                self.tick = last + 1;
                break;
            }
            if self.tick & (SLOTS as u64 - 1) == 0 {
                self.cascade();
            }
            if self.on_level[0] == 0 {
                self.tick = self.next_turn().min(last + 1);
                continue;
            }
            let slot = self.tick as usize & (SLOTS - 1);
            for entry in self.take_slot(0, slot) {
                if entry.due <= self.tick {
                    self.entries -= 1;
                    into.push(entry.handle);
                } else {
                    self.place(entry);
                }
            }
            self.tick += 1;
        }
        self.earliest = self.find_earliest();
    }

    /// When the lowest level that has entries above it wraps; nothing is due before. So the ticks
    /// of hours of sleep need not be counted one by one.
    fn next_turn(&self) -> u64 {
        let empty = self.on_level[..LEVELS - 1].iter().take_while(|&&entries| entries == 0);
        let bits = SLOT_BITS * empty.count() as u32;
        ((self.tick >> bits) + 1) << bits
    }

    /// A lower level has wrapped: bring down the entries of the next slot of each level above.
    fn cascade(&mut self) {
        for level in 1..LEVELS {
            let shifted = self.tick >> (SLOT_BITS * level as u32);
            for entry in self.take_slot(level, shifted as usize & (SLOTS - 1)) {
                self.place(entry);
            }
            if shifted & (SLOTS as u64 - 1) != 0 {
                break;
            }
        }
    }

    /// When to look next: the first slot with an entry, or the next wrap of the lowest level.
    fn find_earliest(&self) -> Instant {
        if self.entries == 0 {
            return Instant::NEVER;
        }
        for ahead in 0..SLOTS as u64 {
            let tick = self.tick + ahead;
            // Past the wrap, entries of the level above have not come down yet.
            if tick & (SLOTS as u64 - 1) == 0 {
                return start_of(tick);
            }
            if !self.slots[tick as usize & (SLOTS - 1)].is_empty() {
                return start_of(tick);
            }
        }
        start_of(self.tick + SLOTS as u64)
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.earliest
    }

    /// Forget the entries of connections that are gone, if those are many beside the `live` ones:
    /// a peer that opens and resets for ever leaves one behind each time.
    pub(crate) fn weed(&mut self, live: usize, is_live: impl Fn(TcpHandle) -> bool) {
        if self.entries <= ENTRIES_EACH * live + ENTRIES_SPARE {
            return;
        }
        for slot in &mut self.slots {
            slot.retain(|entry| is_live(entry.handle));
        }
        for (level, slots) in self.slots.chunks(SLOTS).enumerate() {
            self.on_level[level] = slots.iter().map(Vec::len).sum();
        }
        self.entries = self.on_level.iter().sum();
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }
}

/// The first of all rare deadlines: those of TIME-WAIT, neighbours, fragments, lifetimes, groups
/// and a router's links. A poll compares one time in place of theirs.
///
/// A caller that sets such a deadline notes it here. A note may only lower the time. A deadline
/// that is cleared or becomes later leaves the time too early: `poll::expire` then finds nothing
/// due, and finds the time again. The time is never too late: debug builds assert it at every poll.
pub(crate) struct RareTimers {
    /// The earliest of them, or earlier.
    pub(crate) first: Instant,
    /// When an address or a route has to be looked at next.
    pub(crate) lifetimes: Instant,
}

impl Default for RareTimers {
    fn default() -> RareTimers {
        RareTimers { first: Instant::NEVER, lifetimes: Instant::NEVER }
    }
}

impl RareTimers {
    /// A deadline was set to `at`.
    #[inline(always)]
    pub(crate) fn note(&mut self, at: Instant) {
        self.first = self.first.min(at);
    }

    /// May a rare deadline be due?
    #[inline(always)]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.first <= now
    }

    #[inline(always)]
    pub(crate) fn next_deadline(&self) -> Instant {
        self.first
    }
}

#[cfg(test)]
mod tests;
