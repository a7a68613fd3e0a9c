//! The remote addresses that mapped endpoints have flows to, for address-dependent filtering.
//!
//! Called by: `mappings.rs`, for pools with `Filtering::Address` alone. There are no more of them
//! than flows. RFC 4787 section 5, REQ-8.

use core::net::IpAddr;

use base::KeyedHash;

use super::super::index::{Index, Slab};
use super::super::pool::MappingId;
use super::words;

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

fn hash(key: &KeyedHash, id: MappingId, addr: IpAddr) -> u64 {
    let [high, low] = words(addr);
    key.hash([u64::from(id.index) << 32 | u64::from(id.generation), high, low, 0])
}

impl Remotes {
    fn find(&self, hash: u64, id: MappingId, addr: IpAddr) -> Option<u32> {
        self.index.find(hash, |at| self.slab.get(at).is_some_and(|r| r.id == id && r.addr == addr))
    }

    /// Has the mapping a flow to this address?
    pub(super) fn contains(&self, key: &KeyedHash, id: MappingId, addr: IpAddr) -> bool {
        self.find(hash(key, id, addr), id, addr).is_some()
    }

    /// A flow begins.
    pub(super) fn add(&mut self, key: &KeyedHash, id: MappingId, addr: IpAddr) {
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
    pub(super) fn remove(&mut self, key: &KeyedHash, id: MappingId, addr: IpAddr) {
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
