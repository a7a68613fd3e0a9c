//! Mappings: an inside endpoint has one outside endpoint, whatever it talks to, while any flow of
//! it lasts.
//!
//! Called by: the table of states, with the first packet of a flow (`acquire`, or `retain` for a
//! flow from the outside) and at the end of a flow (`release`); the stack, for first packets to
//! outside addresses (`find_outside`) and when a port loses its address (`address_gone`). One table
//! a shard. Every step takes constant time. RFC 4787 REQ-1 to 3, 8 and 9, RFC 5382 REQ-1, 3, 7 and
//! 8, RFC 5508 REQ-1, RFC 6888 REQ-2, 4, 8, 11 and 13 to 15, RFC 7857 section 5 (a mapping is of
//! one protocol).

use core::net::IpAddr;

use base::{Budget, Instant, KeyedHash, Limit};

use super::index::{Index, Slab};
use super::pool::{
    Addresses, BlockEvent, Filtering, Inside, Mapped, MappingId, NatCounters, Pool, PoolId,
    Refused, Request,
};
use super::ports::{Shards, has_ports};
use blocks::{Around, Blocks, Source, Sources, seconds, until_s};
use outsides::{CLASSES, Held, Linked, Outsides, class};
use remotes::Remotes;

mod allocate;
mod blocks;
mod outsides;
mod pools;
mod remotes;

pub use pools::InvalidPool;

/// A mapping.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    source: u32,
    outside: u32,
    /// Flows that use it; 0 while its port is held.
    flows: u32,
    generation: u32,
    held: Held,
    inside_port: u16,
    outside_port: u16,
    protocol: u8,
}

const _: () = assert!(size_of::<Mapping>() <= 36);

impl Linked for Mapping {
    fn held(&mut self) -> &mut Held {
        &mut self.held
    }
}

/// The mappings of a shard.
///
/// A packet from an inside host to an outside address of a mapping (hairpin, RFC 4787 REQ-9 a)
/// takes both steps: its destination becomes what `find_outside` returns, its source what `acquire`
/// returns, so that the other inside host sees an outside endpoint.
#[derive(Clone, Debug)]
pub struct Mappings {
    shards: Shards,
    key: KeyedHash,
    /// Random numbers drawn so far.
    draws: u64,
    generation: u32,
    pools: Vec<pools::Slot>,
    records: Slab<Mapping>,
    by_inside: Index,
    by_outside: Index,
    sources: Sources,
    outsides: Outsides,
    blocks: Blocks,
    remotes: Remotes,
    /// The outside address where the next sweep begins.
    sweep_at: u32,
    counters: NatCounters,
}

/// A mapping for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingRow {
    /// The mapping, by which the next row is found.
    pub id: MappingId,
    /// Protocol.
    pub protocol: u8,
    /// The inside endpoint.
    pub inside: (IpAddr, u16),
    /// The outside endpoint.
    pub outside: (IpAddr, u16),
    /// Flows that use it; 0 while its port is held for its source.
    pub flows: u32,
}

impl Mappings {
    /// A table without pools, for up to the present value of [`Limit::NatMappings`] without moving
    /// in memory. `secret` keys all hashes and the choice of ports.
    pub fn new(shards: Shards, secret: [u64; 2], budget: &Budget) -> Mappings {
        let capacity = budget.of(Limit::NatMappings);
        let [k0, k1] = secret;
        Mappings {
            shards,
            key: KeyedHash::new(k0, k1),
            draws: 0,
            generation: 0,
            pools: Vec::new(),
            records: Slab::default(),
            by_inside: Index::with_capacity(capacity),
            by_outside: Index::with_capacity(capacity),
            sources: Sources::default(),
            outsides: Outsides::default(),
            blocks: Blocks::default(),
            remotes: Remotes::default(),
            sweep_at: 0,
            counters: NatCounters::default(),
        }
    }

    /// The shards that it was made for.
    pub fn shards(&self) -> Shards {
        self.shards
    }

    /// How many mappings there are, those that are held included.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was counted.
    pub fn counters(&self) -> NatCounters {
        NatCounters { events_lost: self.blocks.events_lost, ..self.counters }
    }

    /// The next allocation or release of a block that was not fetched yet.
    pub fn next_event(&mut self) -> Option<BlockEvent> {
        self.blocks.next_event()
    }

