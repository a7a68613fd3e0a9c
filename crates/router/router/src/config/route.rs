//! `[[route]]`: its keys, the errors in them, the words of the log, and how a route takes effect.
//!
//! Called by: `config.rs`, and `plan.rs` when a route changes. Several routes to a network share
//! its packets (ECMP), by weight; a single route has no weight. docs/decisions/0080, 0084.

use core::fmt;
use core::net::IpAddr;
use core::num::NonZeroU8;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Cidr, Mtu};
use stack::route::{Access, Discard, GROUPS_MAX, MAIN_TABLE, PATHS_MAX, Route};

use super::file::{At, Once, Section};
use super::group::{self, Groups};
use super::port::{self, Asks, Port};
use super::setting::{Change, Prefix, Stacks, cidr, first, prefix};
use super::vrf::Vrfs;
use crate::applied::ports::State;

/// The fields that identify a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// The destination.
    pub to: Prefix,
    /// The port to send on; `None`: the route drops its packets.
    pub port: Option<String>,
    /// The gateway; `None`: the destination is on the link.
    pub via: Option<IpAddr>,
    /// The table that it is in.
    pub table: u32,
}

/// The rest of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTo {
    /// The largest packet to send by it.
    pub mtu: Option<Mtu>,
    /// Its part of the packets, if others lead to the network too (ECMP); else `None`.
    pub weight: Option<NonZeroU8>,
    /// The users that it is for; `None`: everybody.
    pub users: Option<For>,
    /// Forwarded packets skip it.
    pub no_forward: bool,
    /// Among the routes to one network those with the lowest metric are used; the others are used
    /// while the links of all of these are down.
    pub metric: u32,
    /// How it drops its packets, if it does.
    pub discard: Option<Discard>,
}

/// The users that a route is for, by names of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// Members of one of them, and nobody else.
    Include(BTreeSet<String>),
    /// All but members of one of them.
    Exclude(BTreeSet<String>),
}

type Ports = BTreeMap<String, Port>;

/// `[[route]]`.
pub(super) fn read(
    file: &Section<'_>,
    ports: &Ports,
    groups: &Groups,
    vrfs: &Vrfs,
) -> BTreeMap<RouteKey, RouteTo> {
    let mut routes = BTreeMap::new();
    let (mut once, mut counts) = (Once::default(), BTreeMap::new());
    for section in file.many("route", "[[route]]") {
        let (key, to) = (key(&section, ports, vrfs), to(&section, groups));
        let Some(key) = key else { continue };
        if !once.is_first(key.clone(), section.at("to"), "this route", section.log) {
            continue;
        }
        if to.discard.is_some() {
            routes.insert(key, to);
            continue;
        }
        let count: &mut usize = counts.entry((key.to, key.table)).or_default();
        *count += 1;
        if *count == PATHS_MAX + 1 {
            let what = format!("more than {PATHS_MAX} routes lead to this network: remove some");
            section.note("to", what);
        }
        routes.insert(key, to);
    }
    for (key, to) in &mut routes {
        let is_shared =
            key.port.is_some() && counts.get(&(key.to, key.table)).is_some_and(|&count| count > 1);
        to.weight = is_shared.then(|| to.weight.unwrap_or(NonZeroU8::MIN));
    }
    routes
}

