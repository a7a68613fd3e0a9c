//! Addresses of ours while the stack runs: added, deprecated, removed; and which of them a packet
//! is from.
//!
//! Called by: programs; `open.rs`, `udp.rs` and `ping.rs` for sockets that are bound to no address;
//! `Stack::poll` when a lifetime ends. RFC 4862 section 5.5.4, RFC 6724, RFC 9293 MUST-44. Limit:
//! `addresses`.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use base::{Cidr, DropReason, Instant, Limit, LinkKind};
use inet::select::{self, is_link_scoped};
use inet::{Address, AddressState, NextHop, NoRoute, Route, RouteOrigin, Rule, RuleError, Sender};

use crate::local::LocalAddrs;
use crate::port::Port;
use crate::{PortId, Stack, acd, autoconf, groups, loopback, rare_timers, tx};

/// Why an address was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// There is no such port.
    NoPort,
    /// No host can have it: multicast, broadcast, loopback or of 0.0.0.0/8.
    NotAHost,
    /// The port has as many as the limit `addresses` allows.
    LimitReached,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressError::NoPort => "there is no such port: add one",
            AddressError::NotAHost => {
                "no host can have this address: give one that is not multicast, broadcast, \
                 loopback, unspecified or of 0.0.0.0/8"
            }
            AddressError::LimitReached => {
                "the port has as many addresses as the limit `addresses` allows: remove one, or \
                 raise the limit"
            }
        })
    }
}

impl core::error::Error for AddressError {}

/// Can a host have this address, in a network of that length?
///
/// # Errors
/// [`AddressError::NotAHost`].
pub fn check_address(cidr: Cidr) -> Result<(), AddressError> {
    let network = LocalAddrs::new([cidr].into_iter());
    let is_host = !inet::ip_input::is_martian_source(cidr.addr) && !network.is_group(cidr.addr);
    is_host.then_some(()).ok_or(AddressError::NotAHost)
}

/// Do packets to such a network ever leave a host? Those to 0.0.0.0/8 and 127.0.0.0/8, `::` and
/// `::1` do not, whatever routes there are (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5).
pub fn is_destination(network: Cidr) -> bool {
    match network.addr {
        IpAddr::V4(addr) => network.prefix_len < 8 || !matches!(addr.octets()[0], 0 | 127),
        IpAddr::V6(addr) => {
            network.prefix_len < 128 || !(addr.is_unspecified() || addr.is_loopback())
        }
    }
}

/// Why no source address was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSource {
    /// Nothing can be sent to the destination, for the named reason.
    Unreachable(DropReason),
    /// No usable address of the destination's version on the port.
    NoAddress,
}

/// When an address or a route has to be looked at next.
pub(crate) struct Lifetimes {
    deadline: Instant,
}

impl Default for Lifetimes {
    fn default() -> Lifetimes {
        Lifetimes { deadline: Instant::NEVER }
    }
}

impl Lifetimes {
    #[inline(always)]
    pub(crate) fn next_deadline(&self) -> Instant {
        self.deadline
    }
}

impl PortId {
    /// The scope identifier of this port's link (RFC 4007 section 6), as in `fe80::1%1`; 0 stands
    /// for no link in particular.
    pub const fn scope_id(self) -> u32 {
        self.0 as u32 + 1
    }

    /// The port of a scope identifier.
    pub const fn of_scope(scope_id: u32) -> Option<PortId> {
        match scope_id.checked_sub(1) {
            Some(number) if number <= u16::MAX as u32 => Some(PortId(number as u16)),
            _ => None,
        }
    }
}

/// The next hop of a packet to `remote`: ourselves, the link that its scope identifier names, or a
/// route.
pub(crate) fn next_hop(
    stack: &Stack,
    local: Option<IpAddr>,
    remote: SocketAddr,
    sender: Sender<'_>,
) -> Result<NextHop, DropReason> {
    if loopback::is_ours(stack, remote) {
        return Ok(to_ourselves(remote));
    }
    let by_route = || stack.routes.lookup(remote.ip(), local, sender).map_err(no_route);
    of_scope(remote).unwrap_or_else(by_route)
}

/// [`next_hop`] of an ICMP error, whose flow is the one that it is about; of several next hops it
/// takes the one that this has.
pub(crate) fn next_hop_of_flow(
    stack: &Stack,
    local: IpAddr,
    remote: SocketAddr,
    flow: u32,
    sender: Sender<'_>,
) -> Result<NextHop, DropReason> {
    if loopback::is_ours(stack, remote) {
        return Ok(to_ourselves(remote));
    }
    let found = || stack.routes.lookup_flow(remote.ip(), Some(local), flow, sender);
    of_scope(remote).unwrap_or_else(|| found().map_err(no_route))
}

fn to_ourselves(remote: SocketAddr) -> NextHop {
    NextHop { port: loopback::PORT, neighbour: remote.ip(), mtu: None }
}

