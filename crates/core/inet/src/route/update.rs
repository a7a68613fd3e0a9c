//! Adds a prefix to a trie or removes it while others read. A reader finds the leaf from before the
//! change or from after it, and never another.
//!
//! Called by: `fib.rs`. A new node is finished before a slot leads to it. A node that is no longer
//! needed is retired, and used again when no reader uses it. A change only writes to the slots that
//! its prefix covers.

use core::sync::atomic::{AtomicU32, Ordering};

use super::arena::Indices;
use super::epoch::{Epochs, Freed, Retired};
use super::trie::{
    LONE, Lone, NODE, NODE_SLOTS, Nodes, Prefix, STRIDE, Slot, bits, depth, leaf, mask,
};

/// The writer's record of nodes and lone prefixes.
#[derive(Debug)]
pub(super) struct Allocator {
    pub(super) nodes: Indices,
    pub(super) lones: Indices,
    pub(super) retired: Retired<Freed>,
}

impl Default for Allocator {
    fn default() -> Allocator {
        Allocator { nodes: Indices::new(0), lones: Indices::new(0), retired: Retired::default() }
    }
}

/// Everything that a change needs.
pub(super) struct Update<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) epochs: &'a Epochs,
    pub(super) allocator: &'a mut Allocator,
}

impl<'a> Update<'a> {
    /// Give `prefix` the leaf `leaf` in `slots`, which distinguish keys from bit `at` on.
    pub(super) fn insert(&mut self, slots: &[AtomicU32], at: u32, prefix: Prefix, leaf: u32) {
        let end = at + slots.len().ilog2();
        if u32::from(prefix.len) <= end {
            for slot in covered(slots, at, end, prefix) {
                self.paint(slot, leaf, &|old| depth(old) <= prefix.len);
            }
            return;
        }
        let Some(slot) = slots.get(bits(prefix.key, at, end)) else { return };
        match Slot::of(slot.load(Ordering::Relaxed)) {
            Slot::Leaf(cover) => slot.store(self.lone(prefix, leaf, cover), Ordering::Release),
            Slot::Node(index) => {
                let Some(node) = self.nodes.nodes.get(index) else { return };
                self.insert(node, end, prefix, leaf);
            }
            Slot::Lone(index) => {
                let Some(lone) = self.nodes.lones.get(index).map(Lone) else { return };
                if lone.prefix() == prefix {
                    lone.0[Lone::LEAF].store(leaf, Ordering::Release);
                    return;
                }
                let Some((word, node)) = self.node(lone.cover()) else { return };
                // The old record is not changed, because readers may use it: the node gets a new
                // one.
                self.insert(node, end, lone.prefix(), lone.leaf());
                self.insert(node, end, prefix, leaf);
                slot.store(word, Ordering::Release);
                self.retire(Freed::Lone(index));
            }
        }
    }

    /// Remove `prefix`, whose leaf was `old`; the slots that it covered get the leaf `around`.
    pub(super) fn remove(
        &mut self,
        slots: &[AtomicU32],
        at: u32,
        prefix: Prefix,
        (old, around): (u32, u32),
    ) {
        let end = at + slots.len().ilog2();
        if u32::from(prefix.len) <= end {
            for slot in covered(slots, at, end, prefix) {
                self.paint(slot, around, &|leaf| leaf == old);
            }
            return;
        }
        let Some(slot) = slots.get(bits(prefix.key, at, end)) else { return };
        match Slot::of(slot.load(Ordering::Relaxed)) {
            Slot::Leaf(_) => {}
            Slot::Lone(index) => {
                let Some(lone) = self.nodes.lones.get(index).map(Lone) else { return };
                if lone.prefix() == prefix {
                    slot.store(lone.cover(), Ordering::Release);
                    self.retire(Freed::Lone(index));
                }
            }
            Slot::Node(index) => {
                let Some(node) = self.nodes.nodes.get(index) else { return };
                self.remove(node, end, prefix, (old, around));
                if let Some(word) = self.collapse(node, end, prefix.key) {
                    slot.store(word, Ordering::Release);
                    self.retire(Freed::Node(index));
                }
            }
        }
    }

