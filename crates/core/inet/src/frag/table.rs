//! All incomplete datagrams of a stack, by source and by age, within limits.
//!
//! Called by: `stack/frag.rs`. Strangers choose the keys, so everything is in ordered trees. At a
//! limit the oldest datagram is evicted; at a limit for one source, the oldest one of that source.
//! The newest datagram is outside of the trees: a datagram whose fragments arrive back to back, as
//! they nearly always do, never enters the trees.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet};

use base::{Budget, DropReason, Drops, Instant, Limit};
use mbuf::Mbuf;

use super::datagram::{Datagram, Fault, Piece};
use super::{Expired, Refused, TIMEOUT};
use crate::Ip;
use crate::flow::{Addrs, FlowKey};
use crate::ip_input::Part;

/// The fields that all fragments of a datagram share. In IPv6 the protocol is not one of them (RFC
/// 8200 section 4.5). Fragments that arrive by different ports belong to different datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The addresses, and the identification in the place of the ports.
    flow: FlowKey,
    protocol: u8,
    port: u16,
}

impl Key {
    /// The key of a fragment that came by the port `port`.
    #[inline(always)]
    pub fn of<A: Addrs>(ip: &Ip<A>, part: &Part, port: u16) -> Key {
        let flow = ip.flow(part.id);
        Key { flow, protocol: if flow.is_v4() { ip.protocol } else { 0 }, port }
    }

    /// The source for which limits count: in IPv6 the 64-bit network, because a host can have any
    /// address in it.
    fn source(&self) -> IpAddr {
        match self.flow.remote().ip() {
            IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() >> 64 << 64)),
            src => src,
        }
    }
}

/// What one source has in the table.
#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    /// The serials of its datagrams.
    serials: BTreeSet<u64>,
}

/// The table.
#[derive(Debug, Default)]
pub struct Fragments {
    datagrams: BTreeMap<Key, Datagram>,
    /// The keys, oldest first.
    order: BTreeMap<u64, Key>,
    sources: BTreeMap<IpAddr, Used>,
    /// The datagram that came last, which is in none of the trees yet.
    newest: Option<(Key, Datagram)>,
    /// Bytes of buffers held, those of `newest` included.
    bytes: usize,
    next_serial: u64,
    /// The empty list of a completed datagram, which is used for the next one.
    spare: Vec<Piece>,
}

/// A list with at most this capacity is kept.
const SPARE_MAX: usize = 64;

