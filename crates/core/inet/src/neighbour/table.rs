//! The neighbour table: link addresses, the state of each entry, timers and pending queues.
//!
//! Called by: `stack/resolve.rs`. The caller passes the time and carries out the [`Action`]s. RFC
//! 4861 section 7.3, RFC 1122 sections 2.3.2.1 and 2.3.2.2. Limits: `neighbours`,
//! `neighbour_queue`, `neighbour_queue_total`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Budget, Duration, Instant, Limit, MacAddr};
use mbuf::Mbuf;

use super::{
    Action, Advertisement, DELAY, Entry, Found, Key, Learnt, REACHABLE, RETRANSMIT, Row, State,
    TRIES_MAX,
};

/// How many entries `make_room` examines to find one to evict.
const CANDIDATES_MAX: usize = 8;

/// Link addresses by port and IP address.
#[derive(Debug, Default)]
pub struct Neighbours {
    entries: BTreeMap<Key, Entry>,
    /// Dynamic entries; the least recently used one is first.
    by_use: BTreeSet<(u64, Key)>,
    deadlines: BTreeSet<(Instant, Key)>,
    actions: VecDeque<Action>,
    uses: u64,
    pending: usize,
    changes: u64,
    demotions: u64,
    /// Ports whose routers advertise other times: how long a neighbour is reachable, and the time
    /// between solicitations.
    times: Vec<(u16, Duration, Duration)>,
}

impl Neighbours {
    /// Set a static entry; `false` if the table is full.
    pub fn set(&mut self, key: Key, mac: MacAddr, now: Instant, budget: &mut Budget) -> bool {
        if !self.entries.contains_key(&key) && !self.make_room(now, budget) {
            return false;
        }
        let pending = self.take_out(&key).map(|entry| entry.pending).unwrap_or_default();
        self.entries.insert(key, Entry::new(State::Static, mac, Instant::ZERO, 0));
        self.changes += 1;
        self.actions.push_back(Action::Resolved(key, mac, pending));
        true
    }

    /// Remove a static entry, so that the neighbour is solicited again; `false` if there is none.
    pub fn unset(&mut self, key: Key) -> bool {
        let is_static = self.state(key) == Some(State::Static);
        if is_static {
            self.take_out(&key);
            self.changes += 1;
        }
        is_static
    }

    /// The link address of a static entry.
    pub fn permanent(&self, key: Key) -> Option<MacAddr> {
        let entry = self.entries.get(&key)?;
        (entry.state == State::Static).then_some(entry.mac)
    }

    /// Remove an entry, whatever its state; its pending queue is dropped. `false` if there is none.
    pub fn remove(&mut self, key: Key) -> bool {
        let is_known = self.entries.contains_key(&key);
        self.fail(key);
        is_known
    }

    /// Look up the link address of a neighbour in order to send to it; solicit it if unknown.
    pub fn resolve(&mut self, key: Key, now: Instant, budget: &mut Budget) -> Found {
        self.uses += 1;
        let used = self.uses;
        let (reachable, _) = self.times(key.0);
        let Some(entry) = self.entries.get_mut(&key) else {
            if !self.make_room(now, budget) {
                return Found::Full;
            }
            let entry = Entry::new(State::Incomplete, MacAddr::default(), now, used);
            self.put_in(key, entry);
            self.ask(key, now);
            return Found::Pending;
        };
        if entry.state == State::Static {
            return Found::Known(entry.mac);
        }
        self.by_use.remove(&(entry.used, key));
        entry.used = used;
        self.by_use.insert((used, key));
        let (state, mac) = (entry.state, entry.mac);
        let expired = now.since(entry.confirmed_at) >= reachable;
        if state == State::Stale || (state == State::Reachable && expired) {
            self.enter(key, State::Delay, now + DELAY);
            self.actions.push_back(Action::Delayed(key));
        }
        if state == State::Incomplete { Found::Pending } else { Found::Known(mac) }
    }

    /// Append a frame to the pending queue of `key`; the destination in its link header is not
    /// filled in. At the queue's limit the oldest frame is dropped (RFC 1122 section 2.3.2.2: save
    /// the latest).
    ///
    /// # Errors
    /// The frame that is dropped: the oldest, or this one if `key` is not being resolved or the
    /// limit of all pending queues is reached.
    /// RFC 4861 7.2.2-a.
    pub fn enqueue(&mut self, key: Key, frame: Mbuf, budget: &mut Budget) -> Result<(), Mbuf> {
        let asked = |e: &&mut Entry| e.state == State::Incomplete;
        let Some(entry) = self.entries.get_mut(&key).filter(asked) else { return Err(frame) };
        if !budget.admits(Limit::NeighbourQueue, entry.pending.len()) {
            let Some(oldest) = entry.pending.pop_front() else { return Err(frame) };
            entry.pending.push_back(frame);
            return Err(oldest);
        }
        if !budget.admits(Limit::NeighbourQueueTotal, self.pending) {
            return Err(frame);
        }
        self.pending += 1;
        entry.pending.push_back(frame);
        Ok(())
    }

