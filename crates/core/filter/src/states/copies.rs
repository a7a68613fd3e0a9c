//! What the partner of a pair of routers has of states: which of them were copied to it, which came
//! from it, and which changes wait.
//!
//! Called by: `copying.rs` and `imports.rs`. What was copied of a state is kept beside its record,
//! in chunks that are allocated with the first copy of a state in them; without a partner there are
//! none. Limit: `filter_copies`.

use std::collections::VecDeque;

use super::copied::Copied;
use super::key::Key;
use super::record::{Common, Slot, is_v6};
use crate::packet::Tuple;

/// States of a chunk.
const CHUNK: usize = 256;

/// What was copied of a state, or that it is a copy.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// It waits in the queue.
    pub(super) is_queued: bool,
    /// Packets of both directions then.
    pub(super) packets: u64,
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

pub(super) const NONE: Entry = Entry { kind: Kind::None, is_queued: false, packets: 0, version: 0 };

type Chunk = Option<Box<[Entry; CHUNK]>>;

/// A change that waits.
#[derive(Clone, Copy)]
pub(super) enum Queued {
    /// Of the state at a slot in this life.
    State(Slot, u8),
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
    pub(super) queue: VecDeque<Queued>,
    most: usize,
    /// A change found no room.
    pub(super) is_incomplete: bool,
    pub(super) lost: u64,
    entries: [Vec<Chunk>; 2],
}

impl Copies {
    /// Of up to `most` changes that wait. The queue is allocated at once, so that no packet waits
    /// while it grows.
    pub(super) fn of(most: usize) -> Copies {
        let queue = VecDeque::with_capacity(most);
        Copies { is_on: true, queue, most, ..Copies::default() }
    }

    pub(super) fn push(&mut self, queued: Queued) -> bool {
        let has_room = self.queue.len() < self.most;
        if has_room {
            self.queue.push_back(queued);
        } else {
            self.is_incomplete = true;
            self.lost += 1;
        }
        has_room
    }

    pub(super) fn get(&self, slot: Slot) -> Entry {
        let at = slot as usize >> 1;
        let chunk = self.entries[usize::from(is_v6(slot))].get(at / CHUNK).and_then(Option::as_ref);
        chunk.and_then(|chunk| chunk.get(at % CHUNK)).copied().unwrap_or(NONE)
    }

    pub(super) fn set(&mut self, slot: Slot, entry: Entry) {
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

/// Packets of both directions.
pub(super) fn sum(common: &Common) -> u64 {
    common.packets[0].wrapping_add(common.packets[1])
}
