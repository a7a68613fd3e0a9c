//! The difference of two configurations, as operations. Their order makes each of them possible,
//! and no packet is forwarded in between that neither configuration forwards.
//!
//! Called by: `applied.rs` makes the plan and carries it out; the process that opens devices asks
//! which ports need one ([`opens`]). Parts that are the same in both give no operation, so their
//! connections go on. An operation names its section; the file of the section knows the rest.

use core::fmt;
use std::collections::BTreeSet;

use base::{Duration, Switch};

use crate::applied::ports::{Open, State, Step};
use crate::config::port::SETTINGS;
use crate::config::setting::{Stacks, first, removed, set};
use crate::config::{
    Change, Config, Filter, Ipfix, Link, Members, Neighbour, NeighbourKey, Pair, Port, Prefix,
    RouteKey, RouteTo, Router, Rule, Setting, WHOLE, Whole, filter, group, hosts, ipfix, on, pair,
    route, rule,
};

/// One step.
pub enum Operation {
    /// Set a key of the router as a whole to its value in this `Router`.
    Router(&'static Setting<Router, ()>, Router),
    /// Turn a switch.
    Switch(Switch, bool),
    /// A step that changes a port, or something that belongs to it alone.
    Port(String, Step),
    /// The settings of a neighbour.
    Neighbour(NeighbourKey, Change<Neighbour>),
    /// A group of users.
    Group(String, Change<Members>),
    /// A rule; to change it, it is removed and added.
    Rule(u32, Change<Rule>),
    /// A route.
    Route(RouteKey, Change<RouteTo>),
    /// A gap to a network.
    Gap(Prefix, Change<Duration>),
    /// The rules of the filter and of NAT, as a whole.
    Filter(Change<Filter>),
    /// Flow export.
    Ipfix(Change<Ipfix>),
    /// The partner.
    Pair(Change<Pair>),
}

impl Operation {
    /// Carry it out; `open` returns the device of a port.
    ///
    /// # Errors
    /// Why it failed, and what to do.
    pub(crate) fn carry_out(
        &self,
        state: &mut State,
        stacks: Stacks<'_, '_>,
        open: Open<'_>,
    ) -> Result<(), String> {
        match self {
            Operation::Router(setting, to) => (setting.carry_out)(to, (), stacks),
            Operation::Switch(switch, on) => {
                first(stacks).set_switch(*switch, *on);
                Ok(())
            }
            Operation::Port(name, step) => step.carry_out(name, state, stacks, open),
            Operation::Neighbour(key, to) => hosts::set_neighbour(key, to, state, stacks),
            Operation::Group(name, to) => {
                group::carry_out(name, to, state);
                Ok(())
            }
            Operation::Rule(priority, to) => rule::carry_out(*priority, to, state, stacks),
            Operation::Route(key, to) => route::carry_out(key, to, state, stacks),
            Operation::Gap(net, to) => hosts::set_gap(*net, to, stacks),
            Operation::Filter(to) => filter::carry_out(to, state, stacks),
            Operation::Ipfix(to) => {
                ipfix::carry_out(to, state);
                Ok(())
            }
            Operation::Pair(to) => {
                state.pair.set(to.now.clone());
                Ok(())
            }
        }
    }

    /// Note in `running` that it was carried out.
    pub(crate) fn note(&self, running: &mut Config) {
        match self {
            Operation::Router(setting, to) => (setting.copy)(&mut running.router, to),
            Operation::Switch(switch, on) => running.turn(*switch, *on),
            Operation::Port(name, step) => {
                step.note(name, &mut running.ports);
                if let Step::Remove = step {
                    running.routes.retain(|key, _| key.port.as_ref() != Some(name));
                    running.neighbours.retain(|(port, _), _| port != name);
                }
            }
            Operation::Neighbour(key, to) => to.note(&mut running.neighbours, key),
            Operation::Group(name, to) => to.note(&mut running.groups, name),
            Operation::Rule(priority, to) => to.note(&mut running.rules, priority),
            Operation::Route(key, to) => to.note(&mut running.routes, key),
            Operation::Gap(net, to) => to.note(&mut running.gaps, net),
            Operation::Filter(to) => running.filter.clone_from(&to.now),
            Operation::Ipfix(to) => running.ipfix = to.now,
            Operation::Pair(to) => running.pair.clone_from(&to.now),
        }
    }
}

/// Printed in the words of the log.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Operation::Router(setting, to) => (setting.words)(to),
            Operation::Switch(switch, to) => format!("switch {} {}", switch.name(), on(*to)),
            Operation::Port(name, step) => step.words(name),
            Operation::Neighbour(key, to) => hosts::neighbour_words(key, to.now.as_ref()),
            Operation::Group(name, to) => group::words(name, to.now.as_ref()),
            Operation::Rule(priority, to) => rule::words(*priority, to.now.as_ref()),
            Operation::Route(key, to) => route::words(key, to.now.as_ref()),
            Operation::Gap(net, to) => hosts::gap_words(*net, to.now.as_ref()),
            Operation::Filter(to) => filter::words(to.now.as_ref()),
            Operation::Ipfix(to) => ipfix::words(to.now.as_ref()),
            Operation::Pair(to) => pair::words(to.now.as_ref()),
        })
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The operations that make `old` into `new`.
pub fn difference(old: &Config, new: &Config) -> Vec<Operation> {
    let mut plan = Plan { old, new, fates: Fates::of(old, new), all: Vec::new() };
    plan.whole(WHOLE.iter().filter(|whole| (whole.ends)(&new.router)));
    plan.remove();
    plan.ports();
    plan.add();
    plan.whole(WHOLE.iter().rev().filter(|whole| !(whole.ends)(&new.router)));
    plan.all
}