    /// Process an advertisement that the link address of `key` is `mac`. An advertisement that
    /// overrides the entry is accepted at once, however young the entry is (RFC 4861 section 7.2.5;
    /// RFC 826), unless there were too many of them.
    pub fn learn(
        &mut self,
        key: Key,
        mac: MacAddr,
        advertisement: Advertisement,
        now: Instant,
        budget: &mut Budget,
    ) -> Learnt {
        let Some(entry) = self.entries.get_mut(&key) else {
            if advertisement != Advertisement::Request || !self.make_room(now, budget) {
                return Learnt::Useless;
            }
            self.uses += 1;
            let entry = Entry::new(State::Stale, mac, now, self.uses);
            self.put_in(key, entry);
            return Learnt::Used;
        };
        let solicited = matches!(advertisement, Advertisement::Reply { solicited: true, .. });
        let overrides = !matches!(advertisement, Advertisement::Reply { overrides: false, .. });
        match entry.state {
            State::Static => Learnt::Useless,
            State::Incomplete => {
                entry.mac = mac;
                let pending = core::mem::take(&mut entry.pending);
                self.pending -= pending.len();
                self.confirm_or_stale(key, solicited, now);
                self.changes += 1;
                self.actions.push_back(Action::Resolved(key, mac, pending));
                Learnt::Used
            }
            _ if entry.mac == mac => {
                if solicited {
                    self.confirm_or_stale(key, true, now);
                }
                Learnt::Used
            }
            // RFC 4861 section 7.2.5: without the override flag, a different address only makes a
            // reachable entry stale.
            _ if !overrides => {
                self.doubt(key);
                Learnt::Useless
            }
            _ => match entry.may_move(now) {
                true => {
                    entry.mac = mac;
                    self.changes += 1;
                    self.confirm_or_stale(key, solicited, now);
                    Learnt::Used
                }
                // The new address may be the right one: the next use of the entry verifies it.
                false => {
                    self.doubt(key);
                    Learnt::TooOften
                }
            },
        }
    }

    /// Another station claims to be the neighbour, so the entry has to be verified.
    fn doubt(&mut self, key: Key) {
        if self.state(key) == Some(State::Reachable) {
            self.demotions += 1;
            self.enter(key, State::Stale, Instant::NEVER);
        }
    }

    /// A neighbour whose link address is known has answered without naming the address (RFC 4861
    /// section 7.2.5). `true` if this confirmed its entry.
    pub fn confirm(&mut self, key: Key, now: Instant) -> bool {
        let known = |entry: &Entry| !matches!(entry.state, State::Static | State::Incomplete);
        let is_known = self.entries.get(&key).is_some_and(known);
        if is_known {
            self.confirm_or_stale(key, true, now);
        }
        is_known
    }

