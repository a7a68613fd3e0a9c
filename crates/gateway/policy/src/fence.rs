//! The fence: what becomes of a flow, and why.
//!
//! Called by: `flows`, for the engine of the gateway; `policy check` and the like. The first rule
//! that matches decides, by an address or by a name of it.

use core::net::SocketAddr;

use base::{Budget, Duration, Instant};
use filter::program::TooLarge;
use gateway::Verdict;
use host::dns::DomainName;
use stack::Unreachable;

use crate::compiled::{Compiled, Destination, Protocol};
use crate::group::HostAddresses;
use crate::hellos::Hellos;
use crate::log::Log;
use crate::pins::Pins;
use crate::questions::Questions;
use crate::rules::{Action, Refusal, Rule, Rules, Sni};
use crate::targets::Targets;

/// The port of servers that speak QUIC (RFC 9114 section 3.1).
const QUIC: u16 = 443;

/// What becomes of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What happens.
    pub action: Action,
    /// The rule that decides, by its place among [`Rules::rules`]; `None`: the default.
    pub rule: Option<u16>,
    /// What the TLS hello has to say.
    pub hello: Hello,
}

/// What the TLS hello of a flow has to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hello {
    /// Nothing: it is not read.
    #[default]
    Ignore,
    /// It may not name what a rule denies.
    NotDenied,
    /// It has to name what a rule allows, if there is one.
    IfAny,
    /// It has to name what a rule allows.
    Needed,
}

base::counts! {
    /// How often each event happened.
    pub struct Counts {
        /// Flows that the rules allowed.
        allowed;
        /// Flows that the rules refused.
        refused;
        /// Flows about which somebody was asked.
        asked;
        /// Questions for names that were refused.
        names_refused;
        /// Answers that were refused because of an address in them.
        answers_refused;
    }
}

/// A fence.
#[derive(Debug)]
pub struct Fence {
    pub(crate) rules: Rules,
    pub(crate) compiled: Compiled,
    pub(crate) host: HostAddresses,
    pub(crate) pins: Pins,
    pub(crate) targets: Targets,
    pub(crate) hellos: Hellos,
    pub(crate) now: Instant,
    pub(crate) counts: Counts,
    pub(crate) budget: Budget,
    /// The resolver to which questions for names lead.
    pub(crate) resolver: Option<SocketAddr>,
    pub(crate) questions: Questions,
    pub(crate) log: Log,
    /// Time since 1970, at `now`.
    pub(crate) unix: Duration,
    /// Bytes from guests and to them, so far.
    pub(crate) used: (u64, u64),
}

impl Fence {
    /// A fence with these rules, for a host with these addresses.
    ///
    /// # Errors
    /// The rules divide addresses into too many kinds.
    pub fn new(rules: Rules, host: HostAddresses) -> Result<Fence, TooLarge> {
        let mut budget = Budget::default();
        rules.limits.iter().for_each(|&(limit, value)| budget.set(limit, value));
        Ok(Fence {
            compiled: Compiled::new(&rules, &host)?,
            rules,
            host,
            pins: Pins::default(),
            targets: Targets::default(),
            hellos: Hellos::default(),
            now: Instant::ZERO,
            counts: Counts::default(),
            budget,
            resolver: None,
            questions: Questions::default(),
            log: Log::default(),
            unix: Duration::ZERO,
            used: (0, 0),
        })
    }

    /// The time, once a turn: by the clock of the engine, and since 1970 for the log.
    pub fn set_now(&mut self, now: Instant, unix: Duration) {
        self.now = now;
        self.unix = unix;
        self.questions.expire(now);
    }

    /// Bytes that guests have sent and received so far (`gateway::Counts`), in TCP flows, datagrams
    /// and echoes together, for the limits `bytes_out` and `bytes_in`.
    pub fn set_used(&mut self, bytes_out: u64, bytes_in: u64) {
        self.used = (bytes_out, bytes_in);
    }

    /// Does somebody read the log? If nobody does, no line is made, and [`Fence::next_line`] has
    /// none. At first somebody does.
    pub fn set_logged(&mut self, is_logged: bool) {
        self.log.set_read(is_logged);
    }

    /// Questions for names, which are all flows to port 53, lead to this address, whatever the
    /// rules say of them: they are judged by the forwarder of names. Without one they are flows
    /// like others.
    pub fn set_resolver(&mut self, resolver: Option<SocketAddr>) {
        self.resolver = resolver;
    }

