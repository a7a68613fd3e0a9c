//! Flow export: the states of the firewall and the events of its NAT as messages of IPFIX.
//!
//! Called by: the router, which sends the messages. An [`Exporter`] makes the messages of one
//! observation domain: templates, records, sequence numbers. It has no socket and reads no clock. A
//! record describes one direction of a flow, so that every collector counts it, also one that does
//! not know records of two directions (RFC 5103). docs/filter.md, docs/decisions/0136. RFC 7011,
//! RFC 7012, RFC 8158.

mod element;
mod exporter;
mod message;
mod record;
mod template;

#[cfg(test)]
mod tests;

pub use exporter::{Exporter, Interface, Message};
pub use record::Clock;
