//! The FIB: the routes compiled for lookups, published to every thread that has a [`Fib`].
//!
//! Called by: `rib.rs`, which changes it. `view.rs` has lookups. One thread writes; readers take no
//! lock and never wait. The result of a lookup was right at some time after its burst began.
//! Sources: docs/decisions/0075.

use core::fmt;
use std::sync::Arc;

use mbuf::zeroed_words;

use super::epoch::Freed;
use super::group::{GroupIndex, Path, Registry};
use super::shared::Shared;
use super::trie::{NARROW, Prefix, SHORT, WIDE, leaf};
use super::update::{Allocator, Update, leaf_of};
use super::view::{Reader, View};
use super::{MAIN_TABLE, RETIRED_MAX};

/// A table with this many prefixes of one IP version gets the array for 24 bits. The first number
/// is for the main table, the second for others. The array is 64 MB of address space; only pages
/// that are written to take memory.
const WIDE_FROM: usize = 16;
const WIDE_FROM_OTHERS: usize = 16_384;
/// The writer checks whether records are free when this many of them wait; it checks earlier if
/// there is no reader.
const RECLAIM_FROM: usize = 64;

/// A handle to the routes of one stack, with which other threads look up destinations.
#[derive(Clone)]
pub struct Fib {
    shared: Arc<Shared>,
}

impl fmt::Debug for Fib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fib").finish_non_exhaustive()
    }
}

impl Fib {
    /// Create a reader. Each thread needs its own.
    pub fn reader(&self) -> Reader {
        Reader { slot: self.shared.epochs.join(), shared: Arc::clone(&self.shared) }
    }
}

/// The side of the FIB that changes it.
#[derive(Default)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    allocator: Allocator,
    groups: Registry,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("nodes", &self.allocator.nodes.used())
            .field("lone_prefixes", &self.allocator.lones.used())
            .field("groups", &self.groups.used())
            .field("retired", &self.allocator.retired.len())
            .finish()
    }
}

/// A prefix in a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) table: u32,
    pub(super) is_v6: bool,
    pub(super) prefix: Prefix,
}

/// One of the two arrays of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    Narrow,
    Wide,
}

impl Writer {
    pub(super) fn fib(&self) -> Fib {
        Fib { shared: Arc::clone(&self.shared) }
    }

    /// A writer that never writes: it reads a FIB that another writer changes.
    pub(super) fn following(fib: &Fib) -> Writer {
        Writer { shared: Arc::clone(&fib.shared), ..Writer::default() }
    }

    /// A view for the owner of the writer. Nothing changes while it is borrowed.
    #[inline]
    pub(super) fn view(&self) -> View<'_> {
        View { shared: &self.shared, pinned: None }
    }

    /// Does the table exist, or is there room for it?
    pub(super) fn admits(&self, table: u32) -> bool {
        self.shared.make_table(table).is_some()
    }

    /// Do too many records wait for a reader that does not end its burst?
    pub(super) fn is_held_up(&self) -> bool {
        self.allocator.retired.len() >= RETIRED_MAX
    }

    /// Does the table have the array for 24 bits?
    pub(super) fn is_wide(&self, table: u32, is_v6: bool) -> bool {
        self.shared.table(table).is_some_and(|t| t.trie(is_v6).wide.get().is_some())
    }

    /// Should a table with this many prefixes have the array for 24 bits?
    pub(super) fn should_widen(table: u32, prefixes: usize) -> bool {
        prefixes >= if table == MAIN_TABLE { WIDE_FROM } else { WIDE_FROM_OTHERS }
    }

    /// Make the array for 24 bits from the prefixes of a table that are longer than [`SHORT`].
    pub(super) fn widen(
        &mut self,
        table: u32,
        is_v6: bool,
        prefixes: impl Iterator<Item = (Prefix, GroupIndex)>,
    ) {
        let Writer { shared, allocator, .. } = self;
        let Some(trie) = shared.make_table(table).map(|t| t.trie(is_v6)) else { return };
        let wide = zeroed_words(1 << WIDE);
        let mut update = Update { nodes: &shared.nodes, epochs: &shared.epochs, allocator };
        for (prefix, group) in prefixes.filter(|(prefix, _)| prefix.len > SHORT) {
            update.insert(&wide, 0, prefix, leaf(prefix.len, group));
        }
        // A reader that has not seen the new array uses the first one, in which all prefixes that
        // exist now are kept up to date.
        let _ = trie.wide.set(wide);
    }

    /// Let the prefix lead to `group` from now on.
    pub(super) fn insert(&mut self, target: Target, root: Root, group: GroupIndex) {
        let Target { table, is_v6, prefix } = target;
        let leaf = leaf(prefix.len, group);
        self.update(table, is_v6, root, |update, slots| update.insert(slots, 0, prefix, leaf));
    }

    /// Remove a prefix that led to `group`. `around` is the next shorter prefix in this array.
    pub(super) fn remove(
        &mut self,
        target: Target,
        root: Root,
        group: GroupIndex,
        around: Option<(u8, GroupIndex)>,
    ) {
        let Target { table, is_v6, prefix } = target;
        let leaves = (leaf(prefix.len, group), leaf_of(around));
        self.update(table, is_v6, root, |update, slots| update.remove(slots, 0, prefix, leaves));
    }

    fn update(
        &mut self,
        table: u32,
        is_v6: bool,
        root: Root,
        change: impl FnOnce(&mut Update<'_>, &[core::sync::atomic::AtomicU32]),
    ) {
        let Writer { shared, allocator, .. } = self;
        let Some(trie) = shared.table(table).map(|t| t.trie(is_v6)) else { return };
        let slots = match root {
            Root::Narrow => Some(&*trie.narrow),
            Root::Wide => trie.wide.get().map(|wide| &**wide),
        };
        let mut update = Update { nodes: &shared.nodes, epochs: &shared.epochs, allocator };
        if let Some(slots) = slots {
            change(&mut update, slots);
        }
    }

    /// The group of one next hop, or of several with weights. `before` is the group that the prefix
    /// had.
    pub(super) fn group(&mut self, paths: &[(Path, u8)], before: GroupIndex) -> GroupIndex {
        match *paths {
            [] => GroupIndex::NONE,
            [(path, _)] => self.groups.one(&self.shared.groups, path),
            _ => self.groups.several(&self.shared.groups, paths.iter().copied(), before),
        }
    }

    /// Note that a prefix does not use the group any more.
    pub(super) fn release(&mut self, group: GroupIndex) {
        let Writer { shared, allocator, groups } = self;
        groups.release(&shared.groups, group, &shared.epochs, &mut allocator.retired);
    }

    /// After a change: free the records that no reader uses any more.
    pub(super) fn reclaim(&mut self) {
        let Writer { shared, allocator, groups } = self;
        let Allocator { nodes, lones, retired } = allocator;
        if retired.len() < RECLAIM_FROM && Arc::strong_count(shared) > 1 {
            return;
        }
        retired.reclaim(&shared.epochs, |freed| match freed {
            Freed::Node(index) => nodes.give_back(index),
            Freed::Lone(index) => lones.give_back(index),
            Freed::Group(index) => groups.free(index),
            Freed::Buckets(at) => groups.free_buckets(at),
        });
    }
}

const _: () = assert!(NARROW < SHORT as u32 && (SHORT as u32) < WIDE);
