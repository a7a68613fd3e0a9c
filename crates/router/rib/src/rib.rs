//! The RIB. A change says at once what it means for the forwarding table.
//!
//! Called by: the router's worker. Each function that may change the best route of a prefix takes
//! `fib`, which is called with the prefix and its best route, or `None` if it has no route that can
//! be used any more; it is not called if nothing changes.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use base::Cidr;

use crate::origin::Origin;
use crate::sets::{SetIndex, Sets};
use crate::table::{Candidate, Entry, Slot, Table};

/// The table that a sweep always covers: the kernel's main one.
const MAIN_TABLE: u32 = 254;

/// What a route is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dest {
    /// The table.
    pub table: u32,
    /// The destination, without host bits.
    pub prefix: Cidr,
}

/// The next hops of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<N> {
    /// Those that the origin has set, or will set, for this number.
    Id(u32),
    /// These.
    These(N),
}

/// A route that an origin offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer<N> {
    /// Its next hops.
    pub next: Next<N>,
    /// Among routes of the same distance the lowest wins.
    pub metric: u32,
    /// The origin's number of the routing protocol.
    pub protocol: u8,
    /// The time, in seconds, from which the route's age counts.
    pub at_s: u32,
}

/// A candidate, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known<'a, N> {
    /// Where it comes from.
    pub origin: Origin,
    /// Its metric.
    pub metric: u32,
    /// The origin's number of the routing protocol.
    pub protocol: u8,
    /// The time, in seconds, since which it has been as it is.
    pub since_s: u32,
    /// Its next hops; `None`: they are not known yet, or none of them can be used.
    pub next: Option<&'a N>,
    /// Its origin has connected again and has not sent it again yet.
    pub is_stale: bool,
}

/// There are as many routes as there may be; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are as many routes as the limit routes allows: raise it")
    }
}

impl core::error::Error for Full {}

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Routes that were removed.
    pub routes: usize,
    /// Tables that the replay did not name, whose routes stay: zebra replays only the main tables
    /// of VRFs.
    pub unnamed_tables: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Session {
    number: u16,
    /// Tables that the origin has named in it.
    tables: BTreeSet<u32>,
    /// The origin has sent all that it has, of all tables.
    is_whole: bool,
}

impl Session {
    /// The origin names a table; returns the number of the session.
    fn name_table(&mut self, table: u32) -> u16 {
        if !self.tables.contains(&table) {
            self.tables.insert(table);
        }
        self.number
    }
}

/// The best route of a prefix.
#[derive(Debug, PartialEq, Eq)]
pub struct Best<'a, N> {
    /// Its next hops.
    pub next: &'a N,
    /// Where it comes from.
    pub origin: Origin,
}

/// A candidate that can be used, by its set and origin.
type Usable = Option<(SetIndex, Origin)>;

/// The first candidate that can be used.
fn usable<N: Ord + Clone>(sets: &Sets<N>, candidates: &[Candidate]) -> Usable {
    let found = candidates.iter().find(|candidate| sets.content(candidate.set).is_some());
    found.map(|candidate| (candidate.set, candidate.origin))
}

fn best<N: Ord + Clone>(sets: &Sets<N>, of: Usable) -> Option<Best<'_, N>> {
    let (set, origin) = of?;
    Some(Best { next: sets.content(set)?, origin })
}

