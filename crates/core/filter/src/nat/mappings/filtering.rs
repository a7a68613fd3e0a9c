//! Flows that begin outside: who may begin one to a mapped endpoint, and the remote addresses that
//! address-dependent filtering asks for.
//!
//! Called by: the stack, for first packets to outside addresses; `mappings.rs`. Remote addresses
//! are kept for pools with `Filtering::Address` alone, at most one for each flow. RFC 4787 section
//! 5, RFC 5382 section 4.3.

use core::net::IpAddr;

use super::super::index::{Index, Slab, words};
use super::super::pool::{Filtering, Inside, MappingId, PoolId};
use super::Mappings;
use super::find::Part;
use crate::states::KeyHash;

impl Mappings {
    /// The inside endpoint of a packet to an outside one, if the filtering of its pool lets a
    /// packet from `remote` begin a flow. `None` also if nothing is mapped there.
    pub fn find_outside(
        &self,
        protocol: u8,
        addr: IpAddr,
        port: u16,
        remote: IpAddr,
    ) -> Option<Inside> {
        self.at_outside(protocol, (addr, port), remote)
            .filter(|inside| self.lets_in(inside, remote))
    }

    /// The inside endpoint behind an outside one that a flow uses, whatever its filtering says. For
    /// protocols without ports, the one that talks to `remote`.
    pub fn at_outside(
        &self,
        protocol: u8,
        (addr, port): (IpAddr, u16),
        remote: IpAddr,
    ) -> Option<Inside> {
        let outside = self.outsides.find(&self.key, addr)?;
        let at = self.find_by_outside(outside, protocol, Part::of(protocol, port, remote))?;
        let record = self.records.get(at).filter(|record| record.flows != 0)?;
        let source = self.sources.get(record.source)?;
        let (id, pool) = (record.id(at), PoolId(source.pool));
        Some(Inside { id, pool, addr: source.addr, port: record.inside_port })
    }

    /// Does the filtering of a mapping let a packet from `remote` begin a flow? RFC 4787 REQ-8, RFC
    /// 5382 REQ-3, RFC 6888 REQ-7, RFC 7857 6-a.
    pub fn lets_in(&self, inside: &Inside, remote: IpAddr) -> bool {
        self.filtering(inside.pool).is_some_and(|filtering| match filtering {
            Filtering::Independent => true,
            Filtering::Address => self.remotes.flows(&self.key, inside.id, remote) != 0,
            Filtering::Port => false,
        })
    }

    /// How a pool filters.
    pub fn filtering(&self, pool: PoolId) -> Option<Filtering> {
        self.pools.get(usize::from(pool.0)).map(|slot| slot.pool.filtering)
    }

    /// How many flows a mapping has with a remote address, if its pool has `Filtering::Address`.
    pub fn flows_with(&self, id: MappingId, remote: IpAddr) -> u32 {
        self.remotes.flows(&self.key, id, remote)
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

    pub(super) fn note_remote(&mut self, id: MappingId, remote: IpAddr) {
        let source = self.records.get(id.index).and_then(|r| self.sources.get(r.source));
        let pool = source.and_then(|source| self.pools.get(usize::from(source.pool)));
        if pool.is_some_and(|slot| slot.pool.filtering == Filtering::Address) {
            self.remotes.add(&self.key, id, remote);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Remote {
    id: MappingId,
    addr: IpAddr,
    flows: u32,
}

/// Pairs of a mapping and a remote address.
#[derive(Clone, Debug, Default)]
pub(super) struct Remotes {
    slab: Slab<Remote>,
    index: Index,
}

fn hash(key: &KeyHash, id: MappingId, addr: IpAddr) -> u64 {
    let [high, low] = words(addr);
    key.of_four([u64::from(id.index) << 32 | u64::from(id.generation), high, low, 0])
}

impl Remotes {
    fn find(&self, hash: u64, id: MappingId, addr: IpAddr) -> Option<u32> {
        self.index.find(hash, |at| self.slab.get(at).is_some_and(|r| r.id == id && r.addr == addr))
    }

    /// How many flows the mapping has with this address.
    pub(super) fn flows(&self, key: &KeyHash, id: MappingId, addr: IpAddr) -> u32 {
        let at = self.find(hash(key, id, addr), id, addr);
        at.and_then(|at| self.slab.get(at)).map_or(0, |remote| remote.flows)
    }

    /// A flow begins.
    pub(super) fn add(&mut self, key: &KeyHash, id: MappingId, addr: IpAddr) {
        let hash = hash(key, id, addr);
        if let Some(at) = self.find(hash, id, addr) {
            if let Some(remote) = self.slab.get_mut(at) {
                remote.flows = remote.flows.saturating_add(1);
            }
        } else if let Some(at) = self.slab.insert(Remote { id, addr, flows: 1 }) {
            self.index.insert(hash, at);
        }
    }

    /// A flow ends.
    pub(super) fn remove(&mut self, key: &KeyHash, id: MappingId, addr: IpAddr) {
        if self.slab.len() == 0 {
            return;
        }
        let hash = hash(key, id, addr);
        let Some(at) = self.find(hash, id, addr) else { return };
        let Some(remote) = self.slab.get_mut(at) else { return };
        remote.flows = remote.flows.saturating_sub(1);
        if remote.flows == 0 {
            self.index.remove(hash, at);
            self.slab.remove(at);
        }
    }

    /// How many pairs there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }
}
