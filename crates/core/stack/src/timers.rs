//! The timer wheel: four levels of 256 slots, from a millisecond to eleven days. A connection has
//! at most one entry as long as its deadlines only become later. Also one time for all rare timers.
//!
//! Called by: `poll.rs` and `tx.rs`. The wheel is lazy: a deadline that becomes later costs nothing
//! until its entry comes up and is put further on; a deadline that becomes earlier adds an entry.
//! Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987.

use base::Instant;

use crate::handles::TcpHandle;

/// One tick: 2^20 ns, a little over a millisecond. Timers fire up to one tick late, never early.
const TICK_SHIFT: u32 = 20;
const LEVELS: usize = 4;
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
/// Old entries are removed when there are more than `ENTRIES_EACH` for each connection and
/// `ENTRIES_SPARE` besides.
const ENTRIES_EACH: usize = 8;
const ENTRIES_SPARE: usize = 8 * LEVELS * SLOTS;

/// Entries, by the tick in which they are due.
pub(crate) struct Wheel {
    slots: Vec<Vec<Entry>>,
    /// The next tick to examine. All entries of earlier ticks have been returned.
    tick: u64,
    entries: usize,
    /// How many of the `entries` are on each level.
    on_level: [usize; LEVELS],
    /// A time before which no entry is due. It may be too early, never too late.
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
    /// Return `handle` from [`Wheel::advance`] soon after `deadline`. An empty wheel has no entries
    /// before `now`, so it is advanced to `now` in one step, however long ago the last call was.
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

    /// May an entry be due?
    #[inline(always)]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.earliest <= now
    }

    /// Advance to `now`, and append the handles that are due to `into`.
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

    /// The tick at which the lowest level wraps that has entries above it; nothing is due before.
    /// So the ticks of hours of sleep need not be counted one by one.
    fn next_turn(&self) -> u64 {
        let empty = self.on_level[..LEVELS - 1].iter().take_while(|&&entries| entries == 0);
        let bits = SLOT_BITS * empty.count() as u32;
        ((self.tick >> bits) + 1) << bits
    }

    /// A lower level has wrapped: move the entries in the next slot of each higher level down.
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

    /// The next time to examine: that of the first slot with an entry, or the next wrap of the
    /// lowest level.
    fn find_earliest(&self) -> Instant {
        if self.entries == 0 {
            return Instant::NEVER;
        }
        for ahead in 0..SLOTS as u64 {
            let tick = self.tick + ahead;
            // After the wrap, entries of the level above have not been moved down yet.
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

    /// Remove the entries of connections that have ended, if there are many compared to the `live`
    /// connections: a peer that opens and resets connections for ever leaves one entry behind each
    /// time.
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
/// and a router's links. A poll compares this one time instead of theirs.
///
/// A caller that sets such a deadline notes it here. A note may only make the time earlier. When a
/// deadline is cleared or becomes later, the time is too early: `poll::expire` then finds nothing
/// due, and computes the time again. The time is never too late: debug builds assert that at every
/// poll.
pub(crate) struct RareTimers {
    /// The earliest of these deadlines, or an earlier time.
    pub(crate) first: Instant,
    /// When an address or a route next has to be examined.
    pub(crate) lifetimes: Instant,
}

impl Default for RareTimers {
    fn default() -> RareTimers {
        RareTimers { first: Instant::NEVER, lifetimes: Instant::NEVER }
    }
}

impl RareTimers {
    /// Note that a deadline was set to `at`.
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
