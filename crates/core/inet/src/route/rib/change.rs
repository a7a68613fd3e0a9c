//! Changes the routes of a prefix, and accordingly the counts and the FIB.
//!
//! Called by: `rib.rs`, for every route that is added or removed and every link that goes up or
//! down. A prefix is in the FIB as long as packets may use one of its routes.

use core::cmp::Reverse;
use std::collections::BTreeSet;

use base::Instant;

use super::{Known, Level, Routes, level};
use crate::route::fib::{Root, Target, Writer};
use crate::route::group::{GroupIndex, Path};
use crate::route::trie::{Prefix, SHORT, mask};
use crate::route::{PATHS_MAX, Route};

impl Routes {
    pub(super) fn count(&mut self, route: &Route) {
        self.len += 1;
        self.restricted += usize::from(route.restrictions() != 0);
        self.by_origin[route.origin as usize] += 1;
        if route.expires != Instant::NEVER {
            *self.expiries.entry(route.expires).or_default() += 1;
        }
    }

    pub(super) fn uncount(&mut self, route: &Route) {
        self.len -= 1;
        self.restricted -= usize::from(route.restrictions() != 0);
        self.by_origin[route.origin as usize] -= 1;
        if let Some(count) = self.expiries.get_mut(&route.expires) {
            *count -= 1;
            if *count == 0 {
                self.expiries.remove(&route.expires);
            }
        }
    }

    /// Change the routes of one prefix, and the FIB accordingly.
    pub(super) fn change(&mut self, target: Target, change: impl FnOnce(&mut Vec<Route>)) {
        let Target { table, is_v6, prefix } = target;
        let level = self.levels.entry(level(&target)).or_default();
        let known = level.entry(prefix.key).or_default();
        change(&mut known.routes);
        let old = known.group;
        let is_new = old == GroupIndex::NONE;
        let group = self.fib.group(&paths(&known.routes, &self.down), old);
        if is_new {
            known.wide = prefix.len > SHORT && self.fib.is_wide(table, is_v6);
            known.narrow = !known.wide;
        }
        known.group = group;
        let (is_wide, is_narrow) = (known.wide, known.narrow);
        if group == GroupIndex::NONE {
            (known.wide, known.narrow) = (false, false);
            self.take_out(target, old, (is_wide, is_narrow));
        } else if group != old {
            for (is_in, root) in [(is_wide, Root::Wide), (is_narrow, Root::Narrow)] {
                if is_in {
                    self.fib.insert(target, root, group);
                }
            }
        }
        if old != GroupIndex::NONE {
            self.fib.release(old);
        }
        if is_new && group != GroupIndex::NONE {
            self.widen_if_many(table, is_v6);
        }
        self.note_restricted(&target);
        self.fib.reclaim();
    }

    /// Take a prefix out of the FIB, because its last route was removed, or the link of its last
    /// usable route is down.
    fn take_out(&mut self, target: Target, old: GroupIndex, (is_wide, is_narrow): (bool, bool)) {
        let Target { table, is_v6, prefix } = target;
        if let Some(of_length) = self.levels.get_mut(&level(&target)) {
            if of_length.get(&prefix.key).is_some_and(|known| known.routes.is_empty()) {
                of_length.remove(&prefix.key);
            }
            if of_length.is_empty() {
                self.levels.remove(&level(&target));
            }
        }
        let count = self.prefixes.entry((is_v6, table)).or_default();
        if old == GroupIndex::NONE {
            return;
        }
        *count -= 1;
        for (is_in, root) in [(is_wide, Root::Wide), (is_narrow, Root::Narrow)] {
            if is_in {
                let around = self.around(target, root);
                self.fib.remove(target, root, old, around);
            }
        }
    }

    /// The longest prefix in the array that contains `target`: returns its length and group.
    fn around(&self, target: Target, root: Root) -> Option<(u8, GroupIndex)> {
        let Target { table, is_v6, prefix } = target;
        let shorter = (Reverse(prefix.len.checked_sub(1)?), false, 0)..;
        let levels =
            self.levels.range(shorter).filter(|((_, v6, t), _)| (*v6, *t) == (is_v6, table));
        for ((Reverse(len), _, _), level) in levels {
            let known = level.get(&(prefix.key & mask(*len)));
            let is_in = |known: &&Known| if root == Root::Wide { known.wide } else { known.narrow };
            if let Some(known) = known.filter(is_in) {
                return Some((*len, known.group));
            }
        }
        None
    }

    /// Note that a prefix was added to a table. If the table now has many, it gets the array for 24
    /// bits.
    fn widen_if_many(&mut self, table: u32, is_v6: bool) {
        let count = self.prefixes.entry((is_v6, table)).or_default();
        *count += 1;
        if !Writer::should_widen(table, *count) || self.fib.is_wide(table, is_v6) {
            return;
        }
        let of_table = |key: &Level| key.1 == is_v6 && key.2 == table && key.0.0 > SHORT;
        let levels = self.levels.iter_mut().filter(|(key, _)| of_table(key));
        let prefixes = levels.flat_map(|(key, level)| {
            let used = level.iter_mut().filter(|(_, known)| known.group != GroupIndex::NONE);
            used.map(|(&bits, known)| {
                known.wide = true;
                (Prefix { key: bits, len: key.0.0 }, known.group)
            })
        });
        self.fib.widen(table, is_v6, prefixes);
    }
}

/// The next hops of packets by the routes of one prefix, with their weights.
fn paths(routes: &[Route], down: &BTreeSet<u16>) -> Vec<(Path, u8)> {
    let usable = routes.iter().filter(|route| !down.contains(&route.port));
    let Some(best) = usable.clone().next() else { return Vec::new() };
    let path = |route: &Route, weight| {
        let (&Route { port, via, .. }, mtu) = (route, route.usable_mtu());
        (Path { port, via, mtu, restrictions: route.restrictions() }, weight)
    };
    if best.weight.is_none() {
        return vec![path(best, 1)];
    }
    let equal = usable.take_while(|route| route.metric == best.metric);
    let shared = equal.filter_map(|route| Some(path(route, route.weight?.get())));
    shared.take(PATHS_MAX).collect()
}
