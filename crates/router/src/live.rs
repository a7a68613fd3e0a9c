//! The router that runs: its ports by name, and the operations of a plan carried out on its stack.
//!
//! Called by: the worker of `wirespeed up`, under the stacks' locks, at the start and whenever a
//! configuration takes effect. An operation that fails is reported, the others are carried out;
//! what failed is part of the difference to the next configuration, and so it is tried again.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Cidr, Duration, Instant, KeyedHash, MacAddr};
use device::counted::{Counted, Counts, Totals};
use device::mitigation::{Level, Mitigation};
use device::{Device, vlan};
use net::dhcp::{self, Change, DhcpPort};
use stack::route::{self, Access, RuleError};
use stack::{Address, AutoConfig, PortConfig, PortId, Route, Stack, shard};

use crate::config::{
    Asks, Config, For, Link, Neighbour, Port, Prefix, RouteKey, RouteTo, Rule, cidr,
};
use crate::plan::{self, Operation};
use crate::users::Users;

/// Sets the DHCP client's secret apart from what else the stack's seed determines.
const PURPOSE: u64 = 68;

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
                return Ok(());
            }
            Operation::ReplaceDevice(name, port) => {
                let (queues, mut live) = self.open(name, port, wanted, open)?;
                let old = self.port_mut(name)?;
                shard::replace_port(stacks, old.id, queues).map_err(|why| why.to_string())?;
                std::mem::swap(&mut old.counts, &mut live.counts);
                old.splitters = live.splitters;
                return Ok(());
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
            Operation::Ask(port, Asks::Auto) => {
                let config = AutoConfig { temporary: false, ..AutoConfig::default() };
                let started = stack.autoconfigure(self.port(port)?.id, config);
                started.map_err(|why| why.to_string())?;
            }
            Operation::StopAsking(port, Asks::Dhcp) => {
                let client = self.port_mut(port)?.dhcp.take();
                client.into_iter().for_each(|client| client.stop(stack, stack.now()));
            }
            Operation::Ask(port, Asks::Dhcp) => self.begin_dhcp(stack, port)?,
            Operation::RemoveAddress(port, ip) => {
                stack.remove_address(self.port(port)?.id, *ip);
            }
            Operation::SetAddress(port, addr, prefix_len) => {
                let address = Address::fixed(Cidr { addr: *addr, prefix_len: *prefix_len });
                let added = stack.add_address(self.port(port)?.id, address);
                added.map_err(|why| why.to_string())?;
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

    fn route(&self, key: &RouteKey, to: &RouteTo) -> Result<Route, String> {
        let port = self.port(&key.port)?.id;
        let numbers = |names: &BTreeSet<String>| -> Result<Arc<[u32]>, String> {
            names.iter().map(|name| self.group(name)).collect()
        };
        let access = match &to.users {
            None => None,
            Some(For::Include(names)) => Some(Arc::new(Access::Include(numbers(names)?))),
            Some(For::Exclude(names)) => Some(Arc::new(Access::Exclude(numbers(names)?))),
        };
        Ok(Route {
            mtu: to.mtu,
            weight: to.weight,
            metric: to.metric,
            table: key.table,
            access,
            no_forward: to.no_forward,
            ..Route::new(cidr(key.to), key.via, port.0)
        })
    }

    fn add_route(&self, stack: &mut Stack, key: &RouteKey, to: &RouteTo) -> Result<(), String> {
        let is_added = stack.add_route(self.route(key, to)?);
        is_added.then_some(()).ok_or_else(|| "the table is full: raise limit routes".to_owned())
    }

    fn group(&self, name: &str) -> Result<u32, String> {
        let missing = || format!("group '{name}' is not there: see why it was not added");
        self.users.number(name).ok_or_else(missing)
    }

    fn add_rule(&self, stack: &mut Stack, priority: u32, rule: &Rule) -> Result<(), String> {
        match stack.add_rule(self.rule(priority, rule)?) {
            // Somebody added it by the control socket.
            Ok(()) | Err(RuleError::Exists) => Ok(()),
            Err(why) => Err(why.to_string()),
        }
    }

    fn rule(&self, priority: u32, rule: &Rule) -> Result<route::Rule, String> {
        let in_port = rule.in_port.as_ref().map(|name| Ok::<_, String>(self.port(name)?.id.0));
        Ok(route::Rule {
            from: rule.from.map(cidr),
            to: rule.to.map(cidr),
            in_port: in_port.transpose()?,
            mark: rule.mark,
            group: rule.group.as_ref().map(|name| self.group(name)).transpose()?,
            not: rule.not,
            ..route::Rule::new(priority, rule.action)
        })
    }

    /// The queues of a port, counted, and split if it has VLANs.
    fn open(
        &self,
        name: &str,
        port: &Port,
        wanted: &Config,
        open: &mut impl FnMut(&str, &Port) -> Result<Opened, String>,
    ) -> Result<(Vec<Box<dyn Device>>, LivePort), String> {
        let (mut queues, mut splitters): (Vec<Box<dyn Device>>, _) = (Vec::new(), Vec::new());
        let mac = match &port.link {
            Link::Device(_) => {
                let opened = open(name, port)?;
                for queue in opened.queues {
                    if wanted.is_trunk(name) {
                        let split = vlan::Splitter::new(queue, vlan::TAG);
                        let (splitter, port) = split.map_err(|why| why.to_string())?;
                        splitters.push(splitter);
                        queues.push(Box::new(port));
                    } else {
                        queues.push(queue);
                    }
                }
                opened.mac
            }
            Link::Vlan { parent, id } => {
                let parent = self.port(parent)?;
                if parent.splitters.is_empty() {
                    return Err("its parent has no VLANs yet".to_owned());
                }
                for splitter in &parent.splitters {
                    let port = splitter.port(*id, port.mtu).map_err(|why| why.to_string())?;
                    queues.push(Box::new(port));
                }
                parent.mac
            }
        };
        let mut counts = Vec::new();
        let counted = queues.into_iter().map(|queue| {
            let (queue, of_queue) = Counted::new(queue);
            counts.push(of_queue);
            Box::new(queue) as Box<dyn Device>
        });
        let queues = counted.collect();
        let mac = port.mac.unwrap_or(mac);
        Ok((queues, LivePort { id: PortId(0), counts, mac, splitters, dhcp: None }))
    }

    fn add_port(
        &mut self,
        stacks: Stacks<'_, '_>,
        name: &str,
        (queues, mut live): (Vec<Box<dyn Device>>, LivePort),
    ) {
        let config = PortConfig { mac: live.mac, addresses: Vec::new() };
        live.id = shard::add_port(stacks, queues, &config);
        for stack in stacks {
            // Names of ports are unique in a configuration.
            stack.set_port_name(live.id, name);
        }
        self.ports.insert(name.to_owned(), live);
    }

    fn remove_port(&mut self, stacks: Stacks<'_, '_>, name: &str) {
        let Some(live) = self.ports.remove(name) else { return };
        if let Some(client) = live.dhcp {
            let stack = first(stacks);
            client.stop(stack, stack.now());
            stack.flush();
        }
        shard::remove_port(stacks, live.id);
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

    fn begin_dhcp(&mut self, stack: &mut Stack, name: &str) -> Result<(), String> {
        // A client that ended and one that begins must not draw the same numbers.
        self.serial += 1;
        let [a, b] = stack.derived_secret(PURPOSE + (self.serial << 8));
        let port = self.port_mut(name)?;
        let mtu = stack.device(port.id).map_or(0, |device| device.limits().mtu.bytes());
        let mtu_max = u16::try_from(mtu).unwrap_or(u16::MAX);
        let config = dhcp::Config { mtu_max, ..dhcp::Config::new(port.mac, KeyedHash::new(a, b)) };
        let client = DhcpPort::new(stack, port.id, config, stack.now());
        port.dhcp = Some(client.map_err(|why| why.to_string())?);
        Ok(())
    }

    /// Let the DHCP clients read and send; `say` is told what changed. Returns when to call again.
    pub fn turn_dhcp(&mut self, stack: &mut Stack, mut say: impl FnMut(&str, &Change)) -> Instant {
        let (now, mut next) = (stack.now(), Instant::NEVER);
        for (name, port) in &mut self.ports {
            let Some(client) = &mut port.dhcp else { continue };
            while let Some(change) = client.poll(stack, now) {
                say(name, &change);
            }
            // Nobody tells us of an answer: while one is expected, look for it.
            let is_asking = client.client().state() != dhcp::State::Bound;
            let soon = if is_asking { now + ANSWER } else { Instant::NEVER };
            next = next.min(client.deadline()).min(soon);
            stack.flush();
        }
        next
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

/// How often an answer to a DHCP client is looked for while one is expected.
const ANSWER: base::Duration = base::Duration::from_millis(50);

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

/// What a DHCP client has to say, in a sentence.
pub fn dhcp_news(change: &Change) -> String {
    let ip = |ip: &Ipv4Addr| ip.to_string();
    match change {
        Change::Configured(lease) => {
            format!("{}/{} by DHCP from {}", lease.address, lease.prefix_len, lease.server)
        }
        Change::Lost(address, why) => format!("{} is no longer ours ({why:?})", ip(address)),
        Change::NotAdded(address, why) => format!("{}, by DHCP, not used: {why}", ip(address)),
        Change::Declined(address) => {
            format!("{}, by DHCP, declined: another host has it", ip(address))
        }
    }
}
