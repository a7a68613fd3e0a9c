//! New states: may this flow have one, and whose place does it take?
//!
//! Called by: the stack, when rules have passed the first packet of a flow. RFC 5382 section 4, RFC
//! 5508 section 3.1, RFC 6888 section 3. Counters: `filter_no_state`, `filter_tcp_state`,
//! `filter_state_limit`, `filter_source_limit`, `filter_rate`, `nat_no_port`. Limits:
//! `filter_states`, `filter_states_per_source`, `filter_sources`.

use base::{Budget, DropReason, Instant, Limit};
use wire::checksum::Sum;
use wire::protocol;

use super::events::{Event, Reported, What, Why};
use super::index::Entry;
use super::key::Key;
use super::pass::Transport;
use super::record::{Common, Slot, flag};
use super::sources::{Rate, Who};
use super::tcp::{self, Opening};
use super::timeouts::Phase;
use super::wheel::tick_of;
use super::{StateId, States};

/// The port of DNS.
const DNS: u16 = 53;

/// What a rule allows each source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLimits {
    /// `states N per source`.
    pub states: Option<u32>,
    /// `new N/s`, `new N/s per source`.
    pub rate: Option<Rate>,
}

/// The first packet of a flow, and what rules and NAT made of it.
#[derive(Clone, Copy, Debug)]
pub struct NewState<'a> {
    /// The tuple as the packet arrived.
    pub original: Key,
    /// The tuple of answers as they will arrive; `original.reversed()` without NAT.
    pub reply: Key,
    /// The packet's transport.
    pub first: Transport<'a>,
    /// Its type and code, if it is a message of ICMP.
    pub icmp: Option<(u8, u8)>,
    /// Bytes to count.
    pub len: u32,
    /// Port that it came by.
    pub in_port: u16,
    /// Port that it leaves by.
    pub out_port: u16,
    /// The rule that passed it.
    pub rule: u16,
    /// Generation of that rule.
    pub generation: u32,
    /// A number of the caller's, such as that of a mapping.
    pub tag: u32,
    /// Check no windows, and begin with any segment.
    pub loose: bool,
    /// What the rule allows the packet's source.
    pub limits: SourceLimits,
}

