//! Checks the changes that clients of the control socket ask for, and carries them out.
//!
//! Called by: `answer.rs`, on the thread that owns the stack. `service.rs` has checked who the
//! client is. Error texts begin with the kernel's text for the error, as `ip` prints it. Limits:
//! `routes`, `neighbours`, `addresses`, [`CHANGES_MAX`].

use core::net::IpAddr;
use core::num::NonZeroU8;

use std::sync::Arc;

use base::{Cidr, Duration, Instant, LinkKind, MacAddr, Mtu, Owner};
use control::Users;
use stack::route::{Access, Discard, GROUPS_MAX, PATHS_MAX};
use stack::{
    Address, AddressError, AddressState, FibQuery, FibResult, PortId, Route, Stack, Vrf,
    is_destination,
};

use super::rules;
use control::protocol::{
    Answer, CHANGES_MAX, Change, Changed, Hop, Object, Refusal, RouteSpec, Verb,
};

type Done = Result<(), (Refusal, String)>;

/// Carry out changes, on the thread that owns the stack. The first change that fails ends the
/// request.
pub(super) fn answer(stack: &mut Stack, users: &Users, changes: &[Change]) -> Answer {
    if changes.len() > CHANGES_MAX {
        let why = format!("{} changes at a time: at most {CHANGES_MAX} are allowed", changes.len());
        return Answer::refusal(Refusal::Wrong, why);
    }
    for change in changes {
        let done = match &change.of {
            Object::Route(spec) => route(stack, users, change.verb, spec),
            Object::Rule(spec) => rules::change(stack, users, change.verb, spec),
            Object::Neighbour { port, ip, mac } => {
                neighbour(stack, change.verb, (PortId(*port), *ip), mac.as_deref())
            }
            Object::Address { port, cidr, valid_s, preferred_s, nodad } => {
                let lifetimes = (*valid_s, *preferred_s);
                address(stack, change.verb, PortId(*port), cidr, lifetimes, *nodad)
            }
        };
        if let Err((kind, why)) = done {
            return Answer::refusal(kind, why);
        }
    }
    stack.flush();
    Answer::of(Changed { done: changes.len() })
}

fn invalid<T>(why: String) -> Result<T, (Refusal, String)> {
    Err((Refusal::Wrong, why))
}

fn port_of(stack: &Stack, port: PortId) -> Result<PortId, (Refusal, String)> {
    if stack.device(port).is_some() {
        return Ok(port);
    }
    let why = "Cannot find device: the port does not exist any more; see `wirespeed ip link`";
    Err((Refusal::Missing, why.to_owned()))
}

fn cidr_of(text: &str) -> Result<Cidr, (Refusal, String)> {
    text.parse::<Cidr>().or_else(|why| invalid(format!("Invalid argument: {why}")))
}

/// The destination of a route that could exist.
fn destination_of(spec: &RouteSpec) -> Result<Cidr, (Refusal, String)> {
    let dest = cidr_of(&spec.to)?;
    if dest.network() != dest {
        let network = dest.network();
        return invalid(format!("Invalid prefix for given prefix length: write {network}"));
    }
    if spec.hops.len() > PATHS_MAX || spec.table == 0 {
        return invalid(format!(
            "Invalid argument: a route has at most {PATHS_MAX} next hops, and table 0 does not \
             exist"
        ));
    }
    Ok(dest)
}

