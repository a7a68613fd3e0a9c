//! Protocols that a host runs beside its stack, to learn names and addresses.
//!
//! Called by: `net` and programs, which bring the sockets. Nothing here does I/O, reads a clock or
//! draws a random number: time and secrets are arguments, and messages to send are returned.

pub mod dhcp4;
pub mod dhcp6;
pub mod dns;

mod loss;
mod names;
mod random;
