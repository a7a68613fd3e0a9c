//! The part of another stack's RIB that a stack needs besides the FIB: the routes of prefixes that
//! have restricted routes, and of the prefixes that contain these. A walk for a sender examines no
//! others.
//!
//! Called by: `rib.rs`, which notes changes; `lookup.rs` of the stack that uses another's FIB;
//! `stack`, which passes the part from one stack to the other. The part is rebuilt only if one of
//! those routes has changed. docs/decisions/0081.

use core::cell::OnceCell;
use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Cidr;

use super::Route;
use super::fib::Target;
use super::group::GroupIndex;
use super::rib::{Found, IsV6, Level, Routes, level, target};
use super::trie::{Prefix, mask};

/// The routes of a prefix, and their group.
type Lent = (Vec<Route>, GroupIndex);
/// Routes by level, then by prefix.
type Levels = BTreeMap<Level, BTreeMap<u128, Lent>>;

/// A copy of the restricted routes and of those to containing prefixes, as they were at one time.
#[derive(Debug, Default)]
pub struct Restricted {
    levels: Levels,
    /// Ports whose link is down.
    pub(super) down: BTreeSet<u16>,
    /// The number of routes that only some users may use.
    pub(super) count: usize,
}

/// The prefixes with such routes, in the order of their bits, and the last copy made.
#[derive(Debug, Default)]
pub(super) struct Index {
    prefixes: BTreeSet<(IsV6, u32, u128, u8)>,
    made: OnceCell<Arc<Restricted>>,
}

impl Index {
    /// Note that the routes of a prefix changed, and whether it has restricted ones now.
    pub(super) fn note(&mut self, target: &Target, is_restricted: bool) {
        let Target { table, is_v6, prefix: Prefix { key, len } } = *target;
        let is_new = match is_restricted {
            true => self.prefixes.insert((is_v6, table, key, len)),
            false => self.prefixes.remove(&(is_v6, table, key, len)),
        };
        // The prefix is one with restricted routes, or contains one.
        let within = (is_v6, table, key, 0)..=(is_v6, table, key | !mask(len), u8::MAX);
        if is_new || self.prefixes.range(within).next().is_some() {
            self.forget();
        }
    }

    /// Note that the last copy is out of date.
    pub(super) fn forget(&mut self) {
        self.made.take();
    }
}

impl Routes {
    /// The copy for [`Routes::follow_restricted`] of a stack that uses this one's FIB. It is the
    /// same as the last time unless one of those routes has changed.
    pub fn restricted_part(&self) -> &Arc<Restricted> {
        self.index.made.get_or_init(|| Arc::new(self.make_part()))
    }

    /// Look up restricted routes in `part`, a copy of the other stack's routes. Only for
    /// [`Routes::following`].
    pub fn follow_restricted(&mut self, part: &Arc<Restricted>) {
        if self.follows() && !Arc::ptr_eq(&self.lent, part) {
            self.lent = Arc::clone(part);
            self.down.clone_from(&part.down);
            self.restricted = part.count;
        }
    }

    fn make_part(&self) -> Restricted {
        let mut levels = Levels::new();
        for &(is_v6, table, key, len) in &self.index.prefixes {
            for len in (0..=len).rev() {
                let (level, key) = ((Reverse(len), is_v6, table), key & mask(len));
                let target = Target { table, is_v6, prefix: Prefix { key, len } };
                let Some(found) = self.found_at(&target) else { continue };
                let lent = (found.routes.to_vec(), found.group);
                // If this prefix is there, so are the prefixes that contain it.
                if levels.entry(level).or_default().insert(key, lent).is_some() {
                    break;
                }
            }
        }
        let down = if levels.is_empty() { BTreeSet::new() } else { self.down.clone() };
        Restricted { levels, down, count: self.restricted }
    }

    /// The routes of a prefix that a walk examines.
    pub(super) fn walked(&self, dest: Cidr, table: u32) -> Option<Found<'_>> {
        let target = target(dest, table);
        if !self.follows() {
            return self.found_at(&target);
        }
        let (routes, group) = self.lent.levels.get(&level(&target))?.get(&target.prefix.key)?;
        Some(Found { dest, table, routes, group: *group })
    }

    /// Called after a change of the routes of a prefix.
    pub(super) fn note_restricted(&mut self, target: &Target) {
        let found = self.found_at(target);
        let has = found.is_some_and(|f| f.routes.iter().any(|route| route.restrictions() != 0));
        self.index.note(target, has);
    }
}
