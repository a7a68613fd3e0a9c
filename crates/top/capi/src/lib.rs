//! `libwirespeed`: the stack for programs in C, and in any language that calls C. The calls have
//! the shape of BSD's sockets; docs/c.md is the page for their users.
//!
//! Called by: programs, through symbols with C linkage. `include/wirespeed.h` is made of the
//! comments here by cbindgen, so these comments are written for readers of C.
//!
//! # How it works
//! A handle is an integer with a generation (`handles.rs`), so a stale one is an error. Each call
//! goes through `entry::call`, which turns errors into negative error numbers, keeps their text,
//! stops panics at the edge, and refuses calls from callbacks. Beneath is `net`: a stack with a
//! driver thread, or one that the program polls (`Net::stepped`).
//!
//! A call that waits for something other than a byte stream waits in `news.rs`, where `ws_close`
//! wakes it too. Descriptors for event loops are in `events.rs`.
//!
//! A gateway (`gateway.rs`, feature `gateway`) is another object, without sockets: crate `machine`
//! in a thread.

#![cfg(target_os = "linux")]
// The interface to C is `unsafe` at every edge: pointers of the caller.
#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the comments are for C, whose pointers are promises"
)]
// The C names, in the header and here.
#![allow(non_camel_case_types, reason = "C's names")]

mod address;
mod calls;
mod clock;
mod device_of_program;
mod entry;
mod error;
mod events;
mod forwarder;
#[cfg(feature = "gateway")]
mod gateway;
mod handles;
mod hooks;
mod lookups;
mod memory;
mod news;
mod open;
mod options;
mod ports;
mod queue;
mod resolve;
mod routes;
mod settings;
mod socket;
mod stack_calls;
mod stack_of_program;
mod transfer;
mod types;

pub use calls::{
    ws_accept, ws_bind, ws_close, ws_connect, ws_getpeername, ws_getsockname, ws_listen,
    ws_set_nonblocking, ws_shutdown, ws_socket,
};
pub use entry::{ws_last_error, ws_strerror, ws_version};
pub use events::{ws_events, ws_poll, ws_stack_fd, ws_watch};
pub use forwarder::{ws_admit, ws_forwarder};
#[cfg(feature = "gateway")]
pub use gateway::{ws_gateway_has_ended, ws_gateway_networks, ws_gateway_start, ws_gateway_stop};
pub use options::{ws_getsockopt, ws_setsockopt};
pub use ports::{
    ws_pair, ws_port_descriptor, ws_port_device, ws_port_remove, ws_port_tap, ws_port_tun,
    ws_port_wake,
};
pub use resolve::{ws_resolve, ws_set_resolver};
pub use routes::{
    ws_address_add, ws_address_remove, ws_counter, ws_limit_of, ws_neighbour_add, ws_route_add,
    ws_route_remove,
};
pub use stack_calls::{
    ws_next_deadline, ws_stack_free, ws_stack_new, ws_stack_poll, ws_stack_start,
};
pub use transfer::{ws_recv, ws_recvfrom, ws_send, ws_sendto};
pub use types::*;
