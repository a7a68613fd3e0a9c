//! [`Lookup`]: the addresses of one host: names that are known without asking, the search list,
//! both address families in parallel, aliases (resolv.conf(5), RFC 6761 section 6).
//!
//! Called by: code that has sockets. See the head of `dns` for the calls and their order.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;

use base::{Instant, IpVersion};

use super::error::LookupError;
use super::exchange::{Exchange, Failure, Outcome, Send};
use super::limits::{ALIASES_MAX, OTHER_FAMILY_TIMEOUT};
use super::message::{Found, Kind};
use super::name::DomainName;
use super::resolver::Resolver;

/// The address families that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Families {
    /// Both.
    #[default]
    Both,
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
}

impl Families {
    fn has(self, address: &IpAddr) -> bool {
        match self {
            Families::Both => true,
            Families::V4 => address.is_ipv4(),
            Families::V6 => address.is_ipv6(),
        }
    }

    fn kinds(self) -> &'static [Kind] {
        match self {
            Families::Both => &[Kind::Aaaa, Kind::A],
            Families::V4 => &[Kind::A],
            Families::V6 => &[Kind::Aaaa],
        }
    }
}

impl From<Option<IpVersion>> for Families {
    fn from(version: Option<IpVersion>) -> Families {
        match version {
            None => Families::Both,
            Some(IpVersion::V4) => Families::V4,
            Some(IpVersion::V6) => Families::V6,
        }
    }
}

/// The next step of the owner of the sockets, for the question of one kind. Each kind has one
/// socket: a new one replaces the old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send, from a new socket.
    Send(Kind, Send),
    /// Close the socket.
    Close(Kind),
}

/// The question for one address family.
enum Side {
    Asking(Box<Exchange>),
    Done(Result<Found, LookupError>),
}

/// A lookup in progress, or ended.
pub struct Lookup {
    host: String,
    families: Families,
    /// Names to try after the current one.
    candidates: VecDeque<DomainName>,
    /// By `families.kinds()`.
    sides: Vec<(Kind, Side, usize)>,
    /// The time at which the other family has to be finished.
    ends: Instant,
    /// Sockets that are to be closed.
    closing: Vec<Kind>,
    /// The error if no later candidate has an address.
    worst: Option<LookupError>,
    outcome: Option<Result<Vec<IpAddr>, LookupError>>,
}

impl Lookup {
    pub(super) fn new(r: &mut Resolver, host: &str, families: Families, now: Instant) -> Lookup {
        let mut lookup = Lookup {
            host: host.chars().take(256).flat_map(char::escape_debug).collect(),
            families,
            candidates: VecDeque::new(),
            sides: Vec::new(),
            ends: Instant::NEVER,
            closing: Vec::new(),
            worst: None,
            outcome: None,
        };
        lookup.outcome = lookup.known(r, host);
        if lookup.outcome.is_none() {
            lookup.next_candidate(r, now);
        }
        lookup
    }

