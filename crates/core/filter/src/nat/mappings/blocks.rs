//! Blocks of ports that a source has to itself, and the sources.
//!
//! Called by: `mappings.rs`. A block is of one outside address and for all protocols. It stays with
//! its source until [`HOLD`] after the last mapping in it ended. RFC 6888 section 3, RFC 7422.

use std::collections::VecDeque;

use core::net::IpAddr;

use base::Instant;

use super::super::index::{Index, NONE, Slab, hash_addr};
use super::super::pool::{BlockEvent, HOLD};
use super::super::ports::{Shards, find_run, has_word, set_word};
use super::outsides::{Held, Linked, List, Outsides};
use crate::states::KeyHash;

/// Blocks that a source may have at once.
pub(super) const BLOCKS_PER_SOURCE: u16 = 16;

/// Events that wait to be fetched; more are counted as lost.
pub(super) const EVENTS_MAX: usize = 4_096;

/// An inside address with mappings in a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) addr: IpAddr,
    pub(super) pool: u16,
    /// Its blocks, and their number.
    pub(super) blocks: u16,
    pub(super) first_block: u32,
    /// The outside address of all its mappings: RFC 4787 REQ-2, RFC 6888 REQ-2.
    pub(super) outside: u32,
    /// Mappings in use or held, and those in use.
    pub(super) mappings: u32,
    pub(super) in_use: u32,
}

/// The sources of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    slab: Slab<Source>,
    by_addr: Index,
}

impl Sources {
    pub(super) fn find(&self, key: &KeyHash, pool: u16, addr: IpAddr) -> Option<u32> {
        self.by_addr.find(hash_addr(key, 1 + u64::from(pool), addr), |at| {
            self.slab.get(at).is_some_and(|source| source.addr == addr && source.pool == pool)
        })
    }

    pub(super) fn add(&mut self, key: &KeyHash, pool: u16, addr: IpAddr) -> Option<u32> {
        let at = self.slab.insert(Source {
            addr,
            pool,
            blocks: 0,
            first_block: NONE,
            outside: NONE,
            mappings: 0,
            in_use: 0,
        })?;
        self.by_addr.insert(hash_addr(key, 1 + u64::from(pool), addr), at);
        Some(at)
    }

    /// Forget a source that has nothing; returns its pool.
    pub(super) fn drop_unused(&mut self, key: &KeyHash, at: u32) -> Option<u16> {
        let source = *self.slab.get(at)?;
        if source.mappings != 0 || source.blocks != 0 {
            return None;
        }
        self.by_addr.remove(hash_addr(key, 1 + u64::from(source.pool), source.addr), at);
        self.slab.remove(at);
        Some(source.pool)
    }

    pub(super) fn get(&self, at: u32) -> Option<&Source> {
        self.slab.get(at)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Source> {
        self.slab.get_mut(at)
    }
}

/// A block of ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    source: u32,
    pub(super) outside: u32,
    /// Its words, of 64 ports each.
    first_word: u16,
    words: u16,
    /// Mappings in it.
    used: u32,
    /// The next block of the source.
    pub(super) next: u32,
    held: Held,
}

impl Linked for Block {
    fn held(&mut self) -> &mut Held {
        &mut self.held
    }
}

impl Block {
    /// The shard's own numbers of its ports.
    pub(super) fn range(&self) -> (u16, u16) {
        let first = self.first_word * 64;
        (first, first | (self.words * 64 - 1))
    }
}

/// The blocks of a table.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    slab: Slab<Block>,
    /// Blocks without mappings.
    held: List,
    events: VecDeque<BlockEvent>,
    pub(super) events_lost: u64,
}

impl Default for Blocks {
    fn default() -> Blocks {
        let events = VecDeque::new();
        Blocks { slab: Slab::default(), held: List::EMPTY, events, events_lost: 0 }
    }
}

/// What blocks refer to.
pub(super) struct Around<'a> {
    pub(super) shards: &'a Shards,
    pub(super) sources: &'a mut Sources,
    pub(super) outsides: &'a mut Outsides,
    pub(super) now: Instant,
}

