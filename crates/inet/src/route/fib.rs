//! The FIB: the routes compiled for lookups, published to every thread that has a [`Fib`].
//!
//! Called by: `route.rs`, which changes it, and by whoever looks a destination up. One thread
//! writes; readers take no lock and never wait. What a lookup finds was right at some time after
//! its burst began. Sources: docs/decisions/0075.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use super::access::NOT_FOR_TRANSIT;
use super::arena::zeroed;
use super::epoch::Epochs;
use super::group::{Found, GroupIndex, Groups, Path, Registry};
use super::trie::{NARROW, Nodes, Prefix, SHORT, Trie, WIDE, leaf};
use super::update::{Allocator, Freed, Update, leaf_of};
use super::{MAIN_TABLE, NextHop, RETIRED_MAX, TABLES_MAX};

/// Prefixes of one version from which a table has the array of 24 bits, in the main table and in
/// others: 64 MB of addresses, of which the pages that are written to take memory.
const WIDE_FROM: usize = 512;
const WIDE_FROM_OTHERS: usize = 16_384;
/// So many records wait before the writer looks whether they are free; fewer while nobody reads.
const RECLAIM_FROM: usize = 64;

/// So many levels of nodes a burst takes together.
const LEVELS_V4: u32 = 1;
const LEVELS_V6: u32 = 3;

/// Both versions of a table.
#[derive(Default)]
struct Table {
    v4: Trie,
    v6: Trie,
}

impl Table {
    fn trie(&self, is_v6: bool) -> &Trie {
        if is_v6 { &self.v6 } else { &self.v4 }
    }
}

/// What writer and readers share.
pub(super) struct Shared {
    main: Table,
    others: [OnceLock<Box<(u32, Table)>>; TABLES_MAX - 1],
    nodes: Nodes,
    groups: Groups,
    epochs: Epochs,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            main: Table::default(),
            others: [const { OnceLock::new() }; TABLES_MAX - 1],
            nodes: Nodes::default(),
            groups: Groups::default(),
            epochs: Epochs::default(),
        }
    }
}

impl Shared {
    #[inline]
    fn table(&self, table: u32) -> Option<&Table> {
        if table == MAIN_TABLE {
            return Some(&self.main);
        }
        let made = self.others.iter().map_while(OnceLock::get);
        made.map(|other| &**other).find(|(id, _)| *id == table).map(|(_, found)| found)
    }

    /// The table of that number, made if there is room for it.
    fn make_table(&self, table: u32) -> Option<&Table> {
        if self.table(table).is_none() {
            let room = self.others.iter().find(|other| other.get().is_none())?;
            room.get_or_init(|| Box::new((table, Table::default())));
        }
        self.table(table)
    }
}

/// The key of an address: its bits, left-aligned.
#[inline(always)]
pub(super) fn key_of(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => key_v4(addr),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

#[inline(always)]
fn key_v4(addr: Ipv4Addr) -> u128 {
    u128::from(addr.to_bits()) << 96
}

/// A handle to the routes of one stack, for other threads to look destinations up.
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
    /// A reader: one for each thread.
    pub fn reader(&self) -> Reader {
        Reader { slot: self.shared.epochs.join(), shared: Arc::clone(&self.shared) }
    }
}

/// What a thread looks destinations up with.
pub struct Reader {
    shared: Arc<Shared>,
    slot: Arc<AtomicU64>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    /// The routes for one burst. What is found stays valid until the view is dropped, and what the
    /// writer frees meanwhile waits for that: hold it for a burst, not longer.
    #[inline]
    pub fn pin(&mut self) -> View<'_> {
        self.shared.epochs.pin(&self.slot);
        View { shared: &self.shared, pinned: Some(&self.slot) }
    }
}

impl Reader {
    /// A burst begins whose lookups are those of [`super::Routes::following`]: what is found stays
    /// valid until [`Reader::end`].
    #[inline]
    pub fn begin(&self) {
        self.shared.epochs.pin(&self.slot);
    }

    /// The burst ends.
    #[inline]
    pub fn end(&self) {
        Epochs::unpin(&self.slot);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.epochs.leave(&self.slot);
    }
}

/// The routes for as long as a burst lasts.
pub struct View<'a> {
    shared: &'a Shared,
    pinned: Option<&'a AtomicU64>,
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

impl Drop for View<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.pinned {
            Epochs::unpin(slot);
        }
    }
}