    /// Give a new flow the mapping of its source endpoint, which is made if there is none (RFC 4787
    /// REQ-1). The flow uses it until [`Mappings::release`].
    ///
    /// # Errors
    /// [`Refused`]; a hit of a limit was counted in `budget`.
    pub fn acquire(&mut self, request: &Request, budget: &mut Budget) -> Result<Mapped, Refused> {
        let tuple = request.tuple;
        let pool = *self.open_pool(request.pool).ok_or(Refused::Address)?;
        let source = self.sources.find(&self.key, request.pool.0, tuple.src);
        let found = source.and_then(|at| self.find_inside(at, tuple.protocol, tuple.src_port));
        if let Some(at) = found
            && let Some(mapped) = self.join(at, request, &pool, budget)?
        {
            return Ok(mapped);
        }
        if self.len() >= budget.of(Limit::NatMappings) && !self.reclaim(request.now) {
            budget.admits(Limit::NatMappings, self.len());
            return Err(Refused::Mappings);
        }
        // A mapping that ended meanwhile may have been the source's last.
        let source = self.sources.find(&self.key, request.pool.0, tuple.src);
        if let Some(source) = source {
            self.admit_source(source, &pool, budget)?;
        }
        self.make(request, &pool, source)
    }

    /// A flow from the outside uses a mapping that [`Mappings::find_outside`] found. `false` if the
    /// mapping ended.
    pub fn retain(&mut self, id: MappingId, remote: IpAddr) -> bool {
        let Some(record) = self.records.get_mut(id.index).filter(|r| r.is(id)) else {
            return false;
        };
        if record.flows == 0 {
            return false;
        }
        record.flows = record.flows.saturating_add(1);
        self.note_remote(id, remote);
        true
    }

    /// A flow with this remote address ends that had acquired or retained the mapping. With its
    /// last flow the mapping ends; its port is held for its source for [`super::HOLD`] where RFC
    /// 6888 REQ-8 demands it. Nothing happens if the mapping ended before.
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

    /// The inside endpoint of a packet to an outside one, if the filtering of its pool lets a
    /// packet from `remote` begin a flow: RFC 4787 REQ-8, RFC 5382 REQ-3. `None` also if nothing is
    /// mapped there.
    pub fn find_outside(
        &self,
        protocol: u8,
        addr: IpAddr,
        port: u16,
        remote: IpAddr,
    ) -> Option<Inside> {
        let outside = self.outsides.find(&self.key, addr)?;
        let port = if has_ports(protocol) { port } else { 0 };
        let at = self.find_by_outside(outside, protocol, port)?;
        let record = self.records.get(at).filter(|record| record.flows != 0)?;
        let source = self.sources.get(record.source)?;
        let id = record.id(at);
        let is_open = match self.pools.get(usize::from(source.pool))?.pool.filtering {
            Filtering::Independent => true,
            Filtering::Address => self.remotes.contains(&self.key, id, remote),
            Filtering::Port => false,
        };
        is_open.then_some(Inside {
            id,
            pool: PoolId(source.pool),
            addr: source.addr,
            port: record.inside_port,
        })
    }

    /// Is the mapping still there? States whose mapping is not end.
    pub fn is_alive(&self, id: MappingId) -> bool {
        self.records.get(id.index).is_some_and(|record| record.is(id))
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
            let found = |protocol: u8| self.find_by_outside(outside, protocol, port);
            records.extend(protocols(class).into_iter().find_map(found));
        }
        let portless = (0..=u8::MAX).filter(|protocol| !has_ports(*protocol));
        records.extend(portless.filter_map(|other| self.find_by_outside(outside, other, 0)));
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

    /// The mapping behind `last`, in no special order; the first one for `None`.
    pub fn next_row(&self, last: Option<MappingId>) -> Option<MappingRow> {
        let from = last.map_or(0, |id| id.index.saturating_add(1));
        (from..self.records.bound()).find_map(|at| {
            let record = self.records.get(at)?;
            let source = self.sources.get(record.source)?;
            Some(MappingRow {
                id: record.id(at),
                protocol: record.protocol,
                inside: (source.addr, record.inside_port),
                outside: (self.outsides.get(record.outside)?.addr, record.outside_port),
                flows: record.flows,
            })
        })
    }

    fn find_inside(&self, source: u32, protocol: u8, port: u16) -> Option<u32> {
        let port = if has_ports(protocol) { port } else { 0 };
        self.by_inside.find(self.hash_endpoint(source, protocol, port), |at| {
            self.records.get(at).is_some_and(|record| {
                record.source == source && record.protocol == protocol && record.inside_port == port
            })
        })
    }

    fn find_by_outside(&self, outside: u32, protocol: u8, port: u16) -> Option<u32> {
        self.by_outside.find(self.hash_endpoint(outside, protocol, port), |at| {
            self.records.get(at).is_some_and(|record| {
                record.outside == outside
                    && record.protocol == protocol
                    && record.outside_port == port
            })
        })
    }

    /// The hash of an endpoint whose address is a record: of a source, or of an outside address.
    fn hash_endpoint(&self, record: u32, protocol: u8, port: u16) -> u64 {
        self.key.hash([u64::from(record) << 32 | u64::from(protocol) << 16 | u64::from(port)])
    }