    /// Give `slot`, and all slots below it, the leaf `new`, except where the present leaf does not
    /// give way.
    fn paint(&self, slot: &AtomicU32, new: u32, gives_way: &impl Fn(u32) -> bool) {
        match Slot::of(slot.load(Ordering::Relaxed)) {
            Slot::Leaf(old) if gives_way(old) => slot.store(new, Ordering::Release),
            Slot::Leaf(_) => {}
            Slot::Lone(index) => {
                if let Some(lone) = self.nodes.lones.get(index).map(Lone)
                    && gives_way(lone.cover())
                {
                    lone.0[Lone::COVER].store(new, Ordering::Release);
                }
            }
            Slot::Node(index) => {
                let node = self.nodes.nodes.get(index).map_or(&[][..], |node| &node[..]);
                for slot in node {
                    self.paint(slot, new, gives_way);
                }
            }
        }
    }

    /// What a slot may contain instead of `node`, which is at bit `at` of `key`: a leaf if no
    /// prefix ends in the node, a lone prefix if only one does. `None` if the node is needed.
    fn collapse(&mut self, node: &[AtomicU32; NODE_SLOTS], at: u32, key: u128) -> Option<u32> {
        let (mut around, mut only, mut lone) = (0, None, None);
        for (number, slot) in node.iter().enumerate() {
            let word = slot.load(Ordering::Relaxed);
            let leaf = match Slot::of(word) {
                Slot::Node(_) => return None,
                Slot::Leaf(leaf) => leaf,
                Slot::Lone(_) if lone.is_some() => return None,
                Slot::Lone(index) => {
                    lone = Some(word);
                    Lone(self.nodes.lones.get(index)?).cover()
                }
            };
            if u32::from(depth(leaf)) <= at {
                around = leaf;
                continue;
            }
            let own = (number as u128) << (128 - at - STRIDE);
            let prefix = Prefix { key: own & mask(depth(leaf)), len: depth(leaf) };
            if only.is_some_and(|only| only != (prefix, leaf)) {
                return None;
            }
            only = Some((prefix, leaf));
        }
        match (only, lone) {
            (None, None) => Some(around),
            (None, Some(word)) => Some(word),
            (Some((prefix, leaf)), None) => {
                let key = key & mask(at as u8) | prefix.key;
                Some(self.lone(Prefix { key, ..prefix }, leaf, around))
            }
            (Some(_), Some(_)) => None,
        }
    }

    /// Make a new node with the same leaf in all slots; returns the word that leads to it, and the
    /// node.
    fn node(&mut self, leaf: u32) -> Option<(u32, &'a [AtomicU32; NODE_SLOTS])> {
        let index = self.allocator.nodes.take();
        let node = self.nodes.nodes.make(index)?;
        for slot in node {
            slot.store(leaf, Ordering::Relaxed);
        }
        Some((NODE | index, node))
    }

    /// Make a new lone prefix; returns the word that leads to it.
    fn lone(&mut self, prefix: Prefix, leaf: u32, cover: u32) -> u32 {
        let index = self.allocator.lones.take();
        if let Some(words) = self.nodes.lones.make(index) {
            Lone(words).write(prefix, leaf, cover);
        }
        LONE | index
    }

    fn retire(&mut self, freed: Freed) {
        self.allocator.retired.push(self.epochs, freed);
    }
}

/// The slots that a prefix which ends among them covers.
fn covered(slots: &[AtomicU32], at: u32, end: u32, prefix: Prefix) -> &[AtomicU32] {
    let first = bits(prefix.key, at, end);
    let count = 1_usize << (end - u32::from(prefix.len).max(at)).min(31);
    slots.get(first..first + count).unwrap_or_default()
}

/// The leaf of a prefix that has one; otherwise zero, the leaf of no prefix.
pub(super) fn leaf_of(found: Option<(u8, super::group::GroupIndex)>) -> u32 {
    found.map_or(0, |(len, group)| leaf(len, group))
}