impl View<'_> {
    /// The next-hop group of `dst` in `table`; [`GroupIndex::NONE`] if there is no route.
    /// RFC 1812 5.2.4.3-a, RFC 7608 2-a.
    #[inline]
    pub fn lookup(&self, dst: IpAddr, table: u32) -> GroupIndex {
        let Some(table) = self.shared.table(table) else { return GroupIndex::NONE };
        table.trie(dst.is_ipv6()).lookup(&self.shared.nodes, key_of(dst))
    }

    /// [`View::lookup`] for many destinations, whose memory is waited for together; the group of
    /// `dsts[n]` is `out[n]`. Of slices of different lengths the rest is left as it is.
    pub fn lookup_burst_v4(&self, dsts: &[Ipv4Addr], out: &mut [GroupIndex], table: u32) {
        let Some(table) = self.shared.table(table) else { return out.fill(GroupIndex::NONE) };
        table.v4.lookup_burst(&self.shared.nodes, dsts, out, key_v4, LEVELS_V4);
    }

    /// [`View::lookup_burst_v4`] for IPv6.
    pub fn lookup_burst_v6(&self, dsts: &[Ipv6Addr], out: &mut [GroupIndex], table: u32) {
        let Some(table) = self.shared.table(table) else { return out.fill(GroupIndex::NONE) };
        let key_of = |dst: Ipv6Addr| dst.to_bits();
        table.v6.lookup_burst(&self.shared.nodes, dsts, out, key_of, LEVELS_V6);
    }

    /// `dst` will be looked up in the main table: its memory is fetched meanwhile.
    #[inline(always)]
    pub fn prefetch_v4(&self, dst: Ipv4Addr) {
        self.shared.main.v4.prefetch(key_v4(dst));
    }

    /// [`View::prefetch_v4`] for IPv6.
    #[inline(always)]
    pub fn prefetch_v6(&self, dst: Ipv6Addr) {
        self.shared.main.v6.prefetch(dst.to_bits());
    }

    /// Do all packets of `group` have one next hop, whatever their destination?
    #[inline]
    pub fn is_one_gateway(&self, group: GroupIndex) -> bool {
        self.shared.groups.is_one_gateway(group)
    }

    /// The next hop of a packet to `dst`, whose group this view has found. Of a group of several,
    /// `flow`, a hash of the packet's flow, chooses one.
    ///
    /// It does not ask for whom: of forwarded packets, [`View::next_hop_of_transit`] does.
    #[inline]
    pub fn next_hop(&self, group: GroupIndex, dst: IpAddr, flow: u32) -> Option<NextHop> {
        match self.find(group, dst, flow, 0) {
            Found::Hop(hop) => Some(hop),
            Found::Restricted | Found::Nothing => None,
        }
    }

    /// [`View::next_hop`] of a forwarded packet, without regard to rules; `None` as well if not
    /// every such packet may go there: then [`super::Routes::lookup`] knows more.
    #[inline]
    pub fn next_hop_of_transit(
        &self,
        group: GroupIndex,
        dst: IpAddr,
        flow: u32,
    ) -> Option<NextHop> {
        match self.find(group, dst, flow, NOT_FOR_TRANSIT) {
            Found::Hop(hop) => Some(hop),
            Found::Restricted | Found::Nothing => None,
        }
    }

    #[inline(always)]
    pub(super) fn find(
        &self,
        group: GroupIndex,
        dst: IpAddr,
        flow: u32,
        restrictions: u32,
    ) -> Found {
        self.shared.groups.find(group, dst, flow, restrictions)
    }
}

/// The side that changes the FIB.
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

/// A prefix of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) table: u32,
    pub(super) is_v6: bool,
    pub(super) prefix: Prefix,
}

/// Which of the two arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    Narrow,
    Wide,
}

impl Writer {
    pub(super) fn fib(&self) -> Fib {
        Fib { shared: Arc::clone(&self.shared) }
    }

    /// No writer: what another one writes is read.
    pub(super) fn following(fib: &Fib) -> Writer {
        Writer { shared: Arc::clone(&fib.shared), ..Writer::default() }
    }

    /// For whoever owns the writer: nothing changes while it is held.
    #[inline]
    pub(super) fn view(&self) -> View<'_> {
        View { shared: &self.shared, pinned: None }
    }

    /// Is there such a table, or room for it?
    pub(super) fn admits(&self, table: u32) -> bool {
        self.shared.make_table(table).is_some()
    }

    /// Does too much wait for a reader that does not end its burst?
    pub(super) fn is_held_up(&self) -> bool {
        self.allocator.retired.len() >= RETIRED_MAX
    }

    /// Is the array of 24 bits there?
    pub(super) fn is_wide(&self, table: u32, is_v6: bool) -> bool {
        self.shared.table(table).is_some_and(|t| t.trie(is_v6).wide.get().is_some())
    }

    /// With that many prefixes, should it be?
    pub(super) fn should_widen(table: u32, prefixes: usize) -> bool {
        prefixes >= if table == MAIN_TABLE { WIDE_FROM } else { WIDE_FROM_OTHERS }
    }

    /// Make the array of 24 bits of the long ones of all prefixes of a table.
    pub(super) fn widen(
        &mut self,
        table: u32,
        is_v6: bool,
        prefixes: impl Iterator<Item = (Prefix, GroupIndex)>,
    ) {
        let Writer { shared, allocator, .. } = self;
        let Some(trie) = shared.make_table(table).map(|t| t.trie(is_v6)) else { return };
        let wide = zeroed(1 << WIDE);
        let mut update = Update { nodes: &shared.nodes, epochs: &shared.epochs, allocator };
        for (prefix, group) in prefixes.filter(|(prefix, _)| prefix.len > SHORT) {
            update.insert(&wide, 0, prefix, leaf(prefix.len, group));
        }
        // Whoever has missed it goes by the first array, where all that is in it now will be kept
        // as it should be.
        let _ = trie.wide.set(wide);
    }

    /// The prefix leads to `group` from now on.
    pub(super) fn insert(&mut self, target: Target, root: Root, group: GroupIndex) {
        let Target { table, is_v6, prefix } = target;
        let leaf = leaf(prefix.len, group);
        self.update(table, is_v6, root, |update, slots| update.insert(slots, 0, prefix, leaf));
    }

    /// The prefix, which led to `group`, is gone; `around` is the next shorter of this array.
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

    /// The group of one next hop, or of several with weights; `before` is what the prefix had.
    pub(super) fn group(&mut self, paths: &[(Path, u8)], before: GroupIndex) -> GroupIndex {
        match *paths {
            [] => GroupIndex::NONE,
            [(path, _)] => self.groups.one(&self.shared.groups, path),
            _ => self.groups.several(&self.shared.groups, paths.iter().copied(), before),
        }
    }

    /// A prefix does not use it any more.
    pub(super) fn release(&mut self, group: GroupIndex) {
        let Writer { shared, allocator, groups } = self;
        groups.release(&shared.groups, group, &shared.epochs, &mut allocator.retired);
    }

    /// A change is over: what nobody reads any more is free.
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
