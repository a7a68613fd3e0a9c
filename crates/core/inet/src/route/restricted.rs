//! What a stack needs of another's RIB besides its FIB: the routes of the prefixes that are not for
//! everybody, and of the prefixes around these. A walk for a sender comes to no others.
//!
//! Called by: `rib.rs`, which says what changed; `lookup.rs` of the stack that follows; `stack`,
//! which carries it from one to the other. It is made anew when one of those routes changed, not
//! when another did. docs/decisions/0081.

use core::cell::OnceCell;
use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fib::Target;
use super::rib::{IsV6, Known, Level, Routes, level};
use super::trie::{Prefix, mask};

/// Routes by level, then by prefix.
pub(super) type Levels = BTreeMap<Level, BTreeMap<u128, Known>>;

/// The routes around those that are not for everybody, as they were at one moment.
#[derive(Debug, Default)]
pub struct Restricted {
    pub(super) levels: Levels,
    /// Ports whose link is down.
    pub(super) down: BTreeSet<u16>,
    /// Routes that are not for everybody.
    pub(super) count: usize,
}

/// Which prefixes have such routes, in the order of their bits, and what was last made of them.
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
        // One of those, or a prefix around one.
        let within = (is_v6, table, key, 0)..=(is_v6, table, key | !mask(len), u8::MAX);
        if is_new || self.prefixes.range(within).next().is_some() {
            self.forget();
        }
    }

    /// What was made is out of date.
    pub(super) fn forget(&mut self) {
        self.made.take();
    }
}

impl Routes {
    /// What [`Routes::follow_restricted`] of a stack that looks up in this one's FIB wants. The
    /// same as the last time unless one of those routes changed.
    pub fn restricted_part(&self) -> &Arc<Restricted> {
        self.index.made.get_or_init(|| Arc::new(self.make_part()))
    }

    /// Restricted routes are looked up in these, which were the other stack's a moment ago. Of
    /// [`Routes::following`] alone.
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
                // Those around it are there as well.
                if levels.entry(target).or_default().insert(key, known.clone()).is_some() {
                    break;
                }
            }
        }
        let down = if levels.is_empty() { BTreeSet::new() } else { self.down.clone() };
        Restricted { levels, down, count: self.restricted }
    }

    /// What a walk looks at.
    pub(super) fn walked(&self) -> &Levels {
        if self.follows() { &self.lent.levels } else { &self.levels }
    }

    /// After a change of the routes of a prefix.
    pub(super) fn note_restricted(&mut self, target: &Target) {
        let known = self.levels.get(&level(target)).and_then(|l| l.get(&target.prefix.key));
        let has = known.is_some_and(|k| k.routes.iter().any(|route| route.restrictions() != 0));
        self.index.note(target, has);
    }
}
