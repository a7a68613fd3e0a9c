//! The pools of NAT's rules, and the mappings that states use, by a number that a state keeps.
//!
//! Called by: the firewall. RFC 4787 sections 4.1 and 6.

use core::net::IpAddr;

use base::Cidr;

use crate::nat::{Addresses, Filtering, MappingId, Mappings, Pool, PoolId};
use crate::rules::{self, Nat, NatRule, Ports, Rules, Target};

#[derive(Default)]
pub(super) struct Nats {
    /// By rule of NAT.
    pools: Vec<Option<PoolId>>,
    /// Ports of the router by which sources leave translated, and those of them where networks are
    /// exchanged.
    outsides: Vec<u16>,
    exchanges: Vec<u16>,
    hairpin: Option<PoolId>,
    /// Mappings that states use, each with the remote address that the mapping has noted for the
    /// state; a state has the index plus 1.
    used: Vec<Option<(MappingId, IpAddr)>>,
    free: Vec<u32>,
}

impl Nats {
    /// The pools of these rules.
    pub(super) fn of(rules: &Rules, mappings: &mut Mappings) -> Nats {
        let mut nats = Nats::default();
        nats.set(rules, mappings);
        nats
    }

    /// Other rules: pools that they do not have are retired.
    pub(super) fn set(&mut self, rules: &Rules, mappings: &mut Mappings) {
        let mut before = None;
        let pool_of = |rule| {
            let pool = pool(rule, before, mappings);
            before = pool.or(before);
            pool
        };
        self.pools = rules.nat.iter().map(pool_of).collect();
        let keep: Vec<PoolId> = self.pools.iter().copied().flatten().chain(self.hairpin).collect();
        mappings.keep_pools(&keep);
        self.outsides = out_ports(rules, |nat| !matches!(nat, Nat::Keep));
        let is_exchange = |nat: &Nat| matches!(nat, Nat::Both { .. } | Nat::Prefix { .. });
        self.exchanges = out_ports(rules, is_exchange);
    }

    /// Ports by which sources leave translated.
    pub(super) fn outsides(&self) -> &[u16] {
        &self.outsides
    }

    /// Ports at which rules exchange networks.
    pub(super) fn exchanges(&self) -> &[u16] {
        &self.exchanges
    }

    pub(super) fn has_pools(&self) -> bool {
        self.pools.iter().any(Option::is_some)
    }

    pub(super) fn pool(&self, rule: u16) -> Option<PoolId> {
        self.pools.get(usize::from(rule)).copied().flatten()
    }

    /// The rule of a pool, from 1; 0 for the pool of no rule.
    pub(super) fn rule_of(&self, pool: PoolId) -> u32 {
        let at = self.pools.iter().position(|of_rule| *of_rule == Some(pool));
        at.map_or(0, |at| at as u32 + 1)
    }

    /// The pool of flows that go back by the port that they came by.
    pub(super) fn hairpin(&mut self, mappings: &mut Mappings) -> Option<PoolId> {
        if self.hairpin.is_none() {
            self.hairpin = mappings.add_pool(Pool::new(Addresses::OfPort)).ok();
        }
        self.hairpin
    }

    /// A number for a mapping that a state uses, from 1.
    pub(super) fn take(&mut self, id: MappingId, remote: IpAddr) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.used.push(None);
            self.used.len() as u32 - 1
        });
        if let Some(place) = self.used.get_mut(at as usize) {
            *place = Some((id, remote));
        }
        at + 1
    }

    /// The mapping and the remote address with a number, which is free again.
    pub(super) fn give_back(&mut self, number: u32) -> Option<(MappingId, IpAddr)> {
        let at = number.checked_sub(1)?;
        let used = self.used.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(used)
    }

    /// The mapping with a number.
    pub(super) fn mapping(&self, number: u32) -> Option<MappingId> {
        let used = self.used.get(number.checked_sub(1)? as usize)?;
        used.map(|(id, _)| id)
    }
}

/// The ports of the router that rules of a kind name behind `out`, each once.
fn out_ports(rules: &Rules, is_meant: impl Fn(&Nat) -> bool) -> Vec<u16> {
    let rules = rules.nat.iter().filter(|rule| is_meant(&rule.nat));
    let mut all: Vec<u16> = rules
        .filter_map(|rule| match &rule.source.as_ref()?.out_ports {
            Ports::Of(ports) => Some(ports.clone()),
            Ports::Any | Ports::Not(_) => None,
        })
        .flatten()
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn pool(rule: &NatRule, before: Option<PoolId>, mappings: &mut Mappings) -> Option<PoolId> {
    let Nat::Source { target, ports, filtering, block } = rule.nat else { return None };
    let addresses = match target {
        Target::Port => Addresses::OfPort,
        Target::Network(network) => Addresses::Network(network),
    };
    let filtering = match filtering {
        rules::Filtering::Independent => Filtering::Independent,
        rules::Filtering::Address => Filtering::Address,
        rules::Filtering::Port => Filtering::Port,
    };
    let pool = Pool {
        ports,
        filtering,
        block: block.unwrap_or(0),
        well_known: is_spare(target),
        ..Pool::new(addresses)
    };
    mappings.add_pool_behind(pool, before).ok()
}

/// Are the addresses not the router's own, so that ports below 1024 are free for mappings?
fn is_spare(target: Target) -> bool {
    matches!(target, Target::Network(Cidr { .. }))
}
