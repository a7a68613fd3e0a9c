//! Compares the entries of a file with each other: names that are there twice, ports that are not
//! there, gateways on no network. Every message names the other place.
//!
//! Called by: `read.rs`, with a draft; what is valid becomes the configuration.

use core::net::IpAddr;
use core::num::NonZeroU8;
use std::collections::{BTreeMap, BTreeSet};

use base::{Cidr, IpVersion, Limit, Mtu};

use stack::route::{MAIN_TABLE, PATHS_MAX, TABLES_MAX};

use super::place::{At, Log};
use super::read::{Draft, NeighbourDraft, PortDraft, RouteDraft};
use super::section::unknown;
use super::{Asks, Config, Link, Neighbour, Port, RouteKey, RouteTo, policy, prefix};
use crate::accounts::Accounts;

/// Names of ports are shown in tables and metrics.
const NAME_MAX: usize = 32;

pub(super) fn config(draft: Draft, accounts: &mut Accounts, log: &mut Log<'_>) -> Config {
    let Draft { mut config, ports, routes, neighbours, gaps, groups, rules, control, user } = draft;
    config.ports = self::ports(&ports, &config, log);
    addresses(&ports, log);
    config.user = user.and_then(|user| self::user(&user, &config, accounts, log));
    config.groups = policy::check_groups(groups, accounts, log);
    policy::check_rules(&rules, &mut config, log);
    config.control = control.map(|control| policy::check_control(control, &config, log));
    self::routes(&routes, &mut config, log);
    let mut seen = BTreeMap::new();
    for neighbour in &neighbours {
        let key = (neighbour.port.value.clone(), neighbour.address.value);
        if let Some(value) = self::neighbour(neighbour, &config, log)
            && is_first(&mut seen, key.clone(), neighbour.address.at, "this neighbour", log)
        {
            config.neighbours.insert(key, value);
        }
    }
    let mut seen = BTreeMap::new();
    for (to, gap) in gaps {
        has_no_host_bits(&to, log);
        if config.shards > 1 {
            let what = "each shard would keep a gap of its own: remove it, or write shards = 1";
            log.note(to.at, what);
        }
        if is_first(&mut seen, prefix(to.value), to.at, "the gap of this network", log) {
            config.gaps.insert(prefix(to.value), gap);
        }
    }
    bound(&config, &ports, log);
    config
}

/// The number of the user that the process without privileges is to have.
fn user(
    name: &At<String>,
    config: &Config,
    accounts: &mut Accounts,
    log: &mut Log<'_>,
) -> Option<u32> {
    if !config.separate {
        let what = "user is of the process without privileges: remove it, or separate = false";
        log.note(name.at, what);
    }
    let uid = accounts.user(&name.value);
    if uid.is_none() {
        let name_is = &name.value;
        let what = format!("there is no user '{name_is}' on this machine: make it, or remove user");
        log.note(name.at, what);
    }
    uid
}

/// Note a key that is there a second time.
pub(super) fn is_first<K: Ord>(
    seen: &mut BTreeMap<K, usize>,
    key: K,
    at: usize,
    what: &str,
    log: &mut Log<'_>,
) -> bool {
    if let Some(&before) = seen.get(&key) {
        let line = log.line(before);
        log.note(at, format!("{what} is in line {line} already: remove one of them"));
        return false;
    }
    seen.insert(key, at);
    true
}

fn ports(drafts: &[PortDraft], config: &Config, log: &mut Log<'_>) -> BTreeMap<String, Port> {
    let (mut ports, mut names) = (BTreeMap::new(), BTreeMap::new());
    let (mut devices, mut vlans) = (BTreeMap::new(), BTreeMap::new());
    for draft in drafts {
        let At { value: name, at } = &draft.name;
        let is_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_char) {
            let what = "a port's name has 1 to 32 letters, digits, '-', '_' and '.'";
            log.note(*at, format!("'{name}' cannot be the name: {what}"));
        }
        if !is_first(&mut names, name.clone(), *at, &format!("the port '{name}'"), log) {
            continue;
        }
        if let Some(device) = &draft.device {
            let what = format!("the device {}", device.value);
            // An interface has one TAP, and one name in all kinds.
            is_first(&mut devices, device.value.name.clone(), device.at, &what, log);
        }
        if let (Some(parent), Some(vlan)) = (&draft.parent, &draft.vlan) {
            let what = format!("VLAN {} of '{}'", vlan.value, parent.value);
            is_first(&mut vlans, (parent.value.clone(), vlan.value), vlan.at, &what, log);
        }
        if let Some(port) = port(draft, drafts, config, log) {
            ports.insert(name.clone(), port);
        }
    }
    ports
}

