//! Copies of states for the partner of a pair of routers: which states have changed, which have had
//! packets since they were copied, and which of them came from the partner.
//!
//! Called by: the firewall, while somebody copies ([`States::copy`]); `insert.rs`, `pass.rs` and
//! `states.rs` note changes. What was copied of a state is kept beside its record, in chunks that
//! are allocated with the first copy of a state in them; without a partner there are none, and a
//! change tests a flag. A state that waits for its first answer is copied only if it is a stream of
//! datagrams, so that a flood of first packets costs the partner nothing. Limit: `filter_copies`.

use std::collections::VecDeque;

use base::Instant;
use wire::protocol::TCP;

use super::copied::{Copied, CopiedMapping, CopiedTcp};
use super::events::Why;
use super::key::Key;
use super::record::{Common, Slot, flag, is_v6};
use super::walk::Cursor;
use super::{StateId, States};
use crate::packet::{ROUTER, Tuple};

/// States of a chunk.
const CHUNK: usize = 256;

/// Packets without an answer that are a stream, not the first try of somebody.
const STREAM_PACKETS: u64 = 3;

/// What was copied of a state, or that it is a copy.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// It waits in the queue.
    is_queued: bool,
    /// Packets of both directions then.
    packets: u64,
    /// Of an import: the number that the caller gave to it.
    pub(super) version: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Neither.
    None,
    /// The partner has it.
    Copied,
    /// It is the partner's.
    Imported,
}

const NONE: Entry = Entry { kind: Kind::None, is_queued: false, packets: 0, version: 0 };

type Chunk = Option<Box<[Entry; CHUNK]>>;

/// A change that waits.
#[derive(Clone, Copy)]
enum Queued {
    State(StateId),
    Ended(Key),
}

/// A change for the partner. The second part of a state is the caller's number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    State(Copied, u32),
    /// The state with this original tuple has ended.
    Ended(Tuple),
}

/// Which states a walk copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those with packets since they were copied or imported.
    Changed,
    /// All but those that were imported with a version from this one on and have had no packet
    /// here.
    AllBut(u64),
}

/// What is copied: by slot, IPv4, then IPv6.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) is_on: bool,
    queue: VecDeque<Queued>,
    most: usize,
    /// A change found no room.
    is_incomplete: bool,
    lost: u64,
    entries: [Vec<Chunk>; 2],
}

impl Copies {
    pub(super) fn get(&self, slot: Slot) -> Entry {
        let at = slot as usize >> 1;
        let chunk = self.entries[usize::from(is_v6(slot))].get(at / CHUNK).and_then(Option::as_ref);
        chunk.and_then(|chunk| chunk.get(at % CHUNK)).copied().unwrap_or(NONE)
    }

    fn set(&mut self, slot: Slot, entry: Entry) {
        let (chunks, at) = (&mut self.entries[usize::from(is_v6(slot))], slot as usize >> 1);
        if chunks.len() <= at / CHUNK {
            chunks.resize_with(at / CHUNK + 1, || None);
        }
        if let Some(chunk) = chunks.get_mut(at / CHUNK) {
            chunk.get_or_insert_with(|| Box::new([NONE; CHUNK]))[at % CHUNK] = entry;
        }
    }

    /// The state is the partner's, as it is now.
    pub(super) fn imported(&mut self, slot: Slot, common: &Common, version: u64) {
        let is_queued = self.get(slot).is_queued;
        let packets = sum(common);
        self.set(slot, Entry { kind: Kind::Imported, is_queued, packets, version });
    }

    /// Is the state the partner's, and has it had no packet here?
    pub(super) fn is_unseen(&self, slot: Slot, common: &Common) -> bool {
        let entry = self.get(slot);
        entry.kind == Kind::Imported && entry.packets == sum(common)
    }
}

fn sum(common: &Common) -> u64 {
    common.packets[0].wrapping_add(common.packets[1])
}

/// Is a state worth a copy?
fn is_meant(common: &Common) -> bool {
    let is_ours = common.in_port == ROUTER || common.out_port == ROUTER;
    let is_stream = common.protocol != TCP && common.packets[0] >= STREAM_PACKETS;
    !is_ours && (!common.phase.is_waiting() || is_stream)
}

impl States {
    /// Note changes for a partner from now on, up to `most` that wait; `None`: no longer, and
    /// forget what was copied.
    pub(crate) fn copy(&mut self, most: Option<usize>) {
        self.copies = Copies::default();
        if let Some(most) = most {
            // The queue is allocated at once, so that no packet waits while it grows.
            let queue = VecDeque::with_capacity(most);
            self.copies = Copies { is_on: true, queue, most, ..Copies::default() };
        }
    }

