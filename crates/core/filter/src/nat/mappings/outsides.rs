//! Outside addresses that mappings use: which of their ports are taken, and by whom.
//!
//! Called by: `mappings.rs` and `blocks.rs`. The three protocols with ports have a bitmap each,
//! made when the first port is taken. An address goes with its last mapping. RFC 4787 REQ-3 (no
//! port is given twice), RFC 5382 REQ-7.

use core::net::IpAddr;

use wire::protocol;

use super::super::index::{Index, NONE, Slab, hash_addr};
use super::super::ports::{Bitmap, Shards, Words};
use crate::states::KeyHash;

/// A list of records that are linked by their numbers, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NONE, tail: NONE };
}

/// The neighbours of a record in a [`List`], and until when it is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Seconds.
    pub(super) until_s: u32,
}

impl Held {
    pub(super) const NOT: Held = Held { previous: NONE, next: NONE, until_s: 0 };
}

/// Records with a [`Held`] for a list.
pub(super) trait Linked {
    fn held(&mut self) -> &mut Held;
}

impl List {
    /// Add a record at the end.
    pub(super) fn push<T: Linked>(&mut self, slab: &mut Slab<T>, at: u32, until_s: u32) {
        if let Some(record) = slab.get_mut(at) {
            *record.held() = Held { previous: self.tail, next: NONE, until_s };
        }
        match slab.get_mut(self.tail) {
            Some(tail) => tail.held().next = at,
            None => self.head = at,
        }
        self.tail = at;
    }

    /// Remove a record that is in this list.
    pub(super) fn unlink<T: Linked>(&mut self, slab: &mut Slab<T>, at: u32) {
        let Some(held) = slab.get_mut(at).map(|r| core::mem::replace(r.held(), Held::NOT)) else {
            return;
        };
        match slab.get_mut(held.previous) {
            Some(previous) => previous.held().next = held.next,
            None => self.head = held.next,
        }
        match slab.get_mut(held.next) {
            Some(next) => next.held().previous = held.previous,
            None => self.tail = held.previous,
        }
    }
}

/// The protocols whose ports are taken separately.
pub(super) const CLASSES: usize = 3;

/// The class of a protocol; `None` if it has no ports here.
pub(super) fn class(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(0),
        protocol::UDP => Some(1),
        protocol::ICMP | protocol::ICMPV6 => Some(2),
        _ => None,
    }
}

/// One outside address.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    pub(super) addr: IpAddr,
    /// Mappings in use or held.
    pub(super) mappings: u32,
    /// Ports taken without a mapping, and blocks.
    pub(super) pins: u32,
    /// Words that are in blocks.
    pub(super) in_blocks: Words,
    /// Mappings that nobody uses and whose ports are held.
    pub(super) held: [List; CLASSES],
    bitmaps: [Option<Bitmap>; CLASSES],
}

impl Outside {
    pub(super) fn bitmap(&mut self, class: usize, shards: &Shards) -> Option<&mut Bitmap> {
        Some(self.bitmaps.get_mut(class)?.get_or_insert_with(|| Bitmap::new(shards)))
    }

    /// Words with a port in use or in a block.
    pub(super) fn taken(&self) -> Words {
        let mut taken = self.in_blocks;
        for bitmap in self.bitmaps.iter().flatten() {
            for (word, any) in taken.iter_mut().zip(bitmap.any()) {
                *word |= any;
            }
        }
        taken
    }

    /// The ports in use, by class and the shard's own numbers.
    pub(super) fn used(&self) -> impl Iterator<Item = (usize, u16)> {
        let bitmaps = self.bitmaps.iter().enumerate();
        bitmaps.flat_map(|(class, bitmap)| {
            bitmap.iter().flat_map(Bitmap::used).map(move |local| (class, local))
        })
    }
}

/// The outside addresses of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Outsides {
    slab: Slab<Outside>,
    by_addr: Index,
}

impl Outsides {
    fn find_hashed(&self, hash: u64, addr: IpAddr) -> Option<u32> {
        self.by_addr.find(hash, |at| self.slab.get(at).is_some_and(|o| o.addr == addr))
    }

    pub(super) fn find(&self, key: &KeyHash, addr: IpAddr) -> Option<u32> {
        self.find_hashed(hash_addr(key, 0, addr), addr)
    }

    /// `None` if there are `most` others.
    pub(super) fn find_or_add(&mut self, key: &KeyHash, addr: IpAddr, most: usize) -> Option<u32> {
        let hash = hash_addr(key, 0, addr);
        if let Some(at) = self.find_hashed(hash, addr) {
            return Some(at);
        }
        if self.slab.len() >= most {
            return None;
        }
        let at = self.slab.insert(Outside {
            addr,
            mappings: 0,
            pins: 0,
            in_blocks: [0; 16],
            held: [List::EMPTY; CLASSES],
            bitmaps: [const { None }; CLASSES],
        })?;
        self.by_addr.insert(hash, at);
        Some(at)
    }

    /// Forget an address that nothing uses.
    pub(super) fn drop_unused(&mut self, key: &KeyHash, at: u32) {
        let Some(outside) = self.slab.get(at) else { return };
        if outside.mappings == 0 && outside.pins == 0 {
            self.by_addr.remove(hash_addr(key, 0, outside.addr), at);
            self.slab.remove(at);
        }
    }

    pub(super) fn get(&self, at: u32) -> Option<&Outside> {
        self.slab.get(at)
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Outside> {
        self.slab.get_mut(at)
    }

    /// Numbers of addresses are below this.
    pub(super) fn bound(&self) -> u32 {
        self.slab.bound()
    }
}