/// The ports of `new` for which the difference to `old` needs a device of this machine opened.
pub fn opens<'a>(old: &Config, new: &'a Config) -> Vec<(&'a str, &'a Port)> {
    let fates = Fates::of(old, new);
    let ports = new.ports.iter().filter(|(name, port)| {
        matches!(port.link, Link::Device(_)) && fates.of_port(name) != Fate::Stays
    });
    ports.map(|(name, port)| (name.as_str(), port)).collect()
}

/// The fate of a port of the new configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is added, perhaps after another one of its name was removed.
    Added,
    /// It stays, but its device is opened again.
    Reopened,
    Stays,
}

/// The ports that stay, by name; those of them whose devices are opened again; and those of the new
/// configuration that have VLANs.
#[derive(Default)]
struct Fates<'a> {
    stay: BTreeSet<&'a str>,
    reopened: BTreeSet<&'a str>,
    trunks: BTreeSet<&'a str>,
}

impl<'a> Fates<'a> {
    fn of(old: &Config, new: &'a Config) -> Fates<'a> {
        let trunks_before = old.trunks();
        let mut fates = Fates { trunks: new.trunks(), ..Fates::default() };
        // Ports with devices first, because a VLAN shares the fate of its parent.
        for is_vlan in [false, true] {
            for (name, port) in new.ports.iter().filter(|(_, port)| port.is_vlan() == is_vlan) {
                let Some(before) = old.ports.get(name) else { continue };
                let name = name.as_str();
                let (stays, reopened) = match &port.link {
                    Link::Vlan { parent, .. } => {
                        let parent = fates.of_port(parent);
                        (parent != Fate::Added, parent == Fate::Reopened)
                    }
                    Link::Device(_) => {
                        (true, fates.trunks.contains(name) && !trunks_before.contains(name))
                    }
                };
                if !stays || (&before.link, before.mac) != (&port.link, port.mac) {
                    continue;
                }
                fates.stay.insert(name);
                if reopened || (before.mtu, before.offloads) != (port.mtu, port.offloads) {
                    fates.reopened.insert(name);
                }
            }
        }
        fates
    }

    fn of_port(&self, name: &str) -> Fate {
        match (self.stay.contains(name), self.reopened.contains(name)) {
            (false, _) => Fate::Added,
            (true, true) => Fate::Reopened,
            (true, false) => Fate::Stays,
        }
    }
}

struct Plan<'a> {
    old: &'a Config,
    new: &'a Config,
    fates: Fates<'a>,
    all: Vec<Operation>,
}

impl<'a> Plan<'a> {
    /// Settings of the router as a whole: turning something off comes first, so that it is off
    /// while the rest changes.
    fn whole(&mut self, keys: impl Iterator<Item = &'static Whole>) {
        let (old, new) = (&self.old.router, &self.new.router);
        let differ = keys.map(|key| &key.setting).filter(|setting| !(setting.is_same)(old, new));
        self.all.extend(differ.map(|setting| Operation::Router(setting, *new)));
    }

    fn stays(&self, port: &str) -> bool {
        self.fates.stay.contains(port)
    }

    /// Does the port of a route stay, if it has one?
    fn keeps_port(&self, key: &RouteKey) -> bool {
        key.port.as_ref().is_none_or(|port| self.stays(port))
    }

    /// Is a rule the same in both? A rule for a port differs if the port is another one.
    fn keeps(&self, priority: u32, rule: &Rule) -> bool {
        self.new.rules.get(&priority) == Some(rule)
            && rule.in_port.as_ref().is_none_or(|port| self.stays(port))
    }

    fn push<K, T>(&mut self, changes: Vec<(K, T)>, operation: impl Fn(K, T) -> Operation) {
        self.all.extend(changes.into_iter().map(|(key, change)| operation(key, change)));
    }

    fn step(&mut self, port: &str, step: Step) {
        self.all.push(Operation::Port(port.to_owned(), step));
    }

