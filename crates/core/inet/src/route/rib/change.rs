//! Changes the routes of a prefix, and accordingly the counts and the FIB.
//!
//! Called by: `rib.rs`, for every route that is added or removed and every link that goes up or
//! down. A prefix is in the FIB as long as packets may use one of its routes.

use core::cmp::Reverse;
use std::collections::BTreeSet;

use base::Instant;

use super::sets::SetId;
use super::{Known, Level, Routes, bit_of, level};
use crate::route::fib::{Root, Target, Writer};
use crate::route::group::{GroupIndex, Path};
use crate::route::trie::{Prefix, SHORT, mask};
use crate::route::{PATHS_MAX, Route};

/// Both arrays.
const ROOTS: [Root; 2] = [Root::Wide, Root::Narrow];

impl Known {
    /// A prefix with these routes, if packets may use one of them in these arrays.
    fn new(set: SetId, group: GroupIndex, places: [bool; 2]) -> Known {
        let is_used = group != GroupIndex::NONE;
        let bits = places.into_iter().zip(ROOTS).filter(|(is_in, _)| *is_in && is_used);
        Known { set, place: bits.fold(group.0, |place, (_, root)| place | bit_of(root)) }
    }
}

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
        let known = self.known_at(&target).unwrap_or_default();
        let found = self.found_at(&target);
        let mut routes: Vec<Route> = found.map_or_else(Vec::new, |found| {
            found.routes.iter().map(|route| found.whole(route)).collect()
        });
        change(&mut routes);
        let old = known.group();
        let is_new = old == GroupIndex::NONE;
        let group = self.fib.group(&paths(&routes, &self.down), old);
        let mut places = ROOTS.map(|root| known.is_in(root));
        if is_new {
            let is_wide = prefix.len > SHORT && self.fib.is_wide(table, is_v6);
            places = [is_wide, !is_wide];
        }
        let set = self.sets.replace(known.set, &routes);
        self.write(&target, Known::new(set, group, places));
        if group == GroupIndex::NONE {
            self.take_out(target, old, places);
        } else if group != old {
            for (_, root) in places.into_iter().zip(ROOTS).filter(|(is_in, _)| *is_in) {
                self.fib.insert(target, root, group);
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

    /// Write what is known of a prefix, or forget the prefix if it has no routes.
    fn write(&mut self, target: &Target, known: Known) {
        let (level, key) = (level(target), target.prefix.key);
        if known.set != SetId::default() {
            self.levels.entry(level).or_default().insert(key, known);
        } else if let Some(of_length) = self.levels.get_mut(&level) {
            of_length.remove(&key);
            if of_length.is_empty() {
                self.levels.remove(&level);
            }
        }
    }

    /// Take a prefix out of the FIB, because its last route was removed, or the link of its last
    /// usable route is down.
    fn take_out(&mut self, target: Target, old: GroupIndex, places: [bool; 2]) {
        let Target { table, is_v6, .. } = target;
        let count = self.prefixes.entry((is_v6, table)).or_default();
        if old == GroupIndex::NONE {
            return;
        }
        *count -= 1;
        for (_, root) in places.into_iter().zip(ROOTS).filter(|(is_in, _)| *is_in) {
            let around = self.around(target, root);
            self.fib.remove(target, root, old, around);
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
            if let Some(known) = known.filter(|known| known.is_in(root)) {
                return Some((*len, known.group()));
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
            let used = level.iter_mut().filter(|(_, known)| known.group() != GroupIndex::NONE);
            used.map(|(&bits, known)| {
                known.place |= bit_of(Root::Wide);
                (Prefix { key: bits, len: key.0.0 }, known.group())
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
        let (restrictions, discard) = (route.restrictions(), route.discard);
        (Path { port, via, mtu, restrictions, discard }, weight)
    };
    if best.weight.is_none() {
        return vec![path(best, 1)];
    }
    let equal = usable.take_while(|route| route.rank() == best.rank());
    let shared = equal.filter_map(|route| Some(path(route, route.weight?.get())));
    shared.take(PATHS_MAX).collect()
}
