//! The end of mappings: with their last flow, after the hold, with their outside address, or
//! because the table is full.
//!
//! Called by: the table of states at the end of a flow, the stack when a port loses its address, a
//! timer; `mappings.rs` and `allocate.rs`. RFC 6888 section 3: a port is held for 120 s, and a
//! mapping in use never ends to make room.

use core::net::IpAddr;

use base::Instant;

use super::super::index::NONE;
use super::super::pool::{Filtering, MappingId};
use super::blocks::{Around, Source, seconds, until_s};
use super::find::Part;
use super::outsides::{CLASSES, class};
use super::{Mapping, Mappings};

impl Mappings {
    /// A flow with this remote address ends that had acquired or retained the mapping. With its
    /// last flow the mapping ends; its port is held for its source for [`super::HOLD`] where RFC
    /// 6888 REQ-8 demands it. Nothing happens if the mapping ended before. RFC 7857 11-a.
    pub fn release(&mut self, id: MappingId, remote: IpAddr, now: Instant) {
        self.remotes.remove(&self.key, id, remote);
        let Some(record) = self.records.get_mut(id.index).filter(|r| r.is(id)) else { return };
        record.flows = record.flows.saturating_sub(1);
        let record = *record;
        if record.flows != 0 {
            return;
        }
        let Some(source) = self.sources.get_mut(record.source) else { return };
        source.in_use = source.in_use.saturating_sub(1);
        let source = *source;
        match self.hold_class(&record, &source) {
            Some(class) => self.hold(id.index, record.outside, class, now),
            None => self.remove(id.index, now),
        }
    }

    /// An outside address is lost, as DHCP changes the one of a port: all of its mappings and
    /// blocks end at once. `ended` gets each mapping that a flow used; the states of these flows
    /// must end, and their release is not needed, but with [`Filtering::Address`].
    pub fn address_gone(&mut self, addr: IpAddr, now: Instant, mut ended: impl FnMut(MappingId)) {
        let Some(outside) = self.outsides.find(&self.key, addr) else { return };
        let Some(address) = self.outsides.get_mut(outside) else { return };
        // It stays while its mappings are removed.
        address.pins += 1;
        let mut records: Vec<u32> = Vec::new();
        let protocols = |class: usize| match class {
            0 => [wire::protocol::TCP; 2],
            1 => [wire::protocol::UDP; 2],
            _ => [wire::protocol::ICMP, wire::protocol::ICMPV6],
        };
        let address = self.outsides.get(outside);
        for (class, local) in address.into_iter().flat_map(|address| address.used()) {
            let port = self.shards.port(local);
            let found = |protocol: u8| self.find_by_outside(outside, protocol, Part::Port(port));
            records.extend(protocols(class).into_iter().find_map(found));
        }
        if self.portless.len() != 0 {
            let is_meant = |record: &Mapping| record.outside == outside && record.remote != NONE;
            let all = 0..self.records.bound();
            records.extend(all.filter(|at| self.records.get(*at).is_some_and(is_meant)));
        }
        for at in records {
            let Some(record) = self.records.get(at).copied() else { continue };
            if record.flows != 0 {
                ended(record.id(at));
            }
            self.remove(at, now);
        }
        while let Some(block) = self.blocks.any_held(outside) {
            self.free_block(block, now);
        }
        if let Some(address) = self.outsides.get_mut(outside) {
            address.pins = address.pins.saturating_sub(1);
        }
        self.outsides.drop_unused(&self.key, outside);
    }

    /// End a mapping, whether it is in use, held, or neither.
    pub(super) fn remove(&mut self, at: u32, now: Instant) {
        let Some(record) = self.records.get(at).copied() else { return };
        let is_linked = class(record.protocol).is_some_and(|class| {
            let outside = self.outsides.get(record.outside);
            outside.and_then(|o| o.held.get(class)).is_some_and(|list| list.head == at)
        }) || record.held.previous != NONE;
        if is_linked {
            self.unhold(at, &record);
        }
        self.records.remove(at);
        let ports = [record.inside_port, record.outside_port];
        let [inside, out] = ports.map(|port| self.part_of(&record, port));
        self.by_inside.remove(self.hash_endpoint(record.source, record.protocol, inside), at);
        self.by_outside.remove(self.hash_endpoint(record.outside, record.protocol, out), at);
        self.portless.remove(record.remote);
        if let Some(outside) = self.outsides.get_mut(record.outside) {
            outside.mappings = outside.mappings.saturating_sub(1);
            let local = self.shards.local(record.outside_port);
            if let (Some(class), Some(local)) = (class(record.protocol), local) {
                if let Some(bitmap) = outside.bitmap(class, &self.shards) {
                    bitmap.set(local, false);
                }
                let (shards, sources) = (&self.shards, &mut self.sources);
                let around = Around { shards, sources, outsides: &mut self.outsides, now };
                self.blocks.freed(&around, record.source, record.outside, local);
            }
        }
        if let Some(source) = self.sources.get_mut(record.source) {
            source.mappings = source.mappings.saturating_sub(1);
            if let Some(slot) = self.pools.get_mut(usize::from(source.pool)) {
                slot.mappings = slot.mappings.saturating_sub(1);
            }
            source.in_use = source.in_use.saturating_sub(u32::from(record.flows != 0));
        }
        self.drop_unused(record.source, record.outside);
    }

