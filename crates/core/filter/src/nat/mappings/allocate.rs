//! The choice of an outside address and port for a new mapping.
//!
//! Called by: `mappings.rs`. The address is the one that the source has already (RFC 4787 section
//! 4.1), else one by a hash of the source, so that it is the same one after a pause. The port is
//! the source's own if it is free, else a random one (RFC 6056, RFC 7857 section 9). Parity and
//! contiguity of ports are not kept: RFC 7857 section 8 allows that. A held port goes to another
//! source before its time only if no other port is free: in RFC 6888 section 3 the hold is a
//! SHOULD, and so is the use of all ports.

use base::Instant;

use super::super::index::NONE;
use super::super::pool::{Addresses, Mapped, Pool, Refused, Request};
use super::super::ports::has_word;
use super::blocks::{Around, BLOCKS_PER_SOURCE};
use super::find::Part;
use super::outsides::{Held, class};
use super::{Mapping, Mappings};

/// Addresses of a pool that a new source tries.
const TRIES: u32 = 8;

/// Held ports of other ranges that are passed over for one that fits.
const EARLY_TRIES: usize = 4;

/// A port to find.
struct Wanted<'a> {
    pool: &'a Pool,
    source: u32,
    outside: u32,
    class: usize,
    own_port: u16,
    now: Instant,
    /// Has a socket of the router this one of the shard's own ports?
    is_bound: &'a dyn Fn(u16) -> bool,
}

impl Mappings {
    /// Make the mapping of a source endpoint that has none. RFC 4787 REQ-2, RFC 6888 REQ-2,
    /// RFC 7857 4-a, 4-c.
    pub(super) fn make(
        &mut self,
        request: &Request,
        pool: &Pool,
        source: Option<u32>,
    ) -> Result<Mapped, Refused> {
        let tuple = request.tuple;
        let paired = source.and_then(|at| self.sources.get(at)).map(|source| source.outside);
        let paired = paired.and_then(|at| self.outsides.get(at)).map(|outside| outside.addr);
        let is_given = paired.is_some() || pool.addresses == Addresses::OfPort;
        let tries = if is_given { 1 } else { TRIES };
        let tries = tries.min(pool.addresses.len().max(1));
        let source = match source {
            Some(source) => source,
            None => self.add_source(request).ok_or(Refused::Mappings)?,
        };
        // The source and the outside address stay while old mappings end that are in the way.
        self.pin_source(source, 1);
        let mut made = Err(Refused::Address);
        for step in 0..2 * tries {
            let (is_early, turn) = (step >= tries, step % tries);
            let addr = match pool.addresses {
                Addresses::OfPort => request.port_address,
                Addresses::Network(_) => paired.or_else(|| {
                    let count = u64::from(pool.addresses.len());
                    let first = self.first_of(tuple.src);
                    let index = first.wrapping_add(u64::from(turn)).checked_rem(count)?;
                    pool.addresses.nth(index as u32)
                }),
            };
            let Some(addr) = addr.filter(|addr| addr.is_ipv4() == tuple.src.is_ipv4()) else {
                break;
            };
            let most = self.addresses_max;
            let Some(outside) = self.outsides.find_or_add(&self.key, addr, most) else {
                made = Err(Refused::Addresses);
                continue;
            };
            self.pin_outside(outside, 1);
            let port = self.find_port(request, pool, source, outside, is_early);
            self.pin_outside(outside, -1);
            if let Some(port) = port {
                made = self.add(request, source, outside, port).ok_or(Refused::Mappings);
                break;
            }
            made = Err(Refused::Ports);
            self.outsides.drop_unused(&self.key, outside);
        }
        self.pin_source(source, -1);
        self.counters.no_port += u64::from(made == Err(Refused::Ports));
        self.drop_unused(source, NONE);
        made
    }

    pub(super) fn pin_source(&mut self, source: u32, by: i32) {
        if let Some(source) = self.sources.get_mut(source) {
            source.mappings = source.mappings.saturating_add_signed(by);
        }
    }

