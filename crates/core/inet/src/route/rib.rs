//! The RIB: all routes, by prefix. `change.rs` decides which of them are in the FIB, and `sets.rs`
//! keeps the routes of a prefix: many prefixes have the same ones.
//!
//! Called by: the callers of `route.rs`. One thread owns it. The cost of a change depends on the
//! prefix and on those that contain it, not on the number of routes; functions with a predicate
//! examine all routes.

mod change;
mod sets;

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Cidr, Instant};

use super::fib::{Fib, Root, Target, Writer};
use super::group::GroupIndex;
use super::restricted::{Index, Restricted};
use super::rule::Rules;
use super::shared::{addr_of, key_of};
use super::trie::{Prefix, mask};
use super::view::View;
use super::{GROUPS_MAX, ROUTES_MAX, Route, RouteOrigin};
use sets::{SetId, Sets};

/// Length, version and table of prefixes. The longest prefixes come first, as a lookup needs them.
pub(super) type Level = (Reverse<u8>, IsV6, u32);
pub(super) type IsV6 = bool;

/// A prefix that has routes: 8 bytes, of which a stack may have two million.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Its routes.
    set: SetId,
    /// Their group in the FIB, [`GroupIndex::NONE`] if the links of all their ports are down; and
    /// in the upper bits the arrays that have the prefix.
    place: u32,
}

/// The prefix is in the array for 24 bits.
const IN_WIDE: u32 = 1 << 31;
/// The prefix is in the array for 8 bits.
const IN_NARROW: u32 = 1 << 30;
const _: () = assert!(GroupIndex::MASK & (IN_WIDE | IN_NARROW) == 0 && size_of::<Known>() == 8);

impl Known {
    pub(super) fn group(self) -> GroupIndex {
        GroupIndex(self.place & GroupIndex::MASK)
    }

    fn is_in(self, root: Root) -> bool {
        self.place & bit_of(root) != 0
    }
}

/// The bit for an array in [`Known::place`].
const fn bit_of(root: Root) -> u32 {
    match root {
        Root::Wide => IN_WIDE,
        Root::Narrow => IN_NARROW,
    }
}

/// Known prefixes by level, then by their bits.
type Levels = BTreeMap<Level, BTreeMap<u128, Known>>;

/// A prefix of a lookup, with its routes and their group; the best route is first. The routes have
/// no destination and no table of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) dest: Cidr,
    pub(super) table: u32,
    pub(super) routes: &'a [Route],
    pub(super) group: GroupIndex,
}

impl Found<'_> {
    /// A route of the prefix, whole.
    pub(super) fn whole(&self, route: &Route) -> Route {
        Route { dest: self.dest, table: self.table, ..route.clone() }
    }
}

/// The routes of a stack.
#[derive(Debug, Default)]
pub struct Routes {
    levels: Levels,
    sets: Sets,
    /// The number of prefixes, by version and table.
    prefixes: BTreeMap<(IsV6, u32), usize>,
    len: usize,
    by_origin: [usize; RouteOrigin::COUNT],
    /// How many routes expire at each time.
    expiries: BTreeMap<Instant, usize>,
    fib: Writer,
    /// Ports whose link is down: no packet goes by their routes.
    pub(super) down: BTreeSet<u16>,
    /// The FIB belongs to another stack: this stack has no routes of its own, and none can be
    /// added.
    follows: bool,
    /// If `follows`: this stack's copy of a part of the other stack's RIB.
    pub(super) lent: Arc<Restricted>,
    pub(super) index: Index,
    pub(super) rules: Rules,
    /// The number of routes that only some users may use.
    pub(super) restricted: usize,
}

/// The prefix of a target, which is a valid one.
fn dest_of(target: &Target) -> Option<Cidr> {
    Cidr::new(addr_of(target.prefix.key, target.is_v6), target.prefix.len)
}

pub(super) fn target(dest: Cidr, table: u32) -> Target {
    let prefix = Prefix { key: key_of(dest.addr), len: dest.prefix_len };
    Target { table, is_v6: dest.addr.is_ipv6(), prefix }
}

pub(super) fn level(target: &Target) -> Level {
    (Reverse(target.prefix.len), target.is_v6, target.table)
}

impl Routes {
    /// Does the table exist, or is there room for it?
    pub fn has_room_for(&self, table: u32) -> bool {
        self.fib.admits(table)
    }

