//! The router that runs: its ports by name, and the operations of a plan carried out on its stack.
//!
//! Called by: the worker of `wirespeed up`, under the stacks' locks, at the start and whenever a
//! configuration takes effect. An operation that fails is reported, the others are carried out;
//! what failed is part of the difference to the next configuration, and so it is tried again.
//! `live/ports.rs` has the devices, `live/routes.rs` routes, rules and groups, `live/dhcp.rs` DHCP.

mod dhcp;
mod ports;
mod routes;

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::{Cidr, Duration, MacAddr};
use device::counted::{Counts, Totals};
use device::mitigation::{Level, Mitigation};
use device::{Device, vlan};
use net::dhcp::DhcpPort;
use stack::{Address, AutoConfig, PortId, Stack, shard};

pub use dhcp::news as dhcp_news;

use crate::config::{Asks, Config, Neighbour, Port, Prefix, RouteTo, cidr};
use crate::plan::{self, Operation};
use crate::users::Users;

/// A device that was opened for a port, and our link address on it.
pub struct Opened {
    /// Its queues, one for each shard.
    pub queues: Vec<Box<dyn Device>>,
    /// The port's link address, unless its configuration has one.
    pub mac: MacAddr,
}

/// What became of an operation.
#[derive(Debug)]
pub struct Done {
    /// What was to be done.
    pub operation: Operation,
    /// Why it was not, and what to do.
    pub result: Result<(), String>,
}

/// A port that runs.
pub struct LivePort {
    /// Its number in the stack.
    pub id: PortId,
    /// What passed each shard's queue since it was added.
    counts: Vec<Counts>,
    mac: MacAddr,
    /// If it has, or had, VLANs: one for each shard.
    splitters: Vec<vlan::Splitter>,
    dhcp: Option<DhcpPort>,
}

impl LivePort {
    /// What passed it since it was added.
    pub fn totals(&self) -> Totals {
        self.counts.iter().map(Counts::totals).sum()
    }
}

/// The stacks of all shards; the first one speaks for the router.
pub type Stacks<'a, 'b> = &'a mut [&'b mut Stack];

/// A router that runs.
#[derive(Default)]
pub struct Live {
    ports: BTreeMap<String, LivePort>,
    running: Running,
    users: Users,
    serial: u64,
}

/// What takes effect now; at first a host without ports.
struct Running(Config);

impl Default for Running {
    fn default() -> Running {
        Running(Config { forwarding: false, ..Config::default() })
    }
}

impl Live {
    /// The configuration that takes effect, without what failed.
    pub fn running(&self) -> &Config {
        &self.running.0
    }

    /// The ports of `wanted` that are not there, or have another link.
    pub fn absent(&self, wanted: &Config) -> Vec<String> {
        let link = |port: &Port| (port.link.clone(), port.mac, port.mtu);
        let differs = |(name, port): &(&String, &Port)| {
            self.running.0.ports.get(*name).map(link) != Some(link(port))
        };
        wanted.ports.iter().filter(differs).map(|(name, _)| name.clone()).collect()
    }

    /// The device of a port is gone, and comes anew with the next configuration.
    pub fn lose_device(&mut self, port: &str) {
        self.running.0.lose_device(port);
    }

    /// The ports by name.
    pub fn ports(&self) -> &BTreeMap<String, LivePort> {
        &self.ports
    }

    /// The groups of users.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Make the stacks what `wanted` says. `open` returns the device of a port. If no port can be
    /// added and none is there, nothing else is done either.
    pub fn apply(
        &mut self,
        stacks: Stacks<'_, '_>,
        wanted: &Config,
        mut open: impl FnMut(&str, &Port) -> Result<Opened, String>,
    ) -> Vec<Done> {
        let mut all = Vec::new();
        let mut has_none = false;
        for operation in plan::difference(&self.running.0, wanted) {
            let is_port = matches!(operation, Operation::AddPort(..));
            if has_none && !is_port {
                break;
            }
            let result = self.carry_out(stacks, &operation, wanted, &mut open);
            if result.is_ok() {
                operation.note(&mut self.running.0);
            }
            has_none = is_port && self.ports.is_empty();
            all.push(Done { operation, result });
        }
        stacks.iter_mut().for_each(|stack| stack.flush());
        let running = &mut self.running.0;
        (running.drain, running.metrics) = (wanted.drain, wanted.metrics);
        (running.separate, running.limits) = (wanted.separate, wanted.limits.clone());
        running.user = wanted.user;
        running.control.clone_from(&wanted.control);
        running.shards = wanted.shards;
        all
    }

