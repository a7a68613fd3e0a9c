//! A DNS forwarder for the guests of a gateway: it passes their questions to servers, and the
//! answers back, without a cache and without reading more than it must.
//!
//! Called by: code that has sockets. [`Forwarder::question`] takes a guest's message;
//! [`Forwarder::poll`] returns what to send, until there is nothing; answers go to
//! [`Forwarder::on_datagram`] and [`Forwarder::on_bytes`]; [`Forwarder::deadline`] is the time of
//! the next poll. A message is passed on as it is, EDNS and the TC bit included, except for its id
//! and letter case, which are ours: a forger has to guess them and the source port (RFC 5452).
//! Names of the hosts table are answered here. A [`Policy`] sees each question and each answer. RFC
//! 1035, RFC 5625 (what a proxy has to pass on), RFC 6891, RFC 7766, RFC 8914. Counters:
//! [`ForwarderCounts`]; drops: `dns_query_malformed`, `dns_query_repeated`, `dns_malformed`,
//! `dns_not_asked`, `dns_case`; limits: `dns_in_flight`, and those of [`crate::dns::limits`].

mod answer;
pub(super) mod asking;
mod ech;
mod flight;
mod framing;
mod policy;
mod question;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use base::{Budget, DropReason, Drops, Duration, Instant, KeyedHash, Limit};

use super::Send;
use super::hosts::Hosts;
use super::limits::SERVERS_MAX;
use crate::random::Random;
use flight::{Context, Flight, Progress, Upstream};
pub use framing::{Framing, TooLong, framed};
pub use policy::{Answered, Asked, Learned, Policy, Target, Verdict};
pub use question::address_of_pointer;
use question::{Question, Unfit, extended, rcode, rtype};

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// Over a connection, with its length in front ([`framed`]).
    Tcp,
}

/// A question on its way, which has sockets of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(u64);

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwarderAction<C> {
    /// Send a datagram from the socket of this question, which is opened on a random port by the
    /// first of them and is not connected; or bytes over a new connection, the earlier one of this
    /// question being over.
    Send(QueryId, Send),
    /// The question is over: its sockets are no longer needed.
    Close(QueryId),
    /// Send a message to the guest that asked, by the transport by which it asked; over TCP
    /// [`framed`].
    Answer(C, Transport, Vec<u8>),
}

/// The settings of a forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwarderConfig {
    /// The servers, in the order in which they are asked; [`SERVERS_MAX`] of them are used.
    pub servers: Vec<SocketAddr>,
    /// The time until the next server is asked; answers of those before it still count.
    pub timeout: Duration,
    /// The same in the last round, after which the guest gets SERVFAIL.
    pub last_timeout: Duration,
    /// Rounds through all servers; 0 counts as 1.
    pub rounds: u32,
    /// Ask servers over TCP alone: the way to them carries no datagrams.
    pub tcp_only: bool,
}

impl ForwarderConfig {
    /// A second for each of these servers, then four more for each.
    pub fn new(servers: Vec<SocketAddr>) -> ForwarderConfig {
        let (timeout, last_timeout) = (Duration::from_secs(1), Duration::from_secs(4));
        ForwarderConfig { servers, timeout, last_timeout, rounds: 2, tcp_only: false }
    }
}

/// How often each event happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwarderCounts {
    /// Messages of guests, malformed ones included.
    pub questions: u64,
    /// Questions answered from the hosts table.
    pub from_hosts: u64,
    /// Questions and answers that the policy refused.
    pub refused: u64,
    /// Questions sent to servers, repetitions included.
    pub sent: u64,
    /// Answers of servers passed on.
    pub answers: u64,
    /// Questions answered with SERVFAIL because no server answered.
    pub failures: u64,
    /// Questions answered with SERVFAIL because too many were in flight.
    pub full: u64,
    /// Tries that ended without an answer in time.
    pub timeouts: u64,
}

/// A forwarder. `C` says whom to answer: an address, a connection.
#[derive(Debug)]
pub struct Forwarder<C> {
    config: ForwarderConfig,
    servers: Vec<Upstream>,
    hosts: Hosts,
    random: Random,
    flights: BTreeMap<QueryId, Flight<C>>,
    next: u64,
    /// Each call that passes something in adds a few; [`Forwarder::poll`] takes them out.
    actions: VecDeque<ForwarderAction<C>>,
    counts: ForwarderCounts,
    drops: Drops,
    budget: Budget,
}

