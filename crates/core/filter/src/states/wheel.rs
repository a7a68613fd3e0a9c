//! The timer wheel of states: two levels of 512 slots, 67 ms to 4 h 46 min, as lists through the
//! records.
//!
//! Called by: `states.rs`, `advance.rs`. Lazy: a packet writes the time into its record and leaves
//! the wheel alone. The caller visits a record when its slot comes up, and links it again if its
//! deadline has moved meanwhile; so moving a record from the coarse level to the fine one is a
//! visit as any other, and counts in the caller's budget. Varghese and Lauck, "Hashed and
//! hierarchical timing wheels", 1987.

use base::{Duration, Instant};

use super::record::{NONE, Records, Slot};

/// One tick: 2^26 ns, 67 ms.
const TICK_SHIFT: u32 = 26;
const SLOT_BITS: u32 = 9;
const SLOTS: u32 = 1 << SLOT_BITS;
/// In the place of a previous record: the slot of the wheel that the record is first in.
const HEAD: u32 = 1 << 31;

/// The tick of a time. Ticks wrap after nine years, and only differences count.
#[inline(always)]
pub(super) const fn tick_of(now: Instant) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

/// When the next tick begins: no state is due before.
pub(crate) const fn next_tick(now: Instant) -> Instant {
    Instant::from_nanos(((now.as_nanos() >> TICK_SHIFT) + 1) << TICK_SHIFT)
}

/// Ticks after which a span that began within a tick is certainly over.
pub(super) fn ticks_of(span: Duration) -> u32 {
    let ticks = span.as_nanos().div_ceil(1 << TICK_SHIFT) + 1;
    u32::try_from(ticks).unwrap_or(u32::MAX).min(1 << 30)
}

/// Whole ticks of a span, at most those that can be told from ticks ahead.
pub(super) fn ticks_between(span: Duration) -> u32 {
    u32::try_from(span.as_nanos() >> TICK_SHIFT).unwrap_or(u32::MAX).min(1 << 30)
}

/// How long `ticks` take.
pub(super) const fn span_of(ticks: u32) -> Duration {
    Duration::from_nanos((ticks as u64) << TICK_SHIFT)
}

/// 512 bits, one for each slot of a level that is not empty.
#[derive(Clone, Copy, Default)]
struct Used([u64; 8]);

impl Used {
    fn set(&mut self, slot: u32, used: bool) {
        let word = &mut self.0[slot as usize / 64 % 8];
        *word = *word & !(1 << (slot % 64)) | u64::from(used) << (slot % 64);
    }

    /// How many slots after `slot` the next used one is: 1 to 512.
    fn next_after(&self, slot: u32) -> Option<u32> {
        let from = (slot + 1) % SLOTS;
        for step in 0..9 {
            let at = (from / 64 + step) % 8;
            let mut word = self.0[at as usize];
            if step == 0 {
                word &= u64::MAX << (from % 64);
            }
            if word != 0 {
                let found = at * 64 + word.trailing_zeros();
                return Some((found.wrapping_sub(from) % SLOTS) + 1);
            }
        }
        None
    }
}

/// Records by the tick that they are visited in.
pub(super) struct Wheel {
    /// The fine level, then the coarse one.
    heads: Box<[u32]>,
    used: [Used; 2],
    /// The tick whose slots are being emptied.
    tick: u32,
}

impl Wheel {
    pub(super) fn new(now: Instant) -> Wheel {
        let heads = vec![NONE; 2 * SLOTS as usize].into_boxed_slice();
        Wheel { heads, used: [Used::default(); 2], tick: tick_of(now) }
    }

    /// Visit `slot` at `due`, or before it if that is too far ahead for the wheel.
    pub(super) fn link(&mut self, records: &mut Records, slot: Slot, due: u32) {
        let ahead = (due.wrapping_sub(self.tick) as i32).max(1) as u32;
        let due = self.tick.wrapping_add(ahead);
        let at = match ahead >> SLOT_BITS {
            0 => due % SLOTS,
            blocks if blocks < SLOTS => SLOTS + (due >> SLOT_BITS) % SLOTS,
            _ => SLOTS + ((self.tick >> SLOT_BITS) + SLOTS - 1) % SLOTS,
        };
        let next = core::mem::replace(&mut self.heads[at as usize], slot);
        records.at_mut(slot).wheel = [next, HEAD | at];
        if next == NONE {
            self.used[(at / SLOTS) as usize].set(at % SLOTS, true);
        } else {
            records.at_mut(next).wheel[1] = slot;
        }
    }

    /// Take a record off the wheel, which must be on it.
    pub(super) fn unlink(&mut self, records: &mut Records, slot: Slot) {
        let [next, previous] = core::mem::replace(&mut records.at_mut(slot).wheel, [NONE; 2]);
        if next != NONE {
            records.at_mut(next).wheel[1] = previous;
        }
        if previous & HEAD == 0 {
            records.at_mut(previous).wheel[0] = next;
            return;
        }
        let at = previous & !HEAD;
        self.heads[at as usize] = next;
        if next == NONE {
            self.used[(at / SLOTS) as usize].set(at % SLOTS, false);
        }
    }

    /// The next record to visit up to the tick `now`, still linked.
    pub(super) fn next(&mut self, now: u32) -> Option<Slot> {
        loop {
            let block = (self.tick >> SLOT_BITS) % SLOTS;
            let is_boundary = self.tick.is_multiple_of(SLOTS);
            let coarse = if is_boundary { self.heads[(SLOTS + block) as usize] } else { NONE };
            let head =
                if coarse == NONE { self.heads[(self.tick % SLOTS) as usize] } else { coarse };
            if head != NONE {
                return Some(head);
            }
            let left = now.wrapping_sub(self.tick) as i32;
            if left <= 0 {
                return None;
            }
            self.tick = self.tick.wrapping_add(self.ahead().unwrap_or(u32::MAX).min(left as u32));
        }
    }

    /// Ticks until the next slot that has records, if this tick has none left.
    fn ahead(&self) -> Option<u32> {
        let fine = self.used[0].next_after(self.tick % SLOTS);
        let coarse = self.used[1].next_after((self.tick >> SLOT_BITS) % SLOTS);
        let coarse = coarse.map(|blocks| (blocks << SLOT_BITS) - self.tick % SLOTS);
        match (fine, coarse) {
            (Some(fine), Some(coarse)) => Some(fine.min(coarse)),
            (fine, coarse) => fine.or(coarse),
        }
    }

    /// When there may be a record to visit; `None` if the wheel is empty.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let block = SLOTS + (self.tick >> SLOT_BITS) % SLOTS;
        let is_boundary = self.tick.is_multiple_of(SLOTS);
        let has_rest = self.heads[(self.tick % SLOTS) as usize] != NONE
            || is_boundary && self.heads[block as usize] != NONE;
        let ahead = if has_rest { 0 } else { self.ahead()? };
        let behind = tick_of(now).wrapping_sub(self.tick);
        let start = Instant::from_nanos(now.as_nanos() >> TICK_SHIFT << TICK_SHIFT);
        match ahead.checked_sub(behind) {
            Some(ticks) if ticks > 0 => Some(start + span_of(ticks)),
            _ => Some(now),
        }
    }
}