fn route(stack: &mut Stack, users: &Users, verb: Verb, spec: &RouteSpec) -> Done {
    let dest = destination_of(spec)?;
    if verb == Verb::Del {
        return delete(stack, dest, spec);
    }
    if !is_destination(dest) {
        return invalid(format!(
            "Invalid argument: packets to {dest} never leave a host; give another network"
        ));
    }
    let metric = spec.metric.unwrap_or(0);
    let access = access(users, spec)?;
    let mut new = routes_of(stack, dest, spec, metric)?;
    for route in &mut new {
        (route.access, route.no_forward) = (access.clone(), spec.no_forward);
    }
    let of_users = |route: &&Route| !route.origin.is_of_daemon();
    let there: Vec<Route> =
        stack.routes_to(dest, spec.table).iter().filter(of_users).cloned().collect();
    let is_there = there.iter().any(|r| r.metric == metric);
    match verb {
        Verb::Add if is_there => {
            let why = format!(
                "File exists: there is a route to {dest} with metric {metric}; change it with `ip \
                 route replace`"
            );
            return Err((Refusal::Exists, why));
        }
        Verb::Change if !is_there => {
            let why = format!(
                "No such file or directory: there is no route to {dest} with metric {metric}; add \
                 it with `ip route add`"
            );
            return Err((Refusal::Missing, why));
        }
        _ => {}
    }
    let is_like = |a: &Route, b: &Route| {
        a.port == b.port && (a.weight.is_none() && b.weight.is_none() || a.via == b.via)
    };
    let other = |old: &&Route| old.metric != metric && new.iter().any(|new| is_like(old, new));
    if let Some(old) = there.iter().find(other) {
        let why = format!(
            "File exists: the stack keeps one route to {dest} over each port, and has one with \
             metric {}; delete that route first",
            old.metric
        );
        return Err((Refusal::Exists, why));
    }
    let old: Vec<Route> = there.iter().filter(|r| r.metric == metric).cloned().collect();
    for (index, route) in new.iter().enumerate() {
        if !stack.add_route(route.clone()) {
            let added = &new[..index];
            let is_added = |r: &Route| added.contains(r) && !old.contains(r);
            stack.remove_routes_to(dest, spec.table, is_added);
            let why = "No buffer space available: there are as many routes as the limit `routes`, \
                       or as many tables as there can be; delete some, or raise the limit";
            return Err((Refusal::Full, why.to_owned()));
        }
    }
    stack.remove_routes_to(dest, spec.table, |r| old.contains(r) && !new.contains(r));
    Ok(())
}

/// The groups of users that the route includes or excludes.
fn access(users: &Users, spec: &RouteSpec) -> Result<Option<Arc<Access>>, (Refusal, String)> {
    let numbers = |names: &[String]| -> Result<Arc<[u32]>, (Refusal, String)> {
        if names.len() > GROUPS_MAX {
            return invalid(format!("Invalid argument: a route names at most {GROUPS_MAX} groups"));
        }
        names.iter().map(|name| rules::number(name, users)).collect()
    };
    Ok(match (&spec.include, &spec.exclude) {
        (None, None) => None,
        (Some(names), None) => Some(Arc::new(Access::Include(numbers(names)?))),
        (None, Some(names)) => Some(Arc::new(Access::Exclude(numbers(names)?))),
        (Some(_), Some(_)) => {
            return invalid(
                "Invalid argument: a route either includes or excludes groups".to_owned(),
            );
        }
    })
}

/// The routes to add, one for each next hop.
fn routes_of(
    stack: &Stack,
    dest: Cidr,
    spec: &RouteSpec,
    metric: u32,
) -> Result<Vec<Route>, (Refusal, String)> {
    let mtu = match spec.mtu.map(Mtu::new) {
        Some(None) => return invalid("Invalid argument: an MTU is 68 to 65535".to_owned()),
        Some(mtu) => mtu,
        None => None,
    };
    if dest.addr.is_ipv6() && mtu.is_some_and(|mtu| mtu < Mtu::MIN_V6) {
        return invalid("Invalid argument: an IPv6 route carries 1280 bytes or more".to_owned());
    }
    if let Some(name) = &spec.discard {
        let Some(how) = Discard::of_name(name) else {
            return invalid(format!("Invalid argument: there are no routes of type {name}"));
        };
        if !spec.hops.is_empty() {
            return invalid(format!(
                "Invalid argument: a route of type {name} has no next hop: leave via and dev out"
            ));
        }
        return Ok(vec![Route { table: spec.table, metric, ..Route::discarding(dest, how) }]);
    }
    if spec.hops.is_empty() {
        return invalid("No such device: give a next hop, by via or dev".to_owned());
    }
    let is_shared = spec.hops.len() > 1;
    let one = |hop: &Hop| {
        let port = leads_to(stack, (dest, spec.table), hop, spec.onlink)?;
        let route = Route { table: spec.table, mtu, metric, ..Route::new(dest, hop.via, port.0) };
        let weight = hop.weight.and_then(NonZeroU8::new);
        Ok(match weight.or(is_shared.then_some(NonZeroU8::MIN)) {
            Some(weight) => route.shared(weight),
            None => route,
        })
    };
    spec.hops.iter().map(one).collect()
}