fn port(draft: &PortDraft, all: &[PortDraft], config: &Config, log: &mut Log<'_>) -> Option<Port> {
    let link = match (&draft.device, &draft.parent, &draft.vlan) {
        (Some(device), None, None) => Link::Device(device.value.clone()),
        (Some(device), Some(_), _) | (Some(device), _, Some(_)) => {
            let what = "a port has a device, or a parent and a vlan: remove one of them";
            log.note(device.at, what);
            return None;
        }
        (None, Some(parent), Some(vlan)) => {
            self::parent(draft, parent, all, log);
            Link::Vlan { parent: parent.value.clone(), id: vlan.value as u16 }
        }
        // What is absent was noted.
        (None, Some(_), None) | (None, None, _) => return None,
    };
    if let (Link::Device(device), true) = (&link, config.separate)
        && device.kind == super::Kind::Xdp
    {
        let what = "an xdp device cannot be passed to a process without privileges yet: write \
                    separate = false under [privileges], or use packet:";
        log.note(draft.device.as_ref().map_or(draft.at, |d| d.at), what);
    }
    if let Some(mac) = draft.mac.as_ref().filter(|mac| mac.value.0.is_group()) {
        log.note(
            mac.at,
            "a port cannot have a group address: clear the lowest bit of its first byte",
        );
    }
    let is_tun = matches!(&link, Link::Device(device) if device.kind == super::Kind::Tun);
    if let (true, Some(mac)) = (is_tun, &draft.mac) {
        log.note(mac.at, "a TUN has no link address: remove mac");
    }
    for asks in draft.asks.iter().filter(|_| is_tun) {
        let what = "a TUN has no link addresses to ask by: give an address, as \"192.0.2.1/24\"";
        log.note(asks.at, what);
    }
    let mut addresses: BTreeMap<IpAddr, u8> = BTreeMap::new();
    for At { value: cidr, at } in &draft.addresses {
        host(*cidr, *at, log);
        addresses.insert(cidr.addr, cidr.prefix_len);
    }
    let most = config.limits.get(Limit::Addresses.name()).copied();
    let most = most.unwrap_or_else(|| Limit::Addresses.default_value());
    if addresses.len() > most {
        let what = format!("the port has more than {most} addresses: raise limit addresses");
        log.note(draft.at, what);
    }
    if let Some(mtu) = &draft.mtu {
        let has_v6 = addresses.keys().any(IpAddr::is_ipv6)
            || draft.asks.iter().any(|asks| asks.value == Asks::Auto);
        if has_v6 && mtu.value < Mtu::MIN_V6 {
            log.note(mtu.at, "a port with IPv6 addresses carries 1280 bytes at least: raise mtu");
        }
    }
    Some(Port {
        link,
        mac: draft.mac.as_ref().map(|mac| mac.value.0),
        mtu: draft.mtu.as_ref().map(|mtu| mtu.value),
        addresses,
        asks: draft.asks.iter().map(|asks| asks.value).collect(),
        learn_routes: draft.learn_routes.unwrap_or(!config.forwarding),
        mitigation: draft.mitigation,
        source_check: draft.source_check,
    })
}

/// A VLAN's parent has to be a port with a device of Ethernet frames.
fn parent(draft: &PortDraft, parent: &At<String>, all: &[PortDraft], log: &mut Log<'_>) {
    let At { value: name, at } = parent;
    let Some(of) = all.iter().find(|other| other.name.value == *name) else {
        let names: Vec<&str> = all.iter().map(|other| other.name.value.as_str()).collect();
        return log.note(*at, unknown("port", name, &names));
    };
    if of.parent.is_some() {
        let what = format!("'{name}' is a VLAN itself: give the port that has the device");
        return log.note(*at, what);
    }
    if of.device.as_ref().is_some_and(|device| device.value.kind == super::Kind::Tun) {
        log.note(*at, format!("'{name}' carries no Ethernet frames: use tap: instead of tun:"));
    }
    if let (Some(mtu), Some(below)) = (&draft.mtu, &of.mtu)
        && mtu.value > below.value
    {
        let what = format!("'{name}' carries {} bytes: give {0} or less", below.value.bytes());
        log.note(mtu.at, what);
    }
}