    /// Forget a source and an outside address that have nothing any more.
    pub(super) fn drop_unused(&mut self, source: u32, outside: u32) {
        if let Some(pool) = self.sources.drop_unused(&self.key, source) {
            self.source_gone(pool);
        }
        self.outsides.drop_unused(&self.key, outside);
    }

    pub(super) fn free_block(&mut self, block: u32, now: Instant) {
        let (shards, sources) = (&self.shards, &mut self.sources);
        let mut around = Around { shards, sources, outsides: &mut self.outsides, now };
        if let Some((source, outside)) = self.blocks.free(&mut around, block) {
            self.drop_unused(source, outside);
        }
    }

    /// End held mappings and blocks whose time is up, at most `most` of them; `true` if there may
    /// be more. Call it every second or so: new flows end a few as well, but only of their own
    /// address.
    pub fn sweep(&mut self, now: Instant, most: usize) -> bool {
        let mut left = most;
        while left > 0
            && let Some(block) = self.blocks.overdue(now, None)
        {
            self.free_block(block, now);
            left -= 1;
        }
        for _ in 0..self.outsides.bound().min(1_024) {
            let at = self.sweep_at;
            self.sweep_at = if at + 1 < self.outsides.bound() { at + 1 } else { 0 };
            for class in 0..CLASSES {
                left -= self.expire(at, class, now, left);
            }
            if left == 0 {
                return true;
            }
        }
        false
    }

    /// End the held mappings of an address and protocol whose time is up, at most `most` of them;
    /// returns how many.
    pub(super) fn expire(
        &mut self,
        outside: u32,
        class: usize,
        now: Instant,
        most: usize,
    ) -> usize {
        for ended in 0..most {
            let outside = self.outsides.get(outside);
            let head = outside.and_then(|o| o.held.get(class)).map(|list| list.head);
            let due = head.filter(|head| {
                let record = self.records.get(*head);
                record.is_some_and(|record| record.held.until_s <= seconds(now))
            });
            let Some(at) = due else { return ended };
            self.remove(at, now);
        }
        most
    }

    /// End a held mapping of any address, because the table is full. RFC 6888 REQ-11D: never one
    /// that a flow uses.
    pub(super) fn reclaim(&mut self, now: Instant) -> bool {
        let bound = self.outsides.bound();
        for step in 0..bound.min(16) {
            let outside = self.outsides.get(self.sweep_at.wrapping_add(step) % bound);
            let held = outside.into_iter().flat_map(|outside| outside.held);
            let first = held.map(|list| list.head).find(|head| self.records.get(*head).is_some());
            if let Some(at) = first {
                self.counters.early += 1;
                self.remove(at, now);
                return true;
            }
        }
        false
    }

    /// Does the port of a mapping without flows stay with its source? RFC 6888 REQ-8 has three
    /// exceptions. A: TCP, whose states outlast the connection. B: ports that only this source can
    /// get, here a block. C: filtering that lets nothing of an earlier flow through.
    fn hold_class(&self, record: &Mapping, source: &Source) -> Option<usize> {
        let slot = self.pools.get(usize::from(source.pool))?;
        let is_held = record.protocol != wire::protocol::TCP
            && slot.pool.filtering == Filtering::Independent
            && slot.pool.block == 0
            && !slot.is_retired;
        class(record.protocol).filter(|_| is_held)
    }

    fn hold(&mut self, at: u32, outside: u32, class: usize, now: Instant) {
        if let Some(list) = self.outsides.get_mut(outside).and_then(|o| o.held.get_mut(class)) {
            list.push(&mut self.records, at, until_s(now));
        }
    }

    pub(super) fn unhold(&mut self, at: u32, record: &Mapping) {
        let Some(class) = class(record.protocol) else { return };
        let outside = self.outsides.get_mut(record.outside);
        if let Some(list) = outside.and_then(|outside| outside.held.get_mut(class)) {
            list.unlink(&mut self.records, at);
        }
    }
}
