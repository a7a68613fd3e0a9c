//! Calls of programs that add, remove and look up routes, rules and MTUs. Look-ups return the route
//! that a packet would take and why, the routes to one prefix, and the largest packet on a route.
//!
//! Called by: programs, also for `ip route get` and `show fib lookup`; never for a packet. A packet
//! is looked up by [`next_hop`], whose result is the one given here. RFC 1122 section 3.3.1.
//! Limits: `routes`, `rules`, `neighbour_mtus`.

use core::net::{IpAddr, SocketAddr};

use base::{Cidr, DropReason, Limit, MacAddr, Mtu, Owner};
use inet::neighbour::State;
use inet::route::{MAIN_TABLE, PATHS_MAX, Sender};
use inet::{NextHop, Route, RouteOrigin, Rule, RuleError, Selector, Vrf, select};

use crate::handles::PortId;
use crate::learned::{Offer, RefusedRoute};
use crate::mtu::MtuError;
use crate::next_hop::{next_hop, source_of};
use crate::port::{LOOPBACK, Port};
use crate::stack::Stack;
use crate::vrf;

/// The packet to look up.
#[derive(Clone, Debug)]
pub struct FibQuery {
    /// The packet's destination.
    pub dst: IpAddr,
    /// The packet's source; `None`: no particular address.
    pub src: Option<IpAddr>,
    /// The port on whose link a link-local destination is (RFC 4007).
    pub output: Option<PortId>,
    /// The port that a forwarded packet came by; `None`: the packet is ours.
    pub input: Option<PortId>,
    /// The user that the packet belongs to.
    pub owner: Owner,
    /// The packet's mark.
    pub mark: u32,
    /// The VRF of a packet of ours; a forwarded packet is in that of `input`.
    pub vrf: Vrf,
}

/// The result of a lookup.
#[derive(Clone, Debug)]
pub enum FibResult {
    /// The packet is for this stack: the port has the address.
    Local(PortId),
    /// The packet leaves.
    Leaves(Box<FibFound>),
    /// The packet is dropped: why, and the route that says so, if one does.
    Dropped(DropReason, Option<Box<Route>>),
}

/// How a packet leaves.
#[derive(Clone, Debug)]
pub struct FibFound {
    /// The table in which the route was looked up.
    pub table: u32,
    /// The rule that selected the table; `None`: no rule did, and the table of the packet's VRF or
    /// the main table was used.
    pub rule: Option<Rule>,
    /// The route that was chosen; `None`: the destination is on one link, which needs no route.
    pub route: Option<Route>,
    /// The routes of the same prefix that share the packets, or only the chosen route; empty
    /// without a route.
    pub paths: Vec<Route>,
    /// The port and the neighbour that the packet leaves by.
    pub hop: NextHop,
    /// Is the packet a broadcast to the port's link?
    pub is_broadcast: bool,
    /// The source address of the packet if it has none yet; `None`: no address is usable.
    pub source: Option<IpAddr>,
    /// State and link address of the neighbour; `None` if the neighbour is not in the table.
    pub neighbour: Option<(State, Option<MacAddr>)>,
    /// The size of the largest packet: the minimum of the MTUs below and that of the route.
    pub mtu: Mtu,
    /// The MTU of the port.
    pub port_mtu: Mtu,
    /// The MTU that was set for the neighbour.
    pub neighbour_mtu: Option<Mtu>,
    /// The learnt MTU of the path.
    pub path_mtu: Option<Mtu>,
}

impl FibQuery {
    fn sender(&self, stack: &Stack) -> Sender<'_> {
        match self.input {
            Some(port) => Sender::Transit { in_port: port.0, vrf: stack.vrf(port) },
            None => {
                let by = Selector { mark: self.mark, vrf: self.vrf };
                Sender::Socket { owner: &self.owner, by }
            }
        }
    }
}

impl Stack {
    /// Add a route. It replaces a route to the same destination over the same port. `false`, and
    /// nothing changes, if there are as many routes as the limit `routes` allows, or as many tables
    /// as `inet::route::TABLES_MAX`. A route of the main table that was not set by the program
    /// belongs to the table of its port's VRF.
    pub fn add_route(&mut self, route: Route) -> bool {
        let route = self.placed(route);
        let (is_known, used) = (self.routes.has_like(&route), self.routes.len());
        let is_admitted = is_known || self.core.cx.budget.admits(Limit::Routes, used);
        let is_added = is_admitted && self.routes.add(route);
        self.addresses_changed();
        is_added
    }