/// Call `fib` if the best route of a prefix leads elsewhere than before.
fn tell<N: Ord + Clone>(
    sets: &Sets<N>,
    dest: Dest,
    (before, now): (Usable, Usable),
    fib: &mut impl FnMut(Dest, Option<Best<'_, N>>),
) {
    let content = |of: Usable| of.and_then(|(set, _)| sets.content(set));
    let set = |of: Usable| of.map(|(set, _)| set);
    if set(before) != set(now) && content(before) != content(now) {
        fib(dest, best(sets, now));
    }
}

/// The routes; `N` is a set of next hops.
#[derive(Debug)]
pub struct Rib<N> {
    tables: BTreeMap<u32, Table>,
    sets: Sets<N>,
    sessions: [Session; Origin::ALL.len()],
    by_origin: [usize; Origin::ALL.len()],
    most: usize,
    /// How far [`Rib::refresh`] has come.
    refreshed: Option<Dest>,
    /// A number changed within a round of it: another round has to follow.
    is_late: bool,
    /// The next round is about all prefixes.
    is_of_all: bool,
    /// How far [`Rib::sweep`] has come, and its result so far.
    swept: (Option<Dest>, Swept),
}

impl<N: Ord + Clone> Rib<N> {
    /// No routes yet, and at most so many candidates.
    pub fn new(most: usize) -> Rib<N> {
        Rib {
            tables: BTreeMap::new(),
            sets: Sets::default(),
            sessions: core::array::from_fn(|_| Session::default()),
            by_origin: [0; Origin::ALL.len()],
            most,
            refreshed: None,
            is_late: false,
            is_of_all: false,
            swept: (None, Swept::default()),
        }
    }

    /// An origin offers a route, in place of what it offered for this prefix before. An equal offer
    /// changes nothing, not even the age.
    ///
    /// # Errors
    /// [`Full`].
    pub fn set(
        &mut self,
        origin: Origin,
        dest: Dest,
        offer: Offer<N>,
        fib: &mut impl FnMut(Dest, Option<Best<'_, N>>),
    ) -> Result<(), Full> {
        let is_full = self.len() >= self.most;
        let Rib { tables, sets, sessions, by_origin, .. } = self;
        if is_full && !tables.contains_key(&dest.table) {
            return Err(Full);
        }
        let slot = tables.entry(dest.table).or_default().slot(dest.prefix);
        let old = match &slot {
            Slot::Known(entry) => entry.of(origin).copied(),
            Slot::New(_) => None,
        };
        if old.is_none() && is_full {
            return Err(Full);
        }
        let set = match offer.next {
            Next::Id(id) => sets.of_id(origin, id),
            Next::These(content) => sets.of(content),
        };
        let session = sessions[origin as usize].name_table(dest.table);
        let (metric, protocol) = (offer.metric, offer.protocol);
        let new = Candidate { set, metric, protocol, origin, session, since_s: offer.at_s };
        let (before, now) = match slot {
            Slot::Known(entry) => {
                let is_same = |old: &Candidate| {
                    (old.set, old.metric, old.protocol) == (set, metric, protocol)
                };
                if let Some(same) = entry.of_mut(origin).filter(|old| is_same(old)) {
                    same.session = session;
                    sets.release(set);
                    return Ok(());
                }
                let before = usable(sets, entry.all());
                entry.put(new);
                (before, usable(sets, entry.all()))
            }
            Slot::New(slot) => {
                slot.insert(new);
                (None, usable(sets, &[new]))
            }
        };
        by_origin[origin as usize] += usize::from(old.is_none());
        tell(sets, dest, (before, now), fib);
        if let Some(old) = old {
            sets.release(old.set);
        }
        Ok(())
    }

    /// An origin has no route to a prefix any more. `false` if it had none.
    pub fn remove(
        &mut self,
        origin: Origin,
        dest: Dest,
        fib: &mut impl FnMut(Dest, Option<Best<'_, N>>),
    ) -> bool {
        self.sessions[origin as usize].name_table(dest.table);
        self.take(origin, dest, fib)
    }

    fn take(
        &mut self,
        origin: Origin,
        dest: Dest,
        fib: &mut impl FnMut(Dest, Option<Best<'_, N>>),
    ) -> bool {
        let Rib { tables, sets, by_origin, .. } = self;
        let Some(table) = tables.get_mut(&dest.table) else { return false };
        let Some(entry) = table.get_mut(dest.prefix) else { return false };
        let Some(old) = entry.of(origin).copied() else { return false };
        let before = usable(sets, entry.all());
        let now = match entry.without(origin) {
            Some(rest) => {
                *entry = rest;
                usable(sets, entry.all())
            }
            None => {
                table.remove(dest.prefix);
                None
            }
        };
        if table.is_empty() {
            tables.remove(&dest.table);
        }
        by_origin[origin as usize] -= 1;
        tell(sets, dest, (before, now), fib);
        sets.release(old.set);
        true
    }

    /// The next hops of an origin's number are these; `None`: it has none. `true` if routes name
    /// the number and [`Rib::refresh`] has to be called until it is done.
    pub fn set_id(&mut self, origin: Origin, id: u32, to: Option<N>) -> bool {
        let has_users = self.sets.set_id(origin, id, to);
        self.is_late |= has_users && self.refreshed.is_some();
        has_users
    }

    /// What next hops mean to the forwarding table has changed: [`Rib::refresh`] is to call for
    /// every prefix.
    pub fn refresh_all(&mut self) {
        self.is_late |= self.refreshed.is_some();
        self.is_of_all = !self.is_empty();
    }

    /// Look at up to `most` prefixes for numbers whose next hops have changed. `fib` is called for
    /// each prefix whose candidates have such a number, whether or not it is the best one. `true`
    /// if all prefixes have been looked at.
    pub fn refresh(
        &mut self,
        most: usize,
        fib: &mut impl FnMut(Dest, Option<Best<'_, N>>),
    ) -> bool {
        if !self.sets.has_changed() && !self.is_of_all {
            return true;
        }
        let mut left = most;
        let first = self.refreshed.map_or(0, |dest| dest.table);
        for (&number, table) in self.tables.range(first..) {
            let after = self.refreshed.filter(|dest| dest.table == number);
            for (prefix, entry) in table.behind(after.map(|dest| dest.prefix)) {
                let dest = Dest { table: number, prefix };
                if left == 0 {
                    return false;
                }
                left -= 1;
                let mut sets = entry.all().iter().map(|candidate| candidate.set);
                if self.is_of_all || sets.any(|set| self.sets.is_changed(set)) {
                    fib(dest, best(&self.sets, usable(&self.sets, entry.all())));
                }
                self.refreshed = Some(dest);
            }
        }
        self.refreshed = None;
        if core::mem::take(&mut self.is_late) {
            return false;
        }
        self.sets.all_seen();
        self.is_of_all = false;
        true
    }

    /// An origin begins anew: what it does not send again before [`Rib::sweep`] is stale.
    pub fn begin(&mut self, origin: Origin) {
        let session = &mut self.sessions[origin as usize];
        session.number = session.number.wrapping_add(1);
        session.tables = BTreeSet::from([MAIN_TABLE]);
        session.is_whole = false;
        self.swept = (None, Swept::default());
    }

    /// An origin has sent all routes of all tables: a sweep covers every table.
    pub fn all_sent(&mut self, origin: Origin) {
        self.sessions[origin as usize].is_whole = true;
    }

    /// Remove the routes that an origin has not sent again, from the main table and the tables that
    /// it has named since. Up to `most` prefixes are looked at; `None`: call it again. One origin
    /// is swept at a time.
    pub fn sweep(
        &mut self,
        origin: Origin,
        most: usize,
        fib: &mut impl FnMut(Dest, Option<Best<'_, N>>),
    ) -> Option<Swept> {
        let session = &self.sessions[origin as usize];
        let (from, so_far) = &mut self.swept;
        let (mut stale, mut left) = (Vec::new(), most);
        let first = from.map_or(0, |dest| dest.table);
        'tables: for (&number, table) in self.tables.range(first..) {
            let is_named = session.is_whole || session.tables.contains(&number);
            let after = from.filter(|dest| dest.table == number).map(|dest| dest.prefix);
            for (prefix, entry) in table.behind(after) {
                if left == 0 {
                    break 'tables;
                }
                left -= 1;
                let dest = Dest { table: number, prefix };
                *from = Some(dest);
                let of_origin = entry.of(origin);
                if of_origin.is_none_or(|candidate| candidate.session == session.number) {
                    continue;
                }
                if is_named {
                    stale.push(dest);
                } else if so_far.unnamed_tables.last() != Some(&number) {
                    so_far.unnamed_tables.push(number);
                }
            }
        }
        so_far.routes += stale.len();
        for dest in stale {
            self.take(origin, dest, fib);
        }
        (left > 0).then(|| core::mem::take(&mut self.swept).1)
    }

    fn entry(&self, dest: Dest) -> Option<&Entry> {
        self.tables.get(&dest.table)?.get(dest.prefix)
    }

    /// The next hops that the forwarding table has for a prefix.
    pub fn best(&self, dest: Dest) -> Option<&N> {
        let usable = usable(&self.sets, self.entry(dest)?.all());
        best(&self.sets, usable).map(|best| best.next)
    }

    fn known<'a>(&'a self, candidate: &Candidate) -> Known<'a, N> {
        let Candidate { set, metric, since_s, session, protocol, origin } = *candidate;
        let is_stale = session != self.sessions[origin as usize].number;
        let next = self.sets.content(set);
        Known { origin, metric, protocol, since_s, next, is_stale }
    }

    /// The candidates for a prefix; the best one is first.
    pub fn candidates(&self, dest: Dest) -> impl Iterator<Item = Known<'_, N>> {
        let all = self.entry(dest).map_or(&[][..], Entry::all);
        all.iter().map(|candidate| self.known(candidate))
    }

    /// All candidates, by table and prefix, IPv4 first; the best one of a prefix is first.
    pub fn iter(&self) -> impl Iterator<Item = (Dest, Known<'_, N>)> {
        self.tables.iter().flat_map(move |(&number, table)| {
            table.behind(None).flat_map(move |(prefix, entry)| {
                let dest = Dest { table: number, prefix };
                entry.all().iter().map(move |candidate| (dest, self.known(candidate)))
            })
        })
    }

    /// The number of candidates.
    pub fn len(&self) -> usize {
        self.by_origin.iter().sum()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of candidates of an origin.
    pub fn count_of(&self, origin: Origin) -> usize {
        self.by_origin[origin as usize]
    }

    /// The number of different sets of next hops, and of numbers that have some.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }
}
