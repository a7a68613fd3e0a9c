//! Changes of a running stack, as `ip` asks for them.
//!
//! Called by: `ip` makes them, `control_service/change.rs` carries them out and trusts nothing in
//! them. Limit: [`CHANGES_MAX`].

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The most changes of one request.
pub(crate) const CHANGES_MAX: usize = 500;

/// What is to be done, with the meaning that it has for ip(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verb {
    /// It must not be there.
    Add,
    /// It may be there.
    Replace,
    /// It must be there.
    Change,
    /// Remove it.
    Del,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) verb: Verb,
    pub(crate) of: Object,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Object {
    Route(RouteSpec),
    Rule(RuleSpec),
    Neighbour {
        port: u16,
        ip: IpAddr,
        mac: Option<String>,
    },
    Address {
        port: u16,
        cidr: String,
        valid_s: Option<u64>,
        preferred_s: Option<u64>,
        /// Used at once, without duplicate address detection.
        nodad: bool,
    },
}

/// A route; for [`Verb::Del`] what is not given matches every one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RouteSpec {
    pub(crate) to: String,
    pub(crate) table: u32,
    pub(crate) hops: Vec<Hop>,
    pub(crate) metric: Option<u32>,
    pub(crate) mtu: Option<usize>,
    /// As in output; only for [`Verb::Del`].
    pub(crate) proto: Option<String>,
    /// Its gateway is a neighbour whatever the addresses say.
    pub(crate) onlink: bool,
    /// The names of the groups that it is for, or is not for.
    #[serde(default)]
    pub(crate) include: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) exclude: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) no_forward: bool,
}

/// A rule; for [`Verb::Del`] what is not given matches every one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleSpec {
    /// If it is not given one is chosen.
    pub(crate) priority: Option<u32>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) in_port: Option<u16>,
    /// A mark, and the bits of it that count.
    pub(crate) mark: Option<(u32, u32)>,
    pub(crate) group: Option<String>,
    pub(crate) not: bool,
    pub(crate) table: Option<u32>,
    /// Instead of a table: unreachable, prohibit or blackhole.
    pub(crate) action: Option<String>,
}

/// A next hop; `weight` if it shares the packets with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hop {
    pub(crate) via: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) weight: Option<u8>,
}

/// Whose packet is looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lookup {
    pub(crate) dst: IpAddr,
    pub(crate) src: Option<IpAddr>,
    pub(crate) output: Option<u16>,
    pub(crate) input: Option<u16>,
    pub(crate) uid: u32,
    /// The user's groups on this machine, as far as they are known.
    #[serde(default)]
    pub(crate) gids: Vec<u32>,
    pub(crate) mark: u32,
}
