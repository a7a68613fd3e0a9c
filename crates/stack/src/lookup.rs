//! Lookups for people: the route that a packet would take, and why; and the routes to one prefix.
//!
//! Called by: programs, for `ip route get` and `show fib lookup`; never for a packet. The packet's
//! own lookup is [`addresses::next_hop`], whose answer is the one given here. RFC 1122 section
//! 3.3.1.

use core::net::{IpAddr, SocketAddr};

use base::{Cidr, DropReason, MacAddr, Mtu, Owner};
use inet::neighbour::State;
use inet::route::{PATHS_MAX, Sender};
use inet::{NextHop, Route, Rule, select};

use crate::{PortId, Stack, addresses, loopback, mtu};

/// Whose packet it is.
#[derive(Clone, Debug)]
pub struct FibQuery {
    /// Where it goes.
    pub dst: IpAddr,
    /// Where it is from; `None`: from no address in particular.
    pub src: Option<IpAddr>,
    /// The port of a link-local destination (RFC 4007).
    pub output: Option<PortId>,
    /// The port that it came to, to be forwarded; `None`: it is ours.
    pub input: Option<PortId>,
    /// The user that it belongs to.
    pub owner: Owner,
    /// Its mark.
    pub mark: u32,
}

/// What becomes of it.
#[derive(Clone, Debug)]
pub enum FibResult {
    /// It is for this stack: the port has the address.
    Local(PortId),
    /// It leaves.
    Leaves(Box<FibFound>),
    /// It is dropped.
    Dropped(DropReason),
}

/// How a packet leaves.
#[derive(Clone, Debug)]
pub struct FibFound {
    /// The table that was looked in.
    pub table: u32,
    /// The rule that selected the table; `None`: none did, and the main table was asked as ever.
    pub rule: Option<Rule>,
    /// The route that was chosen; `None`: the destination is of one link, which needs no route.
    pub route: Option<Route>,
    /// The routes of its prefix that share the packets, or itself alone; empty without one.
    pub paths: Vec<Route>,
    /// The port and the neighbour.
    pub hop: NextHop,
    /// Is it a broadcast to the port's link?
    pub is_broadcast: bool,
    /// The address that it is from unless it has one; `None`: there is none.
    pub source: Option<IpAddr>,
    /// What is known of the neighbour; `None`: nothing.
    pub neighbour: Option<(State, Option<MacAddr>)>,
    /// The largest packet, the least of the four below.
    pub mtu: Mtu,
    /// What the port takes.
    pub port_mtu: Mtu,
    /// What was set for the neighbour.
    pub neighbour_mtu: Option<Mtu>,
    /// What was learnt of the path.
    pub path_mtu: Option<Mtu>,
}

impl FibQuery {
    fn sender(&self) -> Sender<'_> {
        match self.input {
            Some(port) => Sender::Transit { in_port: port.0 },
            None => Sender::Socket { owner: &self.owner, mark: self.mark },
        }
    }
}

impl Stack {
    /// What the FIB says of a packet.
    pub fn fib_lookup(&self, query: &FibQuery) -> FibResult {
        let local = self.ports.iter().find(|port| port.local.is_ours(query.dst));
        if let Some(port) = local {
            return FibResult::Local(port.id);
        }
        if query.dst.is_loopback() && query.input.is_none() {
            return FibResult::Local(PortId(loopback::PORT));
        }
        match self.leaves(query) {
            Ok(found) => FibResult::Leaves(Box::new(found)),
            Err(reason) => FibResult::Dropped(reason),
        }
    }

    fn leaves(&self, query: &FibQuery) -> Result<FibFound, DropReason> {
        let mut remote = SocketAddr::new(query.dst, 0);
        if let (SocketAddr::V6(to), Some(port)) = (&mut remote, query.output) {
            to.set_scope_id(port.scope_id());
        }
        let sender = query.sender();
        let hop = addresses::next_hop(self, query.src, remote, sender)?;
        let port = self.ports.get(hop.port).ok_or(DropReason::TxNoPort)?;
        let is_scoped = query.output.is_some() && select::is_link_scoped(query.dst);
        let found = self.routes.route_and_rule_for(query.dst, query.src, sender).ok();
        let (route, rule) = match found.filter(|_| !is_scoped) {
            Some((route, rule)) => (Some(route.clone()), rule),
            None => (None, None),
        };
        let table = route.as_ref().map_or(inet::route::MAIN_TABLE, |route| route.table);
        let paths = |route: &Route| {
            let of_it = |r: &&Route| {
                r.weight.is_some() && r.metric == route.metric && !self.routes.is_down(r.port)
            };
            match route.weight {
                Some(_) => {
                    let of_prefix = self.routes.at(route.dest, table).iter().filter(of_it);
                    of_prefix.take(PATHS_MAX).cloned().collect()
                }
                None => vec![route.clone()],
            }
        };
        let now = self.core.cx.now;
        let key = (hop.port, hop.neighbour);
        let link = mtu::of_hop(self, &hop).ok_or(DropReason::TxNoPort)?;
        let row = self.neighbours.row(key);
        Ok(FibFound {
            table,
            rule,
            paths: route.as_ref().map_or_else(Vec::new, paths),
            route,
            source: select::source(port.addresses.iter(), query.dst, hop.neighbour),
            neighbour: row.map(|row| (row.state, row.mac)),
            mtu: self.path_mtus.mtu(query.dst, link, now),
            port_mtu: port.limits.mtu,
            neighbour_mtu: self.neighbour_mtus.get(&key),
            path_mtu: self.path_mtus.known(query.dst, now).map(|(mtu, _)| mtu),
            is_broadcast: matches!(query.dst, IpAddr::V4(dst) if port.local.is_broadcast(dst)),
            hop,
        })
    }

    /// The routes of a table to exactly this prefix, the best first.
    pub fn routes_to(&self, dest: Cidr, table: u32) -> &[Route] {
        self.routes.at(dest, table)
    }

    /// Is a gateway a neighbour on the port's link, as far as the routes and addresses say?
    pub fn is_on_link(&self, id: PortId, ip: IpAddr) -> bool {
        let Some(port) = self.ports.get(id.0) else { return false };
        let is_in = |a: &inet::Address| a.implies_network() && a.cidr.contains(ip);
        ip.is_ipv6() && select::is_link_scoped(ip)
            || port.addresses.iter().any(is_in)
            || self.routes.is_on_link(id.0, ip)
    }

    /// Remove the routes of a prefix of one table that `is_unwanted` selects; returns how many.
    /// Connections go by what is left.
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
}