/// Can a port find the link addresses of IPv6 neighbours, if its link has such addresses?
fn finds_v6(stack: &Stack, port: PortId) -> bool {
    let has_none = stack.device(port).is_some_and(|device| device.limits().link == LinkKind::Ip);
    has_none || stack.addresses(port).iter().any(|address| address.ip().is_ipv6())
}

/// The VRF with this table; none if no port belongs to it, because then rules alone lead there.
fn vrf_of(stack: &Stack, table: u32) -> Vrf {
    let is_of_port = |vrf: &Vrf| stack.port_ids().into_iter().any(|id| stack.vrf(id) == *vrf);
    Vrf::of_table(table).filter(is_of_port).unwrap_or_default()
}

/// The port of a next hop of a route in `table`: the named port, or else the port with the
/// gateway's network, in the VRF with that table.
fn leads_to(
    stack: &Stack,
    (dest, table): (Cidr, u32),
    hop: &Hop,
    onlink: bool,
) -> Result<PortId, (Refusal, String)> {
    let named = hop.port.map(|port| port_of(stack, PortId(port))).transpose()?;
    let Some(via) = hop.via else {
        let none = "No such device: give a next hop, by via or dev".to_owned();
        return named.ok_or((Refusal::Wrong, none));
    };
    // An IPv4 route may have an IPv6 gateway: RFC 8950.
    let is_v6_by_v4 = via.is_ipv4() && dest.addr.is_ipv6();
    if is_v6_by_v4 || via.is_multicast() || via.is_unspecified() {
        return invalid(format!(
            "Nexthop has invalid gateway: {via} is no host address that packets to {dest} can go \
             by: give a host's, of the same IP version, or an IPv6 address for an IPv4 route"
        ));
    }
    if let Some(port) = named {
        let is_by_v6 = via.is_ipv6() && dest.addr.is_ipv4();
        if is_by_v6 && !finds_v6(stack, port) {
            return invalid(format!(
                "Nexthop has invalid gateway: this port has no IPv6 address from which neighbour \
                 discovery could find {via}; add one with `ip addr`"
            ));
        }
        if onlink || stack.is_on_link(port, via) {
            return Ok(port);
        }
        return invalid(format!(
            "Nexthop has invalid gateway: {via} is in no network of this port; add an address of \
             its network, or say onlink"
        ));
    }
    let query = FibQuery {
        dst: via,
        src: None,
        output: None,
        input: None,
        owner: Owner::program(),
        mark: 0,
        vrf: vrf_of(stack, table),
    };
    match stack.fib_lookup(&query) {
        FibResult::Leaves(found) if found.hop.neighbour == via => Ok(PortId(found.hop.port)),
        _ => invalid(format!(
            "Nexthop has invalid gateway: {via} is in no network of a port; name the port with \
             dev, and add onlink"
        )),
    }
}

/// The type of a route that drops its packets, or nothing.
fn discard_name(route: &Route) -> &'static str {
    route.discard.map_or("", Discard::name)
}

/// Delete the first route that matches, or all routes that share its packets if no next hop is
/// named.
fn delete(stack: &mut Stack, dest: Cidr, spec: &RouteSpec) -> Done {
    let is_hop = |r: &Route, hop: &Hop| {
        hop.via.is_none_or(|via| r.via == Some(via)) && hop.port.is_none_or(|port| r.port == port)
    };
    let matches = |r: &Route| {
        spec.metric.is_none_or(|metric| r.metric == metric)
            && spec.proto.as_deref().is_none_or(|proto| r.origin.name() == proto)
            && spec.discard.as_deref().is_none_or(|name| name == discard_name(r))
            && (spec.hops.is_empty() || spec.hops.iter().any(|hop| is_hop(r, hop)))
    };
    let routes = stack.routes_to(dest, spec.table);
    let mut there = routes.iter().filter(|r| matches(r));
    let of_users = there.clone().find(|r| !r.origin.is_of_daemon()).cloned();
    if let (None, Some(route)) = (&of_users, there.next()) {
        let why = format!(
            "Operation not permitted: a routing daemon owns the route to {dest} (proto {}): remove \
             it there, as by `vtysh`",
            route.origin.name()
        );
        return Err((Refusal::Wrong, why));
    }
    let Some(first) = of_users else {
        let why = format!(
            "No such process: there is no such route to {dest} in table {}; see `ip route`",
            spec.table
        );
        return Err((Refusal::Missing, why));
    };
    let of_group = |r: &Route| {
        !r.origin.is_of_daemon()
            && first.weight.is_some()
            && r.weight.is_some()
            && r.metric == first.metric
            && matches(r)
    };
    stack.remove_routes_to(dest, spec.table, |r| *r == first || of_group(r));
    Ok(())
}