/// The next hop on the link that a scope identifier names; `None` if there is no such identifier.
fn of_scope(remote: SocketAddr) -> Option<Result<NextHop, DropReason>> {
    if let SocketAddr::V6(to) = remote
        && to.scope_id() != 0
        && is_link_scoped(remote.ip())
    {
        let port = PortId::of_scope(to.scope_id()).ok_or(DropReason::TxNoPort);
        let hop = |port: PortId| NextHop { port: port.0, neighbour: remote.ip(), mtu: None };
        return Some(port.map(hop));
    }
    None
}

/// The name of a packet's drop that has no route.
#[cold]
pub(crate) fn no_route(why: NoRoute) -> DropReason {
    match why {
        NoRoute::None => DropReason::IpNoRoute,
        NoRoute::Unreachable => DropReason::IpRuleUnreachable,
        NoRoute::Prohibit => DropReason::IpRuleProhibit,
        NoRoute::Blackhole => DropReason::IpRuleBlackhole,
    }
}

/// The address that packets to `remote` are from, if their socket is bound to none.
/// RFC 9293 MUST-44.
pub(crate) fn source(
    stack: &Stack,
    remote: SocketAddr,
    sender: Sender<'_>,
) -> Result<IpAddr, NoSource> {
    if let Some(own) = loopback::source(stack, remote) {
        return Ok(own);
    }
    let hop = next_hop(stack, None, remote, sender).map_err(NoSource::Unreachable)?;
    let port = stack.ports.get(hop.port).ok_or(NoSource::Unreachable(DropReason::TxNoPort))?;
    select::source(port.addresses.iter(), remote.ip(), hop.neighbour).ok_or(NoSource::NoAddress)
}

/// Act on addresses and routes whose time has come.
/// RFC 4862 5.5.4-a.
#[cold]
pub(crate) fn expire(stack: &mut Stack) {
    autoconf::expire(stack);
    let now = stack.core.cx.now;
    if stack.acd.next_deadline() <= now {
        acd::expire(stack);
    }
    let mut gone = Vec::new();
    for port in stack.ports.iter_mut() {
        for address in &mut port.addresses {
            if address.valid_until <= now {
                gone.push((port.id, address.ip()));
            } else if address.preferred_until <= now && address.state == AddressState::Preferred {
                address.state = AddressState::Deprecated;
            }
        }
    }
    for (port, ip) in gone {
        stack.remove_address(port, ip);
    }
    if stack.routes.expire(now) > 0 {
        stack.path_mtus.note_change();
    }
    look_ahead(stack);
}

/// Find out anew when [`expire`] is due.
fn look_ahead(stack: &mut Stack) {
    stack.lifetimes.deadline = ahead(stack);
    rare_timers::renew(stack);
}

/// The first time at which an address, a route or their configuration changes by itself.
pub(crate) fn ahead(stack: &Stack) -> Instant {
    let next = |a: &Address| match a.state {
        AddressState::Preferred => a.preferred_until.min(a.valid_until),
        _ => a.valid_until,
    };
    let addresses = stack.ports.iter().flat_map(|port| port.addresses.iter().map(next));
    let first = addresses.min().unwrap_or(Instant::NEVER);
    let first = first.min(stack.autoconf.next_deadline()).min(stack.acd.next_deadline());
    first.min(stack.routes.next_deadline())
}

impl Port {
    /// Its addresses changed: packets are compared with the new ones from now on.
    pub(crate) fn refresh_local(&mut self) {
        let usable = self.addresses.iter().filter(|a| a.is_usable()).map(|a| a.cidr);
        self.local = LocalAddrs::new(usable).with_broadcasts_of(&self.local);
    }
}