    fn note_remote(&mut self, id: MappingId, remote: IpAddr) {
        let source = self.records.get(id.index).and_then(|r| self.sources.get(r.source));
        let pool = source.and_then(|source| self.pools.get(usize::from(source.pool)));
        if pool.is_some_and(|slot| slot.pool.filtering == Filtering::Address) {
            self.remotes.add(&self.key, id, remote);
        }
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

    /// A new flow of an endpoint that has a mapping. `None` if the mapping was held and its outside
    /// address is no longer the one to use.
    fn join(
        &mut self,
        at: u32,
        request: &Request,
        pool: &Pool,
        budget: &mut Budget,
    ) -> Result<Option<Mapped>, Refused> {
        let Some(record) = self.records.get(at).copied() else { return Ok(None) };
        let addr = self.outsides.get(record.outside).map(|outside| outside.addr);
        let Some(addr) = addr else { return Ok(None) };
        if record.flows == 0 {
            if pool.addresses == Addresses::OfPort && request.port_address != Some(addr) {
                self.remove(at, request.now);
                return Ok(None);
            }
            self.admit_source(record.source, pool, budget)?;
            self.unhold(at, &record);
            self.counters.revived += 1;
            if let Some(source) = self.sources.get_mut(record.source) {
                source.in_use += 1;
            }
        }
        if let Some(record) = self.records.get_mut(at) {
            record.flows = record.flows.saturating_add(1);
        }
        let id = record.id(at);
        self.note_remote(id, request.tuple.dst);
        let port = record.shown_port(request.tuple.src_port);
        Ok(Some(Mapped { id, addr, port, is_new: false }))
    }

    fn unhold(&mut self, at: u32, record: &Mapping) {
        let Some(class) = class(record.protocol) else { return };
        let outside = self.outsides.get_mut(record.outside);
        if let Some(list) = outside.and_then(|outside| outside.held.get_mut(class)) {
            list.unlink(&mut self.records, at);
        }
    }

    /// May the source have one more port? RFC 6888 REQ-4.
    fn admit_source(&self, source: u32, pool: &Pool, budget: &mut Budget) -> Result<(), Refused> {
        let Some(source) = self.sources.get(source) else { return Ok(()) };
        let most = match pool.ports_per_source as usize {
            0 => budget.of(Limit::NatPortsPerSource),
            most => most,
        };
        if (source.in_use as usize) < most {
            return Ok(());
        }
        // Counted as a hit of the limit, whichever of the two values it was.
        budget.admits(Limit::NatPortsPerSource, usize::MAX);
        Err(Refused::PortsPerSource)
    }

    /// End a mapping, whether it is in use, held, or neither.
    fn remove(&mut self, at: u32, now: Instant) {
        let Some(record) = self.records.get(at).copied() else { return };
        let is_linked = class(record.protocol).is_some_and(|class| {
            let outside = self.outsides.get(record.outside);
            outside.and_then(|o| o.held.get(class)).is_some_and(|list| list.head == at)
        }) || record.held.previous != super::index::NONE;
        if is_linked {
            self.unhold(at, &record);
        }
        self.records.remove(at);
        let hash = self.hash_endpoint(record.source, record.protocol, record.inside_port);
        self.by_inside.remove(hash, at);
        let hash = self.hash_endpoint(record.outside, record.protocol, record.outside_port);
        self.by_outside.remove(hash, at);
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
            source.in_use = source.in_use.saturating_sub(u32::from(record.flows != 0));
        }
        self.drop_unused(record.source, record.outside);
    }

    /// Forget a source and an outside address that have nothing any more.
    fn drop_unused(&mut self, source: u32, outside: u32) {
        if let Some(pool) = self.sources.drop_unused(&self.key, source) {
            self.source_gone(pool);
        }
        self.outsides.drop_unused(&self.key, outside);
    }

    fn free_block(&mut self, block: u32, now: Instant) {
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
    fn expire(&mut self, outside: u32, class: usize, now: Instant, most: usize) -> usize {
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

    /// End a held mapping of any address, because the table is full.
    fn reclaim(&mut self, now: Instant) -> bool {
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
}

impl Mapping {
    fn is(&self, id: MappingId) -> bool {
        self.generation == id.generation
    }

    fn id(&self, index: u32) -> MappingId {
        MappingId { index, generation: self.generation }
    }

    /// The outside port of a flow; protocols without ports keep what they have.
    fn shown_port(&self, own: u16) -> u16 {
        if has_ports(self.protocol) { self.outside_port } else { own }
    }
}

/// An address as two words.
fn words(addr: IpAddr) -> [u64; 2] {
    match addr {
        IpAddr::V4(addr) => [1 << 32 | u64::from(addr.to_bits()), 0],
        IpAddr::V6(addr) => [(addr.to_bits() >> 64) as u64, addr.to_bits() as u64],
    }
}

/// The hash of an address with a number.
fn hash_addr(key: &KeyedHash, number: u64, addr: IpAddr) -> u64 {
    let [high, low] = words(addr);
    key.hash([high, low, number])
}

#[cfg(test)]
mod tests;
