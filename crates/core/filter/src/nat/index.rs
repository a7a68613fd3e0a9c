//! Two plain containers: records with numbers that stay, and a hash index of such numbers.
//!
//! Called by: `mappings.rs` and the files below it. An index holds no keys: a slot is 8 bytes, of
//! which half are the hash, so that a search reads a record only where 32 bits agree. Keys come
//! from the network, so that the caller hashes them with `states::KeyHash`, under a secret.

use core::net::IpAddr;

use crate::states::KeyHash;

/// Records that keep their number until they are removed.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Entry<T>>,
    /// The first free entry, [`NONE`] if there is none.
    free: u32,
    len: u32,
}

#[derive(Clone, Debug)]
enum Entry<T> {
    Used(T),
    /// The next free entry.
    Free(u32),
}

/// No record.
pub(super) const NONE: u32 = u32::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: NONE, len: 0 }
    }
}

impl<T> Slab<T> {
    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Numbers of records are below this.
    pub(super) fn bound(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Add a record; `None` if there are 2^32 - 1.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        let at = match self.entries.get_mut(self.free as usize) {
            Some(entry) => {
                let at = self.free;
                if let Entry::Free(next) = *entry {
                    self.free = next;
                }
                *entry = Entry::Used(value);
                at
            }
            None => {
                let at = u32::try_from(self.entries.len()).ok().filter(|at| *at != NONE)?;
                self.entries.push(Entry::Used(value));
                at
            }
        };
        self.len += 1;
        Some(at)
    }

    /// Remove a record.
    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let entry = self.entries.get_mut(at as usize)?;
        if let Entry::Free(_) = entry {
            return None;
        }
        let Entry::Used(value) = core::mem::replace(entry, Entry::Free(self.free)) else {
            return None;
        };
        self.free = at;
        self.len -= 1;
        Some(value)
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&T> {
        match self.entries.get(at as usize)? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.entries.get_mut(at as usize)? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }
}

/// Numbers of records by a hash of their key: open addressing, linear probing, at most three
/// quarters full.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The hash in the upper half, the number plus 1 in the lower half; 0 is empty.
    slots: Vec<u64>,
    len: usize,
}

impl Index {
    /// An index that need not grow up to `capacity` records. Its memory is zero pages until used.
    pub(super) fn with_capacity(capacity: usize) -> Index {
        let slots = (capacity.saturating_mul(4) / 3 + 1).next_power_of_two();
        Index { slots: vec![0; slots], len: 0 }
    }

    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    /// Fetch the slot of a key with this hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.slots.get(hash as usize & self.mask()).map(mbuf::prefetch);
    }

    /// The record whose key has this hash and for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.slot_of(hash, is_it).map(|(_, record)| record)
    }

    #[inline]
    fn slot_of(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mut at = hash as usize & self.mask();
        loop {
            let slot = *self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            let record = (slot as u32).wrapping_sub(1);
            if (slot >> 32) as u32 == hash as u32 && is_it(record) {
                return Some((at, record));
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Add a record, whose key is not there yet.
    pub(super) fn insert(&mut self, hash: u64, record: u32) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            let old = core::mem::take(&mut self.slots);
            self.slots = vec![0; (old.len() * 2).max(16)];
            for slot in old.into_iter().filter(|slot| *slot != 0) {
                self.place(slot);
            }
        }
        self.place((hash << 32) | (u64::from(record) + 1));
        self.len += 1;
    }

    fn place(&mut self, new: u64) {
        let mut at = (new >> 32) as usize & self.mask();
        while let Some(slot) = self.slots.get_mut(at) {
            if *slot == 0 {
                *slot = new;
                return;
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Remove a record; the slots behind it move up, so that no tombstones gather.
    pub(super) fn remove(&mut self, hash: u64, record: u32) {
        let Some((mut hole, _)) = self.slot_of(hash, |other| other == record) else { return };
        self.len -= 1;
        let mask = self.mask();
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots.get(at).copied().unwrap_or_default();
            if slot == 0 {
                break;
            }
            // May the slot move to the hole: is its first choice not between the hole and it?
            let first = (slot >> 32) as usize & mask;
            if (at.wrapping_sub(first) & mask) >= (at.wrapping_sub(hole) & mask) {
                if let Some(to) = self.slots.get_mut(hole) {
                    *to = slot;
                }
                hole = at;
            }
        }
        if let Some(slot) = self.slots.get_mut(hole) {
            *slot = 0;
        }
    }
}

/// An address as two words.
pub(super) fn words(addr: IpAddr) -> [u64; 2] {
    match addr {
        IpAddr::V4(addr) => [1 << 32 | u64::from(addr.to_bits()), 0],
        IpAddr::V6(addr) => [(addr.to_bits() >> 64) as u64, addr.to_bits() as u64],
    }
}

/// The hash of an address with a number.
#[inline]
pub(super) fn hash_addr(key: &KeyHash, number: u64, addr: IpAddr) -> u64 {
    let [high, low] = words(addr);
    key.of_four([high, low, number, 0])
}

#[cfg(test)]
mod tests;
