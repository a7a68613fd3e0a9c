//! Decides which routes the stack accepts from a network that offers them by DHCP or by router
//! advertisements.
//!
//! Called by: `autoconf/router.rs`, and `routes.rs` for programs, such as `net` with the routes and
//! the network of a lease. Without these rules a host that can answer on one link could attract
//! packets for the networks of another port ("TunnelVision", CVE-2024-3661). A default route may be
//! learnt from any network. No other route may touch another port's network, a static route or a
//! range for special purposes. RFC 3442, RFC 4191, RFC 6890. Decision:

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;

use base::{Cidr, Counter, Limit};
use inet::{Route, RouteOrigin, Routes};

use crate::handles::PortId;
use crate::port::Ports;

/// The shortest prefix of a learnt route, for IPv4 and IPv6: a route with a shorter prefix would
/// attract the packets of many networks.
const PREFIX_LEN_MIN: (u8, u8) = (8, 16);

const fn v4(a: u8, b: u8, prefix_len: u8) -> Cidr {
    Cidr { addr: IpAddr::V4(Ipv4Addr::new(a, b, 0, 0)), prefix_len }
}

const fn v6(segments: [u16; 8], prefix_len: u8) -> Cidr {
    let [a, b, c, d, e, f, g, h] = segments;
    Cidr { addr: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix_len }
}

/// Ranges that are never routed: this network and host, loopback, link-local, multicast, reserved.
const SPECIAL: [Cidr; 9] = [
    v4(0, 0, 8),
    v4(127, 0, 8),
    v4(169, 254, 16),
    v4(224, 0, 4),
    v4(240, 0, 4),
    v6([0; 8], 127),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

/// Why a route was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteRefusal {
    /// The destination touches a range for special purposes, or its prefix is shorter than a
    /// network's.
    Special,
    /// The destination equals this network or route, contains it, or lies inside it.
    Touches {
        /// The destination of the other network or route.
        other: Cidr,
        /// The name of its port.
        port: String,
    },
    /// The port accepts only default routes.
    NotWanted,
}

/// A route that a network offered and that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRoute {
    /// The port at which it was offered.
    pub port: PortId,
    /// The name of that port.
    pub port_name: String,
    /// The destination of the route.
    pub dest: Cidr,
    /// The protocol that offered it.
    pub origin: RouteOrigin,
    /// Why it was not accepted.
    pub why: RouteRefusal,
}

impl fmt::Display for RefusedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefusedRoute { port_name, dest, .. } = self;
        let by = match self.origin {
            RouteOrigin::Dhcp => "a DHCP server",
            _ => "a router advertisement",
        };
        write!(f, "{by} on port {port_name} offers a route to {dest}, which is not taken: ")?;
        match &self.why {
            RouteRefusal::Special => {
                f.write_str("no single network has it; find out which host answers on that link")
            }
            RouteRefusal::Touches { other, port } => write!(
                f,
                "{other} is a network of port {port} or a route of yours; find out which host \
                 answers on that link, or set the route yourself"
            ),
            RouteRefusal::NotWanted => f.write_str(
                "a router takes such routes where learn_routes = true is set for the port",
            ),
        }
    }
}

/// Refused routes: each port and destination is reported once.
#[derive(Default)]
pub(crate) struct RefusedRoutes {
    known: Vec<(PortId, Cidr)>,
    news: VecDeque<RefusedRoute>,
}

/// A route that a network offers at a port.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) port: PortId,
    pub(crate) dest: Cidr,
    /// The route is the network of the link itself. A static route over a neighbour on that link
    /// may contain it.
    pub(crate) is_network: bool,
    pub(crate) origin: RouteOrigin,
    /// The port accepts other routes than default routes.
    pub(crate) is_wanted: bool,
}

impl RefusedRoutes {
    pub(crate) fn forget_port(&mut self, id: PortId) {
        self.known.retain(|(port, _)| *port != id);
        self.news.retain(|refused| refused.port != id);
    }

    /// The next refused route that was not reported yet.
    pub(crate) fn take(&mut self) -> Option<RefusedRoute> {
        self.news.pop_front()
    }

    /// May the route of this offer be learnt? A refused route is counted and reported once.
    pub(crate) fn admits(
        &mut self,
        offer: Offer,
        (routes, ports): (&Routes, &Ports),
        cx: &mut tcp::Cx,
    ) -> bool {
        let Offer { port, is_network, origin, .. } = offer;
        let dest = offer.dest.network();
        let why = match judge(port, dest, is_network, (routes, ports)) {
            Err(why) => why,
            Ok(()) if dest.prefix_len == 0 || is_network || offer.is_wanted => return true,
            Ok(()) => RouteRefusal::NotWanted,
        };
        let is_new = !self.known.contains(&(port, dest));
        if is_new && cx.budget.admits(Limit::RefusedRoutes, self.known.len()) {
            cx.counters.add(Counter::RoutesRefused, 1);
            let port_name = name(ports, port);
            self.known.push((port, dest));
            self.news.push_back(RefusedRoute { port, port_name, dest, origin, why });
        }
        false
    }
}

fn judge(
    id: PortId,
    dest: Cidr,
    is_network: bool,
    (routes, ports): (&Routes, &Ports),
) -> Result<(), RouteRefusal> {
    if dest.prefix_len == 0 {
        return Ok(());
    }
    let least = if dest.addr.is_ipv4() { PREFIX_LEN_MIN.0 } else { PREFIX_LEN_MIN.1 };
    let touches = |other: &Cidr| other.contains(dest.addr) || dest.contains(other.addr);
    if dest.prefix_len < least || SPECIAL.iter().any(touches) {
        return Err(RouteRefusal::Special);
    }
    // Other VRFs may have the same networks.
    let own = ports.vrf(id.0);
    let vrfs: Vec<u32> = ports.iter().map(|port| port.vrf.table()).collect();
    let is_apart = |table: u32| table != own.table() && vrfs.contains(&table);
    let is_protected = |route: &Route| {
        let is_elsewhere = route.port != id.0 && route.origin != RouteOrigin::Redirect;
        let is_static = route.origin == RouteOrigin::Static && !is_network;
        // A network inside of an aggregate that drops the rest is what the aggregate is for.
        let is_around = is_network && route.discard.is_some();
        let is_near = !is_apart(route.table) && !is_around;
        route.dest.prefix_len > 0 && is_near && (is_elsewhere || is_static)
    };
    match routes.overlapping(dest, is_protected) {
        None => Ok(()),
        Some(route) => {
            let (other, port) = (route.dest, name(ports, PortId(route.port)));
            Err(RouteRefusal::Touches { other, port })
        }
    }
}

/// The name of a port, or its number.
fn name(ports: &Ports, id: PortId) -> String {
    let name = ports.get(id.0).map_or("", |port| &port.name);
    if name.is_empty() { id.0.to_string() } else { name.to_owned() }
}
