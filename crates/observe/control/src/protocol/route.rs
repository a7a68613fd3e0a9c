//! Routes, rules, and the FIB's answer for a packet.
//!
//! Called by: `observe`, which fills the rows; `show`, `ip` and `explain`, which read them. `dev`
//! is the name of a port, `port` its number. Groups of users are given by name if the configuration
//! names them.

use core::net::IpAddr;

use base::{Cidr, MacAddr};
use serde::{Deserialize, Serialize};

use super::as_text;

/// A route. Several routes to one destination, each with a weight, share its packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The network of the destination.
    #[serde(with = "as_text")]
    pub destination: Cidr,
    /// The gateway; `None`: the network is on the link.
    pub via: Option<IpAddr>,
    /// The number of the port.
    pub port: u16,
    /// The name of the port.
    pub dev: String,
    /// The number of the table.
    pub table: u32,
    /// The largest packet in bytes, if the route limits it.
    pub mtu: Option<u64>,
    /// The metric; the route with the lowest is used.
    pub metric: u32,
    /// The share of the packets, as a weight.
    pub weight: Option<u8>,
    /// The origin of the route, as in `ip route`: `static`, `kernel`, `ra` and so on.
    pub origin: String,
    /// The time until the route expires.
    pub expires_ms: Option<u64>,
    /// The groups of users that the route is for.
    pub include: Option<Vec<String>>,
    /// The groups of users that the route is not for.
    pub exclude: Option<Vec<String>>,
    /// The route is only for the host's own packets, not for forwarded ones.
    pub no_forward: bool,
    /// How the route drops its packets, as in `ip route`: `blackhole`, `unreachable` or `prohibit`.
    /// Then it has no port, and `dev` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<String>,
    /// What a routing daemon said of the route, if it is a daemon's.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<DaemonRoute>,
}

/// What is known of a route of a routing daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRoute {
    /// The routing protocol that the daemon has the route from, as in `/etc/iproute2/rt_protos`.
    pub protocol: String,
    /// The time since which the route has been as it is, in seconds.
    pub age_s: u64,
    /// The daemon has connected again and has not sent the route again yet.
    #[serde(default)]
    pub stale: bool,
}

/// A rule of policy routing; a field that is `None` matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// The priority; the rule with the lowest is asked first.
    pub priority: u32,
    /// The network of the source.
    #[serde(with = "as_text::option")]
    pub from: Option<Cidr>,
    /// The network of the destination.
    #[serde(with = "as_text::option")]
    pub to: Option<Cidr>,
    /// The number of the port where the packet arrived.
    pub in_port: Option<u16>,
    /// The name of the port.
    pub in_dev: Option<String>,
    /// The packet's mark.
    pub mark: Option<u32>,
    /// The mask of the bits of the mark that count.
    pub mask: Option<u32>,
    /// The group of the packet's owner.
    pub group: Option<String>,
    /// The rule is for all packets that the other fields do not match.
    pub not: bool,
    /// The table in which the route is looked up.
    pub table: Option<u32>,
    /// The action instead of a look-up: `unreachable`, `prohibit` or `blackhole`.
    pub action: Option<String>,
}

/// The FIB's answer for a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum Found {
    /// The packet is for the stack itself.
    Local {
        /// The number of the port that has the address.
        port: u16,
        /// The name of the port.
        dev: String,
        /// The origin of the address, as in the section `addresses`; the loopback port has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
    },
    /// The packet is dropped.
    Dropped {
        /// The reason for the drop.
        drop: String,
        /// The route that drops the packet, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        route: Option<Box<Route>>,
    },
    /// The packet is sent.
    Leaves(Box<Leaving>),
}

/// How a packet leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// The rule that led to the table; `None` if there is only the main table's rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// The table of the route.
    pub table: u32,
    /// The route; `None` if the address belongs to one link.
    pub route: Option<Route>,
    /// The routes to the same prefix that are not used, the next one first.
    #[serde(default)]
    pub others: Vec<Route>,
    /// The number of routes that share the packets, this one included.
    pub paths: u64,
    /// The next hops of all these routes.
    pub next_hops: Vec<NextHop>,
    /// The packet is a broadcast.
    pub broadcast: bool,
    /// The number of the port.
    pub port: u16,
    /// The name of the port.
    pub dev: String,
    /// The neighbour that the packet is sent to.
    pub next_hop: IpAddr,
    /// The source of a packet that has none yet.
    pub source: Option<IpAddr>,
    /// The neighbour's state, as in `ip neigh`.
    pub neighbour: Option<String>,
    /// The neighbour's link address.
    #[serde(with = "as_text::option")]
    pub mac: Option<MacAddr>,
    /// The largest packet in bytes: the smallest of the following MTUs.
    pub mtu: u64,
    /// The port's MTU.
    pub port_mtu: u64,
    /// The route's MTU.
    pub route_mtu: Option<u64>,
    /// The neighbour's MTU.
    pub neighbour_mtu: Option<u64>,
    /// The MTU that routers on the path have reported.
    pub path_mtu: Option<u64>,
}

/// A next hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextHop {
    /// The gateway; `None` if the destination is on the link.
    pub via: Option<IpAddr>,
    /// The name of the port.
    pub dev: String,
    /// The share of the packets, as a weight.
    pub weight: Option<u8>,
}