    fn carry_out(
        &mut self,
        stacks: Stacks<'_, '_>,
        operation: &Operation,
        wanted: &Config,
        open: &mut impl FnMut(&str, &Port) -> Result<Opened, String>,
    ) -> Result<(), String> {
        match operation {
            Operation::RemoveGap(to) => return set_gap(stacks, *to, None),
            Operation::SetGap(to, gap) => return set_gap(stacks, *to, Some(*gap)),
            Operation::RemoveNeighbour(port, ip, was) => {
                return self.set_neighbour(stacks, port, *ip, Neighbour::default(), *was);
            }
            Operation::SetNeighbour(port, ip, to, was) => {
                return self.set_neighbour(stacks, port, *ip, *to, *was);
            }
            Operation::RemovePort(name) => {
                self.remove_port(stacks, name);
                return Ok(());
            }
            Operation::AddPort(name, port) => {
                let opened = self.open(name, port, wanted, open)?;
                self.add_port(stacks, name, opened);
                return self.set_source_check(stacks, name, port.source_check);
            }
            Operation::ReplaceDevice(name, port) => {
                let (queues, mut live) = self.open(name, port, wanted, open)?;
                let old = self.port_mut(name)?;
                shard::replace_port(stacks, old.id, queues).map_err(|why| why.to_string())?;
                std::mem::swap(&mut old.counts, &mut live.counts);
                old.splitters = live.splitters;
                return Ok(());
            }
            Operation::SetSourceCheck(port, to) => {
                return self.set_source_check(stacks, port, *to);
            }
            Operation::SetMitigation(port, to) => {
                let to = to.unwrap_or(Mitigation::Level(Level::default()));
                let id = self.port(port)?.id;
                let mut all = stacks.iter_mut().map(|stack| stack.set_mitigation(id, to));
                return all.try_for_each(|set| set.map_err(|why| why.to_string()));
            }
            _ => {}
        }
        self.carry_out_at_first(first(stacks), operation)
    }

    /// What the first shard does for all.
    fn carry_out_at_first(
        &mut self,
        stack: &mut Stack,
        operation: &Operation,
    ) -> Result<(), String> {
        match operation {
            Operation::Forwarding(on) => stack.set_forwarding(*on),
            Operation::DirectedBroadcasts(on) => stack.set_directed_broadcasts(*on),
            Operation::Switch(switch, on) => stack.set_switch(*switch, *on),
            Operation::RemoveRoute(key) => {
                stack.remove_one_route(&self.route(key, &RouteTo::default())?);
            }
            Operation::SetRoute(key, route) => self.add_route(stack, key, route)?,
            Operation::RemoveGroup(name) => self.users.remove(name),
            Operation::SetGroup(name, members) => self.users.set(name, members),
            Operation::RemoveRule(at, rule) => drop(stack.remove_rule(&self.rule(*at, rule)?)),
            Operation::AddRule(priority, rule) => self.add_rule(stack, *priority, rule)?,
            Operation::StopAsking(port, Asks::Auto) => {
                stack.stop_autoconf(self.port(port)?.id);
            }
            Operation::Ask(port, Asks::Auto, learn_routes) => {
                let learn_routes = *learn_routes;
                let config = AutoConfig { temporary: false, learn_routes, ..AutoConfig::default() };
                let started = stack.autoconfigure(self.port(port)?.id, config);
                started.map_err(|why| why.to_string())?;
            }
            Operation::StopAsking(port, Asks::Dhcp) => {
                let client = self.port_mut(port)?.dhcp.take();
                client.into_iter().for_each(|client| client.stop(stack, stack.now()));
            }
            Operation::Ask(port, Asks::Dhcp, learns) => self.begin_dhcp(stack, port, *learns)?,
            Operation::RemoveAddress(port, ip) => {
                let id = self.port(port)?.id;
                stack.remove_address(id, *ip);
                let _ = stack.follow_link_local(id);
            }
            Operation::SetAddress(port, addr, prefix_len) => {
                let address = Address::fixed(Cidr { addr: *addr, prefix_len: *prefix_len });
                let id = self.port(port)?.id;
                stack.add_address(id, address).map_err(|why| why.to_string())?;
                // Where the user's addresses are as many as may be there is none.
                let _ = stack.follow_link_local(id);
            }
            // Those of all shards.
            _ => {}
        }
        Ok(())
    }

    fn port(&self, name: &str) -> Result<&LivePort, String> {
        self.ports.get(name).ok_or_else(|| missing(name))
    }

    fn port_mut(&mut self, name: &str) -> Result<&mut LivePort, String> {
        self.ports.get_mut(name).ok_or_else(|| missing(name))
    }

    fn set_neighbour(
        &self,
        stacks: Stacks<'_, '_>,
        port: &str,
        ip: IpAddr,
        to: Neighbour,
        was: Neighbour,
    ) -> Result<(), String> {
        let id = self.port(port)?.id;
        if to.mtu != was.mtu {
            let mut all = stacks.iter_mut().map(|stack| stack.set_neighbour_mtu(id, ip, to.mtu));
            all.try_for_each(|set| set.map_err(|why| why.to_string()))?;
        }
        let stack = first(stacks);
        match to.mac {
            Some(mac) if to.mac != was.mac && !stack.add_neighbour(id, ip, mac) => {
                Err("the table is full: raise limit neighbours".to_owned())
            }
            None if was.mac.is_some() => {
                stack.remove_neighbour(id, ip);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Nothing is to be forwarded or asked for any more: the program ends.
    pub fn stop(&mut self, stack: &mut Stack) {
        stack.set_forwarding(false);
        for port in self.ports.values_mut() {
            if let Some(client) = port.dhcp.take() {
                client.stop(stack, stack.now());
            }
        }
        stack.flush();
    }
}

fn missing(name: &str) -> String {
    format!("port '{name}' is not there: see why it was not added")
}

fn set_gap(stacks: Stacks<'_, '_>, to: Prefix, gap: Option<Duration>) -> Result<(), String> {
    if stacks.len() > 1 && gap.is_some() {
        return Err("each shard would keep a gap of its own: run one shard".to_owned());
    }
    first(stacks).set_burst_gap(cidr(to), gap).map_err(|why| why.to_string())
}

fn first<'a>(stacks: Stacks<'a, '_>) -> &'a mut Stack {
    stacks.first_mut().expect("a router has at least one shard")
}
