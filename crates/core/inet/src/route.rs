//! The route table: routes that the user sets or the network offers; longest prefix match.
//!
//! Called by: `stack` when a connection is opened, a datagram is sent or a packet forwarded.
//! [`Routes`] is the RIB: all routes, by prefix, owned by one thread. [`Fib`] is its compiled form,
//! for lookups by any thread. [`Routes::lookup`] also takes the packet's source and sender: a
//! [`Rule`] selects by them, and a route may be for some users only. RFC 1122 section 3.3.1, RFC
//! 1812 section 5.2.4. Limits: [`ROUTES_MAX`], [`TABLES_MAX`], [`PATHS_MAX`], [`RETIRED_MAX`],
//! [`RULES_MAX`], [`GROUPS_MAX`]. docs/decisions/0075, 0080.

mod access;
mod arena;
mod discard;
mod ecmp;
mod epoch;
mod fib;
mod group;
mod lookup;
mod restricted;
mod reverse;
mod rib;
mod rule;
mod shared;
mod trie;
mod update;
mod view;

use core::net::IpAddr;
use core::num::NonZeroU8;
use std::sync::Arc;

use base::{Cidr, Instant, Mtu};

pub use access::{Access, GROUPS_MAX, Selector, Sender};
pub use discard::{Discard, NO_PORT};
pub use fib::Fib;
pub use group::{GroupIndex, flow_v4, flow_v6};
pub use restricted::Restricted;
pub use reverse::SourceCheck;
pub use rib::Routes;
pub use rule::{Action, MAIN_PRIORITY, NoRoute, RULES_MAX, Rule, RuleError, VRF_PRIORITY};
pub use view::{Reader, View};

/// The table that is used unless a rule selects another.
pub const MAIN_TABLE: u32 = 254;
/// The most routes of one stack, even if the limit `routes` is higher.
pub const ROUTES_MAX: usize = 1 << 21;
/// The most tables of one stack. A table that was used once keeps counting.
pub const TABLES_MAX: usize = 256;
/// The most records that wait for a reader to end its burst. At this number no route is added.
pub const RETIRED_MAX: usize = 1 << 19;
/// The most routes to one prefix that share its packets. Further ones are kept, but not used.
pub const PATHS_MAX: usize = 64;

/// Where a route comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RouteOrigin {
    /// Set by the user.
    Static,
    /// The network of an address of ours.
    Connected,
    /// From a router advertisement (RFC 4861 section 6.3.4, RFC 4191).
    Advertised,
    /// From a redirect (RFC 1122 section 3.3.1.2, RFC 4861 section 8.3).
    Redirect,
    /// From a DHCP server.
    Dhcp,
    /// From FRR, by FPM.
    Fpm,
    /// From the routes of the kernel, as BIRD writes them.
    Rtnetlink,
}

/// One route.
///
/// ```
/// # mod wirespeed { pub use {base::*, wirespeed_inet::*}; }
/// use std::num::NonZeroU8;
/// use wirespeed::Route;
///
/// let port = 0; // the number in a `PortId`
/// let default = Route::new("0.0.0.0/0".parse()?, Some("192.0.2.1".parse()?), port);
/// let on_link = Route::new("198.51.100.0/24".parse()?, None, port);
/// let worse = Route { metric: 10, ..default.clone() }; // used when the other one is gone
/// let half = default.shared(NonZeroU8::MIN); // shares packets with another of weight 1
/// # assert!(on_link.via.is_none() && worse.metric == 10 && half.weight.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The destination prefix.
    pub dest: Cidr,
    /// The gateway; `None` if the destination is on the link. The gateway of an IPv4 route may have
    /// an IPv6 address (RFC 8950): neighbour discovery finds its link address, and the packets stay
    /// IPv4.
    pub via: Option<IpAddr>,
    /// The port to send on.
    pub port: u16,
    /// The routing table that the route belongs to.
    pub table: u32,
    /// The largest packet to send by the route; `None`: the port's MTU.
    pub mtu: Option<Mtu>,
    /// Of the routes to a prefix the one with the lowest metric is used, of equal ones the one with
    /// the lowest [`RouteOrigin::distance`], and then the first that was added.
    pub metric: u32,
    /// The route's weight, if it shares packets with other routes to the same prefix and of the
    /// same metric that have a weight (ECMP, RFC 2992). `None`: it does not share packets.
    pub weight: Option<NonZeroU8>,
    /// How the route came to be.
    pub origin: RouteOrigin,
    /// The route is not used from this time on; [`Instant::NEVER`]: it stays.
    pub expires: Instant,
    /// The users that may use the route; `None`: everybody.
    pub access: Option<Arc<Access>>,
    /// Only sockets of this host use the route: forwarded packets skip it.
    pub no_forward: bool,
    /// The route drops its packets, and has no port ([`NO_PORT`]).
    pub discard: Option<Discard>,
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The port to send on.
    pub port: u16,
    /// The neighbour to send to.
    pub neighbour: IpAddr,
    /// The route's MTU.
    pub mtu: Option<Mtu>,
}

