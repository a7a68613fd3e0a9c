//! Mappings: an inside endpoint has one outside endpoint, whatever it talks to, while any flow of
//! it lasts.
//!
//! Called by: the table of states, with the first packet of a flow (`acquire`, or `retain` for a
//! flow from the outside) and at the end of a flow (`release`); the stack, for first packets to
//! outside addresses (`find_outside`) and when a port loses its address (`address_gone`). One table
//! a shard. Every step takes constant time. RFC 4787 sections 4 to 6, RFC 5382 sections 4 and 7,
//! RFC 5508 section 3, RFC 6888 section 3, RFC 7857 section 5 (a mapping is of one protocol).

use core::net::IpAddr;

use base::{Budget, KeyedHash, Limit};

use super::index::{Index, Slab, words};
use super::pool::{
    Addresses, BlockEvent, Mapped, MappingId, NatCounters, Pool, PoolId, Refused, Request,
};
use super::ports::{Shards, has_ports};
use crate::states::KeyHash;
use blocks::{Blocks, Sources};
use filtering::Remotes;
use find::Part;
use outsides::{Held, Linked, Outsides};

mod allocate;
mod blocks;
mod ending;
mod filtering;
mod find;
mod outsides;
mod place;
mod pools;

pub use place::NotPlaced;
pub use pools::InvalidPool;

/// Tells the key of the indexes from the one that other hosts may see results of.
const INDEXES: u64 = 0x243f_6a88_85a3_08d3;

/// A mapping.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    source: u32,
    outside: u32,
    /// Flows that use it; 0 while its port is held.
    flows: u32,
    generation: u32,
    held: Held,
    /// The number of its remote address, of a protocol without ports.
    remote: u32,
    inside_port: u16,
    outside_port: u16,
    protocol: u8,
}

const _: () = assert!(size_of::<Mapping>() <= 40);

impl Linked for Mapping {
    fn held(&mut self) -> &mut Held {
        &mut self.held
    }
}

/// The mappings of a shard.
///
/// A packet from an inside host to an outside address of a mapping (hairpin, RFC 4787 section 6)
/// takes both steps: its destination becomes what `find_outside` returns, its source what `acquire`
/// returns, so that the other inside host sees an outside endpoint.
#[derive(Clone, Debug)]
pub struct Mappings {
    shards: Shards,
    /// Keys the indexes.
    key: KeyHash,
    /// Keys what other hosts see: the choice of addresses and ports.
    random: KeyedHash,
    /// Random numbers drawn so far.
    draws: u64,
    generation: u32,
    /// [`Limit::NatMappings`], which bounds blocks too, and [`Limit::NatAddresses`].
    mappings_max: usize,
    addresses_max: usize,
    pools: Vec<pools::Slot>,
    records: Slab<Mapping>,
    by_inside: Index,
    by_outside: Index,
    /// Remote addresses of mappings of protocols without ports.
    portless: Slab<IpAddr>,
    sources: Sources,
    outsides: Outsides,
    blocks: Blocks,
    remotes: Remotes,
    /// The outside address where the next sweep begins.
    sweep_at: u32,
    /// The pool of the last new flow.
    last_pool: u16,
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
            key: KeyHash::new([k0.rotate_left(32) ^ k1, k1 ^ INDEXES]),
            random: KeyedHash::new(k0, k1),
            draws: 0,
            generation: 0,
            mappings_max: capacity,
            addresses_max: budget.of(Limit::NatAddresses),
            pools: Vec::new(),
            records: Slab::default(),
            by_inside: Index::with_capacity(capacity),
            by_outside: Index::with_capacity(capacity),
            portless: Slab::default(),
            sources: Sources::default(),
            outsides: Outsides::default(),
            blocks: Blocks::default(),
            remotes: Remotes::default(),
            sweep_at: 0,
            last_pool: 0,
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

    /// Give a new flow the mapping of its source endpoint, which is made if there is none. The flow
    /// uses it until [`Mappings::release`]. A flow that cannot have a mapping is refused: it gets
    /// none of another kind. RFC 4787 REQ-1, REQ-11, RFC 5382 REQ-1, RFC 5508 REQ-1a, RFC 7857 5-a.
    ///
    /// # Errors
    /// [`Refused`]; a hit of a limit was counted in `budget`.
    pub fn acquire(&mut self, request: &Request, budget: &mut Budget) -> Result<Mapped, Refused> {
        let tuple = request.tuple;
        let pool = *self.open_pool(request.pool).ok_or(Refused::Address)?;
        self.last_pool = request.pool.0;
        let find = |table: &Mappings| table.sources.find(&table.key, request.pool.0, tuple.src);
        let mut source = find(self);
        let part = Part::of(tuple.protocol, tuple.src_port, tuple.dst);
        let found = source.and_then(|at| self.find_inside(at, tuple.protocol, part));
        if let Some(at) = found {
            if let Some(mapped) = self.join(at, request, &pool, budget)? {
                return Ok(mapped);
            }
            // The mapping ended, which may have been the source's last.
            source = find(self);
        }
        self.mappings_max = budget.of(Limit::NatMappings);
        self.addresses_max = budget.of(Limit::NatAddresses);
        if self.len() >= self.mappings_max {
            if !self.reclaim(request.now) {
                budget.admits(Limit::NatMappings, self.len());
                return Err(Refused::Mappings);
            }
            source = find(self);
        }
        if let Some(source) = source {
            self.admit_source(source, budget)?;
        }
        let made = self.make(request, &pool, source);
        if made == Err(Refused::Addresses) {
            budget.admits(Limit::NatAddresses, usize::MAX);
        }
        made
    }