    fn steps<K, T>(&mut self, port: &str, changes: Vec<(K, T)>, step: impl Fn(K, T) -> Step) {
        self.push(changes, |key, change| Operation::Port(port.to_owned(), step(key, change)));
    }

    /// Remove entries that are only in `old`. Entries of a removed port go with the port.
    fn remove(&mut self) {
        let (old, new) = (self.old, self.new);
        self.push(removed(&old.rules, |at, rule| self.keeps(*at, rule)), Operation::Rule);
        self.push(removed(&old.gaps, |to, _| new.gaps.contains_key(to)), Operation::Gap);
        let routes =
            removed(&old.routes, |key, _| !self.keeps_port(key) || new.routes.contains_key(key));
        self.push(routes, Operation::Route);
        let neighbours = removed(&old.neighbours, |key, _| {
            !self.stays(&key.0) || new.neighbours.contains_key(key)
        });
        self.push(neighbours, Operation::Neighbour);
        for (name, port) in &old.ports {
            let Some(next) = new.ports.get(name).filter(|_| self.stays(name)) else { continue };
            let asks = removed(&port.asks, |asks, learns| next.asks.get(asks) == Some(learns));
            self.steps(name, asks, Step::Ask);
            let gone = removed(&port.addresses, |ip, _| next.addresses.contains_key(ip));
            self.steps(name, gone, Step::Address);
        }
        // VLANs before the ports that they are on.
        for is_vlan in [true, false] {
            for (name, _) in old.ports.iter().filter(|(_, port)| port.is_vlan() == is_vlan) {
                if !self.stays(name) {
                    self.step(name, Step::Remove);
                }
            }
        }
    }

    /// Add and change ports, those with devices before their VLANs.
    fn ports(&mut self) {
        let new = self.new;
        for is_vlan in [false, true] {
            for (name, port) in new.ports.iter().filter(|(_, port)| port.is_vlan() == is_vlan) {
                let is_trunk = self.fates.trunks.contains(name.as_str());
                match self.fates.of_port(name) {
                    Fate::Added => self.step(name, Step::Add(port.clone(), is_trunk)),
                    Fate::Reopened => self.step(name, Step::Reopen(port.clone(), is_trunk)),
                    Fate::Stays => {}
                }
            }
        }
    }

    /// Add entries that are only in `new`, or that differ from `old`.
    fn add(&mut self) {
        let (old, new) = (self.old, self.new);
        for &switch in Switch::ALL {
            if old.is_on(switch) != new.is_on(switch) {
                self.all.push(Operation::Switch(switch, new.is_on(switch)));
            }
        }
        for (name, port) in &new.ports {
            let bare = port.bare();
            let before = old.ports.get(name).filter(|_| self.stays(name)).unwrap_or(&bare);
            for setting in SETTINGS.iter().filter(|setting| !(setting.is_same)(before, port)) {
                self.step(name, Step::Set(setting, port.clone()));
            }
            let addresses = set(&port.addresses, |ip| before.addresses.get(ip));
            self.steps(name, addresses, Step::Address);
            let asks = set(&port.asks, |asks| {
                // One that differs was removed.
                before.asks.get(asks).filter(|learns| port.asks.get(asks) == Some(learns))
            });
            self.steps(name, asks, Step::Ask);
        }
        let neighbours =
            set(&new.neighbours, |key| old.neighbours.get(key).filter(|_| self.stays(&key.0)));
        self.push(neighbours, Operation::Neighbour);
        self.push(set(&new.groups, |name| old.groups.get(name)), Operation::Group);
        let rules = set(&new.rules, |at| old.rules.get(at).filter(|rule| self.keeps(*at, rule)));
        self.push(rules, Operation::Rule);
        let routes = set(&new.routes, |key| old.routes.get(key).filter(|_| self.keeps_port(key)));
        self.push(routes, Operation::Route);
        // Groups that nothing names any more go last.
        let unnamed = removed(&old.groups, |name, _| new.groups.contains_key(name));
        self.push(unnamed, Operation::Group);
        self.push(set(&new.gaps, |to| old.gaps.get(to)), Operation::Gap);
        // A port that is another one now has another number, which the rules have to have.
        let mut named = new.filter.iter().flat_map(Filter::ports);
        if old.filter != new.filter || named.any(|port| !self.stays(port)) {
            let (was, now) = (old.filter.clone(), new.filter.clone());
            self.all.push(Operation::Filter(Change { was, now }));
        }
        if old.ipfix != new.ipfix {
            self.all.push(Operation::Ipfix(Change { was: old.ipfix, now: new.ipfix }));
        }
        if old.pair != new.pair {
            let (was, now) = (old.pair.clone(), new.pair.clone());
            self.all.push(Operation::Pair(Change { was, now }));
        }
    }
}