    /// The routes of another stack, for lookups between [`super::Reader::begin`] and `end` of a
    /// reader of the same FIB. No route can be added, and none are listed.
    /// [`Routes::follow_restricted`] sets the routes that only some users may use.
    pub fn following(fib: &Fib) -> Routes {
        Routes { fib: Writer::following(fib), follows: true, ..Routes::default() }
    }

    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Add a route. It replaces a route to the same destination in the same table over the same
    /// port. A route that shares packets with others is replaced only if the gateway is the same,
    /// too.
    ///
    /// `false`, and nothing has changed, if there are [`ROUTES_MAX`] routes or
    /// [`super::TABLES_MAX`] tables already, if a [`super::Reader`] has not ended its burst for
    /// [`super::RETIRED_MAX`] changes, or if a list has more than [`GROUPS_MAX`] groups.
    pub fn add(&mut self, route: Route) -> bool {
        let route = Route { dest: route.dest.network(), ..route };
        let target = target(route.dest, route.table);
        let old = self.at(route.dest, route.table).find(|r| r.is_like(&route));
        if self.fib.is_held_up() {
            self.fib.reclaim();
        }
        if self.follows {
            return false;
        }
        let is_full = self.len >= ROUTES_MAX || !self.fib.admits(route.table);
        let is_listed = route.access.as_ref().is_none_or(|a| a.groups().len() <= GROUPS_MAX);
        if old.is_none() && is_full || self.fib.is_held_up() || !is_listed {
            return false;
        }
        old.iter().for_each(|old| self.uncount(old));
        self.count(&route);
        self.change(target, |routes| put(routes, route));
        true
    }

    /// Add a route, unless there is one of another origin to the same destination in the same table
    /// over the same port. `true` if packets may be routed differently: a route that only expires
    /// later is no change.
    pub fn renew(&mut self, route: Route) -> bool {
        let route = Route { dest: route.dest.network(), ..route };
        let old = self.at(route.dest, route.table).find(|r| r.is_like(&route));
        match old {
            Some(old) if old.origin != route.origin => false,
            Some(old) => {
                let is_same = Route { expires: route.expires, ..old } == route;
                self.add(route) && !is_same
            }
            None => self.add(route),
        }
    }

    /// The routes to exactly this prefix; the best one is first.
    pub fn at(&self, dest: Cidr, table: u32) -> impl Iterator<Item = Route> + Clone {
        let dest = dest.network();
        let routes = self.known(dest, table).map_or(&[][..], |known| self.sets.get(known.set));
        routes.iter().map(move |route| Route { dest, table, ..route.clone() })
    }

    /// A route in any table for which `is_meant` is true and whose prefix contains, equals or lies
    /// inside `dest`.
    pub fn overlapping(&self, dest: Cidr, is_meant: impl Fn(&Route) -> bool) -> Option<Route> {
        let (dest, is_v6) = (dest.network(), dest.addr.is_ipv6());
        let (key, below) = (key_of(dest.addr), !mask(dest.prefix_len));
        let of_version = self.levels.iter().filter(|((_, v6, _), _)| *v6 == is_v6);
        let mut near = of_version.flat_map(|(level, known)| {
            let Reverse(len) = level.0;
            let (first, last) = match len <= dest.prefix_len {
                true => (key & mask(len), key & mask(len)),
                false => (key, key | below),
            };
            known.range(first..=last).flat_map(|(&key, known)| self.whole(*level, key, *known))
        });
        near.find(|route| is_meant(route))
    }

    /// Would this route replace another?
    pub fn has_like(&self, route: &Route) -> bool {
        self.at(route.dest, route.table).any(|r| r.is_like(route))
    }

    /// The tables that have, or once had, routes.
    pub fn tables(&self) -> Vec<u32> {
        let mut tables: Vec<u32> = self.prefixes.keys().map(|&(_, table)| table).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    pub(super) fn known(&self, dest: Cidr, table: u32) -> Option<Known> {
        self.known_at(&target(dest.network(), table))
    }

    fn known_at(&self, target: &Target) -> Option<Known> {
        self.levels.get(&level(target)).and_then(|l| l.get(&target.prefix.key)).copied()
    }

    /// The routes of a prefix, as a lookup needs them.
    pub(super) fn found_at(&self, target: &Target) -> Option<Found<'_>> {
        let known = self.known_at(target)?;
        let (dest, routes) = (dest_of(target)?, self.sets.get(known.set));
        Some(Found { dest, table: target.table, routes, group: known.group() })
    }

    /// The routes of a known prefix.
    fn whole(
        &self,
        (Reverse(len), is_v6, table): Level,
        key: u128,
        known: Known,
    ) -> impl Iterator<Item = Route> {
        let dest = dest_of(&Target { table, is_v6, prefix: Prefix { key, len } });
        let routes = self.sets.get(known.set).iter();
        routes.filter_map(move |route| Some(Route { dest: dest?, table, ..route.clone() }))
    }

    /// Is `dst` on the link, by the first route to it over `port`?
    pub fn is_on_link(&self, port: u16, dst: IpAddr) -> bool {
        let key = key_of(dst);
        let of_version = self.levels.iter().filter(|((_, is_v6, _), _)| *is_v6 == dst.is_ipv6());
        let mut routes = of_version
            .filter_map(|((Reverse(len), _, _), level)| level.get(&(key & mask(*len))))
            .flat_map(|known| self.sets.get(known.set));
        routes.find(|r| r.port == port).is_some_and(|r| r.via.is_none())
    }

