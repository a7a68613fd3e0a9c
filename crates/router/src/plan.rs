//! What changes when another configuration takes effect: the difference of two, as operations in an
//! order in which each is possible and nothing is forwarded that neither configuration forwards.
//!
//! Called by: `live.rs` carries the operations out; the process that opens devices asks which ports
//! need one. What is the same in both gives no operation: its connections go on.

use core::fmt;
use core::net::IpAddr;

use base::{Duration, Switch};
use device::mitigation::Mitigation;

use stack::route::{Action, MAIN_TABLE};

use crate::config::{
    Asks, Config, For, Link, Members, Neighbour, Port, Prefix, RouteKey, RouteTo, Rule, cidr,
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
    /// Ask for addresses.
    Ask(String, Asks),
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
        ("[privileges]", old.separate != new.separate),
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
            for asks in port.asks.difference(&next.asks) {
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
            for (ip, len) in &port.addresses {
                if before.and_then(|before| before.addresses.get(ip)) != Some(len) {
                    self.all.push(Operation::SetAddress(name.clone(), *ip, *len));
                }
            }
            for asks in &port.asks {
                if !before.is_some_and(|before| before.asks.contains(asks)) {
                    self.all.push(Operation::Ask(name.clone(), *asks));
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

    /// Note in `running` that it was carried out.
    pub fn note(&self, running: &mut Config) {
        match self {
            Operation::Forwarding(on) => running.forwarding = *on,
            Operation::DirectedBroadcasts(on) => running.directed_broadcasts = *on,
            Operation::Switch(switch, on) if *on == switch.default_on() => {
                running.switches.remove(switch.name());
            }
            Operation::Switch(switch, on) => drop(running.switches.insert(switch.name(), *on)),
            Operation::RemoveGap(to) => drop(running.gaps.remove(to)),
            Operation::SetGap(to, gap) => drop(running.gaps.insert(*to, *gap)),
            Operation::RemoveRoute(key) => drop(running.routes.remove(key)),
            Operation::SetRoute(key, route) => {
                running.routes.insert(key.clone(), route.clone());
            }
            Operation::RemoveGroup(name) => drop(running.groups.remove(name)),
            Operation::SetGroup(name, members) => {
                running.groups.insert(name.clone(), members.clone());
            }
            Operation::RemoveRule(priority, _) => drop(running.rules.remove(priority)),
            Operation::AddRule(priority, rule) => {
                running.rules.insert(*priority, rule.clone());
            }
            Operation::RemoveNeighbour(port, ip, _) => {
                running.neighbours.remove(&(port.clone(), *ip));
            }
            Operation::SetNeighbour(port, ip, neighbour, _) => {
                running.neighbours.insert((port.clone(), *ip), *neighbour);
            }
            Operation::RemovePort(name) => {
                running.ports.remove(name);
                running.routes.retain(|key, _| key.port != *name);
                running.neighbours.retain(|(port, _), _| port != name);
            }
            Operation::AddPort(name, port) => {
                let bare = Port {
                    addresses: Default::default(),
                    asks: Default::default(),
                    mitigation: None,
                    ..port.clone()
                };
                running.ports.insert(name.clone(), bare);
            }
            _ => self.note_of_port(running),
        }
    }

    fn note_of_port(&self, running: &mut Config) {
        let (Operation::StopAsking(name, _)
        | Operation::Ask(name, _)
        | Operation::RemoveAddress(name, _)
        | Operation::SetAddress(name, ..)
        | Operation::ReplaceDevice(name, _)
        | Operation::SetMitigation(name, _)) = self
        else {
            return;
        };
        let Some(port) = running.ports.get_mut(name) else { return };
        match self {
            Operation::StopAsking(_, asks) => drop(port.asks.remove(asks)),
            Operation::Ask(_, asks) => drop(port.asks.insert(*asks)),
            Operation::RemoveAddress(_, ip) => drop(port.addresses.remove(ip)),
            Operation::SetAddress(_, ip, len) => drop(port.addresses.insert(*ip, *len)),
            Operation::ReplaceDevice(_, new) => port.mtu = new.mtu,
            Operation::SetMitigation(_, to) => port.mitigation = *to,
            _ => {}
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |on: &bool| if *on { "on" } else { "off" };
        match self {
            Operation::Forwarding(to) => write!(f, "forwarding {}", on(to)),
            Operation::DirectedBroadcasts(to) => write!(f, "directed broadcasts {}", on(to)),
            Operation::Switch(switch, to) => write!(f, "switch {} {}", switch.name(), on(to)),
            Operation::RemoveGap(to) => write!(f, "gap to {}: removed", cidr(*to)),
            Operation::SetGap(to, gap) => {
                write!(f, "gap to {}: {} us", cidr(*to), gap.as_micros())
            }
            Operation::RemoveRoute(key) => write!(f, "{key}: removed"),
            Operation::SetRoute(key, route) => {
                write!(f, "{key}")?;
                route.weight.map_or(Ok(()), |weight| write!(f, " weight {weight}"))?;
                if route.metric != 0 {
                    write!(f, " metric {}", route.metric)?;
                }
                route.users.as_ref().map_or(Ok(()), |users| write!(f, " {users}"))?;
                if route.no_forward {
                    write!(f, " no_forward")?;
                }
                route.mtu.map_or(Ok(()), |mtu| write!(f, " mtu {}", mtu.bytes()))
            }
            Operation::RemoveGroup(name) => write!(f, "group {name}: removed"),
            Operation::SetGroup(name, members) => {
                let (users, groups) = (members.uids.len(), members.gids.len());
                write!(f, "group {name}: users {users}, groups of the machine {groups}")
            }
            Operation::RemoveRule(priority, _) => write!(f, "rule {priority}: removed"),
            Operation::AddRule(priority, rule) => write!(f, "rule {priority}: {rule}"),
            Operation::RemoveNeighbour(port, ip, _) => {
                write!(f, "neighbour {ip} of port {port}: removed")
            }
            Operation::SetNeighbour(port, ip, to, _) => {
                write!(f, "neighbour {ip} of port {port}:")?;
                to.mac.map_or(Ok(()), |mac| write!(f, " at {mac}"))?;
                to.mtu.map_or(Ok(()), |mtu| write!(f, " mtu {}", mtu.bytes()))
            }
            Operation::StopAsking(port, asks) => write!(f, "port {port}: {asks} ended"),
            Operation::Ask(port, asks) => write!(f, "port {port}: {asks} begun"),
            Operation::RemoveAddress(port, ip) => write!(f, "port {port}: {ip} removed"),
            Operation::SetAddress(port, ip, len) => write!(f, "port {port}: {ip}/{len}"),
            Operation::RemovePort(port) => write!(f, "port {port}: removed"),
            Operation::AddPort(name, port) => write!(f, "port {name}: added, {}", port.link),
            Operation::ReplaceDevice(name, port) => {
                write!(f, "port {name}: opened anew, {}", port.link)?;
                port.mtu.map_or(Ok(()), |mtu| write!(f, " mtu {}", mtu.bytes()))
            }
            Operation::SetMitigation(port, Some(to)) => write!(f, "port {port}: mitigation {to}"),
            Operation::SetMitigation(port, None) => write!(f, "port {port}: mitigation 0"),
        }
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route to {} by port {}", cidr(self.to), self.port)?;
        self.via.map_or(Ok(()), |via| write!(f, " via {via}"))?;
        if self.table == MAIN_TABLE { Ok(()) } else { write!(f, " table {}", self.table) }
    }
}

impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, names) = match self {
            For::Include(names) => ("include", names),
            For::Exclude(names) => ("exclude", names),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        write!(f, "{word} {}", names.join(","))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.not {
            f.write_str("not ")?;
        }
        match self.from {
            Some(from) => write!(f, "from {}", cidr(from))?,
            None => f.write_str("from all")?,
        }
        self.to.map_or(Ok(()), |to| write!(f, " to {}", cidr(to)))?;
        let mark = |(value, mask): (u32, u32)| write!(f, " mark {value:#x}/{mask:#x}");
        self.mark.map_or(Ok(()), mark)?;
        self.in_port.as_ref().map_or(Ok(()), |port| write!(f, " in_port {port}"))?;
        self.group.as_ref().map_or(Ok(()), |group| write!(f, " group {group}"))?;
        match self.action {
            Action::Table(table) => write!(f, " table {table}"),
            Action::Unreachable => f.write_str(" unreachable"),
            Action::Prohibit => f.write_str(" prohibit"),
            Action::Blackhole => f.write_str(" blackhole"),
        }
    }
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Asks::Auto => "autoconfiguration",
            Asks::Dhcp => "DHCP",
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Device(device) => write!(f, "{device}"),
            Link::Vlan { parent, id } => write!(f, "VLAN {id} of {parent}"),
        }
    }
}
