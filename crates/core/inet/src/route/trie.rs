//! Longest prefix match for one IP version of one table, which any thread may read while one
//! writes.
//!
//! Called by: `fib.rs`. A table begins with 256 slots, one for each value of the first eight bits.
//! A large table has a second array for the first 24 bits (DIR-24: Gupta, Lin, McKeown, "Routing
//! lookups in hardware at memory access speeds", 1998), which is searched first and contains
//! prefixes longer than [`SHORT`]. A slot contains a leaf, a node of 16 slots for four more bits,
//! or a lone prefix: the only prefix below the slot, whatever its length, so that no chain of nodes
//! leads to it.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use mbuf::zeroed_words;

use super::arena::Arena;
use super::group::GroupIndex;

/// Bits of the first array.
pub(super) const NARROW: u32 = 8;
/// Bits of the second array.
pub(super) const WIDE: u32 = 24;
/// Prefixes up to this length are in the first array even if there is a second one. In the second,
/// each would take thousands of slots, and the default route all of them.
pub(super) const SHORT: u8 = 12;
/// Bits and slots of a node.
pub(super) const STRIDE: u32 = 4;
pub(super) const NODE_SLOTS: usize = 1 << STRIDE;
/// Words of a lone prefix.
pub(super) const LONE_WORDS: usize = 8;

const KIND: u32 = 3 << 30;
pub(super) const NODE: u32 = 1 << 30;
pub(super) const LONE: u32 = 2 << 30;

/// A prefix, its bits left-aligned: those of an IPv4 address are the first 32 of 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) key: u128,
    pub(super) len: u8,
}

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The group of the longest prefix for this slot, and its length; zero for none.
    Leaf(u32),
    /// The node with this index.
    Node(u32),
    /// The lone prefix with this index.
    Lone(u32),
}

impl Slot {
    #[inline(always)]
    pub(super) fn of(word: u32) -> Slot {
        match word & KIND {
            NODE => Slot::Node(word & !KIND),
            LONE => Slot::Lone(word & !KIND),
            _ => Slot::Leaf(word),
        }
    }
}

/// The leaf for a prefix of `len` bits and its group.
pub(super) fn leaf(len: u8, group: GroupIndex) -> u32 {
    u32::from(len) << GroupIndex::BITS | group.0
}

/// The length of the prefix in a leaf.
pub(super) fn depth(leaf: u32) -> u8 {
    (leaf >> GroupIndex::BITS) as u8
}

#[inline(always)]
pub(super) fn group(leaf: u32) -> GroupIndex {
    GroupIndex(leaf & GroupIndex::MASK)
}

/// A mask of the first `len` bits.
pub(super) fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len).min(128)).unwrap_or(0)
}

/// The bits of `key` from `at` to `end` as a number.
#[inline(always)]
pub(super) fn bits(key: u128, at: u32, end: u32) -> usize {
    (key << at >> (128 - (end - at))) as usize
}

/// A lone prefix: four words of the prefix, its length, its leaf, and the leaf of the prefix that
/// contains it.
#[derive(Clone, Copy)]
pub(super) struct Lone<'a>(pub(super) &'a [AtomicU32; LONE_WORDS]);

