//! Ports that run, and the steps that add, change and remove them: the words of each step in the
//! log, and how it is carried out. The groups of users are here too, because routes and rules name
//! them as well.
//!
//! Called by: `plan.rs`; `applied.rs` gives DHCP clients their turns. The settings that can be
//! changed on a running port are in `SETTINGS` of `config/port.rs`.

use core::fmt::Display;
use core::net::IpAddr;
use std::collections::BTreeMap;

use base::{Cidr, Duration, Instant, KeyedHash, MacAddr};
use device::counted::{Counted, Counts, Totals};
use device::{Device, vlan};
use net::dhcp::{self, DhcpPort};
use net::managed::Managed;
use stack::{Address, AutoConfig, PortConfig, PortId, Stack, shard};

use crate::config::port::SETTINGS;
use crate::config::setting::{Change, Setting, Stacks, first};
use crate::config::{Asks, Link, Port, filter};
use crate::export::Export;
use crate::pair::PairSync;
use control::Users;

/// Makes the DHCP client's secret differ from everything else that the stack's seed determines.
const PURPOSE: u64 = 68;

/// How often an answer to a DHCP client is looked for while one is expected.
const ANSWER: Duration = Duration::from_millis(50);

/// A device that was opened for a port, and our link address on it.
pub struct Opened {
    /// Its queues, one for each shard.
    pub queues: Vec<Box<dyn Device>>,
    /// The port's link address, unless its configuration has one.
    pub mac: MacAddr,
}

/// Returns the device of a port, by the port's name.
pub(crate) type Open<'a> = &'a mut dyn FnMut(&str, &Port) -> Result<Opened, String>;

/// A port that runs.
pub struct AppliedPort {
    /// Its number in the stack.
    pub id: PortId,
    /// The traffic of each shard's queue since the port was added.
    counts: Vec<Counts>,
    /// Our link address.
    pub(crate) mac: MacAddr,
    /// If it has, or had, VLANs: a splitter for each shard.
    splitters: Vec<vlan::Splitter>,
    dhcp: Option<DhcpPort>,
    /// Asks DHCPv6 servers, if routers say that there are some.
    managed: Option<Managed>,
}

impl AppliedPort {
    /// Its traffic since it was added.
    pub fn totals(&self) -> Totals {
        self.counts.iter().map(Counts::totals).sum()
    }
}

/// Ports and groups by name: the stacks know them by number, a configuration by name.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) ports: BTreeMap<String, AppliedPort>,
    pub(crate) users: Users,
    pub(crate) filter: filter::Running,
    pub(crate) export: Export,
    pub(crate) pair: PairSync,
    /// DHCP clients that were begun.
    serial: u64,
}

/// A step that changes a port.
pub enum Step {
    /// It is removed, with everything that belongs to it.
    Remove,
    /// It is added, without addresses and the like; the flag says whether it has VLANs.
    Add(Port, bool),
    /// It gets another device, or the same one with another MTU, other offloads or with VLANs.
    Reopen(Port, bool),
    /// It takes the value of a key from this port.
    Set(&'static Setting<Port, PortId>, Port),
    /// An address is added, removed, or has another prefix length.
    Address(IpAddr, Change<u8>),
    /// It begins to ask for addresses, or stops.
    Ask(Asks, Change<bool>),
}

impl Step {
    /// Its words in the log.
    pub(crate) fn words(&self, name: &str) -> String {
        match self {
            Step::Remove => format!("port {name}: removed"),
            Step::Add(port, _) => format!("port {name}: added, {}", port.link),
            Step::Reopen(port, _) => {
                let mtu = port.mtu.map(|mtu| format!(" mtu {}", mtu.bytes()));
                let offloads = if port.offloads { "" } else { " without offloads" };
                let mtu = mtu.unwrap_or_default();
                format!("port {name}: opened anew, {}{mtu}{offloads}", port.link)
            }
            Step::Set(setting, to) => format!("port {name}: {}", (setting.words)(to)),
            Step::Address(ip, Change { now: Some(len), .. }) => format!("port {name}: {ip}/{len}"),
            Step::Address(ip, Change { now: None, .. }) => format!("port {name}: {ip} removed"),
            Step::Ask(asks, Change { now: Some(_), .. }) => format!("port {name}: {asks} begun"),
            Step::Ask(asks, Change { now: None, .. }) => format!("port {name}: {asks} ended"),
        }
    }

