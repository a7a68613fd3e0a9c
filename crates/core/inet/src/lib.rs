//! The layers below TCP, and the tables of a host: Ethernet, IP, ICMP, UDP, fragments, addresses,
//! neighbours, routes. No layer here calls another: each takes a borrowed packet and returns a
//! small value; crate `stack` calls them in order.
//!
//! Called by: `stack/rx.rs` and `stack/tx.rs`. This crate has no connections, devices or clock.
//! RFC 791, 8200, 792, 4443, 768, 826, 3376, 3810, 4861, 1122.

pub mod acd;
pub mod address;
pub mod dad;
pub mod dplpmtud;
pub mod ether;
pub mod flow;
pub mod forward;
pub mod frag;
pub mod group;
pub mod icmp;
pub mod ident;
pub mod ip_input;
pub mod ip_output;
pub mod nd;
pub mod neighbour;
pub mod redirect_check;
pub mod route;
pub mod router;
pub mod select;
pub mod slaac;
pub mod solicit;
pub mod udp;
pub mod vrf;

pub use address::{Address, AddressState, Origin};
pub use flow::FlowKey;
pub use frag::Fragments;
pub use ident::Identifications;
pub use ip_input::Ip;
pub use ip_output::HeaderTemplate;
pub use neighbour::Neighbours;
pub use route::{
    Access, Fib, NextHop, NoRoute, Route, RouteOrigin, Routes, Rule, RuleError, Selector, Sender,
};
pub use vrf::Vrf;

#[cfg(test)]
mod tests;