impl States {
    /// Make a state. The packet is counted in it. A state of an earlier connection with the tuple
    /// is ended if that connection is over.
    ///
    /// # Errors
    /// [`DropReason::FilterNoState`] if the packet begins no flow, [`DropReason::FilterRate`],
    /// [`DropReason::FilterSourceLimit`], [`DropReason::FilterStateLimit`] for limits,
    /// [`DropReason::NatNoPort`] if another state has one of the tuples, or if they are of two
    /// versions or protocols.
    pub fn insert(
        &mut self,
        new: &NewState<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<StateId, DropReason> {
        let mut first = Common::EMPTY;
        begin(&mut first, new)?;
        let translated = new.reply != new.original.reversed();
        let before = self.in_the_way(new, translated)?;
        self.admit_source(new, budget, now)?;
        for id in before.into_iter().flatten() {
            self.kill(id, Why::Replaced, now);
        }
        self.make_room(budget, now)?;
        let slot = self.records.take(new.original, new.reply).ok_or(DropReason::NatNoPort)?;
        self.fill(slot, first, new, translated, now);
        if !self.enter(slot, translated) {
            self.records.give_back(slot);
            budget.admits(Limit::FilterStates, usize::MAX);
            return Err(DropReason::FilterStateLimit);
        }
        self.count += 1;
        self.count_source(slot, new, budget, now);
        let common = self.records.at(slot);
        let (due, phase) = (common.seen.wrapping_add(self.timeout(common)), common.phase);
        let id = StateId { slot, life: common.life };
        self.wheel.link(&mut self.records, slot, due);
        if phase.is_waiting() {
            self.waiting.push(&mut self.records, slot);
        }
        if phase.is_over() {
            self.over.push(&mut self.records, slot);
        }
        if self.events.wanted.begun {
            let (state, reported) = (self.state_at(slot, now), Reported::default());
            self.events.push(Event { at: now, state, what: What::Began, reported });
        }
        if self.copies.is_on && !phase.is_waiting() {
            self.note_change(slot);
        }
        Ok(id)
    }

    /// Is no state's tuple in the way of a new one with this key? A state that is over is not.
    #[must_use]
    pub fn is_free(&self, key: &Key) -> bool {
        self.find(key).and_then(|(id, _)| self.live(id)).is_none_or(|found| found.phase.is_over())
    }

    /// The states of connections that are over and have one of the tuples. Without NAT one look-up
    /// is enough: the other tuple is in the same place.
    fn in_the_way(
        &self,
        new: &NewState<'_>,
        translated: bool,
    ) -> Result<[Option<StateId>; 2], DropReason> {
        let found = |key| self.find(key).map(|(id, _)| id);
        let both = [found(&new.original), if translated { found(&new.reply) } else { None }];
        let is_over = |id: &StateId| self.live(*id).is_none_or(|found| found.phase.is_over());
        both.iter().flatten().all(is_over).then_some(both).ok_or(DropReason::NatNoPort)
    }

    /// May the source of a new state have one more, and now? RFC 6888 REQ-4C, REQ-5, REQ-5A,
    /// REQ-5B.
    fn admit_source(
        &mut self,
        new: &NewState<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<(), DropReason> {
        let (addr, v6) = (new.original.source(), matches!(new.original, Key::V6(_)));
        let most = budget.of(Limit::FilterSources);
        let by_rule = Who::by_rule(addr, v6, new.rule, new.generation);
        if !budget.admits(Limit::FilterStatesPerSource, self.states_of(&new.original)) {
            return Err(DropReason::FilterSourceLimit);
        }
        if let Some(states) = new.limits.states
            && self.sources.states(by_rule) >= states
        {
            return Err(DropReason::FilterSourceLimit);
        }
        let Some(rate) = new.limits.rate else { return Ok(()) };
        let all = Who::all_of_rule(new.rule, new.generation);
        let who = if rate.per_source { by_rule } else { all };
        let begins = self.sources.begins(who, rate.per_second, most, now);
        begins.then_some(()).ok_or(DropReason::FilterRate)
    }

    /// How many states the source of a key has, as far as they are counted.
    pub fn states_of(&mut self, key: &Key) -> usize {
        self.sources.states(Who::source(key.source(), matches!(key, Key::V6(_)))) as usize
    }

    pub(super) fn count_source(
        &mut self,
        slot: Slot,
        new: &NewState<'_>,
        budget: &Budget,
        now: Instant,
    ) {
        let most = budget.of(Limit::FilterSources);
        let [source, by_rule] = self.owners(slot);
        // A limit that the table cannot reach needs no count.
        if budget.of(Limit::FilterStatesPerSource) < budget.of(Limit::FilterStates) {
            self.sources.add(source, most, now);
            self.records.at_mut(slot).flags |= flag::OF_SOURCE;
        }
        if new.limits.states.is_some() {
            self.sources.add(by_rule, most, now);
            self.records.at_mut(slot).flags |= flag::OF_RULE;
        }
    }

    /// Evict a state if there is no room. A waiting state takes the place of the oldest one if
    /// those have half of the table. A full table evicts connections that are over, then waiting
    /// ones, the oldest first; flows with answers are never evicted.
    fn make_room(&mut self, budget: &mut Budget, now: Instant) -> Result<(), DropReason> {
        let limit = budget.of(Limit::FilterStates);
        if self.count >= limit {
            budget.admits(Limit::FilterStates, self.count);
            let oldest = self.over.oldest().or_else(|| self.waiting.oldest());
            let oldest = oldest.filter(|_| limit > 0).ok_or(DropReason::FilterStateLimit)?;
            self.remove(oldest, Why::Evicted, now);
            self.fetch_victims();
        }
        if self.waiting.len() >= (limit / 2).max(1)
            && let Some(oldest) = self.waiting.oldest()
        {
            self.remove(oldest, Why::Evicted, now);
        }
        if self.count >= limit { Err(DropReason::FilterStateLimit) } else { Ok(()) }
    }

    /// Fetch what the next evictions will read: for the next one all that its record names, since
    /// the eviction before has fetched the record, and the record of the one behind it. In a flood
    /// each SYN evicts a state that nobody has touched for seconds.
    fn fetch_victims(&self) {
        let next = self.over.oldest().or_else(|| self.waiting.oldest());
        let Some(next) = next else { return };
        let hash = States::hash_of(self.hash, &self.records, Entry::new(next, 0));
        mbuf::prefetch(self.index.first(hash));
        let [source, _] = self.owners(next);
        self.sources.prefetch(source);
        let common = self.records.at(next);
        let [later, earlier] = common.wheel;
        for neighbour in [later, earlier, common.pair[1]] {
            self.records.prefetch_if_any(neighbour);
        }
    }

    /// Fetch what a new state with this key will need beside its bucket.
    #[inline]
    pub fn fetch_source(&self, key: &Key) {
        self.sources.prefetch(Who::source(key.source(), matches!(key, Key::V6(_))));
    }

    /// Write the record of a new state.
    fn fill(&mut self, slot: Slot, first: Common, new: &NewState<'_>, nat: bool, now: Instant) {
        let tick = tick_of(now);
        let sums = if nat { sums(&new.original, &new.reply) } else { [0; 2] };
        let common = self.records.at_mut(slot);
        *common = Common {
            packets: [1, 0],
            bytes: [u64::from(new.len), 0],
            seen: tick,
            created: tick,
            generation: new.generation,
            tag: new.tag,
            rule: new.rule,
            in_port: new.in_port,
            out_port: new.out_port,
            flags: first.flags | flag::LIVE | if nat { flag::TRANSLATED } else { 0 },
            sums,
            protocol: new.original.protocol(),
            life: common.life,
            ..first
        };
    }

    /// Put a record into the index.
    pub(super) fn enter(&mut self, slot: Slot, translated: bool) -> bool {
        let (hash, records) = (self.hash, &self.records);
        let hash_of = |entry| States::hash_of(hash, records, entry);
        let original = Entry::new(slot, 0);
        if !self.index.insert(hash_of(original), original, hash_of) {
            return false;
        }
        let reply = Entry::new(slot, 1);
        if translated && !self.index.insert(hash_of(reply), reply, hash_of) {
            self.index.remove(hash_of(original), original);
            return false;
        }
        true
    }
}

/// The phase and the TCP tracking of a new state.
fn begin(first: &mut Common, new: &NewState<'_>) -> Result<(), DropReason> {
    let protocol = new.original.protocol();
    if protocol != new.reply.protocol() {
        return Err(DropReason::NatNoPort);
    }
    first.phase = match (protocol, new.first) {
        (protocol::TCP, Transport::Tcp(segment)) => {
            let opening = if new.loose { Opening::Any } else { Opening::Syn };
            return tcp::begin(first, segment, opening);
        }
        (protocol::TCP, _) | (_, Transport::Tcp(_)) => return Err(DropReason::FilterMalformed),
        // RFC 5508 REQ-1: queries begin flows, answers do not.
        (_, Transport::Answer) => return Err(DropReason::FilterNoState),
        (_, Transport::Query) => Phase::IcmpUnreplied,
        (protocol::UDP, _) if new.original.ports()[1] == DNS => Phase::DnsUnreplied,
        (protocol::UDP, _) => Phase::UdpUnreplied,
        _ => Phase::OtherUnreplied,
    };
    if let (protocol::ICMP | protocol::ICMPV6, Some(icmp)) = (protocol, new.icmp) {
        first.set_icmp(icmp);
    }
    Ok(())
}

/// What to add to checksums in the original direction, which goes from the original tuple to the
/// reversed reply tuple: new words less old ones (RFC 1624). The order of words does not matter.
pub(super) fn sums(original: &Key, reply: &Key) -> [u16; 2] {
    let addrs = |key: &Key| match key {
        Key::V4(key) => Sum::from_u64s([key.addrs]),
        Key::V6(key) => Sum::from_u64s(key.addrs),
    };
    let ports = |key: &Key| match key {
        Key::V4(key) => Sum::from_u64s([u64::from(key.ports)]),
        Key::V6(key) => Sum::from_u64s([u64::from(key.ports)]),
    };
    // The original packet is a query, whose source port is its identifier.
    let identifiers = || {
        let ([old, _], [_, new]) = (original.ports(), reply.ports());
        Sum::of_be16(new).minus(Sum::of_be16(old))
    };
    let ip = addrs(reply).minus(addrs(original));
    let transport = match original.protocol() {
        // No pseudo-header; the identifier is in the message once.
        protocol::ICMP => identifiers(),
        protocol::ICMPV6 => ip.plus(identifiers()),
        _ => ip.plus(ports(reply).minus(ports(original))),
    };
    [ip.0, transport.0]
}
