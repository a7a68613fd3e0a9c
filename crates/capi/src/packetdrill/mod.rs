//! The shared object that packetdrill loads (`--so_filename`): sockets, packets and time of a stack
//! in virtual time, behind the 33 pointers that packetdrill calls.
//!
//! Called by: packetdrill, from two threads: one that walks through the script, and one that makes
//! the calls a script expects to block. It reads no clock; time moves when it is asked for
//! ([`world::World`]). Decision 0045.
//!
//! The way of a call: `entry.rs` takes C's arguments, `world.rs` finds out whose turn it is and
//! what time it is, `socket.rs` and its neighbours ask the stack, `profile.rs` says how sockets
//! begin.

mod address;
mod control;
mod entry;
mod epoll;
mod fast_open;
mod file;
mod flags;
mod info;
mod interface;
mod listing;
mod notifications;
mod options;
mod preload;
mod profile;
mod ready;
mod socket;
mod sysctls;
mod transfer;
mod usage;
mod wire;
mod world;

pub use interface::{Interface, packetdrill_interface_init};

/// What a call comes to; an error goes to the caller's `errno`.
type Call<T> = Result<T, rustix::io::Errno>;

#[cfg(test)]
mod tests;
