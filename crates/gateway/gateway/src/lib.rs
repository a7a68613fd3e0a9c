//! The engine of a gateway: a guest whose only way out is our stack gets its TCP flows, its
//! datagrams and its echoes carried by an outside. No system call, no clock, no randomness: generic
//! over [`Outside`], and tested in virtual time.
//!
//! Called by: programs with an event loop. Read `gateway.rs` first, then `tcp/`: `begin.rs` (a SYN
//! becomes a flow), `run.rs` (a turn of a flow), `up.rs` and `down.rs` (bytes), `end.rs`. Datagrams
//! are in `datagrams/`, questions for names in `names/`, clients of a proxy in `proxy/`.
//!
//! A SYN is answered only when the outside is connected, so that a guest sees refusals as they
//! are. Bytes are read from a side only while the other takes them, so the window that the guest
//! sees is the room that the outside has.

mod around;
pub mod beyond;
mod bucket;
mod config;
mod counts;
mod datagrams;
mod flow;
mod gateway;
mod names;
mod observe;
mod outside;
mod policy;
mod proxy;
mod report;
mod tcp;

pub use around::Around;
pub use config::{Config, NamesConfig};
pub use counts::Counts;
pub use datagrams::{Filtering, SessionKey};
pub use flow::State;
pub use gateway::Gateway;
pub use observe::{FlowRow, SessionRow};
pub use outside::{
    Ends, Failure, Incoming, Outcome, Outgoing, Outside, Problem, Ready, Received, Stop, Token,
};
pub use policy::{AllowAll, Glance, Policy, Verdict};
pub use proxy::{Credentials, datagram_from, datagram_header};
pub use report::{End, Protocol, Report};

/// Bytes that a flow moves in a turn in each direction, at most.
pub const TURN_BYTES: usize = 256 * 1024;
