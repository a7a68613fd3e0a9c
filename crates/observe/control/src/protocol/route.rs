//! Routes, rules, and the FIB's answer for a packet.
//!
//! Called by: `observe` fills them, `show`, `ip` and `explain` read them. `dev` is the name of a
//! port, `port` its number. Groups of users have names where the configuration names them.

use core::net::IpAddr;

use base::{Cidr, MacAddr};
use serde::{Deserialize, Serialize};

use super::as_text;

/// A route. Several routes to one destination, each with a weight, share its packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The network.
    #[serde(with = "as_text")]
    pub destination: Cidr,
    /// The gateway; `None`: the network is on the link.
    pub via: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// Its name.
    pub dev: String,
    /// The number of the table.
    pub table: u32,
    /// The largest packet, in bytes, if the route says so.
    pub mtu: Option<u64>,
    /// The route with the lowest metric is taken.
    pub metric: u32,
    /// Its share.
    pub weight: Option<u8>,
    /// Its origin, as `ip route` has it: `static`, `kernel`, `ra` and so on.
    pub origin: String,
    /// The time until the route expires.
    pub expires_ms: Option<u64>,
    /// The groups of users that it is for.
    pub include: Option<Vec<String>>,
    /// The groups of users that it is not for.
    pub exclude: Option<Vec<String>>,
    /// It is only for packets of the host's own.
    pub no_forward: bool,
}

/// A rule of policy routing; a field that is `None` matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// The lowest is asked first.
    pub priority: u32,
    /// The network of the source.
    #[serde(with = "as_text::option")]
    pub from: Option<Cidr>,
    /// The network of the destination.
    #[serde(with = "as_text::option")]
    pub to: Option<Cidr>,
    /// The port that the packet came by.
    pub in_port: Option<u16>,
    /// Its name.
    pub in_dev: Option<String>,
    /// The packet's mark.
    pub mark: Option<u32>,
    /// The bits of it that count.
    pub mask: Option<u32>,
    /// The group of the packet's owner.
    pub group: Option<String>,
    /// It is for all packets that the other fields do not describe.
    pub not: bool,
    /// Where the route is looked up.
    pub table: Option<u32>,
    /// Instead of a table: `unreachable`, `prohibit` or `blackhole`.
    pub action: Option<String>,
}

/// The FIB's answer for a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum Found {
    /// It is for the stack itself.
    Local {
        /// The port that has the address.
        port: u16,
        /// Its name.
        dev: String,
    },
    /// It is dropped.
    Dropped {
        /// For this reason.
        drop: String,
    },
    /// It is sent.
    Leaves(Box<Leaving>),
}

/// How a packet leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// The rule that led to the table; `None`: there is only the main table's rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// The table of the route.
    pub table: u32,
    /// The route; `None`: the address is of one link.
    pub route: Option<Route>,
    /// Routes that share the packets, this one included.
    pub paths: u64,
    /// The next hops of all of them.
    pub next_hops: Vec<NextHop>,
    /// It is a broadcast.
    pub broadcast: bool,
    /// The port.
    pub port: u16,
    /// Its name.
    pub dev: String,
    /// The neighbour that the packet is sent to.
    pub next_hop: IpAddr,
    /// The source of a packet that has none yet.
    pub source: Option<IpAddr>,
    /// The neighbour's state, as `ip neigh` has it.
    pub neighbour: Option<String>,
    /// Its link address.
    #[serde(with = "as_text::option")]
    pub mac: Option<MacAddr>,
    /// The largest packet, in bytes: the least of those that follow.
    pub mtu: u64,
    /// The port's.
    pub port_mtu: u64,
    /// The route's.
    pub route_mtu: Option<u64>,
    /// The neighbour's.
    pub neighbour_mtu: Option<u64>,
    /// The MTU that routers on the path have reported.
    pub path_mtu: Option<u64>,
}

/// A next hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextHop {
    /// The gateway; `None`: the destination is on the link.
    pub via: Option<IpAddr>,
    /// The name of the port.
    pub dev: String,
    /// Its share.
    pub weight: Option<u8>,
}