/// Can a host have the address?
fn host(cidr: Cidr, at: usize, log: &mut Log<'_>) {
    let addr = cidr.addr;
    let is_this_network = matches!(addr, IpAddr::V4(v4) if v4.octets()[0] == 0);
    let is_group = addr.is_multicast()
        || addr.is_unspecified()
        || addr.is_loopback()
        || is_this_network
        || addr == IpAddr::V4(core::net::Ipv4Addr::BROADCAST);
    let is_edge = match addr {
        IpAddr::V4(v4) if cidr.prefix_len < 31 => {
            let mask = u32::MAX.checked_shr(u32::from(cidr.prefix_len)).unwrap_or(0);
            matches!(u32::from(v4) & mask, 0) || u32::from(v4) & mask == mask
        }
        _ => false,
    };
    if is_group || is_edge {
        let what = "no host can have it (it is a network's, a broadcast, multicast, loopback or \
                    of 0.0.0.0/8)";
        log.note(at, format!("{cidr}: {what}; give an address of a host"));
    }
}

/// An address is ours once, and no network is on two ports.
fn addresses(drafts: &[PortDraft], log: &mut Log<'_>) {
    let mut seen: BTreeMap<IpAddr, usize> = BTreeMap::new();
    let mut networks: BTreeMap<super::Prefix, (usize, &str)> = BTreeMap::new();
    for draft in drafts {
        for At { value: cidr, at } in &draft.addresses {
            // A link-local address is of its link alone.
            let is_local = matches!(cidr.addr, IpAddr::V6(a) if a.is_unicast_link_local());
            let what = format!("the address {}", cidr.addr);
            if is_local || !is_first(&mut seen, cidr.addr, *at, &what, log) {
                continue;
            }
            let name = draft.name.value.as_str();
            match networks.get(&prefix(*cidr)) {
                Some((before, other)) if *other != name => {
                    let what = format!(
                        "{} is the network of port '{other}' (line {}) too: hosts of it would be \
                         looked for on one of them alone; give another network",
                        cidr.network(),
                        log.line(*before)
                    );
                    log.note(*at, what);
                }
                _ => drop(networks.insert(prefix(*cidr), (*at, name))),
            }
        }
    }
}

pub(super) fn has_no_host_bits(to: &At<Cidr>, log: &mut Log<'_>) {
    if to.value.network() != to.value {
        let network = to.value.network();
        log.note(to.at, format!("{} is an address, no network: write {network}", to.value));
    }
}

/// Several routes to a network share its packets (ECMP), by weight.
fn routes(drafts: &[RouteDraft], config: &mut Config, log: &mut Log<'_>) {
    let (mut seen, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for draft in drafts {
        if let Some(key) = self::route(draft, config, log)
            && is_first(&mut seen, key.clone(), draft.to.at, "this route", log)
        {
            let count: &mut usize = counts.entry((key.to, key.table)).or_default();
            *count += 1;
            if *count == PATHS_MAX + 1 {
                let what = format!("more than {PATHS_MAX} routes lead to this network");
                log.note(draft.to.at, format!("{what}: remove some"));
            }
            let users = policy::check_users(&draft.users, config, log);
            let RouteDraft { mtu, weight, metric, no_forward, .. } = *draft;
            config.routes.insert(key, RouteTo { mtu, weight, metric, users, no_forward });
        }
    }
    for (key, to) in &mut config.routes {
        let is_shared = counts.get(&(key.to, key.table)).is_some_and(|&count| count > 1);
        to.weight = is_shared.then(|| to.weight.unwrap_or(NonZeroU8::MIN));
    }
}

fn route(draft: &RouteDraft, config: &Config, log: &mut Log<'_>) -> Option<RouteKey> {
    has_no_host_bits(&draft.to, log);
    if !stack::is_destination(draft.to.value) {
        let what = "packets to it never leave a host: remove the route";
        log.note(draft.to.at, format!("{}: {what}", draft.to.value));
    }
    let port = match (&draft.port, &draft.via) {
        (Some(port), _) => known(port, config, log)?.to_owned(),
        (None, Some(via)) => towards(via, config, log)?,
        (None, None) => {
            log.note(draft.to.at, "the route leads nowhere: add via = \"GATEWAY\", port or both");
            return None;
        }
    };
    if let Some(via) = &draft.via {
        gateway(draft, via, &port, config, log);
    }
    let own = &config.ports.get(&port)?.addresses;
    let is_own = |(&addr, &prefix_len): (&IpAddr, &u8)| {
        prefix(Cidr { addr, prefix_len }) == prefix(draft.to.value)
    };
    if draft.table == MAIN_TABLE && own.iter().any(is_own) {
        let what = format!("'{port}' has an address in this network: remove the route");
        log.note(draft.to.at, what);
    }
    let via = draft.via.as_ref().map(|via| via.value);
    Some(RouteKey { to: prefix(draft.to.value), port, via, table: draft.table })
}

/// The name of a port that has to be there.
pub(super) fn known<'a>(
    name: &At<String>,
    config: &'a Config,
    log: &mut Log<'_>,
) -> Option<&'a str> {
    let found = config.ports.get_key_value(&name.value);
    if found.is_none() {
        let names: Vec<&str> = config.ports.keys().map(String::as_str).collect();
        log.note(name.at, unknown("port", &name.value, &names));
    }
    found.map(|(name, _)| name.as_str())
}