    fn confirm_or_stale(&mut self, key: Key, confirmed: bool, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key).filter(|_| confirmed) {
            entry.confirmed_at = now;
        }
        let state = if confirmed { State::Reachable } else { State::Stale };
        self.enter(key, state, Instant::NEVER);
    }

    /// Handle expired timers. `progress` returns whether a protocol above has made forward progress
    /// over a neighbour since its [`Action::Delayed`]: that confirms the neighbour without a
    /// solicitation (RFC 4861 section 7.3.1).
    pub fn expire(&mut self, now: Instant, mut progress: impl FnMut(Key) -> bool) {
        while let Some(&(at, key)) = self.deadlines.first() {
            if at > now {
                break;
            }
            let Some(entry) = self.entries.get(&key) else {
                self.deadlines.pop_first();
                continue;
            };
            match entry.state {
                State::Delay | State::Probe if progress(key) => {
                    self.confirm_or_stale(key, true, now);
                }
                State::Incomplete | State::Probe if entry.tries >= TRIES_MAX => self.fail(key),
                State::Incomplete | State::Probe => self.ask(key, now),
                State::Delay => {
                    self.enter(key, State::Probe, now);
                    self.ask(key, now);
                }
                state => self.enter(key, state, Instant::NEVER),
            }
        }
    }

    /// When [`Neighbours::expire`] is due next.
    pub fn next_deadline(&self) -> Instant {
        self.deadlines.first().map_or(Instant::NEVER, |&(at, _)| at)
    }

    /// Returns the next action for the stack.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A counter, incremented whenever a link address that header templates may have copied
    /// changes.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A counter, incremented whenever an entry becomes stale before its time: the result of
    /// [`Neighbours::usable`] is no longer valid.
    #[inline(always)]
    pub fn demotions(&self) -> u64 {
        self.demotions
    }

    /// The link address of a neighbour, and the time until which it may be used without
    /// [`Neighbours::resolve`], which would only return the address and note its use. The address
    /// may be used only while [`Neighbours::changes`] and [`Neighbours::demotions`] stay the same.
    /// `None` if `resolve` would do more now.
    pub fn usable(&self, key: Key, now: Instant) -> Option<(MacAddr, Instant)> {
        let entry = self.entries.get(&key)?;
        let until = match entry.state {
            State::Static => Instant::NEVER,
            State::Reachable => entry.confirmed_at + self.times(key.0).0,
            State::Delay | State::Probe => entry.deadline,
            State::Stale | State::Incomplete => return None,
        };
        (until > now).then_some((entry.mac, until))
    }

    /// The state of a neighbour's entry.
    pub fn state(&self, key: Key) -> Option<State> {
        self.entries.get(&key).map(|entry| entry.state)
    }

    /// The number of entries, including those being resolved.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Is the table empty?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of frames in all pending queues.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Every entry, for output.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.entries.iter().map(|(&key, entry)| entry.row(key))
    }

    /// One entry, for output.
    pub fn row(&self, key: Key) -> Option<Row> {
        self.entries.get(&key).map(|entry| entry.row(key))
    }

    /// Set how long neighbours of a port are reachable after they were confirmed, and the time
    /// between solicitations, instead of [`REACHABLE`] and [`RETRANSMIT`] (RFC 4861 section 6.3.4).
    pub fn set_times(&mut self, port: u16, reachable: Duration, retransmit: Duration) {
        self.forget_times(port);
        self.times.push((port, reachable, retransmit));
    }

    /// Reset the times of a port to [`REACHABLE`] and [`RETRANSMIT`].
    pub fn forget_times(&mut self, port: u16) {
        self.times.retain(|&(p, ..)| p != port);
    }

    fn times(&self, port: u16) -> (Duration, Duration) {
        let found = self.times.iter().find(|&&(p, ..)| p == port);
        found.map_or((REACHABLE, RETRANSMIT), |&(_, reachable, retransmit)| (reachable, retransmit))
    }

    /// Remove the entries of a port that was removed; their pending queues are dropped.
    pub fn forget_port(&mut self, port: u16) {
        self.forget_times(port);
        let keys: Vec<Key> = self.entries.keys().copied().filter(|&(p, _)| p == port).collect();
        for key in keys {
            self.fail(key);
        }
    }

    /// Make room for one more entry: at the limit, evict the least recently used entry that was not
    /// confirmed within [`REACHABLE`]. `false` if none of the first [`CANDIDATES_MAX`] entries may
    /// be evicted.
    fn make_room(&mut self, now: Instant, budget: &mut Budget) -> bool {
        if budget.admits(Limit::Neighbours, self.entries.len()) {
            return true;
        }
        let unconfirmed = |(_, key): &&(u64, Key)| {
            self.entries.get(key).is_some_and(|entry| {
                entry.state != State::Reachable || now.since(entry.confirmed_at) >= REACHABLE
            })
        };
        let found = self.by_use.iter().take(CANDIDATES_MAX).find(unconfirmed).copied();
        match found {
            Some((_, key)) => {
                self.fail(key);
                true
            }
            None => false,
        }
    }

    fn fail(&mut self, key: Key) {
        if let Some(entry) = self.take_out(&key) {
            self.changes += 1;
            self.actions.push_back(Action::Failed(key, entry.pending));
        }
    }

    fn ask(&mut self, key: Key, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.tries += 1;
        let state = entry.state;
        let to = (state == State::Probe).then_some(entry.mac);
        self.actions.push_back(Action::Solicit(key, to));
        let tries = entry.tries;
        let (_, retransmit) = self.times(key.0);
        self.enter(key, state, now + retransmit);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.tries = tries;
        }
    }

    fn enter(&mut self, key: Key, state: State, deadline: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        self.deadlines.remove(&(entry.deadline, key));
        entry.state = state;
        entry.deadline = deadline;
        entry.tries = 0;
        if deadline != Instant::NEVER {
            self.deadlines.insert((deadline, key));
        }
    }

    fn put_in(&mut self, key: Key, entry: Entry) {
        self.by_use.insert((entry.used, key));
        self.entries.insert(key, entry);
    }

    fn take_out(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&(entry.used, *key));
        self.deadlines.remove(&(entry.deadline, *key));
        self.pending -= entry.pending.len();
        Some(entry)
    }
}