impl Stack {
    /// Add an address to a port, or change the one that is there; its network becomes a route. A
    /// tentative one is not used before it is preferred: the stack asks whether another host has
    /// it, for up to two seconds for IPv6 (RFC 4862 section 5.4) and seven for IPv4 (RFC 5227),
    /// and then it is [`AddressState::Preferred`] or [`AddressState::Duplicated`]. On a port
    /// without link addresses there is nobody to ask.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn add_address(&mut self, id: PortId, mut address: Address) -> Result<(), AddressError> {
        let ip = address.ip();
        let port = self.ports.get_mut(id.0).ok_or(AddressError::NoPort)?;
        let is_checked = ip.is_ipv6() && address.state == AddressState::Tentative;
        if is_checked && port.limits.link == LinkKind::Ip {
            address.state = AddressState::Preferred;
        }
        check_address(address.cidr)?;
        if let Some(old) = port.addresses.iter_mut().find(|a| a.ip() == ip) {
            let (network, usable) = (old.cidr.network(), address.is_usable());
            *old = address;
            port.refresh_local();
            if network != address.cidr.network() || !usable {
                self.forget_network(id, network);
            }
        } else {
            let budget = &mut self.core.cx.budget;
            if !budget.admits(Limit::Addresses, port.addresses.len()) {
                return Err(AddressError::LimitReached);
            }
            port.addresses.push(address);
            port.refresh_local();
        }
        self.ports.share_broadcasts();
        if address.state == AddressState::Tentative && is_checked {
            autoconf::dad::begin(self, id, ip);
        } else {
            self.autoconf.dad.forget((id.0, ip));
        }
        if address.is_usable() && address.implies_network() {
            let route = Route::new(address.cidr, None, id.0).with_origin(RouteOrigin::Connected);
            self.routes.add(route);
        }
        groups::addresses_changed(self, id);
        acd::added(self, id, &address);
        self.addresses_changed();
        Ok(())
    }

    /// Remove an address of ours; connections from it fail with [`tcp::Error::NetworkDown`].
    /// `false` if the port does not have it.
    pub fn remove_address(&mut self, id: PortId, ip: IpAddr) -> bool {
        let Some(port) = self.ports.get_mut(id.0) else { return false };
        let Some(at) = port.addresses.iter().position(|a| a.ip() == ip) else { return false };
        let network = port.addresses.remove(at).cidr.network();
        self.autoconf.dad.forget((id.0, ip));
        port.refresh_local();
        self.ports.share_broadcasts();
        acd::removed(self, id, ip);
        self.forget_network(id, network);
        groups::addresses_changed(self, id);
        self.fail_connections_from(id, ip);
        self.addresses_changed();
        tx::output(self);
        true
    }

    /// The addresses of a port.
    pub fn addresses(&self, id: PortId) -> &[Address] {
        self.ports.get(id.0).map_or(&[], |port| &port.addresses)
    }

    /// The address that packets to `remote` are from unless their socket is bound to one; `None` if
    /// nothing can be sent there. For [`inet::select::order_destinations`].
    pub fn source_for(&self, remote: SocketAddr) -> Option<IpAddr> {
        source(self, remote, Sender::Program).ok()
    }

    /// The route of a network is gone with the last usable address in it.
    fn forget_network(&mut self, id: PortId, network: Cidr) {
        let Some(port) = self.ports.get(id.0) else { return };
        let mut usable = port.addresses.iter().filter(|a| a.is_usable() && a.implies_network());
        if !usable.any(|a| a.cidr.network() == network) {
            let of_it = |r: &Route| r.origin == RouteOrigin::Connected && r.port == id.0;
            self.routes.remove_exact(network, inet::route::MAIN_TABLE, of_it);
        }
    }

    /// What expires is found anew.
    pub(crate) fn look_ahead(&mut self) {
        look_ahead(self);
    }

    /// Connections look their paths up again, and what expires is found anew.
    pub(crate) fn addresses_changed(&mut self) {
        self.path_mtus.note_change();
        look_ahead(self);
    }

    /// Add a route; one for the same destination over the same port is replaced. `false`, and
    /// nothing changes, if there are as many as the limit `routes` allows, or as many tables as
    /// [`inet::route::TABLES_MAX`].
    pub fn add_route(&mut self, route: Route) -> bool {
        let (is_known, used) = (self.routes.has_like(&route), self.routes.len());
        let is_admitted = is_known || self.core.cx.budget.admits(Limit::Routes, used);
        let is_added = is_admitted && self.routes.add(route);
        self.addresses_changed();
        is_added
    }

    /// Remove one of the routes to a destination: the one with the same table, port, gateway and
    /// origin. `false` if there is none. Connections go by what is left.
    pub fn remove_one_route(&mut self, route: &Route) -> bool {
        let is_it = |r: &Route| (r.port, r.via, r.origin) == (route.port, route.via, route.origin);
        let removed = self.routes.remove_exact(route.dest, route.table, is_it);
        self.addresses_changed();
        removed > 0
    }

    /// Remove the routes to `dest` over `port`; returns how many. Connections go by what is left.
    pub fn remove_route(&mut self, dest: Cidr, port: PortId) -> usize {
        let is_over_it = |r: &Route| r.port == port.0;
        let tables = self.routes.tables().into_iter();
        let removed = tables.map(|table| self.routes.remove_exact(dest, table, is_over_it)).sum();
        self.addresses_changed();
        removed
    }

    /// Add a rule of policy routing: it selects the table of a packet's route by more than the
    /// destination. Without any there is the main table alone. Connections look theirs up again.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn add_rule(&mut self, rule: Rule) -> Result<(), RuleError> {
        let used = self.routes.rules().len();
        if !self.core.cx.budget.admits(Limit::Rules, used) {
            return Err(RuleError::LimitReached);
        }
        self.routes.add_rule(rule)?;
        self.path_mtus.note_change();
        Ok(())
    }

    /// Remove a rule; `false` if it is not there.
    pub fn remove_rule(&mut self, rule: &Rule) -> bool {
        let is_removed = self.routes.remove_rule(rule);
        self.path_mtus.note_change();
        is_removed
    }

    /// The rules, in the order in which they are asked.
    pub fn rules(&self) -> &[Rule] {
        self.routes.rules()
    }
}