impl Route {
    /// A route that the user sets in the main table: to `dest` by the gateway `via`, or on the link
    /// if `via` is `None`.
    pub fn new(dest: Cidr, via: Option<IpAddr>, port: u16) -> Route {
        Route {
            dest,
            via,
            port,
            table: MAIN_TABLE,
            mtu: None,
            metric: 0,
            weight: None,
            origin: RouteOrigin::Static,
            expires: Instant::NEVER,
            access: None,
            no_forward: false,
            discard: None,
        }
    }

    /// The same route with another origin.
    pub fn with_origin(self, origin: RouteOrigin) -> Route {
        Route { origin, ..self }
    }

    /// The same route, which shares packets by `weight` with others to its prefix and of its
    /// metric.
    pub fn shared(self, weight: NonZeroU8) -> Route {
        Route { weight: Some(weight), ..self }
    }

    /// The next hop of a packet to `dst` by this route.
    /// RFC 8950 4-a.
    pub fn next_hop(&self, dst: IpAddr) -> NextHop {
        NextHop { port: self.port, neighbour: self.via.unwrap_or(dst), mtu: self.usable_mtu() }
    }

    /// The MTU that packets get: a route that the network offered may have one below the minimum
    /// of an IPv6 link (RFC 8200 section 5). IPv4 by an IPv6 gateway keeps its own minimum.
    fn usable_mtu(&self) -> Option<Mtu> {
        let least = if self.dest.addr.is_ipv4() { Mtu::MIN_V4 } else { Mtu::MIN_V6 };
        self.mtu.map(|mtu| mtu.max(least))
    }

    /// What is compared with other routes to the prefix; the lower one is used.
    fn rank(&self) -> (u32, u8) {
        (self.metric, self.origin.distance())
    }

    /// Does one of two routes to the same prefix replace the other? Routes that share packets and
    /// have different gateways do not, and routes of a routing daemon stay beside all others,
    /// because it takes its own away again.
    fn is_like(&self, other: &Route) -> bool {
        let are_alone = self.weight.is_none() && other.weight.is_none();
        self.origin.is_of_daemon() == other.origin.is_of_daemon()
            && self.port == other.port
            && (are_alone || self.via == other.via)
    }
}

impl RouteOrigin {
    /// The number of origins.
    const COUNT: usize = RouteOrigin::Rtnetlink as usize + 1;

    /// The name in output: that of `ip route`, if it has one.
    pub const fn name(self) -> &'static str {
        match self {
            RouteOrigin::Static => "static",
            RouteOrigin::Connected => "kernel",
            RouteOrigin::Advertised => "ra",
            RouteOrigin::Redirect => "redirect",
            RouteOrigin::Dhcp => "dhcp",
            RouteOrigin::Fpm => "fpm",
            RouteOrigin::Rtnetlink => "rtnetlink",
        }
    }

    /// Among routes to a prefix with the same metric the lowest distance wins. The numbers are
    /// those of routers: FRR has 0, 1, 20 for external BGP; its user gives others by the metric.
    pub const fn distance(self) -> u8 {
        match self {
            RouteOrigin::Connected => 0,
            RouteOrigin::Static => 1,
            RouteOrigin::Redirect => 2,
            RouteOrigin::Fpm | RouteOrigin::Rtnetlink => 20,
            RouteOrigin::Dhcp => 210,
            RouteOrigin::Advertised => 220,
        }
    }

    /// Does a routing daemon beside the router add and remove the route, and nobody else?
    pub const fn is_of_daemon(self) -> bool {
        matches!(self, RouteOrigin::Fpm | RouteOrigin::Rtnetlink)
    }
}

#[cfg(test)]
mod tests;