    /// The outcome, if it is known without asking a server; otherwise `candidates` are filled.
    fn known(&mut self, r: &Resolver, host: &str) -> Option<Result<Vec<IpAddr>, LookupError>> {
        let of_families = |addresses: &[IpAddr]| -> Vec<IpAddr> {
            addresses.iter().copied().filter(|a| self.families.has(a)).collect()
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            let addresses = of_families(&[address]);
            return Some(match addresses.is_empty() {
                true => Err(LookupError::NoAddress(self.host.clone())),
                false => Ok(addresses),
            });
        }
        let name = match DomainName::parse(host) {
            Ok(name) => name,
            Err(why) => return Some(Err(LookupError::Name(self.host.clone(), why))),
        };
        // RFC 6761 section 6.3: no server is asked for them.
        if name.ends_with("localhost") {
            let loopback = [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
            return Some(Ok(of_families(&loopback)));
        }
        let addresses = of_families(r.hosts.of(&name));
        if !addresses.is_empty() {
            return Some(Ok(addresses));
        }
        // RFC 6761 section 6.4, RFC 7686 section 2.
        if name.ends_with("invalid") || name.ends_with("onion") {
            return Some(Err(LookupError::NoName(self.host.clone())));
        }
        if r.servers.is_empty() {
            return Some(Err(LookupError::NoServers(self.host.clone())));
        }
        let absolute = host.ends_with('.');
        if !absolute {
            self.candidates.extend(r.search.iter().filter_map(|domain| name.joined(domain)));
        }
        match name.dots() >= r.config.ndots {
            true => self.candidates.push_front(name),
            false => self.candidates.push_back(name),
        }
        None
    }

    /// How the lookup ended; `None` while it goes on.
    pub fn outcome(&self) -> Option<&Result<Vec<IpAddr>, LookupError>> {
        self.outcome.as_ref()
    }

    /// The next thing to do; `None` if there is nothing to do now.
    pub fn next_action(&mut self) -> Option<Action> {
        if let Some(kind) = self.closing.pop() {
            return Some(Action::Close(kind));
        }
        self.sides.iter_mut().find_map(|(kind, side, _)| match side {
            Side::Asking(exchange) => exchange.send.take().map(|send| Action::Send(*kind, send)),
            Side::Done(_) => None,
        })
    }

    /// When to call [`Lookup::on_deadline`]; `Instant::NEVER` after the end.
    pub fn deadline(&self) -> Instant {
        let deadline = |(_, side, _): &(Kind, Side, usize)| match side {
            Side::Asking(exchange) => exchange.deadline,
            Side::Done(_) => Instant::NEVER,
        };
        self.sides.iter().map(deadline).min().unwrap_or(Instant::NEVER).min(self.ends)
    }

    /// A datagram came to the socket of a question.
    pub fn on_datagram(
        &mut self,
        r: &mut Resolver,
        kind: Kind,
        from: SocketAddr,
        bytes: &[u8],
        now: Instant,
    ) {
        self.on(r, kind, now, |exchange, r| exchange.datagram(r, from, bytes, now));
    }

    /// Bytes came over the connection of a question.
    pub fn on_bytes(&mut self, r: &mut Resolver, kind: Kind, bytes: &[u8], now: Instant) {
        self.on(r, kind, now, |exchange, r| exchange.bytes(r, bytes, now));
    }

    /// The socket of a question cannot send, the server is unreachable, or the connection has ended
    /// before the answer was complete.
    pub fn on_failure(&mut self, r: &mut Resolver, kind: Kind, now: Instant) {
        self.on(r, kind, now, |exchange, r| exchange.server_failed(r, now));
    }

    /// Call this when the deadline has come; a call before it does no harm.
    pub fn on_deadline(&mut self, r: &mut Resolver, now: Instant) {
        for &kind in self.families.kinds() {
            self.on(r, kind, now, |exchange, r| match exchange.deadline <= now {
                true => exchange.expired(r, now),
                false => None,
            });
        }
        if self.outcome.is_none() && self.ends <= now {
            for (_, side, _) in &mut self.sides {
                if let Side::Asking(_) = side {
                    *side = Side::Done(Err(LookupError::TimedOut(self.host.clone())));
                }
            }
            self.conclude(r, now);
        }
    }

    /// Pass something to the exchange of `kind`, and go on by its result.
    fn on(
        &mut self,
        r: &mut Resolver,
        kind: Kind,
        now: Instant,
        pass: impl FnOnce(&mut Exchange, &mut Resolver) -> Outcome,
    ) {
        if self.outcome.is_some() {
            return;
        }
        let side = self
            .sides
            .iter_mut()
            .find(|(k, side, _)| *k == kind && matches!(side, Side::Asking(_)));
        let Some((_, side, aliases)) = side else { return };
        let Side::Asking(exchange) = side else { return };
        let Some(outcome) = pass(exchange, r) else { return };
        if !self.closing.contains(&kind) {
            self.closing.push(kind);
        }
        *side = match outcome {
            Ok(answer) => {
                r.cache.add(exchange.name(), exchange.kind(), &answer, now);
                follow(r, &self.host, kind, answer.found, aliases, now)
            }
            Err(Failure::TimedOut) => Side::Done(Err(LookupError::TimedOut(self.host.clone()))),
            Err(Failure::Failed) => Side::Done(Err(LookupError::Failed(self.host.clone()))),
        };
        if let Side::Done(Ok(Found::Addresses(_))) = side {
            self.ends = self.ends.min(now + OTHER_FAMILY_TIMEOUT);
        }
        self.conclude(r, now);
    }

    /// Begin with the next candidate; without one the lookup ends in an error.
    fn next_candidate(&mut self, r: &mut Resolver, now: Instant) {
        while self.outcome.is_none() {
            let Some(name) = self.candidates.pop_front() else {
                let none = || LookupError::NoName(self.host.clone());
                self.outcome = Some(Err(self.worst.take().unwrap_or_else(none)));
                return;
            };
            self.ends = Instant::NEVER;
            self.sides.clear();
            for &kind in self.families.kinds() {
                let mut aliases = 0;
                let side = ask(r, &self.host, name.clone(), kind, &mut aliases, now);
                if let Side::Done(Ok(Found::Addresses(_))) = side {
                    self.ends = now + OTHER_FAMILY_TIMEOUT;
                }
                self.sides.push((kind, side, aliases));
            }
            if !self.judge() {
                return;
            }
        }
    }

    fn conclude(&mut self, r: &mut Resolver, now: Instant) {
        if self.judge() && self.outcome.is_none() {
            self.next_candidate(r, now);
        }
    }

    /// Is the current candidate finished? Sets the outcome if it decides the lookup.
    fn judge(&mut self) -> bool {
        if self.sides.iter().any(|(_, side, _)| matches!(side, Side::Asking(_))) {
            return false;
        }
        let mut addresses = Vec::new();
        let mut error = LookupError::NoName(self.host.clone());
        for (_, side, _) in self.sides.drain(..) {
            let Side::Done(found) = side else { continue };
            let found = match found {
                Ok(Found::Addresses(more)) => {
                    addresses.extend(more);
                    continue;
                }
                Ok(Found::NoName) => LookupError::NoName(self.host.clone()),
                Ok(_) => LookupError::NoAddress(self.host.clone()),
                Err(error) => error,
            };
            if found.rank() > error.rank() {
                error = found;
            }
        }
        self.ends = Instant::NEVER;
        if !addresses.is_empty() {
            self.outcome = Some(Ok(addresses));
        } else if error.ends_the_search() {
            self.outcome = Some(Err(error));
        } else if self.worst.as_ref().is_none_or(|worst| worst.rank() < error.rank()) {
            self.worst = Some(error);
        }
        true
    }
}

/// Ask for a name, unless the cache knows it.
fn ask(
    r: &mut Resolver,
    host: &str,
    name: DomainName,
    kind: Kind,
    aliases: &mut usize,
    now: Instant,
) -> Side {
    match r.cache.of(&name, kind, now) {
        Some(found) => {
            r.counts.cache_hits += 1;
            follow(r, host, kind, found, aliases, now)
        }
        None => Side::Asking(Box::new(Exchange::new(r, name, kind, now))),
    }
}

/// Go on from an answer: an alias is asked for in turn, as long as there are not too many.
fn follow(
    r: &mut Resolver,
    host: &str,
    kind: Kind,
    mut found: Found,
    aliases: &mut usize,
    now: Instant,
) -> Side {
    while let Found::Alias(name) = found {
        *aliases += 1;
        if *aliases > ALIASES_MAX {
            found = Found::AliasLoop;
            break;
        }
        match r.cache.of(&name, kind, now) {
            Some(known) => {
                r.counts.cache_hits += 1;
                found = known;
            }
            None => return Side::Asking(Box::new(Exchange::new(r, name, kind, now))),
        }
    }
    Side::Done(match found {
        Found::AliasLoop => Err(LookupError::AliasLoop(host.to_owned())),
        found => Ok(found),
    })
}
