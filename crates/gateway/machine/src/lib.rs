//! A running gateway: guests on one side, the host's sockets on the other side, and rules between
//! them. Crate `gateway` has the engine, `outside` the sockets, `policy` the rules, and this crate
//! the loop that runs them. Linux only.
//!
//! Called by: programs that give virtual machines a network, by [`Gateway`], in a thread of their
//! own process; the program `wirespeed`, by [`parts`], in a process that has given up its
//! privileges (crate `jail`). Read `machine.rs` first, then `machine/turns.rs`.
#![cfg(target_os = "linux")]

mod addresses;
mod asking;
mod beyond;
mod config;
mod connection;
mod default_routes;
mod egress;
mod ends;
mod engine;
mod guests;
mod lines;
mod link;
mod links;
mod listening;
mod log;
mod machine;
mod messages;
mod near;
mod networks;
mod orders;
pub mod parts;
mod ports;
mod publish;
mod routers;
mod rules;
mod running;
mod servers;
mod settings;
mod taken;
mod values;
mod vm;
mod wakes;
mod watch;

pub use config::{Config, Log, Say};
pub use networks::Network;
pub use running::{Error, Gateway};
pub use values::{Dns, Net4, Net6, Usage};
pub use vm::{Vm, VmKind};