/// The key of a route.
fn key(section: &Section<'_>, ports: &Ports, vrfs: &Vrfs) -> Option<RouteKey> {
    section.needed("to", "\"0.0.0.0/0\"");
    let to = section.network("to", "198.51.100.0/24");
    let port = port::named(section, "port", ports);
    let via = section.parsed("via", "192.0.2.254");
    let said = table(section).or_else(|| vrfs.table(section));
    if section.has("table") && section.has("vrf") {
        section.note("vrf", "a route is in one table: remove table or vrf");
    }
    let to = to?;
    if !stack::is_destination(to) {
        section.note("to", format!("{to}: packets to it never leave a host: remove the route"));
    }
    if section.has("type") {
        section.word("type", &Discard::ALL);
        for key in ["port", "via", "weight", "mtu"].into_iter().filter(|key| section.has(key)) {
            section
                .note(key, "a route that drops its packets has no next hop: remove this or type");
        }
        let table = said.unwrap_or(MAIN_TABLE);
        return Some(RouteKey { to: prefix(to), port: None, via: None, table });
    }
    let port = match (port, via) {
        (None, _) if section.has("port") => return None,
        (Some(port), _) => port,
        (None, Some(via)) => towards(via, said, section, ports)?,
        (None, None) => {
            let what = "the route leads nowhere: add via = \"GATEWAY\", port or both";
            section.note("to", what);
            return None;
        }
    };
    if let Some(via) = via {
        gateway(to, via, &port, section, ports);
    }
    let of_port = ports.get(&port)?;
    // A route is in the VRF of its port unless it says that it is a leak.
    let table = said.unwrap_or_else(|| of_port.table());
    let mut own = of_port.addresses.iter();
    let is_own =
        |(&addr, &prefix_len): (&IpAddr, &u8)| prefix(Cidr { addr, prefix_len }) == prefix(to);
    if table == of_port.table() && own.any(is_own) {
        let what = format!("'{port}' has an address in this network: remove the route");
        section.note("to", what);
    }
    Some(RouteKey { to: prefix(to), port: Some(port), via, table })
}

/// The rest.
fn to(section: &Section<'_>, groups: &Groups) -> RouteTo {
    let weight = section.number("weight", 1..=usize::from(u8::MAX));
    RouteTo {
        mtu: section.mtu(),
        weight: weight.and_then(NonZeroU8::new),
        metric: section.number("metric", 0..=u32::MAX as usize).unwrap_or(0),
        users: users(section, groups),
        no_forward: section.flag("no_forward").unwrap_or(false),
        discard: section.word("type", &Discard::ALL),
    }
}

/// The table of a route or a rule.
pub(super) fn table(section: &Section<'_>) -> Option<u32> {
    match section.get("table")?.get_ref().as_str() {
        Some("main") => Some(MAIN_TABLE),
        _ => section.number("table", 1..=u32::MAX as usize),
    }
}

/// `include` and `exclude`.
fn users(section: &Section<'_>, groups: &Groups) -> Option<For> {
    let [include, exclude] = ["include", "exclude"].map(|key| (key, section.texts(key)));
    let checked = |(key, names): (&str, Vec<At<&str>>)| -> BTreeSet<String> {
        if names.len() > GROUPS_MAX {
            let what = format!("a route names {GROUPS_MAX} groups at most");
            section.note(key, format!("{what}: make one of several under [groups]"));
        }
        names.into_iter().filter_map(|name| group::named(name, groups, section.log)).collect()
    };
    match (section.has("include"), section.has("exclude")) {
        (false, false) => None,
        (true, false) => Some(For::Include(checked(include))),
        (false, true) => Some(For::Exclude(checked(exclude))),
        (true, true) => {
            let what = "a route includes groups or excludes some: remove one of the lists";
            section.note("exclude", what);
            None
        }
    }
}

/// Find the port of a gateway by its address.
fn towards(
    via: IpAddr,
    table: Option<u32>,
    section: &Section<'_>,
    ports: &Ports,
) -> Option<String> {
    let on = ports.iter().filter(|(_, port)| port.has_network_of(via));
    let all: Vec<_> = on.collect();
    // Of several VRFs with this network, the one whose table the route names.
    let of_table = all.iter().filter(|(_, port)| table.is_some_and(|table| table == port.table()));
    let of_table: Vec<_> = of_table.copied().collect();
    let on = if of_table.is_empty() { all } else { of_table }.into_iter();
    let names: Vec<&String> = on.map(|(name, _)| name).collect();
    match names.as_slice() {
        [name] => return Some((*name).clone()),
        [] => {
            let what =
                "is on no network of ours: give the port, or a port an address in its network";
            section.note("via", format!("gateway {via} {what}"));
        }
        _ => section.note("via", format!("gateway {via} fits several ports: add port")),
    }
    None
}

