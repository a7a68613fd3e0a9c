//! What changes when another configuration takes effect: the difference of two, as operations in an
//! order in which each is possible and nothing is forwarded that neither configuration forwards.
//!
//! Called by: `live.rs` carries the operations out; the process that opens devices asks which ports
//! need one. What is the same in both gives no operation: its connections go on.

mod note;
mod text;

use core::net::IpAddr;

use base::{Duration, Switch};
use device::mitigation::Mitigation;
use stack::route::SourceCheck;

use crate::config::{
    Asks, Config, Link, Members, Neighbour, Port, Prefix, RouteKey, RouteTo, Rule,
};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Forward packets for others, or stop.
    Forwarding(bool),
    /// Forward directed broadcasts, or stop.
    DirectedBroadcasts(bool),
    /// Turn a switch.
    Switch(Switch, bool),
    /// No gap to a network any more.
    RemoveGap(Prefix),
    /// A gap to a network.
    SetGap(Prefix, Duration),
    /// Remove a group of users.
    RemoveGroup(String),
    /// Add a group of users, or change who is in it.
    SetGroup(String, Members),
    /// Remove a rule.
    RemoveRule(u32, Rule),
    /// Add a rule.
    AddRule(u32, Rule),
    /// Remove a route.
    RemoveRoute(RouteKey),
    /// Add a route, or change it.
    SetRoute(RouteKey, RouteTo),
    /// Forget what was said about a neighbour.
    RemoveNeighbour(String, IpAddr, Neighbour),
    /// What is known of a neighbour: new, and before.
    SetNeighbour(String, IpAddr, Neighbour, Neighbour),
    /// Ask for addresses no more.
    StopAsking(String, Asks),
    /// Ask for addresses, and take routes to more than everywhere with them, or not.
    Ask(String, Asks, bool),
    /// Remove an address of ours.
    RemoveAddress(String, IpAddr),
    /// Add an address with its prefix length, or change the length.
    SetAddress(String, IpAddr, u8),
    /// Remove a port, with all that belongs to it.
    RemovePort(String),
    /// Add a port, without what belongs to it.
    AddPort(String, Port),
    /// Give a port another device, or the same one with another MTU or with VLANs.
    ReplaceDevice(String, Port),
    /// Set the interrupt mitigation of a port.
    SetMitigation(String, Option<Mitigation>),
    /// Check the sources of what comes by a port otherwise. A new port has its own from the start.
    SetSourceCheck(String, SourceCheck),
}

/// The operations that make `old` into `new`.
pub fn difference(old: &Config, new: &Config) -> Vec<Operation> {
    let mut plan = Plan { old, new, all: Vec::new() };
    plan.stop();
    plan.remove();
    plan.ports();
    plan.add();
    plan.start();
    plan.all
}

/// The settings that differ and count from the start of the program only.
pub fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let socket = |config: &Config| config.control.as_ref().map(|control| control.socket.clone());
    let all = [
        ("[limits]", old.limits != new.limits),
        ("[privileges]", (old.separate, old.user) != (new.separate, new.user)),
        ("socket of [control]", socket(old) != socket(new)),
        ("shards", old.shards != new.shards),
    ];
    all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

struct Plan<'a> {
    old: &'a Config,
    new: &'a Config,
    all: Vec<Operation>,
}

