//! Lookups in the FIB by a thread, for the time of a burst.
//!
//! Called by: code that looks a destination up; `rib.rs` for the owner of the routes. Readers take
//! no lock and never wait. Sources: docs/decisions/0075.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;
use std::sync::Arc;

use super::NextHop;
use super::access::NOT_FOR_TRANSIT;
use super::epoch::Epochs;
use super::group::{Found, GroupIndex};
use super::shared::{Shared, key_of, key_v4};

/// The levels of nodes that a burst looks up together.
const LEVELS_V4: u32 = 1;
const LEVELS_V6: u32 = 3;

/// A thread's handle to look up destinations.
pub struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) slot: Arc<AtomicU64>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    /// Returns the routes for one burst. Results stay valid until the view is dropped, and the
    /// writer cannot reuse memory until then: hold the view for a burst, not longer.
    #[inline]
    pub fn pin(&mut self) -> View<'_> {
        self.shared.epochs.pin(&self.slot);
        View { shared: &self.shared, pinned: Some(&self.slot) }
    }
}

impl Reader {
    /// Begin a burst with lookups by [`super::Routes::following`]. Results stay valid until
    /// [`Reader::end`].
    #[inline]
    pub fn begin(&self) {
        self.shared.epochs.pin(&self.slot);
    }

    /// End the burst.
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

/// The routes, for as long as a burst lasts.
pub struct View<'a> {
    pub(super) shared: &'a Shared,
    pub(super) pinned: Option<&'a AtomicU64>,
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

    /// [`View::lookup`] for many destinations, with overlapping memory accesses. The group of
    /// `dsts[n]` is `out[n]`. If the slices differ in length, the additional elements of the longer
    /// one are ignored.
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

    /// Fetch the memory for a later lookup of `dst` in the main table.
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

    /// The next hop of a packet to `dst`, whose group this view has found. In a group of several
    /// next hops, `flow`, a hash of the packet's flow, chooses one.
    ///
    /// The sender is not taken into account; for forwarded packets use
    /// [`View::next_hop_of_transit`].
    #[inline]
    pub fn next_hop(&self, group: GroupIndex, dst: IpAddr, flow: u32) -> Option<NextHop> {
        self.find(group, dst, flow, 0).hop()
    }

    /// [`View::next_hop`] of a forwarded packet, without regard to rules. `None` also if some of
    /// these packets may not go there: then [`super::Routes::lookup`] decides.
    #[inline]
    pub fn next_hop_of_transit(
        &self,
        group: GroupIndex,
        dst: IpAddr,
        flow: u32,
    ) -> Option<NextHop> {
        self.find(group, dst, flow, NOT_FOR_TRANSIT).hop()
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
