//! The routing daemons beside a router: where their routes come from, and the mirrors by which they
//! see its ports.
//!
//! Called by: `observe`, which passes on what the router says; `show`, which reads it.

use serde::{Deserialize, Serialize};

/// A source of daemons' routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteSource {
    /// `fpm`: zebra's connection. `rtnetlink`: the kernel's table of the daemons' namespace.
    pub source: String,
    /// Address and port of zebra, if it is connected.
    pub peer: Option<String>,
    /// Routes that are known from it. They stay while it is away.
    pub routes: u64,
    /// Next hops and groups that have a number.
    pub nexthops: u64,
    /// Changes that the forwarding table does not have yet, of all sources.
    pub pending: u64,
    /// Routes and next hops that are not used, by reason, and how many: `encap_mpls 3`.
    pub refused: Vec<String>,
}

/// The mirror of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mirror {
    /// The name of the port, which is the name of the interface that programs see.
    pub name: String,
    /// The interface is there and up.
    pub up: bool,
    /// Frames for programs.
    pub punted: u64,
    /// Their bytes.
    pub punted_bytes: u64,
    /// Frames of programs that the stack took.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that were dropped, by reason, and how many: `mirror-full 3`. `wirespeed show drops`
    /// says why the stack refused some.
    pub dropped: Vec<String>,
}
