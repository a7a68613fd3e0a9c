//! Copies of states for the partner of a pair of routers: which states have changed, and which have
//! had packets since they were copied.
//!
//! Called by: the firewall, while somebody copies ([`States::copy`]); `insert.rs`, `pass.rs` and
//! `states.rs` note changes, which test a flag without a partner. A state that waits for its first
//! answer is copied only if it is a stream of datagrams, so that a flood of first packets costs the
//! partner nothing. Limit: `filter_copies`.

use base::Instant;
use wire::protocol::TCP;

use super::copied::{Copied, CopiedMapping, CopiedTcp};
use super::copies::{Change, Copies, Entry, Kind, NONE, Queued, Which, sum};
use super::events::Why;
use super::record::{Common, Slot, flag};
use super::walk::Cursor;
use super::{StateId, States};
use crate::packet::ROUTER;

/// Packets without an answer that are a stream, not the first try of somebody.
const STREAM_PACKETS: u64 = 3;

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
        self.copies = most.map_or_else(Copies::default, Copies::of);
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
        let (entry, life) = (self.copies.get(slot), self.records.at(slot).life);
        if !entry.is_queued && self.copies.push(Queued::State(slot, life)) {
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
            self.copies.push(Queued::Ended(key));
        }
    }

    /// The oldest change; `Some(None)` if there is one that is none any more.
    pub(crate) fn next_change(&mut self, now: Instant) -> Option<Option<Change>> {
        let id = match self.copies.queue.pop_front()? {
            Queued::Ended(key) => return Some(Some(Change::Ended(key.tuple()))),
            Queued::State(slot, life) => StateId { slot, life },
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