    /// Remove one of the routes to a destination: the one with the same table, port, gateway and
    /// origin. `false` if there is none. Connections use the remaining routes.
    pub fn remove_one_route(&mut self, route: &Route) -> bool {
        let route = self.placed(route.clone());
        let is_it = |r: &Route| (r.port, r.via, r.origin) == (route.port, route.via, route.origin);
        let removed = self.routes.remove_exact(route.dest, route.table, is_it);
        self.addresses_changed();
        removed > 0
    }

    /// A route in the table to which it belongs: what a port learnt is in the table of its VRF.
    pub(crate) fn placed(&self, route: Route) -> Route {
        // Daemons name the table that they mean.
        let is_learnt = route.origin != RouteOrigin::Static && !route.origin.is_of_daemon();
        match is_learnt && route.table == MAIN_TABLE {
            true => Route { table: self.ports.vrf(route.port).table(), ..route },
            false => route,
        }
    }

    /// Remove the routes to `dest` over `port`; returns how many. Connections use the remaining
    /// routes.
    pub fn remove_route(&mut self, dest: Cidr, port: PortId) -> usize {
        let is_over_it = |r: &Route| r.port == port.0;
        let tables = self.routes.tables().into_iter();
        let removed = tables.map(|table| self.routes.remove_exact(dest, table, is_over_it)).sum();
        self.addresses_changed();
        removed
    }

    /// Add a rule of policy routing. A rule selects the routing table of a packet not only by its
    /// destination. Without rules only the main table is used. Connections look up their route
    /// again.
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

    /// The rules, in the order in which they apply.
    pub fn rules(&self) -> &[Rule] {
        self.routes.rules()
    }

    /// May a route to `dest` be accepted that a network offers at a port? A default route may. Any
    /// other route must not touch another port's network, a static route or a range for special
    /// purposes. `is_network`: the route is the network of an address that was offered at the port.
    /// [`Stack::take_refused_route`] returns each refused route once.
    pub fn admits_route(
        &mut self,
        id: PortId,
        dest: Cidr,
        is_network: bool,
        origin: RouteOrigin,
    ) -> bool {
        let offer = Offer { port: id, dest, is_network, origin, is_wanted: true };
        let among = (&self.routes, &self.ports);
        self.refused_routes.admits(offer, among, &mut self.core.cx)
    }

    /// A route that a network offered and that was not accepted; each is returned once.
    pub fn take_refused_route(&mut self) -> Option<RefusedRoute> {
        self.refused_routes.take()
    }

    /// Look up a packet in the FIB.
    pub fn fib_lookup(&self, query: &FibQuery) -> FibResult {
        let sender = query.sender(self);
        let vrf = sender.vrf();
        let is_ours = |port: &&Port| port.vrf == vrf && port.local.is_ours(query.dst);
        if let Some(port) = self.ports.iter().find(is_ours) {
            return FibResult::Local(port.id);
        }
        if query.dst.is_loopback() && query.input.is_none() {
            return FibResult::Local(PortId(LOOPBACK));
        }
        if self.ports.has_vrfs()
            && let Ok(hop) = self.routes.lookup(query.dst, query.src, sender)
            && let Some(port) = vrf::leaked(self, query.dst, hop.port, vrf)
        {
            return FibResult::Local(port);
        }
        match self.leaves(query, sender) {
            Ok(found) => FibResult::Leaves(Box::new(found)),
            Err(reason) => {
                let route = self.routes.route_for(query.dst, query.src, sender).ok();
                let route = route.filter(|route| route.discard.is_some());
                FibResult::Dropped(reason, route.map(Box::new))
            }
        }
    }

