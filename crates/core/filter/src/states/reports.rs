//! Reports of states for flow export: events are asked for here, and states that last are told of
//! from time to time, each with what it has counted since.
//!
//! Called by: the firewall, which takes the events. What was told of a state is kept beside its
//! record, in chunks that are allocated with the first report of a state in them; without export
//! there are none. RFC 5470 section 5.1 (active timeout). Limit: `filter_events`.

use base::{Duration, Instant};

use super::States;
use super::events::{Event, Told, Wanted, What, Why};
use super::record::{Slot, flag, is_v6};
use super::walk::Cursor;
use super::wheel::{tick_of, ticks_of};

/// States of a chunk.
const CHUNK: usize = 256;

/// A connection that is over is told of so many ticks after its last packet, one second, although
/// its state stays for segments that come late.
const OVER_TICKS: u32 = 15;

/// What was told of a state; its packets are 0 before the first report.
#[derive(Clone, Copy)]
struct Reported {
    packets: [u64; 2],
    bytes: [u64; 2],
    tick: u32,
}

const UNTOLD: Reported = Reported { packets: [0; 2], bytes: [0; 2], tick: 0 };

type Chunk = Option<Box<[Reported; CHUNK]>>;

/// What was told of states that last, by slot: IPv4, then IPv6.
#[derive(Default)]
pub(super) struct Reports([Vec<Chunk>; 2]);

impl Reports {
    fn get(&self, slot: Slot) -> Option<&Reported> {
        let at = slot as usize >> 1;
        let chunk = self.0[usize::from(is_v6(slot))].get(at / CHUNK)?.as_ref()?;
        chunk.get(at % CHUNK).filter(|told| told.packets != [0; 2])
    }

    fn set(&mut self, slot: Slot, told: Reported) {
        let (chunks, at) = (&mut self.0[usize::from(is_v6(slot))], slot as usize >> 1);
        if chunks.len() <= at / CHUNK {
            chunks.resize_with(at / CHUNK + 1, || None);
        }
        if let Some(chunk) = chunks.get_mut(at / CHUNK) {
            chunk.get_or_insert_with(|| Box::new([UNTOLD; CHUNK]))[at % CHUNK] = told;
        }
    }

    /// Another state will have the slot.
    fn forget(&mut self, slot: Slot) {
        if self.get(slot).is_some() {
            self.set(slot, UNTOLD);
        }
    }
}

impl States {
    /// Say which events are wanted, and how many may wait at most; the default of `wanted` forgets
    /// those that wait, and what was told of states.
    pub fn want(&mut self, wanted: Wanted, most: usize) {
        self.events.want(wanted, most);
        if wanted == Wanted::default() {
            self.reports = Reports::default();
        }
    }

    /// The oldest event that nobody has taken.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// How many events wait.
    #[must_use]
    pub fn events_waiting(&self) -> usize {
        self.events.len()
    }

    /// How many events found the queue full.
    #[must_use]
    pub fn events_lost(&self) -> u64 {
        self.events.lost()
    }

    /// Look at up to `most` records from `cursor` on, and give `each` an event ([`What::Lasts`]) of
    /// the states that had packets for `active` since they began or were told of last, and of
    /// connections that are over. Returns where to go on; `None` at the end.
    pub fn report_lasting(
        &mut self,
        cursor: Cursor,
        most: usize,
        (active, now): (Duration, Instant),
        mut each: impl FnMut(&Event),
    ) -> Option<Cursor> {
        let (mut at, tick, active) = (cursor, tick_of(now), ticks_of(active));
        for _ in 0..most {
            let (slot, next) = self.step(at)?;
            at = next;
            let common = self.records.at(slot);
            if !common.has(flag::LIVE) {
                continue;
            }
            let told = self.reports.get(slot);
            let since = told.map_or(common.created, |told| told.tick);
            let is_over = common.phase.is_over()
                && tick.wrapping_sub(common.seen) as i32 >= OVER_TICKS as i32;
            let is_due = is_over || tick.wrapping_sub(since) >= active;
            if !is_due || told.is_some_and(|told| told.packets == common.packets) {
                continue;
            }
            let reported = Reported { packets: common.packets, bytes: common.bytes, tick };
            let told = self.told(slot, now);
            self.reports.set(slot, reported);
            each(&Event { at: now, state: self.state_at(slot, now), what: What::Lasts, told });
        }
        self.step(at).map(|_| at)
    }

    /// A state ends whose end is wanted.
    #[cold]
    pub(super) fn report_end(&mut self, slot: Slot, why: Why, now: Instant) {
        let (state, told) = (self.state_at(slot, now), self.told(slot, now));
        self.reports.forget(slot);
        self.events.push(Event { at: now, state, what: What::Ended(why), told });
    }

    fn told(&self, slot: Slot, now: Instant) -> Told {
        self.reports.get(slot).map_or(Told::default(), |told| Told {
            packets: told.packets,
            bytes: told.bytes,
            at: Some(States::time_of(told.tick, now)),
        })
    }
}