impl Plan<'_> {
    /// What is no longer forwarded is not forwarded while the rest changes.
    fn stop(&mut self) {
        if self.old.forwarding && !self.new.forwarding {
            self.all.push(Operation::Forwarding(false));
        }
        if self.old.directed_broadcasts && !self.new.directed_broadcasts {
            self.all.push(Operation::DirectedBroadcasts(false));
        }
    }

    fn start(&mut self) {
        if !self.old.directed_broadcasts && self.new.directed_broadcasts {
            self.all.push(Operation::DirectedBroadcasts(true));
        }
        if !self.old.forwarding && self.new.forwarding {
            self.all.push(Operation::Forwarding(true));
        }
    }

    /// Does the port stay, perhaps with another device? Else it is removed, and perhaps made anew.
    fn stays(&self, name: &str) -> bool {
        let (Some(old), Some(new)) = (self.old.ports.get(name), self.new.ports.get(name)) else {
            return false;
        };
        let parent_stays = match &new.link {
            Link::Vlan { parent, .. } => self.stays(parent),
            Link::Device(_) => true,
        };
        old.link == new.link && old.mac == new.mac && parent_stays
    }

    /// Does a port that stays need its device anew?
    fn is_replaced(&self, name: &str) -> bool {
        let (Some(old), Some(new)) = (self.old.ports.get(name), self.new.ports.get(name)) else {
            return false;
        };
        let with_parent = match &new.link {
            Link::Vlan { parent, .. } => self.is_replaced(parent),
            Link::Device(_) => self.new.is_trunk(name) && !self.old.is_trunk(name),
        };
        self.stays(name) && (old.mtu != new.mtu || with_parent)
    }

    /// Is a rule the same in both? One for a port is another one if the port is.
    fn keeps_rule(&self, priority: u32) -> bool {
        let (old, new) = (self.old.rules.get(&priority), self.new.rules.get(&priority));
        let keeps_port = |rule: &Rule| rule.in_port.as_ref().is_none_or(|name| self.stays(name));
        old == new && old.is_some_and(keeps_port)
    }

    /// Is a route the same in both?
    fn keeps_route(&self, key: &RouteKey) -> bool {
        self.stays(&key.port) && self.old.routes.get(key) == self.new.routes.get(key)
    }

    /// What is in `old` alone. What belongs to a port that is removed goes with it.
    fn remove(&mut self) {
        let (old, new) = (self.old, self.new);
        for (priority, rule) in &old.rules {
            if !self.keeps_rule(*priority) {
                self.all.push(Operation::RemoveRule(*priority, rule.clone()));
            }
        }
        for to in old.gaps.keys().filter(|to| !new.gaps.contains_key(*to)) {
            self.all.push(Operation::RemoveGap(*to));
        }
        for key in old.routes.keys() {
            if self.stays(&key.port) && !new.routes.contains_key(key) {
                self.all.push(Operation::RemoveRoute(key.clone()));
            }
        }
        for (key @ (port, ip), was) in &old.neighbours {
            if self.stays(port) && !new.neighbours.contains_key(key) {
                self.all.push(Operation::RemoveNeighbour(port.clone(), *ip, *was));
            }
        }
        for (name, port) in &old.ports {
            let Some(next) = new.ports.get(name).filter(|_| self.stays(name)) else { continue };
            let is_other = port.learn_routes != next.learn_routes;
            for asks in port.asks.iter().filter(|asks| is_other || !next.asks.contains(asks)) {
                self.all.push(Operation::StopAsking(name.clone(), *asks));
            }
            for ip in port.addresses.keys().filter(|ip| !next.addresses.contains_key(*ip)) {
                self.all.push(Operation::RemoveAddress(name.clone(), *ip));
            }
        }
        // VLANs before the ports that they are on.
        for is_vlan in [true, false] {
            for (name, port) in &old.ports {
                if matches!(port.link, Link::Vlan { .. }) == is_vlan && !self.stays(name) {
                    self.all.push(Operation::RemovePort(name.clone()));
                }
            }
        }
    }

    /// Ports come and change, those with devices before their VLANs.
    fn ports(&mut self) {
        for is_vlan in [false, true] {
            for (name, port) in &self.new.ports {
                if matches!(port.link, Link::Vlan { .. }) != is_vlan {
                    continue;
                }
                if !self.stays(name) {
                    self.all.push(Operation::AddPort(name.clone(), port.clone()));
                } else if self.is_replaced(name) {
                    self.all.push(Operation::ReplaceDevice(name.clone(), port.clone()));
                }
            }
        }
    }

    /// What is in `new` alone, or otherwise than in `old`.
    fn add(&mut self) {
        let (old, new) = (self.old, self.new);
        for &switch in Switch::ALL {
            if old.is_on(switch) != new.is_on(switch) {
                self.all.push(Operation::Switch(switch, new.is_on(switch)));
            }
        }
        for (name, port) in &new.ports {
            let before = old.ports.get(name).filter(|_| self.stays(name));
            if before.and_then(|before| before.mitigation) != port.mitigation {
                self.all.push(Operation::SetMitigation(name.clone(), port.mitigation));
            }
            if before.is_some_and(|before| before.source_check != port.source_check) {
                self.all.push(Operation::SetSourceCheck(name.clone(), port.source_check));
            }
            for (ip, len) in &port.addresses {
                if before.and_then(|before| before.addresses.get(ip)) != Some(len) {
                    self.all.push(Operation::SetAddress(name.clone(), *ip, *len));
                }
            }
            for asks in &port.asks {
                let asks_so = |before: &Port| {
                    before.asks.contains(asks) && before.learn_routes == port.learn_routes
                };
                if !before.is_some_and(asks_so) {
                    let learns = port.learn_routes;
                    self.all.push(Operation::Ask(name.clone(), *asks, learns));
                }
            }
        }
        for (key @ (port, ip), value) in &new.neighbours {
            let before = old.neighbours.get(key).filter(|_| self.stays(port));
            if before != Some(value) {
                let before = before.copied().unwrap_or_default();
                self.all.push(Operation::SetNeighbour(port.clone(), *ip, *value, before));
            }
        }
        for (name, members) in &new.groups {
            if old.groups.get(name) != Some(members) {
                self.all.push(Operation::SetGroup(name.clone(), members.clone()));
            }
        }
        for (priority, rule) in &new.rules {
            if !self.keeps_rule(*priority) {
                self.all.push(Operation::AddRule(*priority, rule.clone()));
            }
        }
        for (key, route) in &new.routes {
            if !self.keeps_route(key) {
                self.all.push(Operation::SetRoute(key.clone(), route.clone()));
            }
        }
        // Nothing names them any more.
        for name in old.groups.keys().filter(|name| !new.groups.contains_key(*name)) {
            self.all.push(Operation::RemoveGroup(name.clone()));
        }
        for (to, gap) in &new.gaps {
            if old.gaps.get(to) != Some(gap) {
                self.all.push(Operation::SetGap(*to, *gap));
            }
        }
    }
}

impl Operation {
    /// The port for which a device of this machine has to be opened.
    pub fn needs_device(&self) -> Option<(&str, &Port)> {
        match self {
            Operation::AddPort(name, port) | Operation::ReplaceDevice(name, port)
                if matches!(port.link, Link::Device(_)) =>
            {
                Some((name, port))
            }
            _ => None,
        }
    }
}
