//! A DNS stub resolver (RFC 1035, RFC 1123 section 6.1): the addresses of hosts, asked from
//! recursive servers. And a [`Forwarder`], by which a gateway answers the questions of its guests.
//!
//! Called by: code that has sockets. Nothing here does I/O or reads a clock. A [`Resolver`] is made
//! once; [`Resolver::lookup`] begins a [`Lookup`], for which its owner
//! 1. does each [`Lookup::next_action`] until there is none;
//! 2. ends when there is a [`Lookup::outcome`];
//! 3. waits for its sockets and for [`Lookup::deadline`], passes each event to
//!    [`Lookup::on_datagram`], [`Lookup::on_bytes`], [`Lookup::on_failure`] or
//!    [`Lookup::on_deadline`], and begins again at 1.
//!
//! Addresses come in the order of the answers, IPv6 first; RFC 6724 is for the caller. Limits:
//! [`limits`]. Decisions: docs/decisions/0065-dns.md.

mod cache;
mod config;
mod error;
mod exchange;
mod forwarder;
mod hosts;
pub mod limits;
mod lookup;
mod message;
mod name;
mod resolver;

pub use config::{Config, Note, PORT};
pub use error::LookupError;
pub use exchange::Send;
pub use forwarder::asking::{Said, question, said};
pub use forwarder::{
    Answered, Asked, Forwarder, ForwarderAction, ForwarderConfig, ForwarderCounts, Framing,
    Learned, Policy, QueryId, Target, TooLong, Transport, Verdict, address_of_pointer, framed,
};
pub use hosts::Hosts;
pub use lookup::{Action, Families, Lookup};
pub use message::Kind;
pub use name::{DomainName, NameError};
pub use resolver::{Counts, Resolver};

#[cfg(test)]
mod tests;