    /// Remove the routes for which `is_unwanted` is true; returns how many. It examines every
    /// route; [`Routes::remove_exact`] examines those of one prefix.
    pub fn remove(&mut self, is_unwanted: impl Fn(&Route) -> bool) -> usize {
        let found = self.targets(&is_unwanted);
        found.into_iter().map(|target| self.remove_of(target, &is_unwanted)).sum()
    }

    /// The prefixes with a route for which `is_meant` is true.
    fn targets(&self, is_meant: impl Fn(&Route) -> bool) -> Vec<Target> {
        let mut found = Vec::new();
        for (&level, known) in &self.levels {
            let (Reverse(len), is_v6, table) = level;
            let is_in = |key, known| self.whole(level, key, known).any(|route| is_meant(&route));
            let keys = known.iter().filter(|&(&key, &known)| is_in(key, known));
            let target = |key| Target { table, is_v6, prefix: Prefix { key, len } };
            found.extend(keys.map(|(&key, _)| target(key)));
        }
        found
    }

    /// Remove the routes of one prefix in a table for which `is_unwanted` is true; returns how
    /// many.
    pub fn remove_exact(
        &mut self,
        dest: Cidr,
        table: u32,
        is_unwanted: impl Fn(&Route) -> bool,
    ) -> usize {
        self.remove_of(target(dest.network(), table), &is_unwanted)
    }

    fn remove_of(&mut self, target: Target, is_unwanted: &impl Fn(&Route) -> bool) -> usize {
        let Some(found) = self.found_at(&target) else { return 0 };
        let routes = found.routes.iter().map(|route| found.whole(route));
        let gone: Vec<Route> = routes.filter(|r| is_unwanted(r)).collect();
        if !gone.is_empty() {
            gone.iter().for_each(|route| self.uncount(route));
            self.change(target, |routes| routes.retain(|r| !is_unwanted(r)));
        }
        gone.len()
    }

    /// Remove expired routes; returns how many.
    pub fn expire(&mut self, now: Instant) -> usize {
        if self.next_deadline() > now { 0 } else { self.remove(|route| route.expires <= now) }
    }

    /// Remove every route over a port that was removed.
    pub fn forget_port(&mut self, port: u16) {
        self.remove(|r| r.port == port);
        self.down.remove(&port);
        self.index.forget();
    }

    /// Set whether the link of a port is up. While it is down, the port's routes stay but are not
    /// used: packets go by other routes to the prefix, or to a shorter prefix. Examines every
    /// route. `false` if nothing changes, or if a [`super::Reader`] holds changes up, as in
    /// [`Routes::add`]; then call it again.
    pub fn set_link(&mut self, port: u16, is_up: bool) -> bool {
        if self.fib.is_held_up() {
            self.fib.reclaim();
        }
        if is_up != self.is_down(port) || self.fib.is_held_up() {
            return false;
        }
        if is_up {
            self.down.remove(&port);
        } else {
            self.down.insert(port);
        }
        for target in self.targets(|route| route.port == port) {
            self.change(target, |_| ());
        }
        self.index.forget();
        true
    }

    /// Is the link of the port down?
    pub fn is_down(&self, port: u16) -> bool {
        self.down.contains(&port)
    }

    /// A view of the routes, for a burst of lookups by their owner.
    #[inline]
    pub fn view(&self) -> View<'_> {
        self.fib.view()
    }

    /// A handle for lookups by other threads.
    pub fn fib(&self) -> Fib {
        self.fib.fib()
    }

    /// When the first route expires; [`Instant::NEVER`] if none does.
    pub fn next_deadline(&self) -> Instant {
        self.expiries.first_key_value().map_or(Instant::NEVER, |(&first, _)| first)
    }

    /// All routes; those with the longest prefix come first.
    pub fn iter(&self) -> impl Iterator<Item = Route> {
        let of_level = move |(&level, known)| {
            let known: &BTreeMap<u128, Known> = known;
            known.iter().flat_map(move |(&key, &known)| self.whole(level, key, known))
        };
        self.levels.iter().flat_map(of_level)
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of routes of this origin.
    pub fn count_of(&self, origin: RouteOrigin) -> usize {
        self.by_origin[origin as usize]
    }

    /// How many different sets of routes prefixes have.
    #[cfg(test)]
    pub(super) fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Add a route to those of its prefix. A route that replaces one of the same rank takes its place.
fn put(routes: &mut Vec<Route>, route: Route) {
    if let Some(old) = routes.iter_mut().find(|r| r.is_like(&route)) {
        if old.rank() == route.rank() {
            *old = route;
            return;
        }
        routes.retain(|r| !r.is_like(&route));
    }
    let at = routes.partition_point(|r| r.rank() <= route.rank());
    routes.insert(at, route);
}
