//! The interface of the crate `netstack-smoltcp`, version 0.2, over wirespeed's stack: IP packets
//! of a TUN interface become TCP streams and UDP datagrams. A program that depends on that crate
//! gets this one by three lines in its manifest, and is not changed:
//!
//! ```toml
//! [patch.crates-io]
//! netstack-smoltcp = { path = "wirespeed/crates/sockets/netstack-smoltcp" }
//! ```
//!
//! Called by: such programs. docs/smoltcp.md says what differs. Each queue between the program and
//! the stack has the limit that [`StackBuilder`] names, and the stack has the limits of its budget.
//!
//! A stack with UDP alone needs no runner, as in the original: it has a thread.

mod filter;
mod packet;
mod queue;
mod runner;
pub mod stack;
pub mod tcp;
pub mod udp;

pub use filter::{IpFilter, IpFilters};
pub use runner::Runner;
/// The crate that the original is built on, of the version that it exports.
pub use smoltcp;
pub use stack::{Stack, StackBuilder};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;

/// An IP packet, as the program reads it from its TUN interface and writes it there.
pub type AnyIpPktFrame = Vec<u8>;