    fn leaves(&self, query: &FibQuery, sender: Sender<'_>) -> Result<FibFound, DropReason> {
        let mut remote = SocketAddr::new(query.dst, 0);
        if let (SocketAddr::V6(to), Some(port)) = (&mut remote, query.output) {
            to.set_scope_id(port.scope_id());
        }
        let hop = next_hop(self, query.src, remote, sender)?;
        let port = self.ports.get(hop.port).ok_or(DropReason::TxNoPort)?;
        let is_scoped = query.output.is_some() && select::is_link_scoped(query.dst);
        let found = self.routes.route_and_rule_for(query.dst, query.src, sender).ok();
        let (route, rule) = match found.filter(|_| !is_scoped) {
            Some((route, rule)) => (Some(route), rule),
            None => (None, None),
        };
        let table = route.as_ref().map_or(sender.vrf().table(), |route| route.table);
        let paths = |route: &Route| {
            let of_it = |r: &Route| {
                let rank = |r: &Route| (r.metric, r.origin.distance());
                r.weight.is_some() && rank(r) == rank(route) && !self.routes.is_down(r.port)
            };
            match route.weight {
                Some(_) => {
                    let of_prefix = self.routes.at(route.dest, table).filter(of_it);
                    of_prefix.take(PATHS_MAX).collect()
                }
                None => vec![route.clone()],
            }
        };
        let now = self.core.cx.now;
        let key = (hop.port, hop.neighbour);
        let link = self.neighbour_mtus.of_hop(&self.ports, &hop).ok_or(DropReason::TxNoPort)?;
        let row = self.neighbours.row(key);
        Ok(FibFound {
            table,
            rule,
            paths: route.as_ref().map_or_else(Vec::new, paths),
            route,
            source: source_of(self, (port, sender.vrf()), query.dst, hop.neighbour),
            neighbour: row.map(|row| (row.state, row.mac)),
            mtu: self.path_mtus.mtu(query.dst, link, now),
            port_mtu: port.limits.mtu,
            neighbour_mtu: self.neighbour_mtus.get(&key),
            path_mtu: self.path_mtus.known(query.dst, now).map(|(mtu, _)| mtu),
            is_broadcast: matches!(query.dst, IpAddr::V4(dst) if port.local.is_broadcast(dst)),
            hop,
        })
    }

    /// The routes of a table to exactly this prefix; the best route is first.
    pub fn routes_to(&self, dest: Cidr, table: u32) -> Vec<Route> {
        self.routes.at(dest, table).collect()
    }

    /// Is a gateway a neighbour on the port's link, by the port's routes and addresses?
    pub fn is_on_link(&self, id: PortId, ip: IpAddr) -> bool {
        let Some(port) = self.ports.get(id.0) else { return false };
        let is_in = |a: &inet::Address| a.implies_network() && a.cidr.contains(ip);
        ip.is_ipv6() && select::is_link_scoped(ip)
            || port.addresses.iter().any(is_in)
            || self.routes.is_on_link(id.0, ip)
    }

    /// Remove the routes to a prefix in one table for which `is_unwanted` is true; returns how
    /// many. Connections use the remaining routes.
    pub fn remove_routes_to(
        &mut self,
        dest: Cidr,
        table: u32,
        is_unwanted: impl Fn(&Route) -> bool,
    ) -> usize {
        let removed = self.routes.remove_exact(dest, table, is_unwanted);
        self.addresses_changed();
        removed
    }

    /// Set the largest packet to send to a neighbour, on a link whose hosts have different MTUs:
    /// the neighbour's own MTU, or `None` for the port's. The MTU bounds packets that the neighbour
    /// forwards, too, and may be set before the link address is known. Open connections use it at
    /// once. The size that the port receives, and offers to receive, does not change.
    ///
    /// # Errors
    /// [`MtuError`].
    pub fn set_neighbour_mtu(
        &mut self,
        port: PortId,
        ip: IpAddr,
        mtu: Option<Mtu>,
    ) -> Result<(), MtuError> {
        if self.ports.get(port.0).is_none() {
            return Err(MtuError::NoPort);
        }
        if ip.is_ipv6() && mtu.is_some_and(|mtu| mtu < Mtu::MIN_V6) {
            return Err(MtuError::BelowMinimum);
        }
        self.neighbour_mtus.set((port.0, ip), mtu, &mut self.core.cx.budget)?;
        self.path_mtus.note_change();
        Ok(())
    }

    /// The size of the largest packet that may be sent to a neighbour, as far as port and neighbour
    /// limit it; `None` if there is no such port.
    pub fn neighbour_mtu(&self, port: PortId, ip: IpAddr) -> Option<Mtu> {
        self.neighbour_mtus.of_hop(&self.ports, &NextHop { port: port.0, neighbour: ip, mtu: None })
    }

    /// The size of the largest packet that is sent to `remote` now: the minimum of what the port,
    /// the route, the neighbour and the path carry. `None` if nothing can be sent there.
    pub fn mtu_towards(&self, remote: SocketAddr) -> Option<Mtu> {
        let hop = next_hop(self, None, remote, Sender::Program).ok()?;
        let link = self.neighbour_mtus.of_hop(&self.ports, &hop)?;
        Some(self.path_mtus.mtu(remote.ip(), link, self.core.cx.now))
    }

    /// The size of the largest packet that the path to `dst` is known to carry, if it was learnt in
    /// the last ten minutes. `None`: the path is assumed to carry the port's MTU.
    pub fn path_mtu(&self, dst: IpAddr) -> Option<Mtu> {
        self.path_mtus.known(dst, self.core.cx.now).map(|(mtu, _)| mtu)
    }
}