    /// Are changes noted?
    #[must_use]
    pub fn copies(&self) -> bool {
        self.copies.is_on
    }

    /// Has a change found no room since the last call? Then all states are to be copied again.
    pub(crate) fn take_incomplete(&mut self) -> bool {
        core::mem::take(&mut self.copies.is_incomplete)
    }

    /// Changes that found no room.
    pub(crate) fn copies_lost(&self) -> u64 {
        self.copies.lost
    }

    /// A state has changed, or has begun with an answer.
    #[cold]
    pub(super) fn note_change(&mut self, slot: Slot) {
        let id = StateId { slot, life: self.records.at(slot).life };
        let entry = self.copies.get(slot);
        if !entry.is_queued && self.push(Queued::State(id)) {
            self.copies.set(slot, Entry { is_queued: true, ..entry });
        }
    }

    /// A state ends. The partner hears of it if it has the state from here, and if it cannot know
    /// by itself: it has rules and addresses of its own.
    #[cold]
    pub(super) fn note_end(&mut self, slot: Slot, why: Why) {
        let (entry, common) = (self.copies.get(slot), self.records.at(slot));
        let is_ours = entry.kind != Kind::None && !self.copies.is_unseen(slot, common);
        if entry.kind != Kind::None || entry.is_queued {
            self.copies.set(slot, NONE);
        }
        if is_ours && !matches!(why, Why::Rules | Why::Partner) {
            let key = self.records.key(slot, 0);
            self.push(Queued::Ended(key));
        }
    }

    fn push(&mut self, queued: Queued) -> bool {
        let has_room = self.copies.queue.len() < self.copies.most;
        if has_room {
            self.copies.queue.push_back(queued);
        } else {
            self.copies.is_incomplete = true;
            self.copies.lost += 1;
        }
        has_room
    }

    /// The oldest change; `Some(None)` if there is one that is none any more.
    pub(crate) fn next_change(&mut self, now: Instant) -> Option<Option<Change>> {
        let id = match self.copies.queue.pop_front()? {
            Queued::Ended(key) => return Some(Some(Change::Ended(key.tuple()))),
            Queued::State(id) => id,
        };
        let Some(common) = self.live(id).copied() else { return Some(None) };
        let entry = self.copies.get(id.slot);
        self.copies.set(id.slot, Entry { is_queued: false, ..entry });
        if !is_meant(&common) || self.copies.is_unseen(id.slot, &common) {
            return Some(None);
        }
        Some(Some(Change::State(self.copied(id.slot, now), common.tag)))
    }

    /// Look at up to `most` records from `cursor` on, and give `each` a copy of those that are
    /// wanted, with the caller's number. Returns where to go on; `None` at the end.
    pub(crate) fn copy_page(
        &mut self,
        cursor: Cursor,
        most: usize,
        which: Which,
        now: Instant,
        mut each: impl FnMut(Copied, u32),
    ) -> Option<Cursor> {
        let mut at = cursor;
        for _ in 0..most {
            let (slot, next) = self.step(at)?;
            at = next;
            let common = self.records.at(slot);
            if !common.has(flag::LIVE) || !is_meant(common) {
                continue;
            }
            let entry = self.copies.get(slot);
            let is_wanted = match which {
                Which::Changed => entry.kind == Kind::None || entry.packets != sum(common),
                Which::AllBut(version) => {
                    entry.version < version || !self.copies.is_unseen(slot, common)
                }
            };
            if is_wanted {
                let tag = common.tag;
                each(self.copied(slot, now), tag);
            }
        }
        self.step(at).map(|_| at)
    }

    /// A copy of a state, which the partner has from now on.
    fn copied(&mut self, slot: Slot, now: Instant) -> Copied {
        let common = *self.records.at(slot);
        let entry = self.copies.get(slot);
        let is_unseen = self.copies.is_unseen(slot, &common);
        if !is_unseen {
            let packets = sum(&common);
            self.copies.set(slot, Entry { kind: Kind::Copied, packets, version: 0, ..entry });
        }
        let ago = |tick| now.since(States::time_of(tick, now));
        Copied {
            original: self.records.key(slot, 0).tuple(),
            reply: self.records.key(slot, 1).tuple(),
            phase: common.phase,
            icmp: common.icmp(),
            loose: common.has(flag::LOOSE) && !common.has(flag::UNSURE),
            in_port: common.in_port,
            out_port: common.out_port,
            age: ago(common.created),
            idle: ago(common.seen),
            packets: common.packets,
            bytes: common.bytes,
            tcp: (common.protocol == TCP).then(|| CopiedTcp::of(&common)),
            mapping: CopiedMapping::None,
        }
    }
}