impl Lone<'_> {
    const LEN: usize = 4;
    pub(super) const LEAF: usize = 5;
    pub(super) const COVER: usize = 6;

    pub(super) fn write(self, prefix: Prefix, leaf: u32, cover: u32) {
        for (word, shift) in self.0.iter().zip([96, 64, 32, 0]) {
            word.store((prefix.key >> shift) as u32, Ordering::Relaxed);
        }
        self.0[Self::LEN].store(u32::from(prefix.len), Ordering::Relaxed);
        self.0[Self::LEAF].store(leaf, Ordering::Relaxed);
        self.0[Self::COVER].store(cover, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn prefix(self) -> Prefix {
        let word = |at: usize| u128::from(self.0[at].load(Ordering::Relaxed));
        let key = word(0) << 96 | word(1) << 64 | word(2) << 32 | word(3);
        Prefix { key, len: word(Self::LEN) as u8 }
    }

    #[inline(always)]
    pub(super) fn leaf(self) -> u32 {
        self.0[Self::LEAF].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn cover(self) -> u32 {
        self.0[Self::COVER].load(Ordering::Acquire)
    }

    #[inline(always)]
    fn of(self, key: u128) -> u32 {
        let Prefix { key: own, len } = self.prefix();
        let differ = (key ^ own).checked_shr(128 - u32::from(len)).unwrap_or(0);
        if differ == 0 { self.leaf() } else { self.cover() }
    }
}

/// The nodes and lone prefixes of all tables.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) nodes: Arena<NODE_SLOTS>,
    pub(super) lones: Arena<LONE_WORDS>,
}

impl Nodes {
    /// Go one level down from a slot at bit `at`; a leaf stays as it is.
    #[inline(always)]
    fn step(&self, word: u32, key: u128, at: u32) -> u32 {
        match Slot::of(word) {
            Slot::Leaf(leaf) => leaf,
            Slot::Node(index) => self
                .nodes
                .get(index)
                .map_or(0, |n| n[bits(key, at, at + STRIDE)].load(Ordering::Acquire)),
            Slot::Lone(index) => self.lones.get(index).map_or(0, |lone| Lone(lone).of(key)),
        }
    }

    /// Go down to the leaf from a slot at bit `at`.
    #[inline]
    fn descend(&self, mut word: u32, key: u128, mut at: u32) -> u32 {
        while word & KIND != 0 && at < 128 {
            word = self.step(word, key, at);
            at += STRIDE;
        }
        word
    }
}

/// The slots of one IP version of one table.
pub(super) struct Trie {
    pub(super) narrow: Box<[AtomicU32]>,
    pub(super) wide: OnceLock<Box<[AtomicU32]>>,
}

impl Default for Trie {
    fn default() -> Trie {
        Trie { narrow: zeroed_words(1 << NARROW), wide: OnceLock::new() }
    }
}

#[inline(always)]
fn first(slots: &[AtomicU32], at: usize) -> u32 {
    slots.get(at).map_or(0, |slot| slot.load(Ordering::Acquire))
}

impl Trie {
    /// The group of the longest prefix that contains `key`.
    #[inline]
    pub(super) fn lookup(&self, nodes: &Nodes, key: u128) -> GroupIndex {
        if let Some(wide) = self.wide.get() {
            let leaf = nodes.descend(first(wide, bits(key, 0, WIDE)), key, WIDE);
            if leaf != 0 {
                return group(leaf);
            }
        }
        self.lookup_narrow(nodes, key)
    }

    /// Fetch the memory in which a lookup of `key` begins, if it may not be in the cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: u128) {
        if let Some(slot) = self.wide.get().and_then(|wide| wide.get(bits(key, 0, WIDE))) {
            mbuf::prefetch_line(slot);
        }
    }

    fn lookup_narrow(&self, nodes: &Nodes, key: u128) -> GroupIndex {
        group(nodes.descend(first(&self.narrow, bits(key, 0, NARROW)), key, NARROW))
    }

    /// [`Trie::lookup`] of many keys, level by level, so that their memory accesses overlap. `keys`
    /// and `out` have the same length; `levels` is the number of levels that are looked up
    /// together.
    #[inline(always)]
    pub(super) fn lookup_burst<K: Copy>(
        &self,
        nodes: &Nodes,
        keys: &[K],
        out: &mut [GroupIndex],
        key_of: impl Fn(K) -> u128,
        levels: u32,
    ) {
        let Some(wide) = self.wide.get() else {
            for (&key, out) in keys.iter().zip(out) {
                *out = self.lookup_narrow(nodes, key_of(key));
            }
            return;
        };
        for (&key, out) in keys.iter().zip(out.iter_mut()) {
            out.0 = first(wide, bits(key_of(key), 0, WIDE));
        }
        for level in 0..levels {
            let at = WIDE + level * STRIDE;
            for (&key, out) in keys.iter().zip(out.iter_mut()) {
                if out.0 & KIND != 0 {
                    out.0 = nodes.step(out.0, key_of(key), at);
                }
            }
        }
        for (&key, out) in keys.iter().zip(out) {
            let key = key_of(key);
            let leaf = nodes.descend(out.0, key, WIDE + levels * STRIDE);
            *out = if leaf == 0 { self.lookup_narrow(nodes, key) } else { group(leaf) };
        }
    }
}