    /// Note in the running configuration that it was carried out.
    pub(crate) fn note(&self, name: &str, running: &mut BTreeMap<String, Port>) {
        if let Step::Add(port, _) = self {
            running.insert(name.to_owned(), port.bare());
        }
        let Some(port) = running.get_mut(name) else { return };
        match self {
            Step::Add(..) => {}
            Step::Remove => drop(running.remove(name)),
            Step::Reopen(new, _) => (port.mtu, port.offloads) = (new.mtu, new.offloads),
            Step::Set(setting, to) => (setting.copy)(port, to),
            Step::Address(ip, change) => change.note(&mut port.addresses, ip),
            Step::Ask(asks, change) => change.note(&mut port.asks, asks),
        }
    }

    /// Carry it out.
    ///
    /// # Errors
    /// Why it failed, and what to do.
    pub(crate) fn carry_out(
        &self,
        name: &str,
        state: &mut State,
        stacks: Stacks<'_, '_>,
        open: Open<'_>,
    ) -> Result<(), String> {
        match self {
            Step::Remove => state.remove(name, stacks),
            Step::Add(port, is_trunk) => {
                let opened = state.open(name, port, *is_trunk, open)?;
                let (id, bare) = (state.add(name, stacks, opened), port.bare());
                let set = SETTINGS.iter().try_for_each(|s| (s.carry_out)(&bare, id, &mut *stacks));
                if set.is_err() {
                    // A port that could not be added is added again later: nothing of it may be
                    // left.
                    state.remove(name, stacks);
                }
                return set;
            }
            Step::Reopen(port, is_trunk) => {
                let (queues, new) = state.open(name, port, *is_trunk, open)?;
                let old = state.port_mut(name)?;
                shard::replace_port(stacks, old.id, queues).map_err(|why| why.to_string())?;
                (old.counts, old.splitters) = (new.counts, new.splitters);
            }
            Step::Set(setting, to) => {
                return (setting.carry_out)(to, state.port(name)?.id, stacks);
            }
            Step::Address(ip, change) => {
                let (stack, id) = (first(stacks), state.port(name)?.id);
                match change.now {
                    Some(prefix_len) => {
                        let address = Address::fixed(Cidr { addr: *ip, prefix_len });
                        stack.add_address(id, address).map_err(|why| why.to_string())?;
                    }
                    None => _ = stack.remove_address(id, *ip),
                }
                // If the user's addresses reach the limit, there is no link-local address.
                let _ = stack.follow_link_local(id);
            }
            Step::Ask(Asks::Auto, Change { now: None, .. }) => {
                let port = state.port_mut(name)?;
                port.stop_managed(first(stacks));
                first(stacks).stop_autoconf(port.id);
            }
            Step::Ask(Asks::Auto, Change { now: Some(learns), .. }) => {
                let usual = AutoConfig::default();
                let config = AutoConfig { temporary: false, learn_routes: *learns, ..usual };
                let (stack, port) = (first(stacks), state.port_mut(name)?);
                stack.autoconfigure(port.id, config).map_err(|why| why.to_string())?;
                port.stop_managed(stack);
                port.managed = Some(Managed::new(stack, port.id, port.mac));
            }
            Step::Ask(Asks::Dhcp, Change { now: None, .. }) => {
                state.port_mut(name)?.stop_dhcp(first(stacks));
            }
            Step::Ask(Asks::Dhcp, Change { now: Some(learns), .. }) => {
                return state.begin_dhcp(first(stacks), name, *learns);
            }
        }
        Ok(())
    }
}

impl State {
    pub(crate) fn port(&self, name: &str) -> Result<&AppliedPort, String> {
        self.ports.get(name).ok_or_else(|| missing(name))
    }

    fn port_mut(&mut self, name: &str) -> Result<&mut AppliedPort, String> {
        self.ports.get_mut(name).ok_or_else(|| missing(name))
    }

    /// The number of a group of users.
    pub(crate) fn group(&self, name: &str) -> Result<u32, String> {
        let missing = || format!("group '{name}' is not there: see why it was not added");
        self.users.number(name).ok_or_else(missing)
    }