fn neighbour(
    stack: &mut Stack,
    verb: Verb,
    (port, ip): (PortId, IpAddr),
    mac: Option<&str>,
) -> Done {
    let port = port_of(stack, port)?;
    let is_known = stack.neighbour_state(port, ip).is_some();
    let missing = |what: &str| {
        let why = format!("No such file or directory: {ip} is no neighbour of this port; {what}");
        Err((Refusal::Missing, why))
    };
    match verb {
        Verb::Del if stack.forget_neighbour(port, ip) => return Ok(()),
        Verb::Del => return missing("see `ip neigh`"),
        Verb::Change if !is_known => return missing("add it with `ip neigh add`"),
        Verb::Add if is_known => {
            let why = format!("File exists: {ip} is known; change it with `ip neigh replace`");
            return Err((Refusal::Exists, why));
        }
        _ => {}
    }
    if stack.device(port).is_some_and(|device| device.limits().link == LinkKind::Ip) {
        return invalid("Invalid argument: this port's link has no link addresses".to_owned());
    }
    let Some(mac) = mac.and_then(|mac| mac.parse::<MacAddr>().ok()).filter(|mac| !mac.is_group())
    else {
        return invalid("No link layer address given: give a host's with lladdr".to_owned());
    };
    if ip.is_multicast() || ip.is_unspecified() {
        return invalid(format!("Invalid argument: {ip} is not a host's address"));
    }
    if stack.add_neighbour(port, ip, mac) {
        return Ok(());
    }
    let why = "No buffer space available: there are as many neighbours as the limit `neighbours`; \
               delete some, or raise the limit";
    Err((Refusal::Full, why.to_owned()))
}

fn address(
    stack: &mut Stack,
    verb: Verb,
    port: PortId,
    cidr: &str,
    (valid_s, preferred_s): (Option<u64>, Option<u64>),
    nodad: bool,
) -> Done {
    let (port, cidr) = (port_of(stack, port)?, cidr_of(cidr)?);
    let old = stack.addresses(port).iter().find(|a| a.ip() == cidr.addr).copied();
    match verb {
        Verb::Del => {
            let is_it = old.is_some_and(|old| old.cidr == cidr);
            if is_it && stack.remove_address(port, cidr.addr) {
                return Ok(());
            }
            let why = format!("Address not found: the port does not have {cidr}; see `ip addr`");
            return Err((Refusal::Missing, why));
        }
        Verb::Add if old.is_some() => {
            let why = format!("Address already assigned: change {cidr} with `ip addr replace`");
            return Err((Refusal::Exists, why));
        }
        _ => {}
    }
    let now = stack.now();
    // A time that is longer than the clock can represent means for ever.
    let until = |s: Option<u64>| match s {
        Some(s) if s < u64::from(u32::MAX) => now + Duration::from_secs(s),
        _ => Instant::NEVER,
    };
    let (valid_until, preferred_until) = (until(valid_s), until(preferred_s.or(valid_s)));
    if valid_until <= now || preferred_until > valid_until {
        return invalid(
            "Invalid argument: preferred_lft is at most valid_lft, which is not 0".to_owned(),
        );
    }
    let state = match old.map(|old| old.state) {
        _ if preferred_until <= now => AddressState::Deprecated,
        None if cidr.addr.is_ipv6() && !nodad => AddressState::Tentative,
        Some(AddressState::Tentative) => AddressState::Tentative,
        _ => AddressState::Preferred,
    };
    let address = Address { state, valid_until, preferred_until, ..Address::fixed(cidr) };
    stack.add_address(port, address).map_err(|why| match why {
        AddressError::LimitReached => (Refusal::Full, format!("No buffer space available: {why}")),
        _ => (Refusal::Wrong, format!("Invalid argument: {why}")),
    })
}

#[cfg(test)]
mod tests;