    /// The outside address of a source: the one that its mappings have, else the first one that it
    /// would get. `port_address` is as in [`Request`].
    pub fn address_of(
        &self,
        pool: PoolId,
        src: IpAddr,
        port_address: Option<IpAddr>,
    ) -> Option<IpAddr> {
        let addresses = self.open_pool(pool)?.addresses;
        if addresses == Addresses::OfPort {
            return port_address;
        }
        let source = self.sources.find(&self.key, pool.0, src);
        let paired = source.and_then(|at| self.outsides.get(self.sources.get(at)?.outside));
        let first = self.first_of(src);
        let index = first.checked_rem(u64::from(addresses.len()))?;
        paired.map_or_else(|| addresses.nth(index as u32), |outside| Some(outside.addr))
    }

    /// The number that chooses the address of a source without mappings: the same one after a
    /// pause.
    fn first_of(&self, src: IpAddr) -> u64 {
        let [high, low] = words(src);
        self.random.hash([high, low, u64::MAX])
    }

    /// Fetch what a new flow of this source endpoint needs, as the last new flow did: the slots of
    /// both indexes, if its port is kept.
    #[inline]
    pub fn prefetch(&self, protocol: u8, src: IpAddr, port: u16) {
        let Some(source) = self.sources.find(&self.key, self.last_pool, src) else { return };
        let part = Part::Port(port);
        self.by_inside.prefetch(self.hash_endpoint(source, protocol, part));
        if let Some(source) = self.sources.get(source) {
            self.by_outside.prefetch(self.hash_endpoint(source.outside, protocol, part));
        }
    }

    /// Is a port of an outside address in use by flows?
    pub fn is_in_use(&self, protocol: u8, addr: IpAddr, port: u16) -> bool {
        has_ports(protocol) && self.at_outside(protocol, (addr, port), addr).is_some()
    }

    /// The outside address of a source's mappings in a pool.
    pub fn outside_of(&self, pool: PoolId, source: IpAddr) -> Option<IpAddr> {
        let source = self.sources.find(&self.key, pool.0, source)?;
        Some(self.outsides.get(self.sources.get(source)?.outside)?.addr)
    }

    /// Is the mapping still there? States whose mapping is not end.
    pub fn is_alive(&self, id: MappingId) -> bool {
        self.records.get(id.index).is_some_and(|record| record.is(id))
    }

    /// The mapping behind `last`, in no special order; the first one for `None`.
    pub fn next_row(&self, last: Option<MappingId>) -> Option<MappingRow> {
        let from = last.map_or(0, |id| id.index.saturating_add(1));
        (from..self.records.bound()).find_map(|at| self.row_at(at))
    }

    /// A mapping that is still there.
    pub fn row(&self, id: MappingId) -> Option<MappingRow> {
        self.row_at(id.index).filter(|row| row.id == id)
    }

    fn row_at(&self, at: u32) -> Option<MappingRow> {
        let record = self.records.get(at)?;
        let source = self.sources.get(record.source)?;
        Some(MappingRow {
            id: record.id(at),
            protocol: record.protocol,
            inside: (source.addr, record.inside_port),
            outside: (self.outsides.get(record.outside)?.addr, record.outside_port),
            flows: record.flows,
        })
    }

    /// Up to `most` mappings at places from `from` on, in no special order, and the place where the
    /// next page begins; `None` at the end.
    pub fn page(&self, from: u32, most: usize) -> (Vec<MappingRow>, Option<u32>) {
        let mut rows = Vec::new();
        let mut last = from.checked_sub(1).map(|index| MappingId { index, generation: 0 });
        while rows.len() < most
            && let Some(row) = self.next_row(last)
        {
            last = Some(row.id);
            rows.push(row);
        }
        let next = last.map(|id| id.index.saturating_add(1));
        (rows, next.filter(|_| self.next_row(last).is_some()))
    }

    /// A new flow of an endpoint that has a mapping. `None` if the mapping was held and its outside
    /// endpoint is no longer the one to use.
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
        let port = record.shown_port(request.tuple.src_port);
        let is_bound = request.is_bound(addr, port);
        if record.flows != 0 && is_bound {
            return Err(Refused::Ports);
        }
        if record.flows == 0 {
            let is_of_port = pool.addresses == Addresses::OfPort;
            if is_bound || is_of_port && request.port_address != Some(addr) {
                self.remove(at, request.now);
                return Ok(None);
            }
            self.admit_source(record.source, budget)?;
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
        Ok(Some(Mapped { id, addr, port, is_new: false }))
    }

    /// May the source have one more port? RFC 6888 REQ-4, REQ-4A.
    fn admit_source(&self, source: u32, budget: &mut Budget) -> Result<(), Refused> {
        let Some(source) = self.sources.get(source) else { return Ok(()) };
        let admits = budget.admits(Limit::NatPortsPerSource, source.in_use as usize);
        admits.then_some(()).ok_or(Refused::PortsPerSource)
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

#[cfg(test)]
mod tests;
