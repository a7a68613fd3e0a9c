//! The fence of a gateway: which names, addresses and ports a guest may reach.
//!
//! Called by: `netns`, `gateway`, programs with a gateway of their own. Read `rules.rs` first, then
//! `fence.rs`. A [`Fence`] is the policy of the engine (`gateway::Policy`) and of the forwarder of
//! names (`host::dns::Policy`). It does no I/O and reads no clock: its owner passes the time to
//! [`Fence::set_now`] once a turn, and takes lines of the log with [`Fence::next_line`].
//! docs/gateway.md has the language.
//!
//! A name is allowed only for addresses that our resolver has given for it ([`pins`]). A rule by
//! addresses judges an IPv4 address inside of an IPv6 address, too ([`group::inner`]).

pub mod compiled;
mod fence;
mod flows;
pub mod group;
pub mod hello;
mod hellos;
pub mod learn;
pub mod log;
pub mod name;
pub mod pins;
pub mod plain;
pub mod questions;
mod quic;
mod resolving;
pub mod rules;
mod targets;
pub mod text;

pub use compiled::{Destination, Protocol};
pub use fence::{Counts, Decision, Fence, Hello};
pub use group::{Group, HostAddresses};
pub use rules::{Action, Rules};
