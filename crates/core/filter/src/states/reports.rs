//! Reports of states for flow export: events are asked for here, and states that last are
//! reported from time to time, each with what it has counted since.
//!
//! Called by: the firewall, which takes the events. What was reported of a state is kept beside its
//! record, in chunks that are allocated with the first report of a state in them; without export
//! there are none. RFC 5470 section 5.1 (active timeout). Limit: `filter_events`.

use base::{Duration, Instant};

use super::States;
use super::events::{Event, Reported, Wanted, What, Why};
use super::record::{Slot, flag, is_v6};
use super::walk::Cursor;
use super::wheel::{tick_of, ticks_of};

/// States of a chunk.
const CHUNK: usize = 256;

/// A connection that is over is reported so many ticks after its last packet, one second, although
/// its state stays for segments that come late.
const OVER_TICKS: u32 = 15;

/// What was reported of a state; its packets are 0 before the first report.
#[derive(Clone, Copy)]
struct Entry {
    packets: [u64; 2],
    bytes: [u64; 2],
    tick: u32,
}

const NONE: Entry = Entry { packets: [0; 2], bytes: [0; 2], tick: 0 };

type Chunk = Option<Box<[Entry; CHUNK]>>;

/// What was reported of states that last, by slot: IPv4, then IPv6.
#[derive(Default)]
pub(super) struct Reports([Vec<Chunk>; 2]);

impl Reports {
    fn get(&self, slot: Slot) -> Option<&Entry> {
        let at = slot as usize >> 1;
        let chunk = self.0[usize::from(is_v6(slot))].get(at / CHUNK)?.as_ref()?;
        chunk.get(at % CHUNK).filter(|reported| reported.packets != [0; 2])
    }

    fn set(&mut self, slot: Slot, entry: Entry) {
        let (chunks, at) = (&mut self.0[usize::from(is_v6(slot))], slot as usize >> 1);
        if chunks.len() <= at / CHUNK {
            chunks.resize_with(at / CHUNK + 1, || None);
        }
        if let Some(chunk) = chunks.get_mut(at / CHUNK) {
            chunk.get_or_insert_with(|| Box::new([NONE; CHUNK]))[at % CHUNK] = entry;
        }
    }

    /// Another state will have the slot.
    fn forget(&mut self, slot: Slot) {
        if self.get(slot).is_some() {
            self.set(slot, NONE);
        }
    }
}

impl States {
    /// Say which events are wanted, and how many may wait at most; the default of `wanted` forgets
    /// those that wait, and what was reported of states.
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
    /// the states that had packets for `active` since they began or were reported last, and of
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
            let reported = self.reports.get(slot);
            let since = reported.map_or(common.created, |reported| reported.tick);
            let is_over = common.phase.is_over()
                && tick.wrapping_sub(common.seen) as i32 >= OVER_TICKS as i32;
            let is_due = is_over || tick.wrapping_sub(since) as i32 >= active as i32;
            if !is_due || reported.is_some_and(|reported| reported.packets == common.packets) {
                continue;
            }
            let entry = Entry { packets: common.packets, bytes: common.bytes, tick };
            let reported = self.reported(slot, now);
            self.reports.set(slot, entry);
            each(&Event { at: now, state: self.state_at(slot, now), what: What::Lasts, reported });
        }
        self.step(at).map(|_| at)
    }

    /// A state ends whose end is wanted.
    #[cold]
    pub(super) fn report_end(&mut self, slot: Slot, why: Why, now: Instant) {
        let (state, reported) = (self.state_at(slot, now), self.reported(slot, now));
        self.reports.forget(slot);
        self.events.push(Event { at: now, state, what: What::Ended(why), reported });
    }

    /// What another router has counted of a state is not reported here.
    pub(super) fn forget_reported(&mut self, slot: Slot, now: Instant) {
        if self.events.wanted.ended {
            let common = self.records.at(slot);
            let (packets, bytes) = (common.packets, common.bytes);
            self.reports.set(slot, Entry { packets, bytes, tick: tick_of(now) });
        }
    }

    fn reported(&self, slot: Slot, now: Instant) -> Reported {
        self.reports.get(slot).map_or(Reported::default(), |reported| Reported {
            packets: reported.packets,
            bytes: reported.bytes,
            at: Some(States::time_of(reported.tick, now)),
        })
    }
}