/// The ports that have a network with `addr`.
fn networks_of(addr: IpAddr, port: &Port) -> bool {
    let of = |(&own, &prefix_len): (&IpAddr, &u8)| Cidr { addr: own, prefix_len }.contains(addr);
    port.addresses.iter().any(of)
}

/// The port of a gateway, by its address.
fn towards(via: &At<IpAddr>, config: &Config, log: &mut Log<'_>) -> Option<String> {
    let on = config.ports.iter().filter(|(_, port)| networks_of(via.value, port));
    let names: Vec<&String> = on.map(|(name, _)| name).collect();
    match names.as_slice() {
        [name] => Some((*name).clone()),
        [] => {
            let what =
                "is on no network of ours: give the port too, or a port an address beside it";
            log.note(via.at, format!("gateway {} {what}", via.value));
            None
        }
        _ => {
            log.note(via.at, format!("gateway {} may be by several ports: add port", via.value));
            None
        }
    }
}

/// A gateway is a neighbour on its port.
fn gateway(draft: &RouteDraft, via: &At<IpAddr>, name: &str, config: &Config, log: &mut Log<'_>) {
    let Some(port) = config.ports.get(name) else { return };
    if IpVersion::of(&via.value) != IpVersion::of(&draft.to.value.addr) {
        let what = "the gateway and the destination are of different versions of IP";
        return log.note(via.at, format!("{what}: give a gateway of the destination's"));
    }
    if config.ports.values().any(|port| port.addresses.contains_key(&via.value)) {
        let what = format!("gateway {} is an address of ours: give the other router's", via.value);
        return log.note(via.at, what);
    }
    let is_local = matches!(via.value, IpAddr::V6(a) if a.is_unicast_link_local());
    let asks = if via.value.is_ipv6() { Asks::Auto } else { Asks::Dhcp };
    if !is_local && !port.asks.contains(&asks) && !networks_of(via.value, port) {
        let what = format!("gateway {} is on no network of port '{name}'", via.value);
        log.note(via.at, format!("{what}: give '{name}' an address beside it, or another port"));
    }
}

fn neighbour(draft: &NeighbourDraft, config: &Config, log: &mut Log<'_>) -> Option<Neighbour> {
    known(&draft.port, config, log)?;
    let At { value: addr, at } = draft.address;
    if config.ports.values().any(|port| port.addresses.contains_key(&addr)) {
        log.note(at, format!("{addr} is an address of ours: give a neighbour's"));
    }
    if let Some(mac) = draft.mac.as_ref().filter(|mac| mac.value.0.is_group()) {
        log.note(mac.at, "a neighbour cannot have a group address: give its own");
    }
    if let Some(mtu) = draft.mtu.as_ref().filter(|mtu| addr.is_ipv6() && mtu.value < Mtu::MIN_V6) {
        log.note(mtu.at, "every IPv6 link carries 1280 bytes (RFC 8200 section 5): raise mtu");
    }
    let mac = draft.mac.as_ref().map(|mac| mac.value.0);
    Some(Neighbour { mac, mtu: draft.mtu.as_ref().map(|mtu| mtu.value) })
}

/// The tables have room for the file.
fn bound(config: &Config, ports: &[PortDraft], log: &mut Log<'_>) {
    let counts = [
        (Limit::BurstGaps, config.gaps.len(), "gaps"),
        (Limit::Routes, config.routes.len(), "routes"),
        (Limit::Rules, config.rules.len(), "rules"),
        (
            Limit::NeighbourMtus,
            config.neighbours.values().filter(|n| n.mtu.is_some()).count(),
            "neighbours with an MTU",
        ),
    ];
    for (limit, count, what) in counts {
        let most = config.limits.get(limit.name()).copied().unwrap_or(limit.default_value());
        if count > most {
            let name = limit.name();
            log.note(0, format!("there are {count} {what}: raise {name} under [limits]"));
        }
    }
    let tables: BTreeSet<u32> = config.routes.keys().map(|key| key.table).collect();
    if tables.len() >= TABLES_MAX {
        log.note(0, format!("routes are in more than {} tables: use fewer", TABLES_MAX - 1));
    }
    if ports.len() > usize::from(u16::MAX) {
        log.note(0, "there are more than 65535 ports: remove some");
    }
}
