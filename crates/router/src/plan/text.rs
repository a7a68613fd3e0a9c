//! Operations, and what they are about, as the log has them.
//!
//! Called by: whoever prints them.

use core::fmt;

use stack::route::{Action, MAIN_TABLE};

use super::Operation;
use crate::config::{Asks, For, Link, RouteKey, Rule, cidr};

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
            Operation::Ask(port, asks, _) => write!(f, "port {port}: {asks} begun"),
            Operation::RemoveAddress(port, ip) => write!(f, "port {port}: {ip} removed"),
            Operation::SetAddress(port, ip, len) => write!(f, "port {port}: {ip}/{len}"),
            Operation::RemovePort(port) => write!(f, "port {port}: removed"),
            Operation::AddPort(name, port) => write!(f, "port {name}: added, {}", port.link),
            Operation::ReplaceDevice(name, port) => {
                write!(f, "port {name}: opened anew, {}", port.link)?;
                port.mtu.map_or(Ok(()), |mtu| write!(f, " mtu {}", mtu.bytes()))
            }
            Operation::SetMitigation(port, Some(to)) => write!(f, "port {port}: mitigation {to}"),
            Operation::SetSourceCheck(port, to) => write!(f, "port {port}: source_check {to}"),
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
