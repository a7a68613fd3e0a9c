//! Memory that moves from one size of buffers to another: slabs of which every object is free go
//! back to the system, so that a slab of another class can take their place under the limit.
//!
//! Called by: `pool.rs`, when a free list is empty and the limit admits no more. It walks all free
//! lists: the pool asks rarely.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use std::alloc::dealloc;

use crate::class::Class;
use crate::store::{Header, Store};

/// When a pool may look for whole free slabs again after it found none.
#[derive(Default)]
pub(crate) struct Attempts {
    /// Handles that were out at the last one.
    outstanding: Option<usize>,
    /// Failures since.
    failures: u32,
}

/// Handles that have to come home, or requests that have to fail, before it is worth another walk.
const FEWER_OUT: usize = 8;
const FAILURES: u32 = 1024;

impl Attempts {
    /// Is it worth a walk now? A request has just failed.
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
    /// Give back slabs that are free as a whole, until `bytes` are given back or none is left;
    /// returns how many bytes were.
    pub(crate) fn reclaim(&mut self, bytes: usize) -> usize {
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

    /// The slab that an object lies in. They are in the order of their addresses.
    fn slab_of(&self, header: NonNull<Header>) -> Option<usize> {
        let index = self.slabs.partition_point(|slab| slab.start.cast() <= header);
        index.checked_sub(1)
    }

    /// Take the objects of slabs that go off the free lists; the order of the others stays.
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
                    // SAFETY: as above; the last one kept is no longer on any list but this.
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
            // SAFETY: allocated with this layout in `grow`. All its objects were on free lists, so
            // no handle points into it, and `unlist` has taken them off.
            unsafe { dealloc(slab.start.as_ptr(), slab.layout) }
            false
        });
        self.held_bytes -= bytes;
        self.objects -= objects;
    }
}
