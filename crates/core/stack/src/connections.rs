//! The table of connections: by handle for users, by addresses and ports for segments, with the
//! flow cache in front; and the records of connections in TIME-WAIT.
//!
//! Called by: `rx.rs`, `tx.rs`, the files of `socket/`. The table's hash has a secret key, because
//! remote hosts choose addresses and ports.

use std::collections::VecDeque;

use core::net::{IpAddr, SocketAddr};

use base::{Budget, Counter, Counters, Instant, KeyedHash, Limit, Owner, Switch, Switches};
use hashbrown::HashTable;
use inet::{FlowKey, HeaderTemplate, Selector};
use slotmap::SlotMap;
use tcp::{Tcb, TimeWait, Todo};

use crate::flow_cache::FlowCache;
use crate::handles::{ListenerHandle, TcpHandle};

/// One connection as the stack keeps it.
pub(crate) struct Pcb {
    pub(crate) key: FlowKey,
    pub(crate) tcb: Tcb,
    pub(crate) template: HeaderTemplate,
    pub(crate) port: u16,
    /// An event of the connection is in the ready list.
    pub(crate) ready: bool,
    /// The table contains the connection, so segments find it.
    pub(crate) in_table: bool,
    /// The connection is an orphan: its user has closed it.
    pub(crate) orphan: bool,
    /// The connection is in its port's list of blocked connections.
    pub(crate) blocked: bool,
    /// When the timer wheel returns the connection. `wheel_later` is the time of the next entry of
    /// this connection.
    pub(crate) wheel_at: Instant,
    pub(crate) wheel_later: Instant,
    pub(crate) listener: Option<ListenerHandle>,
    pub(crate) owner: Owner,
    /// [`crate::IpSettings::mark`] and the VRF, which is in the key too.
    pub(crate) by: Selector,
    /// When the connection was opened; only for statistics.
    pub(crate) opened_at: Instant,
    /// What its events carry in place of its handle, if its user has set something.
    pub(crate) tag: Option<u64>,
    /// The value of [`inet::Neighbours::changes`] when the template's link address was looked up.
    pub(crate) seen: u64,
    /// The template has, or once had, a link address.
    pub(crate) is_resolved: bool,
    /// The connection waits for a neighbour's link address.
    pub(crate) waiting: bool,
}

impl Pcb {
    /// A value of [`Pcb::seen`]: look up the link address before anything is sent.
    pub(crate) const NEVER_SEEN: u64 = u64::MAX;

    /// The sender of the connection's segments, for route lookups.
    pub(crate) fn sender(&self) -> inet::Sender<'_> {
        inet::Sender::Socket { owner: &self.owner, by: self.by }
    }
}

/// A connection in TIME-WAIT, with the data that an answer needs.
#[derive(Clone)]
pub(crate) struct TimeWaitEntry {
    pub(crate) key: FlowKey,
    pub(crate) record: TimeWait,
    /// The record's number in the queue of expiries. A queue entry with another number belongs to
    /// an earlier record.
    pub(crate) place: u64,
    /// The owner and the selector of the connection. `None`: the program, without mark and VRF.
    pub(crate) sender: Option<Box<(Owner, Selector)>>,
}

impl TimeWaitEntry {
    /// The entry of a connection that has ended.
    pub(crate) fn new(pcb: &Pcb, record: TimeWait) -> TimeWaitEntry {
        let is_anybodys = pcb.owner.is_program() && pcb.by == Selector::default();
        let sender = (!is_anybodys).then(|| Box::new((pcb.owner.clone(), pcb.by)));
        TimeWaitEntry { key: pcb.key, record, place: 0, sender }
    }
}

/// All connections of a shard.
pub(crate) struct Connections {
    pcbs: SlotMap<TcpHandle, Box<Pcb>>,
    table: HashTable<TcpHandle>,
    cache: FlowCache,
    time_wait: HashTable<TimeWaitEntry>,
    /// Records in order of expiry. When the entry of a record comes up that was prolonged
    /// meanwhile, it is put back.
    time_wait_order: VecDeque<(Instant, FlowKey, u64)>,
    /// Places given so far.
    places: u64,
    /// Connections with something to do, once each.
    pub(crate) dirty: Vec<TcpHandle>,
    /// Some of the dirty connections have an ACK to send that waits for [`crate::Stack::flush`].
    pub(crate) holds_acks: bool,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections {
            pcbs: SlotMap::with_key(),
            table: HashTable::new(),
            cache: FlowCache::default(),
            time_wait: HashTable::new(),
            time_wait_order: VecDeque::new(),
            places: 0,
            dirty: Vec::new(),
            holds_acks: false,
        }
    }
}

