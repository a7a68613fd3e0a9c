//! Protocols that a host runs beside its stack, to learn names and addresses; and the other side of
//! them, by which a gateway serves its guests: [`dhcp4::Server`], [`dhcp6::Server`],
//! [`ra::Router`], [`dns::Forwarder`].
//!
//! Called by: `net` and programs, which bring the sockets. Nothing here does I/O, reads a clock or
//! draws a random number: time and secrets are arguments, and messages to send are returned.

pub mod dhcp4;
pub mod dhcp6;
pub mod dns;
pub mod ra;

mod loss;
mod names;
mod random;