    pub(super) fn pin_outside(&mut self, outside: u32, by: i32) {
        if let Some(outside) = self.outsides.get_mut(outside) {
            outside.pins = outside.pins.saturating_add_signed(by);
        }
    }

    pub(super) fn add_source(&mut self, request: &Request) -> Option<u32> {
        let pool = request.pool.0;
        let source = self.sources.add(&self.key, pool, request.tuple.src)?;
        if let Some(slot) = self.pools.get_mut(usize::from(pool)) {
            slot.sources += 1;
        }
        Some(source)
    }

    /// A free port of an outside address.
    fn find_port(
        &mut self,
        request: &Request,
        pool: &Pool,
        source: u32,
        outside: u32,
        is_early: bool,
    ) -> Option<u16> {
        let (tuple, now) = (request.tuple, request.now);
        let Some(class) = class(tuple.protocol) else {
            // One inside host of each outside address talks to a remote host; it takes no port.
            let part = Part::of(tuple.protocol, 0, tuple.dst);
            let is_free = self.find_by_outside(outside, tuple.protocol, part).is_none();
            return (is_free && self.shards.is_first()).then_some(0);
        };
        let addr = self.outsides.get(outside)?.addr;
        let shards = self.shards;
        let is_bound = |local: u16| request.is_bound(addr, shards.port(local));
        let own_port = tuple.src_port;
        let wanted = Wanted { pool, source, outside, class, own_port, now, is_bound: &is_bound };
        let local = match pool.block {
            0 => self.single(&wanted, is_early),
            _ => self.of_block(&wanted, is_early),
        }?;
        Some(self.shards.port(local))
    }

    pub(super) fn add(
        &mut self,
        request: &Request,
        source: u32,
        outside: u32,
        port: u16,
    ) -> Option<Mapped> {
        let tuple = request.tuple;
        let class = class(tuple.protocol);
        let inside_port = if class.is_some() { tuple.src_port } else { 0 };
        let remote = match class {
            Some(_) => NONE,
            None => self.portless.insert(tuple.dst)?,
        };
        self.generation = self.generation.wrapping_add(1);
        let mapping = Mapping {
            source,
            outside,
            flows: 1,
            generation: self.generation,
            held: Held::NOT,
            remote,
            inside_port,
            outside_port: port,
            protocol: tuple.protocol,
        };
        let Some(at) = self.records.insert(mapping) else {
            self.portless.remove(remote);
            return None;
        };
        let [inside, out] = [inside_port, port].map(|port| self.part_of(&mapping, port));
        self.by_inside.insert(self.hash_endpoint(source, tuple.protocol, inside), at);
        self.by_outside.insert(self.hash_endpoint(outside, tuple.protocol, out), at);
        let address = self.outsides.get_mut(outside)?;
        address.mappings += 1;
        let addr = address.addr;
        if let (Some(class), Some(local)) = (class, self.shards.local(port)) {
            if let Some(bitmap) = address.bitmap(class, &self.shards) {
                bitmap.set(local, true);
            }
            if let Some(block) = self.blocks.of_port(&self.sources, source, outside, local) {
                self.blocks.taken(block);
            }
        }
        let owner = self.sources.get_mut(source)?;
        owner.outside = outside;
        owner.mappings += 1;
        owner.in_use += 1;
        if let Some(slot) = self.pools.get_mut(usize::from(request.pool.0)) {
            slot.mappings += 1;
        }
        self.counters.made += 1;
        self.counters.kept += u64::from(class.is_some() && port == tuple.src_port);
        self.note_remote(mapping.id(at), tuple.dst);
        let port = mapping.shown_port(tuple.src_port);
        Some(Mapped { id: mapping.id(at), addr, port, is_new: true })
    }

    /// A port that is in no block: any free one, else one that is only held. RFC 6888 REQ-13.
    fn single(&mut self, wanted: &Wanted<'_>, is_early: bool) -> Option<u16> {
        // A new flow ends more held mappings than it makes.
        self.expire(wanted.outside, wanted.class, wanted.now, 4);
        if let Some(local) = self.single_now(wanted) {
            return Some(local);
        }
        for _ in 0..if is_early { EARLY_TRIES } else { 0 } {
            let outside = self.outsides.get(wanted.outside)?;
            let head = outside.held.get(wanted.class)?.head;
            self.records.get(head)?;
            self.remove(head, wanted.now);
            if let Some(local) = self.single_now(wanted) {
                self.counters.early += 1;
                return Some(local);
            }
        }
        None
    }

