//! The part of another stack's RIB that a stack needs besides the FIB: the routes of prefixes that
//! have restricted routes, and of the prefixes around these. A walk for a sender looks at no
//! others.
//!
//! Called by: `rib.rs`, which says what changed; `lookup.rs` of the stack that follows; `stack`,
//! which carries it from one stack to the other. It is rebuilt only if one of those routes changed.
//! docs/decisions/0081.

use core::cell::OnceCell;
use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fib::Target;
use super::rib::{IsV6, Known, Level, Routes, level};
use super::trie::{Prefix, mask};

/// Routes by level, then by prefix.
pub(super) type Levels = BTreeMap<Level, BTreeMap<u128, Known>>;

/// A copy of the restricted routes and of those around them, as they were at one moment.
#[derive(Debug, Default)]
pub struct Restricted {
    pub(super) levels: Levels,
    /// Ports whose link is down.
    pub(super) down: BTreeSet<u16>,
    /// The number of routes that are not for everybody.
    pub(super) count: usize,
}

/// The prefixes with such routes, in the order of their bits, and the last copy.
#[derive(Debug, Default)]
pub(super) struct Index {
    prefixes: BTreeSet<(IsV6, u32, u128, u8)>,
    made: OnceCell<Arc<Restricted>>,
}

impl Index {
    /// The routes of a prefix changed: does it have restricted ones now?
    pub(super) fn note(&mut self, target: &Target, is_restricted: bool) {
        let Target { table, is_v6, prefix: Prefix { key, len } } = *target;
        let is_new = match is_restricted {
            true => self.prefixes.insert((is_v6, table, key, len)),
            false => self.prefixes.remove(&(is_v6, table, key, len)),
        };
        // The prefix is one of those, or around one.
        let within = (is_v6, table, key, 0)..=(is_v6, table, key | !mask(len), u8::MAX);
        if is_new || self.prefixes.range(within).next().is_some() {
            self.forget();
        }
    }

    /// The last copy is out of date.
    pub(super) fn forget(&mut self) {
        self.made.take();
    }
}

impl Routes {
    /// The copy for [`Routes::follow_restricted`] of a stack that looks up in this one's FIB. It is
    /// the same as the last time unless one of those routes changed.
    pub fn restricted_part(&self) -> &Arc<Restricted> {
        self.index.made.get_or_init(|| Arc::new(self.make_part()))
    }

    /// Look up restricted routes in `part`, a copy of the other stack's routes of a moment ago.
    /// Only for [`Routes::following`].
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
                let (target, key) = ((Reverse(len), is_v6, table), key & mask(len));
                let Some(known) = self.levels.get(&target).and_then(|l| l.get(&key)) else {
                    continue;
                };
                // If this prefix is there, so are the prefixes around it.
                if levels.entry(target).or_default().insert(key, known.clone()).is_some() {
                    break;
                }
            }
        }
        let down = if levels.is_empty() { BTreeSet::new() } else { self.down.clone() };
        Restricted { levels, down, count: self.restricted }
    }

    /// The routes that a walk looks at.
    pub(super) fn walked(&self) -> &Levels {
        if self.follows() { &self.lent.levels } else { &self.levels }
    }

    /// Called after a change of the routes of a prefix.
    pub(super) fn note_restricted(&mut self, target: &Target) {
        let known = self.levels.get(&level(target)).and_then(|l| l.get(&target.prefix.key));
        let has = known.is_some_and(|k| k.routes.iter().any(|route| route.restrictions() != 0));
        self.index.note(target, has);
    }
}
