//! The shared object that packetdrill loads (`--so_filename`): sockets, packets and time of a stack
//! in virtual time, behind the 33 pointers that packetdrill calls.
//!
//! Called by: packetdrill, from two threads: one executes the script, the other makes the calls
//! that the script expects to block. No code here reads a clock; [`world::World`] says when virtual
//! time moves. Decision 0045.
//!
//! The path of a call: `entry/` converts C's arguments, `world.rs` schedules the threads and the
//! clock, `socket.rs` and its neighbours call the stack, `profile.rs` holds the defaults of
//! sockets.

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