impl Fragments {
    /// The number of datagrams, including dropped ones, which hold no fragments.
    pub fn len(&self) -> usize {
        self.datagrams.len() + usize::from(self.newest.is_some())
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of buffers held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fragments held.
    pub fn held(&self) -> usize {
        let newest = self.newest.as_ref().map(|(_, datagram)| datagram);
        self.datagrams.values().chain(newest).map(Datagram::len).sum()
    }

    /// Number of sources with a datagram.
    pub fn sources(&self) -> usize {
        let newest = self.newest.as_ref().map(|(key, _)| key.source());
        let is_only = newest.is_some_and(|source| !self.sources.contains_key(&source));
        self.sources.len() + usize::from(is_only)
    }

    /// When [`Fragments::expire`] has something to do.
    pub fn next_deadline(&self) -> Instant {
        let oldest = self.order.first_key_value().and_then(|(_, key)| self.datagrams.get(key));
        let oldest = oldest.or_else(|| self.newest.as_ref().map(|(_, datagram)| datagram));
        oldest.map_or(Instant::NEVER, |datagram| datagram.expires)
    }

    /// Is this the datagram that came last?
    #[inline(always)]
    pub fn is_newest(&self, key: &Key) -> bool {
        self.newest.as_ref().is_some_and(|(newest, _)| newest == key)
    }

    /// Add a fragment of a datagram. `m` begins with its IP header and ends with its data. Returns
    /// `Some` if the datagram is complete. Fragments that are dropped together with this one are
    /// counted in `drops`; the caller counts this one.
    ///
    /// # Errors
    /// The reason why the fragment was not accepted.
    pub fn insert<A: Addrs>(
        &mut self,
        key: Key,
        (ip, part): (&Ip<A>, Part),
        m: Mbuf,
        now: Instant,
        budget: &mut Budget,
        drops: &mut Drops,
    ) -> Result<Option<Datagram>, Refused> {
        if let Err((reason, problem)) = super::fragment(ip, &part, m.as_slice()) {
            return Err(Refused { reason, report: problem.map(|problem| (problem, m)) });
        }
        let piece = Piece::new(part, ip.transport_at, m);
        let (known, is_newest) = match &self.newest {
            Some((newest, datagram)) if *newest == key => (Some(datagram), true),
            _ => (self.datagrams.get(&key), false),
        };
        let is_new = known.is_none();
        if known.is_some_and(|datagram| datagram.is_condemned) {
            return Err(Refused::silent(DropReason::FragmentOfDropped));
        }
        let fits = !is_new || self.add(key, now, budget, drops);
        if !fits || !self.make_room(key, piece.cost, budget, drops) {
            return Err(Refused::silent(DropReason::FragmentEvicted));
        }
        let is_newest = is_newest || is_new;
        self.put_in((&key, is_newest), piece, ip.tos, budget, drops)
    }

    #[inline(always)]
    fn put_in(
        &mut self,
        (key, is_newest): (&Key, bool),
        piece: Piece,
        tos: u8,
        budget: &mut Budget,
        drops: &mut Drops,
    ) -> Result<Option<Datagram>, Refused> {
        let refused = Refused::silent;
        let most = budget.of(Limit::FragmentsPerDatagram);
        let evicted = DropReason::FragmentEvicted;
        let (datagram, used) = match &mut self.newest {
            Some((_, datagram)) if is_newest => (datagram, None),
            _ => {
                let datagram = self.datagrams.get_mut(key).ok_or_else(|| refused(evicted))?;
                (datagram, self.sources.get_mut(&key.source()))
            }
        };
        let before = datagram.cost;
        let taken = datagram.insert(piece, tos & 3, most);
        if let Err(Fault::Datagram(reason)) = taken {
            if reason == DropReason::FragmentLimit {
                budget.admits(Limit::FragmentsPerDatagram, usize::MAX);
            }
            drops.count_many(reason, datagram.condemn());
        }
        let after = datagram.cost;
        if let Some(used) = used {
            used.bytes = used.bytes + after - before;
        }
        self.bytes = self.bytes + after - before;
        match taken {
            Ok(true) => Ok(self.remove(key)),
            Ok(false) => Ok(None),
            Err(Fault::Duplicate) => Err(refused(DropReason::FragmentDuplicate)),
            Err(Fault::Datagram(reason)) => Err(refused(reason)),
        }
    }

    /// Move the newest datagram into the trees.
    #[inline(always)]
    fn settle(&mut self) {
        if let Some((key, datagram)) = self.newest.take() {
            self.put_into_trees(key, datagram);
        }
    }

    #[cold]
    fn put_into_trees(&mut self, key: Key, datagram: Datagram) {
        self.order.insert(datagram.serial, key);
        let used = self.sources.entry(key.source()).or_default();
        used.serials.insert(datagram.serial);
        used.bytes += datagram.cost;
        self.datagrams.insert(key, datagram);
    }

    /// Make an entry for a new datagram, if need be in the place of the oldest one. `false` if the
    /// limits do not admit any.
    fn add(&mut self, key: Key, now: Instant, budget: &mut Budget, drops: &mut Drops) -> bool {
        self.settle();
        let most = budget.of(Limit::FragmentDatagrams);
        let fits = self.is_empty() && most.min(budget.of(Limit::FragmentDatagramsPerSource)) > 0;
        if !fits && !self.make_place(key.source(), budget, drops) {
            return false;
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let pieces = core::mem::take(&mut self.spare);
        self.newest = Some((key, Datagram::new(serial, now + TIMEOUT, pieces)));
        true
    }

    /// Evict datagrams until the limits admit one more of this source; `false` if they never do.
    #[inline(never)]
    fn make_place(&mut self, source: IpAddr, budget: &mut Budget, drops: &mut Drops) -> bool {
        loop {
            let used = self.sources.get(&source);
            let count = used.map_or(0, |used| used.serials.len());
            if budget.admits(Limit::FragmentDatagramsPerSource, count) {
                break;
            }
            let oldest = used.and_then(|used| used.serials.first().copied());
            if !self.evict(oldest, drops) {
                return false;
            }
        }
        while !budget.admits(Limit::FragmentDatagrams, self.datagrams.len()) {
            if !self.evict(self.order.keys().next().copied(), drops) {
                return false;
            }
        }
        true
    }

    /// Make room for `cost` more bytes of `key`: evict older datagrams and, if that is not enough,
    /// this one. Returns `false` if this one was evicted.
    #[inline(always)]
    fn make_room(&mut self, key: Key, cost: usize, budget: &mut Budget, drops: &mut Drops) -> bool {
        // A source never has more bytes than the table, so this test is enough.
        let bytes = self.bytes + cost;
        let fits = bytes <= budget.of(Limit::FragmentBytes)
            && bytes <= budget.of(Limit::FragmentBytesPerSource);
        fits || self.evict_for(key, cost, budget, drops)
    }

    #[cold]
    fn evict_for(&mut self, key: Key, cost: usize, budget: &mut Budget, drops: &mut Drops) -> bool {
        if self.bytes + cost <= budget.of(Limit::FragmentBytes)
            && self.bytes_of(key.source()) + cost <= budget.of(Limit::FragmentBytesPerSource)
        {
            return true;
        }
        self.settle();
        let own = self.datagrams.get(&key).map(|datagram| datagram.serial);
        loop {
            let Some(used) = self.sources.get(&key.source()) else { return false };
            let exceeds = |limit: Limit, bytes: usize| bytes + cost > budget.of(limit);
            let (limit, oldest) = if exceeds(Limit::FragmentBytesPerSource, used.bytes) {
                let mut others = used.serials.iter().filter(|&&serial| Some(serial) != own);
                (Limit::FragmentBytesPerSource, others.next().copied())
            } else if exceeds(Limit::FragmentBytes, self.bytes) {
                let mut others = self.order.keys().filter(|&&serial| Some(serial) != own);
                (Limit::FragmentBytes, others.next().copied())
            } else {
                return true;
            };
            budget.admits(limit, usize::MAX);
            if oldest.is_none() {
                self.evict(own, drops);
                return false;
            }
            self.evict(oldest, drops);
        }
    }

    /// Bytes of buffers held for a source.
    fn bytes_of(&self, source: IpAddr) -> usize {
        // While the trees are empty there is nothing to look up.
        let used = if self.sources.is_empty() { None } else { self.sources.get(&source) };
        let settled = used.map_or(0, |used| used.bytes);
        match &self.newest {
            Some((key, datagram)) if key.source() == source => settled + datagram.cost,
            _ => settled,
        }
    }

    /// Drop a datagram; `false` if there is none with this number. The newest datagram must be in
    /// the trees.
    fn evict(&mut self, serial: Option<u64>, drops: &mut Drops) -> bool {
        let key = serial.and_then(|serial| self.order.get(&serial).copied());
        let Some(datagram) = key.and_then(|key| self.remove(&key)) else { return false };
        drops.count_many(DropReason::FragmentEvicted, datagram.len() as u64);
        true
    }

    #[inline(always)]
    fn remove(&mut self, key: &Key) -> Option<Datagram> {
        let Some((_, datagram)) = self.newest.take_if(|(newest, _)| newest == key) else {
            return self.remove_from_trees(key);
        };
        self.bytes -= datagram.cost;
        Some(datagram)
    }

    #[cold]
    fn remove_from_trees(&mut self, key: &Key) -> Option<Datagram> {
        let datagram = self.datagrams.remove(key)?;
        self.order.remove(&datagram.serial);
        self.bytes -= datagram.cost;
        let source = key.source();
        if let Some(used) = self.sources.get_mut(&source) {
            used.bytes -= datagram.cost;
            used.serials.remove(&datagram.serial);
            if used.serials.is_empty() {
                self.sources.remove(&source);
            }
        }
        Some(datagram)
    }

    /// Keep the empty list of a finished datagram for the next one.
    pub(super) fn keep_list(&mut self, pieces: Vec<Piece>) {
        if pieces.capacity() <= SPARE_MAX {
            self.spare = pieces;
        }
    }

    /// Remove and return the oldest datagram whose time is up at `now`; its fragments are counted
    /// in `drops`. `None` if there is none.
    pub fn expire(&mut self, now: Instant, drops: &mut Drops) -> Option<Expired> {
        if self.order.is_empty() {
            self.settle();
        }
        let (_, &key) = self.order.first_key_value()?;
        if self.datagrams.get(&key)?.expires > now {
            return None;
        }
        let mut datagram = self.remove(&key)?;
        drops.count_many(DropReason::FragmentTimeout, datagram.len() as u64);
        let has_first = datagram.pieces.first().is_some_and(|piece| piece.begin == 0);
        let first = has_first.then(|| datagram.pieces.swap_remove(0).m);
        Some(Expired { first })
    }

    /// Drop the datagrams of a port that is removed: another port may get its number.
    pub fn forget_port(&mut self, port: u16, drops: &mut Drops) {
        self.settle();
        let of_port = self.order.iter().filter(|(_, key)| key.port == port);
        let serials: Vec<u64> = of_port.map(|(&serial, _)| serial).collect();
        for serial in serials {
            self.evict(Some(serial), drops);
        }
    }
}