    /// The queues of a port, counted, and split if it has VLANs.
    fn open(
        &self,
        name: &str,
        port: &Port,
        is_trunk: bool,
        open: Open<'_>,
    ) -> Result<(Vec<Box<dyn Device>>, AppliedPort), String> {
        let (mut queues, mut splitters): (Vec<Box<dyn Device>>, _) = (Vec::new(), Vec::new());
        let mac = match &port.link {
            Link::Device(_) => {
                let opened = open(name, port)?;
                for queue in opened.queues {
                    if is_trunk {
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
        Ok((
            queues,
            AppliedPort { id: PortId(0), counts, mac, splitters, dhcp: None, managed: None },
        ))
    }

    fn add(
        &mut self,
        name: &str,
        stacks: Stacks<'_, '_>,
        (queues, mut port): (Vec<Box<dyn Device>>, AppliedPort),
    ) -> PortId {
        let config = PortConfig { mac: port.mac, addresses: Vec::new(), ..PortConfig::default() };
        let id = shard::add_port(stacks, queues, &config);
        port.id = id;
        for stack in stacks {
            // Names of ports are unique in a configuration.
            stack.set_port_name(id, name);
        }
        self.ports.insert(name.to_owned(), port);
        id
    }

    fn remove(&mut self, name: &str, stacks: Stacks<'_, '_>) {
        let Some(mut port) = self.ports.remove(name) else { return };
        let stack = first(&mut *stacks);
        port.stop_managed(stack);
        if port.stop_dhcp(stack) {
            stack.flush();
        }
        shard::remove_port(stacks, port.id);
    }

    fn begin_dhcp(
        &mut self,
        stack: &mut Stack,
        name: &str,
        learn_routes: bool,
    ) -> Result<(), String> {
        // A new client must not draw the same random numbers as one that ended.
        self.serial += 1;
        let [a, b] = stack.derived_secret(PURPOSE + (self.serial << 8));
        let port = self.port_mut(name)?;
        let mtu = stack.device(port.id).map_or(0, |device| device.limits().mtu.bytes());
        let mtu_max = u16::try_from(mtu).unwrap_or(u16::MAX);
        let usual = dhcp::Config::new(port.mac, KeyedHash::new(a, b));
        let config = dhcp::Config { mtu_max, learn_routes, ..usual };
        let client = DhcpPort::new(stack, port.id, config, stack.now());
        port.dhcp = Some(client.map_err(|why| why.to_string())?);
        Ok(())
    }

    /// Let the DHCP clients read and send; `say` is called with each change. Returns when to call
    /// again.
    pub(super) fn turn_dhcp(
        &mut self,
        stack: &mut Stack,
        mut say: impl FnMut(&str, &dyn Display),
    ) -> Instant {
        let (now, mut next) = (stack.now(), Instant::NEVER);
        for (name, port) in &mut self.ports {
            if let Some(client) = &mut port.dhcp {
                while let Some(change) = client.poll(stack, now) {
                    say(name, &change);
                }
                // Nothing wakes us for an answer: while one is expected, look for it.
                let is_asking = client.client().state() != dhcp::State::Bound;
                let soon = if is_asking { now + ANSWER } else { Instant::NEVER };
                next = next.min(client.deadline()).min(soon);
                stack.flush();
            }
            if let Some(managed) = &mut port.managed {
                loop {
                    match managed.poll(stack, now) {
                        Ok(Some(change)) => say(name, &change),
                        Ok(None) => break,
                        Err(why) => say(name, &format_args!("no DHCPv6: {why}")),
                    }
                }
                let soon = if managed.is_complete() { Instant::NEVER } else { now + ANSWER };
                next = next.min(managed.deadline()).min(soon);
                stack.flush();
            }
        }
        next
    }
}

impl AppliedPort {
    /// Give back the lease of a DHCPv6 client; the server is told once.
    pub(super) fn stop_managed(&mut self, stack: &mut Stack) {
        if let Some(mut client) = self.managed.take().and_then(Managed::into_client) {
            client.release(stack.now());
            while client.poll(stack, stack.now()).is_some() {}
            client.close(stack);
            stack.flush();
        }
    }

    /// Give back the lease of a DHCP client, if there is one.
    pub(super) fn stop_dhcp(&mut self, stack: &mut Stack) -> bool {
        let client = self.dhcp.take();
        let is_there = client.is_some();
        client.into_iter().for_each(|client| client.stop(stack, stack.now()));
        is_there
    }
}

fn missing(name: &str) -> String {
    format!("port '{name}' is not there: see why it was not added")
}
