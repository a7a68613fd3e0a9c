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
    pub(crate) mark: u32,
}
