//! The shared object that packetdrill loads (`--so_filename`) to test this stack instead of a
//! kernel. Packetdrill gets 33 function pointers from it ([`Interface`]). It calls them for
//! sockets, for packets and for the time, which is virtual.
//!
//! Called by: packetdrill, from two threads: one executes the script, the other makes the calls
//! that the script expects to block. No code here reads a clock; [`world::World`] says when virtual
//! time moves. Reasons: docs/decisions/0045-packetdrill.md.
//!
//! The path of a call: `entry/` converts C's arguments, `world.rs` schedules the threads and the
//! clock, and a file for each kind of call (`socket.rs`, `transfer.rs`, `options.rs`, `ready.rs`
//! and others) calls the stack. `profile.rs` defines the initial settings of sockets: Linux's or
//! FreeBSD's.

#![cfg(target_os = "linux")]

mod address;
mod control;
mod entry;
mod epoll;
mod fast_open;
mod file;
mod flags;
mod info;
mod interface;
mod notifications;
mod options;
mod preload;
mod profile;
mod ready;
mod served;
mod shown;
mod socket;
mod sysctls;
mod transfer;
mod wire;
mod world;

pub use interface::{Interface, packetdrill_interface_init};

/// The result of a call. An error goes to the caller's `errno`.
type Call<T> = Result<T, rustix::io::Errno>;

#[cfg(test)]
mod tests;
