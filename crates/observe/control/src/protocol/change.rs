//! Changes of a running stack, as `ip` asks for them, and what it asks of the FIB.
//!
//! Called by: `ip` makes them, `observe` carries them out and trusts nothing in them. Limit:
//! [`CHANGES_MAX`].

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The most changes of one request.
pub const CHANGES_MAX: usize = 500;

/// The kind of a change, with its meaning in ip(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Add it; it must not be there.
    Add,
    /// Add it; it may be there, and is then replaced.
    Replace,
    /// Change it; it must be there.
    Change,
    /// Remove it.
    Del,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The kind of the change.
    pub verb: Verb,
    /// The thing that is changed.
    pub of: Object,
}

/// The object of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Object {
    /// A route, or all that share its packets.
    Route(RouteSpec),
    /// A rule of policy routing.
    Rule(RuleSpec),
    /// A neighbour.
    Neighbour {
        /// The number of its port.
        port: u16,
        /// Its address.
        ip: IpAddr,
        /// Its link address; not for [`Verb::Del`].
        mac: Option<String>,
    },
    /// An address of the stack.
    Address {
        /// The number of its port.
        port: u16,
        /// The address with the length of its network's prefix.
        cidr: String,
        /// How long it is there, in seconds; `None`: for ever.
        valid_s: Option<u64>,
        /// How long it is the source of new connections; `None`: as long as it is there.
        preferred_s: Option<u64>,
        /// Used at once, without duplicate address detection.
        nodad: bool,
    },
}

/// A route; for [`Verb::Del`] a field that is not given matches every route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// The destination, a network.
    pub to: String,
    /// The number of the table.
    pub table: u32,
    /// Its next hop, or several that share the packets.
    pub hops: Vec<Hop>,
    /// The metric; `None`: 0.
    pub metric: Option<u32>,
    /// The largest packet, in bytes.
    pub mtu: Option<usize>,
    /// The route's origin, as in output; only for [`Verb::Del`].
    pub proto: Option<String>,
    /// Its gateway is a neighbour whatever the addresses say.
    pub onlink: bool,
    /// The names of the groups that it is for.
    #[serde(default)]
    pub include: Option<Vec<String>>,
    /// The names of the groups that it is not for.
    #[serde(default)]
    pub exclude: Option<Vec<String>>,
    /// Only for packets of this host's own.
    #[serde(default)]
    pub no_forward: bool,
}

/// A rule; for [`Verb::Del`] a field that is not given matches every rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSpec {
    /// If it is not given one is chosen.
    pub priority: Option<u32>,
    /// The network of the source.
    pub from: Option<String>,
    /// The network of the destination.
    pub to: Option<String>,
    /// The number of the port that a packet came by.
    pub in_port: Option<u16>,
    /// A mark, and the bits of it that count.
    pub mark: Option<(u32, u32)>,
    /// The group of the packet's owner.
    pub group: Option<String>,
    /// It is for all packets that the other fields do not describe.
    pub not: bool,
    /// Where the route is looked up.
    pub table: Option<u32>,
    /// Instead of a table: unreachable, prohibit or blackhole.
    pub action: Option<String>,
}

/// A next hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The gateway.
    pub via: Option<IpAddr>,
    /// The number of its port.
    pub port: Option<u16>,
    /// Its share, if it shares the packets with others.
    pub weight: Option<u8>,
}

/// A packet that is looked up in the FIB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// Its destination.
    pub dst: IpAddr,
    /// Its source.
    pub src: Option<IpAddr>,
    /// The number of the port that its socket is bound to.
    pub output: Option<u16>,
    /// The number of the port that it came by.
    pub input: Option<u16>,
    /// The user that sends it.
    pub uid: u32,
    /// The user's groups on this machine, as far as they are known.
    #[serde(default)]
    pub gids: Vec<u32>,
    /// Its mark.
    pub mark: u32,
}
