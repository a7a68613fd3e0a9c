//! Clients of the protocols that configure a host, as state machines without I/O.
//!
//! Called by: whoever has a socket for them. Nothing here opens a socket, reads a clock or draws a
//! random number: the caller passes bytes, `now` and a secret in, and carries out the actions that
//! come out. Imports `base` alone.

pub mod dhcp4;
pub mod dhcp6;

mod names;
mod random;
