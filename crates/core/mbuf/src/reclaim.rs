//! Moves memory between size classes: slabs that are entirely free are returned to the system, so
//! that a slab of another class fits under the limit.
//!
//! Called by: `pool.rs`, when a free list is empty and the limit is reached, and when memory is
//! given back after a bulk transfer. It walks all free lists, so the pool calls it rarely.
#![allow(unsafe_code)]

use core::ptr::NonNull;

use crate::class::Class;
use crate::pages;
use crate::store::{Header, Store};

/// Limits how often a pool looks for free slabs after a failed attempt.
#[derive(Default)]
pub(crate) struct Attempts {
    /// Handles in use at the last attempt.
    outstanding: Option<usize>,
    /// Failed requests since that attempt.
    failures: u32,
}

/// Another walk begins only after this many handles have come back, or (`FAILURES`) this many
/// requests have failed.
const FEWER_OUT: usize = 8;
const FAILURES: u32 = 1024;

impl Attempts {
    /// A request has just failed: is a walk worth its time now?
    pub(crate) fn admit(&mut self, outstanding: usize) -> bool {
        self.failures += 1;
        let again = self.outstanding.is_none_or(|then| outstanding + FEWER_OUT <= then);
        if again || self.failures >= FAILURES {
            *self = Attempts { outstanding: Some(outstanding), failures: 0 };
            return true;
        }
        false
    }
}

impl Store {
    /// Free slabs without used objects, until `bytes` bytes are freed or no such slab is left;
    /// returns the bytes freed.
    pub(crate) fn reclaim(&mut self, bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        self.slabs.sort_unstable_by_key(|slab| slab.start);
        let mut free_objects = vec![0; self.slabs.len()];
        for list in self.free {
            let mut at = list;
            while let Some(header) = at {
                if let Some(index) = self.slab_of(header) {
                    free_objects[index] += 1;
                }
                // SAFETY: a header on a free list belongs to the store alone.
                at = unsafe { header.as_ref().next.get() };
            }
        }
        let mut given = 0;
        let goes: Vec<bool> = (self.slabs.iter().zip(&free_objects))
            .map(|(slab, &free)| {
                let goes = given < bytes && free == slab.objects;
                given += if goes { slab.layout.size() } else { 0 };
                goes
            })
            .collect();
        if given > 0 {
            self.unlist(&goes);
            self.release_slabs(&goes);
        }
        given
    }

    /// The index of the slab that contains an object; `slabs` must be sorted by address.
    fn slab_of(&self, header: NonNull<Header>) -> Option<usize> {
        let index = self.slabs.partition_point(|slab| slab.start.cast() <= header);
        index.checked_sub(1)
    }

    /// Remove the objects of slabs that are to be freed from the free lists; the others keep their
    /// order.
    fn unlist(&mut self, goes: &[bool]) {
        for class in Class::CLUSTERS.into_iter().chain([Class::Share]) {
            let mut kept: Option<NonNull<Header>> = None;
            let mut at = self.free[class as usize].take();
            while let Some(header) = at {
                // SAFETY: headers on a free list belong to the store alone.
                at = unsafe { header.as_ref().next.get() };
                // SAFETY: as above.
                unsafe { header.as_ref().next.set(None) };
                if self.slab_of(header).is_some_and(|index| goes[index]) {
                    continue;
                }
                match kept {
                    // SAFETY: as above; `last` is on no other list.
                    Some(last) => unsafe { last.as_ref().next.set(Some(header)) },
                    None => self.free[class as usize] = Some(header),
                }
                kept = Some(header);
            }
        }
    }

    fn release_slabs(&mut self, goes: &[bool]) {
        let mut goes = goes.iter();
        let (mut bytes, mut objects) = (0, 0);
        self.slabs.retain(|slab| {
            if goes.next() != Some(&true) {
                return true;
            }
            bytes += slab.layout.size();
            objects += slab.objects;
            // SAFETY: taken with this layout in `grow`. All its objects were on free lists, so
            // no handle points into it, and `unlist` has removed them.
            unsafe { pages::give_back(slab.start, slab.layout) }
            false
        });
        self.held_bytes -= bytes;
        self.objects -= objects;
    }
}
