//! Rules in the form in which flows are judged: addresses by the firewall's program, names by
//! tables, so that neither the number of rules nor that of pins matters.
//!
//! Called by: `fence`, `resolving`. `plain` is the same without tables, and the oracle of the
//! tests. A rule with several kinds of destinations is in several tables, always by its number; the
//! least number decides.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use base::Cidr;
use filter::program::TooLarge;
use filter::rules::{Action as Pass, Hosts, Match, Rule as FilterRule, Service};
use filter::{Packet, Program, Rules as FilterRules, Set, Tuple};
use host::dns::DomainName;
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

use crate::group::{Group, HostAddresses, inner, minus, transition};
use crate::name::suffixes;
pub use gateway::Protocol;

use crate::rules::{Action, Rule, Rules, Target};

/// Where a flow leads: what rules match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Its protocol.
    pub protocol: Protocol,
    /// The address; IPv4-mapped ones are IPv4 here.
    pub address: IpAddr,
    /// The port; 0 for echoes.
    pub port: u16,
}

impl Destination {
    /// A destination.
    pub fn new(protocol: Protocol, address: IpAddr, port: u16) -> Destination {
        Destination { protocol, address: address.to_canonical(), port }
    }

    /// The number of its service, as [`Service::number`].
    pub fn service(&self) -> u32 {
        Service::number(&self.packet(self.address))
    }

    fn packet(&self, address: IpAddr) -> Packet {
        let (protocol, icmp) = match (self.protocol, self.address) {
            (Protocol::Tcp, _) => (TCP, None),
            (Protocol::Udp, _) => (UDP, None),
            (Protocol::Echo, IpAddr::V4(_)) => (ICMP, Some((8, 0))),
            (Protocol::Echo, IpAddr::V6(_)) => (ICMPV6, Some((128, 0))),
        };
        // No rule asks for the source, but it is of the same version.
        let tuple =
            Tuple { src: address, dst: address, protocol, src_port: 0, dst_port: self.port };
        Packet { tuple, in_port: 0, out_port: 0, icmp, tcp_flags: 0 }
    }
}

/// The compiled rules.
#[derive(Debug)]
pub struct Compiled {
    program: Program,
    /// Rules by the names that they have, in wire format, in order.
    exact: HashMap<Box<[u8]>, Vec<u16>>,
    /// Rules by the names below which they are.
    below: HashMap<Box<[u8]>, Vec<u16>>,
    /// Rules that are about every address of the Internet.
    pub(crate) open: Vec<u16>,
    /// Rules that deny names.
    pub(crate) denies_names: Vec<u16>,
    /// Addresses that no name allows.
    never_by_name: Set,
    /// Addresses that are not the Internet's.
    pub(crate) not_public: Set,
}

impl Compiled {
    /// Compile rules, for a host with these addresses.
    ///
    /// # Errors
    /// The rules divide addresses into too many kinds.
    pub fn new(rules: &Rules, host: &HostAddresses) -> Result<Compiled, TooLarge> {
        let any = Group::Any.set(host);
        let mut compiled = Compiled {
            program: Program::compile(&filter_rules(rules, host))?,
            exact: HashMap::new(),
            below: HashMap::new(),
            open: Vec::new(),
            denies_names: Vec::new(),
            never_by_name: Group::Loopback.set(host),
            not_public: minus(&any, &Group::Public.set(host)),
        };
        for (number, rule) in (0_u16..).zip(&rules.rules) {
            compiled.add(number, rule);
        }
        Ok(compiled)
    }

    fn add(&mut self, number: u16, rule: &Rule) {
        let is_open = |target: &Target| {
            matches!(target, Target::Group(Group::Any | Group::Public))
                || (rule.action != Action::Deny
                    && matches!(target, Target::Network(network) if network.prefix_len == 0))
        };
        if rule.targets.iter().any(is_open) {
            self.open.push(number);
        }
        let mut has_names = false;
        for pattern in rule.patterns() {
            let table = if pattern.is_below { &mut self.below } else { &mut self.exact };
            let numbers = table.entry(pattern.name.wire().into()).or_default();
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
            has_names = true;
        }
        if has_names && rule.action == Action::Deny {
            self.denies_names.push(number);
        }
    }

    /// The first rule that matches by an address.
    pub fn by_address(&self, to: &Destination) -> Option<u16> {
        let judge = |address| self.program.judge(&to.packet(address)).rule;
        let outer = judge(to.address);
        let Some(inside) = inner(to.address) else { return outer };
        let inside = judge(inside.into());
        outer.into_iter().chain(inside).min()
    }

    /// The rules that name this name, in order.
    pub fn of_name(&self, name: &DomainName) -> Arc<[u16]> {
        let mut numbers = Vec::new();
        for (depth, suffix) in suffixes(name).enumerate() {
            let table = if depth == 0 { &self.exact } else { &self.below };
            numbers.extend(table.get(suffix).into_iter().flatten());
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into()
    }

    /// May a rule allow this address by a name?
    pub fn is_allowed_by_names(&self, address: IpAddr) -> bool {
        let is_never = |address: IpAddr| self.never_by_name.contains(address);
        !is_never(address) && !inner(address).is_some_and(|inside| is_never(inside.into()))
    }
}

/// The part of the rules that is about addresses, as rules of the firewall: rules without
/// addresses match nothing.
fn filter_rules(rules: &Rules, host: &HostAddresses) -> FilterRules {
    // Each set twice: as it is, and what of it may be allowed.
    let both = |set: &Set| [set.clone(), allowed(set, host)];
    let mut sets: Vec<Set> = rules.sets.iter().flat_map(both).collect();
    let mut groups: Vec<(Group, bool, usize)> = Vec::new();
    let mut filter = Vec::with_capacity(rules.rules.len());
    for rule in &rules.rules {
        let denies = rule.action == Action::Deny;
        let mut to = Hosts { negated: false, networks: Vec::new(), sets: Vec::new() };
        let mut networks: Vec<Cidr> = Vec::new();
        for target in &rule.targets {
            match target {
                Target::Name(_) => {}
                Target::Network(network) => networks.push(*network),
                Target::Set(set) => to.sets.push(2 * set + usize::from(!denies)),
                Target::Group(group) => {
                    let known = groups.iter().find(|one| (one.0, one.1) == (*group, denies));
                    let at = known.map(|known| known.2).unwrap_or_else(|| {
                        let set = group.set(host);
                        let is_whole = denies || *group == Group::Host;
                        sets.push(if is_whole { set } else { allowed(&set, host) });
                        groups.push((*group, denies, sets.len() - 1));
                        sets.len() - 1
                    });
                    to.sets.push(at);
                }
            }
        }
        if !networks.is_empty() {
            let set = Set::new("", &networks);
            to.sets.push(sets.len());
            sets.push(if denies { set } else { allowed(&set, host) });
        }
        let matches = Match { to, services: rule.services.clone(), ..Match::default() };
        filter.push(FilterRule {
            text: String::new(),
            line: rule.line,
            action: Pass::Pass,
            matches,
            rate: None,
            states_per_source: None,
            label: None,
            log: false,
            loose: false,
            stateless: false,
        });
    }
    FilterRules { default: Pass::Block, filter, nat: Vec::new(), sets }
}

/// What of a set a rule may allow: no loopback addresses, and none with an IPv4 address inside,
/// because that one decides.
fn allowed(set: &Set, host: &HostAddresses) -> Set {
    minus(&minus(set, &Group::Loopback.set(host)), &transition())
}

#[cfg(test)]
mod tests;