    fn single_now(&mut self, wanted: &Wanted<'_>) -> Option<u16> {
        let random = self.random();
        let (pool, own) = (wanted.pool, wanted.own_port);
        let outside = self.outsides.get_mut(wanted.outside)?;
        let in_blocks = outside.in_blocks;
        let bitmap = outside.bitmap(wanted.class, &self.shards)?;
        let is_well_known = pool.well_known && (1..1_024).contains(&own);
        if is_well_known || (pool.ports.0..=pool.ports.1).contains(&own) {
            let is_free = |local: &u16| {
                let is_single = !has_word(&in_blocks, usize::from(*local) / 64);
                is_single && !bitmap.is_used(*local) && !(wanted.is_bound)(*local)
            };
            if let Some(local) = self.shards.local(own).filter(is_free) {
                return Some(local);
            }
        }
        // RFC 4787 REQ-3a: a port of the same part of the numbers, if there is one.
        let well_known = is_well_known.then(|| self.shards.range(1, 1_023)).flatten();
        let ranges = [well_known, self.shards.range(pool.ports.0, pool.ports.1)];
        ranges
            .into_iter()
            .flatten()
            .find_map(|range| bitmap.find_unbound(range, &in_blocks, random, wanted.is_bound))
    }

    /// A port of the source's blocks, or of a new block.
    fn of_block(&mut self, wanted: &Wanted<'_>, is_early: bool) -> Option<u16> {
        for _ in 0..2 {
            let Some(block) = self.blocks.overdue(wanted.now, None) else { break };
            self.free_block(block, wanted.now);
        }
        if let Some(local) = self.of_own_blocks(wanted) {
            return Some(local);
        }
        if self.sources.get(wanted.source)?.blocks >= BLOCKS_PER_SOURCE {
            return None;
        }
        if is_early {
            let block = self.blocks.overdue(wanted.now, Some(wanted.outside))?;
            self.free_block(block, wanted.now);
            self.counters.early += 1;
        }
        // Blocks are bounded like mappings, because held ones have none.
        if self.blocks.len() >= self.mappings_max {
            return None;
        }
        let range = self.shards.range(wanted.pool.ports.0, wanted.pool.ports.1)?;
        let random = self.random();
        let (shards, sources) = (&self.shards, &mut self.sources);
        let now = wanted.now;
        let mut around = Around { shards, sources, outsides: &mut self.outsides, now };
        let (source, outside) = (wanted.source, wanted.outside);
        let len = (wanted.pool.block, range);
        self.blocks.allocate(&mut around, source, outside, len, random)?;
        self.of_own_blocks(wanted)
    }

    fn of_own_blocks(&mut self, wanted: &Wanted<'_>) -> Option<u16> {
        let random = self.random();
        let own = self.shards.local(wanted.own_port);
        let first = self.sources.get(wanted.source)?.first_block;
        let bitmap = self.outsides.get_mut(wanted.outside)?.bitmap(wanted.class, &self.shards)?;
        let mut found = None;
        let mut at = first;
        while let Some(block) = self.blocks.get(at) {
            at = block.next;
            if block.outside != wanted.outside {
                continue;
            }
            let (low, high) = block.range();
            let is_bound = wanted.is_bound;
            let is_free = |local: &u16| {
                (low..=high).contains(local) && !bitmap.is_used(*local) && !is_bound(*local)
            };
            if let Some(own) = own.filter(is_free) {
                return Some(own);
            }
            found = found
                .or_else(|| bitmap.find_unbound((low, high), &[0; 16], random, wanted.is_bound));
        }
        found
    }

    /// A number that nobody outside can predict. RFC 6888 REQ-15, RFC 7857 9-a.
    fn random(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(1);
        self.random.hash([self.draws, u64::MAX])
    }
}