impl<C: Clone + PartialEq> Forwarder<C> {
    /// A forwarder. `secret` must be random: an attacker who knows it can forge answers.
    pub fn new(config: ForwarderConfig, hosts: Hosts, secret: KeyedHash) -> Forwarder<C> {
        Forwarder {
            servers: upstreams(&config.servers),
            config,
            hosts,
            random: Random::new(secret, 0x646e_7366),
            flights: BTreeMap::new(),
            next: 0,
            actions: VecDeque::new(),
            counts: ForwarderCounts::default(),
            drops: Drops::default(),
            budget: Budget::default(),
        }
    }

    /// How often each event happened.
    pub fn counts(&self) -> &ForwarderCounts {
        &self.counts
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The limits, to read and to set.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Questions in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Use this hosts table.
    pub fn set_hosts(&mut self, hosts: Hosts) {
        self.hosts = hosts;
    }

    /// Ask these servers from now on; questions in flight are asked again.
    pub fn set_servers(&mut self, servers: Vec<SocketAddr>, now: Instant) {
        self.servers = upstreams(&servers);
        self.config.servers = servers;
        let all: Vec<QueryId> = self.flights.keys().copied().collect();
        for id in all {
            self.advance(id, &mut (), |flight, cx| flight.begin(cx, now));
        }
    }

    /// A message of a guest. Its answer may be among the actions at once. Returns whether it has an
    /// answer, now or later: what is no question at all has none.
    pub fn question(
        &mut self,
        now: Instant,
        from: C,
        by: Transport,
        message: &[u8],
        policy: &mut dyn Policy,
    ) -> bool {
        self.counts.questions += 1;
        let question = match Question::parse(message) {
            Ok(question) => question,
            Err(unfit) => {
                self.drops.count(DropReason::DnsQueryMalformed);
                let Unfit::Answer(code) = unfit else { return false };
                self.answer(from, by, question::header(message, code));
                return true;
            }
        };
        let is_again = |flight: &Flight<C>| {
            flight.by == by && flight.from == from && flight.question.message == message
        };
        // The answer is on its way; RFC 5452 section 5: one question is not asked twice.
        if by == Transport::Udp && self.flights.values().any(is_again) {
            self.drops.count(DropReason::DnsQueryRepeated);
            return false;
        }
        let local = self.local(&question);
        let asked =
            Asked { name: &question.name, rtype: question.rtype, is_local: local.is_some() };
        if policy.question(&asked) == Verdict::Refuse {
            self.counts.refused += 1;
            let refusal = question.failure(rcode::REFUSED, extended::BLOCKED);
            self.answer(from, by, refusal);
            return true;
        }
        if let Some(local) = local {
            self.counts.from_hosts += 1;
            let message = self.checked(&question, local, policy, true);
            let is_long = message.len() > question.bytes_max(by);
            let message = if is_long { question.truncated() } else { message };
            self.answer(from, by, message);
            return true;
        }
        if !self.budget.admits(Limit::DnsInFlight, self.flights.len()) {
            self.counts.full += 1;
            self.answer(from, by, question.failure(rcode::SERVER_FAILURE, extended::OTHER));
            return true;
        }
        let id = QueryId(self.next);
        self.next += 1;
        self.flights.insert(id, Flight::new(from, by, question, &mut self.random));
        self.advance(id, policy, |flight, cx| flight.begin(cx, now));
        true
    }

    /// A datagram came to the socket of a question.
    pub fn on_datagram(
        &mut self,
        now: Instant,
        id: QueryId,
        from: SocketAddr,
        bytes: &[u8],
        policy: &mut dyn Policy,
    ) {
        if !self.flights.contains_key(&id) {
            return self.drops.count(DropReason::DnsNotAsked);
        }
        self.advance(id, policy, |flight, cx| flight.datagram(cx, from, bytes, now));
    }

    /// Bytes came over the connection of a question, in any pieces.
    pub fn on_bytes(&mut self, now: Instant, id: QueryId, bytes: &[u8], policy: &mut dyn Policy) {
        self.advance(id, policy, |flight, cx| flight.bytes(cx, bytes, now));
    }

    /// The server of a question cannot be reached: its port is closed, its connection has failed or
    /// ended.
    pub fn on_failure(&mut self, now: Instant, id: QueryId) {
        self.advance(id, &mut (), |flight, cx| flight.server_failed(cx, now));
    }

    /// Forget questions whose guest takes no answer any more, as when its connection has ended.
    pub fn abandon(&mut self, is_gone: impl Fn(&C) -> bool) {
        let actions = &mut self.actions;
        self.flights.retain(|&id, flight| {
            let keeps = !is_gone(&flight.from);
            if !keeps {
                actions.push_back(ForwarderAction::Close(id));
            }
            keeps
        });
    }

    /// When to call [`Forwarder::poll`] next.
    pub fn deadline(&self) -> Instant {
        if !self.actions.is_empty() {
            return Instant::ZERO;
        }
        let deadlines = self.flights.values().map(|flight| flight.deadline);
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// The next action, or `None`: nothing to do before [`Forwarder::deadline`].
    pub fn poll(&mut self, now: Instant) -> Option<ForwarderAction<C>> {
        if self.actions.is_empty() {
            let due = self.flights.iter().filter(|(_, flight)| flight.deadline <= now);
            let due: Vec<QueryId> = due.map(|(&id, _)| id).collect();
            self.counts.timeouts += due.len() as u64;
            for id in due {
                // A refusal that is passed on has no addresses for a policy.
                self.advance(id, &mut (), |flight, cx| flight.expired(cx, now));
            }
        }
        self.actions.pop_front()
    }

    /// Let a question go on, and act on what becomes of it.
    fn advance(
        &mut self,
        id: QueryId,
        policy: &mut dyn Policy,
        step: impl FnOnce(&mut Flight<C>, &mut Context<'_>) -> Progress,
    ) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        let mut cx = Context { servers: &mut self.servers, config: &self.config };
        let progress = step(flight, &mut cx);
        match progress {
            Progress::Waits => {}
            Progress::Dropped(reason) => self.drops.count(reason),
            Progress::Ask(send) => self.send(id, send),
            Progress::DroppedAndAsk(reason, send) => {
                self.drops.count(reason);
                self.send(id, send);
            }
            Progress::Answered(answer) => self.finish(id, Some(answer), policy),
            Progress::Failed => self.finish(id, None, policy),
        }
    }

    fn send(&mut self, id: QueryId, send: Send) {
        self.counts.sent += 1;
        self.actions.push_back(ForwarderAction::Send(id, send));
    }

    /// A question is over: with an answer, or without.
    fn finish(&mut self, id: QueryId, answer: Option<Vec<u8>>, policy: &mut dyn Policy) {
        let Some(flight) = self.flights.remove(&id) else { return };
        self.actions.push_back(ForwarderAction::Close(id));
        let question = &flight.question;
        let message = match answer {
            Some(answer) => {
                self.counts.answers += 1;
                let checked = self.checked(question, answer, policy, false);
                flight.for_guest(checked)
            }
            None => {
                self.counts.failures += 1;
                question.failure(rcode::SERVER_FAILURE, extended::NO_REACHABLE_AUTHORITY)
            }
        };
        self.answer(flight.from, flight.by, message);
    }

    /// The answer if the policy lets it pass, else a refusal; a failure if it is malformed.
    fn checked(
        &mut self,
        question: &Question,
        mut answer: Vec<u8>,
        policy: &mut dyn Policy,
        is_local: bool,
    ) -> Vec<u8> {
        let Some(contents) = answer::contents(&answer, &question.name) else {
            self.drops.count(DropReason::DnsMalformed);
            return question.failure(rcode::SERVER_FAILURE, extended::OTHER);
        };
        let asked = Asked { name: &question.name, rtype: question.rtype, is_local };
        let answer::Contents { aliases, addresses, targets } = &contents;
        let answered = Answered { asked, aliases, addresses, targets };
        if policy.answer(&answered) == Verdict::Pass {
            if policy.keeps_ech(&asked) || ech::hide(&mut answer).is_some() {
                return answer;
            }
            self.drops.count(DropReason::DnsMalformed);
            return question.failure(rcode::SERVER_FAILURE, extended::OTHER);
        }
        self.counts.refused += 1;
        question.failure(rcode::REFUSED, extended::BLOCKED)
    }

    fn answer(&mut self, to: C, by: Transport, message: Vec<u8>) {
        self.actions.push_back(ForwarderAction::Answer(to, by, message));
    }

    /// The answer of the hosts table, if it knows the name or address.
    fn local(&self, question: &Question) -> Option<Vec<u8>> {
        if question.rtype == rtype::PTR {
            let address = question::address_of_pointer(&question.name)?;
            return self.hosts.name_of(address).map(|name| question.pointer(name));
        }
        if !self.hosts.has(&question.name) {
            return None;
        }
        let of = |wants: fn(&IpAddr) -> bool| {
            let all = self.hosts.of(&question.name).iter();
            question.addresses(&all.filter(|address| wants(address)).copied().collect::<Vec<_>>())
        };
        match question.rtype {
            rtype::A => Some(of(IpAddr::is_ipv4)),
            rtype::AAAA => Some(of(IpAddr::is_ipv6)),
            // The table has all that is to be known about its hosts' addresses.
            rtype::HTTPS | rtype::SVCB => Some(of(|_| false)),
            _ => None,
        }
    }
}

fn upstreams(servers: &[SocketAddr]) -> Vec<Upstream> {
    let upstream = |&address| Upstream { address, changes_case: false };
    servers.iter().take(SERVERS_MAX).map(upstream).collect()
}