impl Connections {
    pub(crate) fn len(&self) -> usize {
        self.pcbs.len()
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, handle: TcpHandle) -> Option<&mut Pcb> {
        self.pcbs.get_mut(handle).map(|b| &mut **b)
    }

    /// A connection to which the caller is about to give work. This call puts it on the dirty list.
    #[inline(always)]
    pub(crate) fn get_dirty(&mut self, handle: TcpHandle) -> Option<&mut Pcb> {
        let pcb = &mut **self.pcbs.get_mut(handle)?;
        mbuf::prefetch(pcb);
        if !core::mem::replace(&mut pcb.tcb.dirty, true) {
            self.dirty.push(handle);
        }
        Some(pcb)
    }

    /// All connections, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TcpHandle, &Pcb)> {
        self.pcbs.iter().map(|(handle, pcb)| (handle, &**pcb))
    }

    #[inline(always)]
    pub(crate) fn get(&self, handle: TcpHandle) -> Option<&Pcb> {
        self.pcbs.get(handle).map(|b| &**b)
    }

    /// The connection of a segment, from the cache or from the table.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        key: FlowKey,
        secret: &KeyedHash,
        switches: Switches,
        counters: &mut Counters,
    ) -> Option<(TcpHandle, &mut Pcb)> {
        let cached = if switches.on(Switch::FlowCache) { self.cache.get(&key) } else { None };
        let is_it = |pcb: &Pcb| pcb.in_table && pcb.key == key;
        let Some(handle) = cached.filter(|handle| self.get(*handle).is_some_and(is_it)) else {
            counters.add(Counter::DemuxMiss, 1);
            return self.look_up_and_cache(key, secret);
        };
        counters.add(Counter::DemuxHit, 1);
        let pcb = self.get_mut(handle)?;
        mbuf::prefetch(pcb);
        Some((handle, pcb))
    }

    #[inline(never)]
    fn look_up_and_cache(
        &mut self,
        key: FlowKey,
        secret: &KeyedHash,
    ) -> Option<(TcpHandle, &mut Pcb)> {
        let handle = self.lookup(&key, secret)?;
        self.cache.put(&key, handle);
        let pcb = self.get_mut(handle)?;
        mbuf::prefetch(pcb);
        Some((handle, pcb))
    }

    /// The connection of a key, without the cache.
    pub(crate) fn lookup(&self, key: &FlowKey, secret: &KeyedHash) -> Option<TcpHandle> {
        let same = |h: &TcpHandle| self.pcbs.get(*h).is_some_and(|p| p.key == *key);
        self.table.find(key.hash(secret), same).copied()
    }

    /// Is there a connection or a TIME-WAIT record for this key?
    pub(crate) fn is_taken(&self, key: &FlowKey, secret: &KeyedHash) -> bool {
        self.lookup(key, secret).is_some() || self.time_wait(key, secret).is_some()
    }

    /// Add a connection. The caller has reserved it in the budget.
    pub(crate) fn insert(&mut self, pcb: Pcb, secret: &KeyedHash) -> TcpHandle {
        let hash = pcb.key.hash(secret);
        let handle = self.pcbs.insert(Box::new(pcb));
        let pcbs = &self.pcbs;
        let rehash = |h: &TcpHandle| pcbs.get(*h).map_or(0, |p| p.key.hash(secret));
        self.table.insert_unique(hash, handle, rehash);
        self.mark_dirty(handle);
        handle
    }

    /// Segments do not find the connection any more; its user still may.
    pub(crate) fn unlink(&mut self, handle: TcpHandle, secret: &KeyedHash) {
        let Some(pcb) = self.pcbs.get_mut(handle) else { return };
        if core::mem::take(&mut pcb.in_table)
            && let Ok(entry) = self.table.find_entry(pcb.key.hash(secret), |h| *h == handle)
        {
            entry.remove();
        }
    }

    /// Remove the connection altogether.
    pub(crate) fn remove(&mut self, handle: TcpHandle, secret: &KeyedHash) -> Option<Box<Pcb>> {
        self.unlink(handle, secret);
        self.pcbs.remove(handle)
    }

    /// Does a connection, or a record in TIME-WAIT, have this local port (at `ip`, or at any
    /// address)?
    pub(crate) fn use_port(&self, ip: Option<IpAddr>, port: u16) -> bool {
        let meets = |a: SocketAddr| a.port() == port && ip.is_none_or(|ip| ip == a.ip());
        self.pcbs.values().any(|pcb| pcb.in_table && meets(pcb.key.local()))
            || self.time_wait.iter().any(|entry| meets(entry.key.local()))
    }

    /// The connections that use a port and have not ended.
    pub(crate) fn of_port(&self, port: u16) -> Vec<TcpHandle> {
        let there = |pcb: &Pcb| pcb.port == port && pcb.in_table;
        self.pcbs.iter().filter(|(_, pcb)| there(pcb)).map(|(handle, _)| handle).collect()
    }

    /// Note that a connection has something to do after this burst.
    #[inline(always)]
    pub(crate) fn mark_dirty(&mut self, handle: TcpHandle) {
        if let Some(pcb) = self.pcbs.get_mut(handle)
            && !pcb.tcb.dirty
        {
            pcb.tcb.dirty = true;
            self.dirty.push(handle);
        }
    }

    /// A reader made room: a window update, if one is due, leaves after the next burst.
    #[inline(always)]
    pub(crate) fn after_read(&mut self, handle: TcpHandle) {
        if let Some(pcb) = self.pcbs.get_mut(handle)
            && pcb.tcb.todo.has(Todo::ACK_NOW)
            && !core::mem::replace(&mut pcb.tcb.dirty, true)
        {
            self.dirty.push(handle);
        }
    }

    pub(crate) fn time_wait_count(&self) -> usize {
        self.time_wait.len()
    }

    #[cfg(test)]
    pub(crate) fn time_wait_places(&self) -> usize {
        self.time_wait_order.len()
    }

    pub(crate) fn time_wait(&self, key: &FlowKey, secret: &KeyedHash) -> Option<&TimeWaitEntry> {
        self.time_wait.find(key.hash(secret), |e| e.key == *key)
    }

    /// Keep a record; at the limit the oldest record is removed.
    pub(crate) fn add_time_wait(
        &mut self,
        mut entry: TimeWaitEntry,
        secret: &KeyedHash,
        budget: &mut Budget,
    ) {
        if !budget.admits(Limit::TimeWait, self.time_wait.len()) {
            while let Some((_, oldest, place)) = self.time_wait_order.pop_front() {
                if self.is_at(&oldest, place, secret) {
                    self.remove_time_wait(&oldest, secret);
                    break;
                }
            }
        }
        // Records that were reopened leave stale entries in the queue. Clean the queue when the
        // stale entries outnumber the others.
        if self.time_wait_order.len() > 2 * self.time_wait.len() + 16 {
            let mut order = core::mem::take(&mut self.time_wait_order);
            order.retain(|(_, key, place)| self.is_at(key, *place, secret));
            self.time_wait_order = order;
        }
        self.places += 1;
        entry.place = self.places;
        self.time_wait_order.push_back((entry.record.expires, entry.key, entry.place));
        let rehash = |e: &TimeWaitEntry| e.key.hash(secret);
        self.time_wait.insert_unique(entry.key.hash(secret), entry, rehash);
    }

    /// Does the entry `place` in the queue of expiries belong to the key's record?
    fn is_at(&self, key: &FlowKey, place: u64, secret: &KeyedHash) -> bool {
        self.time_wait(key, secret).is_some_and(|e| e.place == place)
    }

    pub(crate) fn remove_time_wait(&mut self, key: &FlowKey, secret: &KeyedHash) {
        if let Ok(entry) = self.time_wait.find_entry(key.hash(secret), |e| e.key == *key) {
            entry.remove();
        }
    }

    /// Returns a record, to answer a segment. The record's expiry may then be later than its entry
    /// in the queue says.
    pub(crate) fn time_wait_mut(
        &mut self,
        key: &FlowKey,
        secret: &KeyedHash,
    ) -> Option<&mut TimeWait> {
        let entry = self.time_wait.find_mut(key.hash(secret), |e| e.key == *key)?;
        Some(&mut entry.record)
    }

    /// Remove records that have expired.
    pub(crate) fn expire_time_wait(&mut self, now: Instant, secret: &KeyedHash) {
        while let Some(&(at, key, place)) = self.time_wait_order.front() {
            if at > now {
                break;
            }
            self.time_wait_order.pop_front();
            match self.time_wait(&key, secret).filter(|e| e.place == place) {
                Some(entry) if entry.record.expires > now => {
                    self.time_wait_order.push_back((entry.record.expires, key, place));
                }
                Some(_) => self.remove_time_wait(&key, secret),
                None => {}
            }
        }
    }

    /// When the next record expires.
    pub(crate) fn next_time_wait(&self) -> Instant {
        self.time_wait_order.front().map_or(Instant::NEVER, |&(at, ..)| at)
    }
}
