//! The candidates of a prefix, and the prefixes of a table.
//!
//! Called by: `rib.rs`. Only exact prefixes are looked up, in their order for output: a BTreeMap
//! does both, and takes 24 (IPv4) or 40 (IPv6) bytes of a node for a route with one candidate.

use core::mem::size_of;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Bound;
use std::collections::BTreeMap;
use std::collections::btree_map::{Entry as InMap, VacantEntry};

use base::Cidr;

use crate::origin::Origin;
use crate::sets::SetIndex;

/// A route of one origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) set: SetIndex,
    pub(crate) metric: u32,
    /// When it became what it is, in seconds.
    pub(crate) since_s: u32,
    /// The session of its origin in which it was sent last.
    pub(crate) session: u16,
    pub(crate) protocol: u8,
    pub(crate) origin: Origin,
}

impl Candidate {
    /// The lower one wins.
    pub(crate) fn rank(&self) -> (u8, u32, Origin) {
        (self.origin.distance(), self.metric, self.origin)
    }
}

/// The candidates of a prefix: one of each origin, the best one first. Nearly always there is one.
#[derive(Debug)]
pub(crate) enum Entry {
    One(Candidate),
    #[expect(clippy::box_collection, reason = "a Vec would make every entry twice as large")]
    Many(Box<Vec<Candidate>>),
}

const _: () = assert!(size_of::<Entry>() == 16, "a million routes count on it");

impl Entry {
    pub(crate) fn all(&self) -> &[Candidate] {
        match self {
            Entry::One(one) => core::slice::from_ref(one),
            Entry::Many(all) => all,
        }
    }

    pub(crate) fn of(&self, origin: Origin) -> Option<&Candidate> {
        self.all().iter().find(|candidate| candidate.origin == origin)
    }

    pub(crate) fn of_mut(&mut self, origin: Origin) -> Option<&mut Candidate> {
        let all = match self {
            Entry::One(one) => core::slice::from_mut(one),
            Entry::Many(all) => all,
        };
        all.iter_mut().find(|candidate| candidate.origin == origin)
    }

    /// Put a candidate in, in place of the one of its origin.
    pub(crate) fn put(&mut self, candidate: Candidate) {
        let mut all: Vec<Candidate> = self.all().to_vec();
        all.retain(|other| other.origin != candidate.origin);
        all.push(candidate);
        all.sort_by_key(Candidate::rank);
        *self = Entry::from(all);
    }

    /// The entry without the candidate of an origin; `None`: nothing is left.
    pub(crate) fn without(&self, origin: Origin) -> Option<Entry> {
        let mut all: Vec<Candidate> = self.all().to_vec();
        all.retain(|other| other.origin != origin);
        (!all.is_empty()).then(|| Entry::from(all))
    }
}

impl From<Vec<Candidate>> for Entry {
    fn from(all: Vec<Candidate>) -> Entry {
        match all[..] {
            [one] => Entry::One(one),
            _ => Entry::Many(Box::new(all)),
        }
    }
}

/// The slot of a prefix, with candidates or without: one search for a look and a change.
pub(crate) enum Slot<'a> {
    Known(&'a mut Entry),
    New(Vacant<'a>),
}

/// The slot of a prefix that has no candidates.
pub(crate) enum Vacant<'a> {
    V4(VacantEntry<'a, Key4, Entry>),
    V6(VacantEntry<'a, Key6, Entry>),
}

impl Vacant<'_> {
    /// The first candidate of the prefix.
    pub(crate) fn insert(self, first: Candidate) {
        match self {
            Vacant::V4(slot) => drop(slot.insert(Entry::One(first))),
            Vacant::V6(slot) => drop(slot.insert(Entry::One(first))),
        }
    }
}

type Key4 = (u32, u8);
type Key6 = ([u8; 16], u8);

/// The prefixes of one table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    v4: BTreeMap<Key4, Entry>,
    v6: BTreeMap<Key6, Entry>,
}

fn cidr4((bits, length): Key4) -> Cidr {
    Cidr { addr: Ipv4Addr::from_bits(bits).into(), prefix_len: length }
}

fn cidr6((octets, length): Key6) -> Cidr {
    Cidr { addr: Ipv6Addr::from(octets).into(), prefix_len: length }
}

impl Table {
    pub(crate) fn get(&self, prefix: Cidr) -> Option<&Entry> {
        match prefix.addr {
            IpAddr::V4(addr) => self.v4.get(&(addr.to_bits(), prefix.prefix_len)),
            IpAddr::V6(addr) => self.v6.get(&(addr.octets(), prefix.prefix_len)),
        }
    }

    pub(crate) fn get_mut(&mut self, prefix: Cidr) -> Option<&mut Entry> {
        match prefix.addr {
            IpAddr::V4(addr) => self.v4.get_mut(&(addr.to_bits(), prefix.prefix_len)),
            IpAddr::V6(addr) => self.v6.get_mut(&(addr.octets(), prefix.prefix_len)),
        }
    }

    /// The slot of a prefix.
    pub(crate) fn slot(&mut self, prefix: Cidr) -> Slot<'_> {
        match prefix.addr {
            IpAddr::V4(addr) => match self.v4.entry((addr.to_bits(), prefix.prefix_len)) {
                InMap::Occupied(slot) => Slot::Known(slot.into_mut()),
                InMap::Vacant(slot) => Slot::New(Vacant::V4(slot)),
            },
            IpAddr::V6(addr) => match self.v6.entry((addr.octets(), prefix.prefix_len)) {
                InMap::Occupied(slot) => Slot::Known(slot.into_mut()),
                InMap::Vacant(slot) => Slot::New(Vacant::V6(slot)),
            },
        }
    }

    pub(crate) fn remove(&mut self, prefix: Cidr) {
        match prefix.addr {
            IpAddr::V4(addr) => drop(self.v4.remove(&(addr.to_bits(), prefix.prefix_len))),
            IpAddr::V6(addr) => drop(self.v6.remove(&(addr.octets(), prefix.prefix_len))),
        }
    }

    /// The prefixes behind `after`, in order: IPv4 first. `None`: from the first one.
    pub(crate) fn behind(&self, after: Option<Cidr>) -> impl Iterator<Item = (Cidr, &Entry)> {
        let (from4, from6) = match after.map(|prefix| (prefix.addr, prefix.prefix_len)) {
            None => (Some(Bound::Unbounded), Bound::Unbounded),
            Some((IpAddr::V4(addr), length)) => {
                (Some(Bound::Excluded((addr.to_bits(), length))), Bound::Unbounded)
            }
            Some((IpAddr::V6(addr), length)) => (None, Bound::Excluded((addr.octets(), length))),
        };
        let v4 = from4.into_iter().flat_map(|from| self.v4.range((from, Bound::Unbounded)));
        let v4 = v4.map(|(&key, entry)| (cidr4(key), entry));
        let v6 = self.v6.range((from6, Bound::Unbounded));
        v4.chain(v6.map(|(&key, entry)| (cidr6(key), entry)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}
