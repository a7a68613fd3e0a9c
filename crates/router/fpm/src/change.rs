//! The result of a frame: changes of routes, and of the next hops that routes share.
//!
//! Called by: the RIB of the router, which takes changes in their order.

use core::net::IpAddr;

use base::Cidr;

/// What a route is known by. The protocol is no part of it: zebra deletes a route with the protocol
/// that the route had, and adds the one in its place with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The kernel's number of the routing table; 254 is the main table.
    pub table: u32,
    /// The destination, without host bits.
    pub prefix: Cidr,
}

impl Key {
    fn rank(&self) -> (u32, IpAddr, u8) {
        (self.table, self.prefix.addr, self.prefix.prefix_len)
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> core::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// One next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The index of the interface in zebra's network namespace; 0: the message names none.
    pub interface: u32,
    /// The gateway; `None` if the destination is on the link. A gateway of IPv6 may carry IPv4
    /// (RFC 8950).
    pub gateway: Option<IpAddr>,
    /// The share of the packets, from 1.
    pub weight: u16,
}

/// A route that drops its packets, in the words of rtnetlink(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Discard {
    /// Dropped in silence (`RTN_BLACKHOLE`).
    Blackhole,
    /// Answered as unreachable (`RTN_UNREACHABLE`).
    Unreachable,
    /// Answered as prohibited (`RTN_PROHIBIT`).
    Prohibit,
}

impl Discard {
    /// The name, as `ip route` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Discard::Blackhole => "blackhole",
            Discard::Unreachable => "unreachable",
            Discard::Prohibit => "prohibit",
        }
    }
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reachable {
    /// By these next hops. Empty: by none that is known yet.
    Hops(Vec<Hop>),
    /// Nowhere.
    Discard(Discard),
}

/// The next hops of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHops {
    /// Those of this number; [`Change::NextHops`] says which they are, before the route or behind
    /// it.
    Id(u32),
    /// These.
    Inline(Reachable),
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The next hops of a number are now these: for all routes that name it.
    NextHops {
        /// The number.
        id: u32,
        /// The next hops; `None`: the number is not in use any more.
        to: Option<Reachable>,
    },
    /// The route to a prefix is now this one.
    Replace {
        /// Its table and prefix.
        key: Key,
        /// Its next hops.
        next_hops: NextHops,
        /// The metric of rtnetlink (`RTA_PRIORITY`); the lower one is better.
        metric: u32,
        /// The kernel's number of the routing protocol, as in `/etc/iproute2/rt_protos`.
        protocol: u8,
    },
    /// There is no route to a prefix.
    Delete {
        /// Its table and prefix.
        key: Key,
    },
}
