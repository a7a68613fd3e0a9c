//! The flow cache: it guesses which connection a segment belongs to. It is searched before the
//! table, because the table's keyed hash costs more than a whole lookup here.
//!
//! Called by: `connections.rs`, which compares each result with the connection's own key: so an
//! entry may be wrong, and none has to be removed. An attacker who makes flows collide only causes
//! lookups in the table.

use inet::FlowKey;
use slotmap::Key;

use crate::handles::TcpHandle;

/// Sets of two entries each: 4,096 flows in 96 KB. With a quarter of the entries in use, one flow
/// in fifty has no place.
const SETS: usize = 2048;

/// The part of a key's hash that did not choose the set, and the connection.
#[derive(Clone, Copy)]
struct Entry {
    tag: u32,
    handle: TcpHandle,
}

/// Flows by the hash of their key. In a set the flow that was stored last comes first.
pub(crate) struct FlowCache {
    sets: Box<[[Entry; 2]]>,
}

impl Default for FlowCache {
    fn default() -> FlowCache {
        let none = Entry { tag: 0, handle: TcpHandle::null() };
        FlowCache { sets: vec![[none; 2]; SETS].into_boxed_slice() }
    }
}

impl FlowCache {
    /// The connection that a segment with this key probably belongs to.
    #[inline(always)]
    pub(crate) fn get(&self, key: &FlowKey) -> Option<TcpHandle> {
        let (set, tag) = place(key);
        let [first, second] = self.sets.get(set)?;
        let entry = if first.tag == tag { first } else { second };
        (entry.tag == tag).then_some(entry.handle)
    }

    /// Store the connection of segments with this key. In a full set the older of the two flows
    /// loses its place.
    pub(crate) fn put(&mut self, key: &FlowKey, handle: TcpHandle) {
        let (set, tag) = place(key);
        if let Some(set) = self.sets.get_mut(set) {
            *set = [Entry { tag, handle }, set[0]];
        }
    }
}

#[inline(always)]
fn place(key: &FlowKey) -> (usize, u32) {
    let hash = key.cheap_hash();
    (hash as usize & (SETS - 1), (hash >> 16) as u32)
}

#[cfg(test)]
mod tests;