impl Blocks {
    pub(super) fn get(&self, at: u32) -> Option<&Block> {
        self.slab.get(at)
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn next_event(&mut self) -> Option<BlockEvent> {
        self.events.pop_front()
    }

    /// Give `source` a block of `len` ports of `outside`, all from `low` to `high`. The search
    /// begins at a random port, so that blocks of consecutive sources are not neighbours (RFC 6888
    /// REQ-15).
    pub(super) fn allocate(
        &mut self,
        around: &mut Around<'_>,
        source: u32,
        outside: u32,
        (len, (low, high)): (u16, (u16, u16)),
        random: u64,
    ) -> Option<u32> {
        let taken = around.outsides.get(outside)?.taken();
        let words = len / 64;
        let ports = u64::from(high.checked_sub(low)?) + 1;
        let start = low + (((random & 0xffff_ffff) * ports) >> 32) as u16;
        let first = find_run(&taken, usize::from(words), (start, high))
            .or_else(|| find_run(&taken, usize::from(words), (low, high)))?;
        self.add(around, source, outside, (first, words))
    }

    /// Give `source` the block of `len` ports of `outside` that has this port; `None` if a part of
    /// it is not free.
    pub(super) fn allocate_at(
        &mut self,
        around: &mut Around<'_>,
        source: u32,
        outside: u32,
        (len, local): (u16, u16),
    ) -> Option<u32> {
        let taken = around.outsides.get(outside)?.taken();
        let words = len / 64;
        let first = (local / 64).checked_div(words)? * words;
        let mut own = usize::from(first)..usize::from(first + words);
        if own.any(|word| has_word(&taken, word)) {
            return None;
        }
        self.add(around, source, outside, (usize::from(first), words))
    }

    fn add(
        &mut self,
        around: &mut Around<'_>,
        source: u32,
        outside: u32,
        (first, words): (usize, u16),
    ) -> Option<u32> {
        let owner = around.sources.get_mut(source)?;
        let address = around.outsides.get_mut(outside)?;
        let at = self.slab.insert(Block {
            source,
            outside,
            first_word: first as u16,
            words,
            used: 0,
            next: owner.first_block,
            held: Held::NOT,
        })?;
        owner.first_block = at;
        owner.blocks += 1;
        address.pins += 1;
        (first..first + usize::from(words))
            .for_each(|word| set_word(&mut address.in_blocks, word, true));
        // It is held like one whose mapping ended, until there is one.
        self.held.push(&mut self.slab, at, until_s(around.now));
        self.report(around, at, true);
        Some(at)
    }

    /// A mapping took a port of the block.
    pub(super) fn taken(&mut self, at: u32) {
        let Some(block) = self.slab.get_mut(at) else { return };
        block.used += 1;
        if block.used == 1 {
            self.held.unlink(&mut self.slab, at);
        }
    }

    /// A mapping of `source` with this port ended.
    pub(super) fn freed(&mut self, around: &Around<'_>, source: u32, outside: u32, local: u16) {
        let Some(at) = self.of_port(around.sources, source, outside, local) else { return };
        let Some(block) = self.slab.get_mut(at) else { return };
        block.used = block.used.saturating_sub(1);
        if block.used == 0 {
            self.held.push(&mut self.slab, at, until_s(around.now));
        }
    }

    /// The block of a source that has this port: one of [`BLOCKS_PER_SOURCE`].
    pub(super) fn of_port(
        &self,
        sources: &Sources,
        source: u32,
        outside: u32,
        local: u16,
    ) -> Option<u32> {
        let mut at = sources.get(source)?.first_block;
        while let Some(block) = self.slab.get(at) {
            let (low, high) = block.range();
            if block.outside == outside && (low..=high).contains(&local) {
                return Some(at);
            }
            at = block.next;
        }
        None
    }

    /// The block that is held longest, if its time is up, or, among the first few, the first of
    /// `outside` whatever its time.
    pub(super) fn overdue(&self, now: Instant, outside: Option<u32>) -> Option<u32> {
        let first = self.slab.get(self.held.head)?;
        if first.held.until_s <= seconds(now) {
            return Some(self.held.head);
        }
        let mut at = self.held.head;
        for _ in 0..BLOCKS_PER_SOURCE {
            let block = self.slab.get(at)?;
            if Some(block.outside) == outside {
                return Some(at);
            }
            at = block.held.next;
        }
        None
    }

    /// A held block of `outside`.
    pub(super) fn any_held(&self, outside: u32) -> Option<u32> {
        let mut at = self.held.head;
        while let Some(block) = self.slab.get(at) {
            if block.outside == outside {
                return Some(at);
            }
            at = block.held.next;
        }
        None
    }

    /// Take a held block from its source; returns the source and the outside address.
    pub(super) fn free(&mut self, around: &mut Around<'_>, at: u32) -> Option<(u32, u32)> {
        self.report(around, at, false);
        self.held.unlink(&mut self.slab, at);
        let block = self.slab.remove(at)?;
        if let Some(address) = around.outsides.get_mut(block.outside) {
            address.pins = address.pins.saturating_sub(1);
            let first = usize::from(block.first_word);
            (first..first + usize::from(block.words))
                .for_each(|word| set_word(&mut address.in_blocks, word, false));
        }
        if let Some(source) = around.sources.get_mut(block.source) {
            source.blocks = source.blocks.saturating_sub(1);
            let mut before = source.first_block;
            if before == at {
                source.first_block = block.next;
            }
            while let Some(other) = self.slab.get_mut(before) {
                if other.next == at {
                    other.next = block.next;
                }
                before = other.next;
            }
        }
        Some((block.source, block.outside))
    }

    fn report(&mut self, around: &Around<'_>, at: u32, is_allocation: bool) {
        let event = self.slab.get(at).and_then(|block| {
            let (low, high) = block.range();
            Some(BlockEvent {
                is_allocation,
                at: around.now,
                inside: around.sources.get(block.source)?.addr,
                outside: around.outsides.get(block.outside)?.addr,
                ports: (around.shards.port(low), around.shards.port(high)),
            })
        });
        match event {
            Some(event) if self.events.len() < EVENTS_MAX => self.events.push_back(event),
            _ => self.events_lost += 1,
        }
    }
}

/// When a block or port that is free from now on may go to another source.
pub(super) fn until_s(now: Instant) -> u32 {
    seconds(now + HOLD)
}

/// Whole seconds.
pub(super) fn seconds(now: Instant) -> u32 {
    (now.as_millis() / 1_000) as u32
}