    /// The addresses of the host have changed.
    ///
    /// # Errors
    /// As [`Fence::new`]; the addresses before are kept.
    pub fn set_host(&mut self, host: HostAddresses) -> Result<(), TooLarge> {
        if host != self.host {
            self.compiled = Compiled::new(&self.rules, &host)?;
            self.host = host;
        }
        Ok(())
    }

    /// Other rules from now on. Pins stay, and flows that have begun.
    ///
    /// # Errors
    /// As [`Fence::new`]; the rules before are kept.
    pub fn set_rules(&mut self, rules: Rules) -> Result<(), TooLarge> {
        self.compiled = Compiled::new(&rules, &self.host)?;
        self.rules = rules;
        self.pins.renumber(|name| self.compiled.of_name(name));
        self.questions.forget();
        Ok(())
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A rule by its place.
    pub fn rule(&self, number: u16) -> Option<&Rule> {
        self.rules.rules.get(usize::from(number))
    }

    /// The pins.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// How often each event happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The limits, and how often each was hit: `gateway_pins`.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The limits, to set them.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// What becomes of a flow to this destination.
    pub fn decide(&self, to: &Destination) -> Decision {
        let service = to.service();
        let by_name = self.pins.known(to.address, self.now);
        let by_name = by_name.filter_map(|known| self.first_of(&known.rules, service, to)).min();
        self.decision(to, service, self.compiled.by_address(to), by_name)
    }

    /// The first of these rules, which name a name of the destination, that decides about it.
    fn first_of(&self, numbers: &[u16], service: u32, to: &Destination) -> Option<u16> {
        let decides = |&&number: &&u16| {
            self.rule(number).is_some_and(|rule| {
                rule.has_service(service)
                    && (rule.action == Action::Deny
                        || self.compiled.is_allowed_by_names(to.address))
            })
        };
        numbers.iter().find(decides).copied()
    }

    fn decision(
        &self,
        to: &Destination,
        service: u32,
        by_address: Option<u16>,
        by_name: Option<u16>,
    ) -> Decision {
        let rule = by_address.into_iter().chain(by_name).min();
        let action = match rule.and_then(|number| self.rule(number)) {
            Some(rule) => rule.action,
            // The default lets nobody reach the host itself.
            None if !self.compiled.is_allowed_by_names(to.address) => Action::Deny,
            None => self.rules.default,
        };
        let mut hello = Hello::Ignore;
        if to.protocol != Protocol::Echo && action != Action::Deny {
            let is_denied = |&&number: &&u16| {
                rule.is_none_or(|rule| number < rule)
                    && self.rule(number).is_some_and(|rule| rule.has_service(service))
            };
            if self.compiled.denies_names.iter().any(|number| is_denied(&number)) {
                hello = Hello::NotDenied;
            }
            if by_name.is_some() && rule == by_name && by_address != by_name {
                hello = match rule.and_then(|number| self.rule(number)).map(|rule| rule.sni) {
                    Some(Sni::Tls) => Hello::IfAny,
                    // Other datagrams than those of QUIC have no name, so a rule would never fit.
                    Some(Sni::Match) if to.protocol == Protocol::Udp && to.port != QUIC => {
                        Hello::IfAny
                    }
                    Some(Sni::Match) => Hello::Needed,
                    Some(Sni::Ignore) | None => hello,
                };
            }
        }
        Decision { action, rule, hello }
    }

    /// What becomes of a flow whose TLS hello has this name: only this name counts, and only if our
    /// resolver has given the address for it.
    pub fn decide_named(&self, to: &Destination, name: &DomainName) -> Decision {
        let service = to.service();
        let is_pinned = self.pins.names(to.address, self.now).any(|pinned| pinned == name);
        let rules = self.compiled.of_name(name);
        let first = if is_pinned {
            self.first_of(&rules, service, to)
        } else {
            // A name may be denied without a pin.
            let denies = |&&number: &&u16| {
                self.rule(number)
                    .is_some_and(|rule| rule.action == Action::Deny && rule.has_service(service))
            };
            rules.iter().find(denies).copied()
        };
        self.decision(to, service, self.compiled.by_address(to), first)
    }

    /// What a guest hears of a refusal.
    pub fn refusal(&self) -> Verdict {
        match self.rules.refuse {
            Refusal::Reset => Verdict::Reset,
            Refusal::Prohibited => Verdict::Unreachable(Unreachable::Prohibited),
            Refusal::Drop => Verdict::Drop,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