/// Check that a gateway is a neighbour on its port.
fn gateway(to: Cidr, via: IpAddr, name: &str, section: &Section<'_>, ports: &Ports) {
    let Some(port) = ports.get(name) else { return };
    // An IPv4 route may have an IPv6 gateway: RFC 8950.
    if via.is_ipv4() && to.addr.is_ipv6() {
        let what = "an IPv6 route cannot have an IPv4 gateway";
        return section.note("via", format!("{what}: give the gateway's IPv6 address"));
    }
    let mut there = ports.values().filter(|other| other.vrf == port.vrf);
    if there.any(|port| port.addresses.contains_key(&via)) {
        let what = format!("gateway {via} is an address of ours: give the other router's");
        return section.note("via", what);
    }
    let is_by_v6 = via.is_ipv6() && to.addr.is_ipv4();
    let has_v6 = port.addresses.keys().any(IpAddr::is_ipv6) || port.asks.contains_key(&Asks::Auto);
    if is_by_v6 && !has_v6 {
        let what = "neighbour discovery finds this gateway, from an IPv6 address";
        let instead = format!("give port '{name}' one, as \"fe80::1/64\"");
        return section.note("via", format!("{what}: {instead}"));
    }
    let is_local = matches!(via, IpAddr::V6(a) if a.is_unicast_link_local());
    let asks = if via.is_ipv6() { Asks::Auto } else { Asks::Dhcp };
    if !is_local && !port.asks.contains_key(&asks) && !port.has_network_of(via) {
        let what = format!("gateway {via} is on no network of port '{name}'");
        let instead = format!("give '{name}' an address in its network, or name another port");
        section.note("via", format!("{what}: {instead}"));
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route to {}", cidr(self.to))?;
        self.port.as_ref().map_or(Ok(()), |port| write!(f, " by port {port}"))?;
        self.via.map_or(Ok(()), |via| write!(f, " via {via}"))?;
        if self.table == MAIN_TABLE { Ok(()) } else { write!(f, " table {}", self.table) }
    }
}

/// Printed: each part with a space in front.
impl fmt::Display for RouteTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.discard.map_or(Ok(()), |how| write!(f, " type {}", how.name()))?;
        self.weight.map_or(Ok(()), |weight| write!(f, " weight {weight}"))?;
        if self.metric != 0 {
            write!(f, " metric {}", self.metric)?;
        }
        self.users.as_ref().map_or(Ok(()), |users| write!(f, " {users}"))?;
        if self.no_forward {
            write!(f, " no_forward")?;
        }
        self.mtu.map_or(Ok(()), |mtu| write!(f, " mtu {}", mtu.bytes()))
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

/// The words of the log for a route.
pub(crate) fn words(key: &RouteKey, now: Option<&RouteTo>) -> String {
    now.map_or_else(|| format!("{key}: removed"), |to| format!("{key}{to}"))
}

/// Set or remove a route in the first shard, whose routes all shards use.
pub(crate) fn carry_out(
    key: &RouteKey,
    change: &Change<RouteTo>,
    state: &State,
    stacks: Stacks<'_, '_>,
) -> Result<(), String> {
    let stack = first(stacks);
    match &change.now {
        Some(to) => {
            let is_added = stack.add_route(route(key, to, state)?);
            is_added.then_some(()).ok_or_else(|| "the table is full: raise limit routes".to_owned())
        }
        None => {
            stack.remove_one_route(&route(key, &RouteTo::default(), state)?);
            Ok(())
        }
    }
}

fn route(key: &RouteKey, to: &RouteTo, state: &State) -> Result<Route, String> {
    let numbers = |names: &BTreeSet<String>| -> Result<Arc<[u32]>, String> {
        names.iter().map(|name| state.group(name)).collect()
    };
    let access = match &to.users {
        None => None,
        Some(For::Include(names)) => Some(Arc::new(Access::Include(numbers(names)?))),
        Some(For::Exclude(names)) => Some(Arc::new(Access::Exclude(numbers(names)?))),
    };
    let route = match &key.port {
        Some(port) => Route::new(cidr(key.to), key.via, state.port(port)?.id.0),
        None => Route::discarding(cidr(key.to), to.discard.unwrap_or(Discard::Blackhole)),
    };
    Ok(Route {
        mtu: to.mtu,
        weight: to.weight,
        metric: to.metric,
        table: key.table,
        access,
        no_forward: to.no_forward,
        ..route
    })
}
