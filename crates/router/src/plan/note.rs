//! What is so once an operation was carried out: the configuration that takes effect then.
//!
//! Called by: `live.rs`, after each operation that succeeded.

use super::Operation;
use crate::config::{Config, Port};

impl Operation {
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
        | Operation::Ask(name, ..)
        | Operation::RemoveAddress(name, _)
        | Operation::SetAddress(name, ..)
        | Operation::ReplaceDevice(name, _)
        | Operation::SetMitigation(name, _)
        | Operation::SetSourceCheck(name, _)) = self
        else {
            return;
        };
        let Some(port) = running.ports.get_mut(name) else { return };
        match self {
            Operation::StopAsking(_, asks) => drop(port.asks.remove(asks)),
            Operation::Ask(_, asks, learns) => {
                port.asks.insert(*asks);
                port.learn_routes = *learns;
            }
            Operation::RemoveAddress(_, ip) => drop(port.addresses.remove(ip)),
            Operation::SetAddress(_, ip, len) => drop(port.addresses.insert(*ip, *len)),
            Operation::ReplaceDevice(_, new) => port.mtu = new.mtu,
            Operation::SetMitigation(_, to) => port.mitigation = *to,
            Operation::SetSourceCheck(_, to) => port.source_check = *to,
            _ => {}
        }
    }
}
