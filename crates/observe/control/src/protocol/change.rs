//! Messages by which `wirespeed ip` changes routes, rules, neighbours and addresses of a running
//! stack ([`Change`]), and asks for the route of a packet ([`Lookup`]).
//!
//! Called by: `ip`, which makes the messages; `observe`, which checks every field and carries the
//! changes out. Limit: [`CHANGES_MAX`].

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The most changes of one request.
pub const CHANGES_MAX: usize = 500;

/// The kind of a change, with its meaning in ip(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Add the object, which must not exist.
    Add,
    /// Add the object, or replace it if it exists.
    Replace,
    /// Change the object, which must exist.
    Change,
    /// Remove the object, which must exist.
    Del,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The kind of the change.
    pub verb: Verb,
    /// The object that is changed.
    pub of: Object,
}

/// The object of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Object {
    /// A route, with one next hop or with several that share its packets.
    Route(RouteSpec),
    /// A rule of policy routing.
    Rule(RuleSpec),
    /// A neighbour.
    Neighbour {
        /// The number of the port.
        port: u16,
        /// The neighbour's address.
        ip: IpAddr,
        /// The neighbour's link address; not for [`Verb::Del`].
        mac: Option<String>,
    },
    /// An address of the stack.
    Address {
        /// The number of the port.
        port: u16,
        /// The address with the prefix length of its network.
        cidr: String,
        /// Valid lifetime: how long the address exists, in seconds; `None`: for ever.
        valid_s: Option<u64>,
        /// Preferred lifetime: how long new connections may use it as their source, in seconds;
        /// `None`: as long as it exists.
        preferred_s: Option<u64>,
        /// Use the address at once, without duplicate address detection.
        nodad: bool,
    },
}

/// A route; for [`Verb::Del`] a field that is not given matches every route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// The network of the destination, as a prefix.
    pub to: String,
    /// The number of the table.
    pub table: u32,
    /// The next hop, or several that share the packets.
    pub hops: Vec<Hop>,
    /// The metric; `None`: 0.
    pub metric: Option<u32>,
    /// The largest packet that the route carries, in bytes.
    pub mtu: Option<usize>,
    /// The origin of the route, by its name in the output of `ip route`; only for [`Verb::Del`].
    pub proto: Option<String>,
    /// The gateway is on the link, even if it is in no network of the port's addresses.
    pub onlink: bool,
    /// The names of the groups of users whose packets the route is for; `None`: it is for all.
    #[serde(default)]
    pub include: Option<Vec<String>>,
    /// The names of the groups of users whose packets the route is not for.
    #[serde(default)]
    pub exclude: Option<Vec<String>>,
    /// The route is only for packets of this host, not for forwarded ones.
    #[serde(default)]
    pub no_forward: bool,
    /// The type of a route that drops its packets: `blackhole`, `unreachable` or `prohibit`.
    #[serde(default)]
    pub discard: Option<String>,
}

/// A rule; for [`Verb::Del`] a field that is not given matches every rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSpec {
    /// The priority of the rule; `None`: the stack chooses one.
    pub priority: Option<u32>,
    /// The network of the source.
    pub from: Option<String>,
    /// The network of the destination.
    pub to: Option<String>,
    /// The number of the port where a packet arrived.
    pub in_port: Option<u16>,
    /// A packet mark, and the mask of the bits that are compared.
    pub mark: Option<(u32, u32)>,
    /// The name of a group of users that the packet's owner is in.
    pub group: Option<String>,
    /// The rule is for all packets that the other fields do not match.
    pub not: bool,
    /// The number of the table in which the route is looked up.
    pub table: Option<u32>,
    /// What happens to the packet instead of a look-up: `unreachable`, `prohibit` or `blackhole`.
    pub action: Option<String>,
}

/// A next hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The gateway.
    pub via: Option<IpAddr>,
    /// The number of the port.
    pub port: Option<u16>,
    /// The weight of the next hop, if several next hops share the route's packets.
    pub weight: Option<u8>,
}

/// A packet whose route is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// The packet's destination.
    pub dst: IpAddr,
    /// The packet's source.
    pub src: Option<IpAddr>,
    /// The number of the port that the packet's socket is bound to.
    pub output: Option<u16>,
    /// The number of the port where the packet arrived.
    pub input: Option<u16>,
    /// The user that sends the packet.
    pub uid: u32,
    /// The user's groups on this machine, as far as they are known.
    #[serde(default)]
    pub gids: Vec<u32>,
    /// The packet mark.
    pub mark: u32,
    /// The table of the VRF that the packet belongs to, if it did not arrive.
    #[serde(default)]
    pub vrf: Option<u32>,
}
