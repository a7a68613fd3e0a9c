//! A mapping with one outside endpoint and no other: that of a flow which the partner of this
//! router has translated so far.
//!
//! Called by: the firewall, with a copy of a state. Where the endpoint is not free the mapping is
//! refused: another port would cut the connection off as surely as none. RFC 4787 REQ-1, REQ-3.
//! Limits: `nat_mappings`, `nat_addresses`, `nat_ports_per_source`.

use core::net::IpAddr;

use base::{Budget, Limit};

use super::super::pool::{Addresses, Mapped, Pool, PoolId, Request};
use super::super::ports::{has_ports, has_word};
use super::Mappings;
use super::blocks::{Around, BLOCKS_PER_SOURCE};
use super::find::Part;
use super::outsides::class;

/// Why a mapping cannot have its outside endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPlaced {
    /// The pool is gone, or the address is not one of it.
    Pool,
    /// The port is of another shard.
    Shard,
    /// A socket of the router has the endpoint.
    Socket,
    /// Another inside endpoint has it, or its block is another source's.
    Taken,
    /// The inside endpoint has another outside endpoint.
    Inside,
    /// A limit.
    Limit,
}

impl Mappings {
    /// Give a flow the mapping of its source endpoint to `addr` and `port`, as
    /// [`Mappings::acquire`] gives it one. `port` is of no account for protocols without ports.
    ///
    /// # Errors
    /// [`NotPlaced`]; a hit of a limit was counted in `budget`.
    pub fn place(
        &mut self,
        request: &Request<'_>,
        (addr, port): (IpAddr, u16),
        budget: &mut Budget,
    ) -> Result<Mapped, NotPlaced> {
        let tuple = request.tuple;
        let pool = *self.open_pool(request.pool).ok_or(NotPlaced::Pool)?;
        if !self.has_address(request.pool, addr) || addr.is_ipv4() != tuple.src.is_ipv4() {
            return Err(NotPlaced::Pool);
        }
        let is_here = match class(tuple.protocol) {
            Some(_) => self.shards.local(port).is_some(),
            None => self.shards.is_first(),
        };
        if !is_here {
            return Err(NotPlaced::Shard);
        }
        if request.is_bound(addr, port) {
            return Err(NotPlaced::Socket);
        }
        let found = self.sources.find(&self.key, request.pool.0, tuple.src);
        let part = Part::of(tuple.protocol, tuple.src_port, tuple.dst);
        if let Some(at) = found.and_then(|at| self.find_inside(at, tuple.protocol, part)) {
            let record = self.records.get(at).copied().ok_or(NotPlaced::Inside)?;
            let outside = self.outsides.get(record.outside).map(|outside| outside.addr);
            if outside == Some(addr) && (record.outside_port == port || !has_ports(tuple.protocol))
            {
                let joined =
                    self.join(at, &Request { port_address: Some(addr), ..*request }, &pool, budget);
                return joined.ok().flatten().ok_or(NotPlaced::Limit);
            }
            if record.flows != 0 {
                return Err(NotPlaced::Inside);
            }
            self.remove(at, request.now);
        }
        self.free_endpoint(request, (addr, port))?;
        self.make_at(request, &pool, (addr, port), budget)
    }

    /// Is it an address of a pool? A pool of a port's address has any, since that may move.
    pub fn has_address(&self, pool: PoolId, addr: IpAddr) -> bool {
        self.open_pool(pool).is_some_and(|pool| match pool.addresses {
            Addresses::OfPort => true,
            Addresses::Network(network) => network.contains(addr),
        })
    }

    /// End the mapping that holds the endpoint for a source without flows.
    fn free_endpoint(
        &mut self,
        request: &Request<'_>,
        (addr, port): (IpAddr, u16),
    ) -> Result<(), NotPlaced> {
        let Some(outside) = self.outsides.find(&self.key, addr) else { return Ok(()) };
        let part = Part::of(request.tuple.protocol, port, request.tuple.dst);
        let Some(at) = self.find_by_outside(outside, request.tuple.protocol, part) else {
            return Ok(());
        };
        if self.records.get(at).is_none_or(|record| record.flows != 0) {
            return Err(NotPlaced::Taken);
        }
        self.counters.early += 1;
        self.remove(at, request.now);
        Ok(())
    }

    fn make_at(
        &mut self,
        request: &Request<'_>,
        pool: &Pool,
        (addr, port): (IpAddr, u16),
        budget: &mut Budget,
    ) -> Result<Mapped, NotPlaced> {
        self.mappings_max = budget.of(Limit::NatMappings);
        self.addresses_max = budget.of(Limit::NatAddresses);
        if self.len() >= self.mappings_max && !self.reclaim(request.now) {
            budget.admits(Limit::NatMappings, self.len());
            return Err(NotPlaced::Limit);
        }
        let found = self.sources.find(&self.key, request.pool.0, request.tuple.src);
        if let Some(source) = found {
            self.admit_source(source, budget).map_err(|_| NotPlaced::Limit)?;
        }
        let most = self.addresses_max;
        let Some(outside) = self.outsides.find_or_add(&self.key, addr, most) else {
            budget.admits(Limit::NatAddresses, usize::MAX);
            return Err(NotPlaced::Limit);
        };
        let source = match found {
            Some(source) => Some(source),
            None => self.add_source(request),
        };
        let Some(source) = source else {
            self.outsides.drop_unused(&self.key, outside);
            return Err(NotPlaced::Limit);
        };
        let made = match self.has_room(request, pool, (source, outside), port) {
            true => self.add(request, source, outside, port).ok_or(NotPlaced::Limit),
            false => Err(NotPlaced::Taken),
        };
        if made.is_err() {
            self.drop_unused(source, outside);
        }
        made
    }

    /// May the source have this port, which no mapping has? In a pool of blocks it gets the block.
    fn has_room(
        &mut self,
        request: &Request<'_>,
        pool: &Pool,
        (source, outside): (u32, u32),
        port: u16,
    ) -> bool {
        let Some(class) = class(request.tuple.protocol) else { return true };
        let Some(local) = self.shards.local(port) else { return false };
        let shards = self.shards;
        let Some(address) = self.outsides.get_mut(outside) else { return false };
        // An echo identifier is of ICMP or ICMPv6, which share their numbers.
        if address.bitmap(class, &shards).is_none_or(|bitmap| bitmap.is_used(local)) {
            return false;
        }
        let is_in_block = has_word(&address.in_blocks, usize::from(local) / 64);
        if self.blocks.of_port(&self.sources, source, outside, local).is_some() {
            return true;
        }
        if is_in_block || pool.block == 0 {
            return !is_in_block;
        }
        let has_others = self.sources.get(source).is_none_or(|s| s.blocks >= BLOCKS_PER_SOURCE);
        if has_others || self.blocks.len() >= self.mappings_max {
            return false;
        }
        let now = request.now;
        let (sources, outsides) = (&mut self.sources, &mut self.outsides);
        let mut around = Around { shards: &shards, sources, outsides, now };
        self.blocks.allocate_at(&mut around, source, outside, (pool.block, local)).is_some()
    }
}
