//! Shows a program's stacks to `wirespeed show`, `top`, `dump`, `explain` and `ip`, and to a
//! browser.
//!
//! Called by: programs. A program whose stacks have threads of their own starts an [`Observer`], in
//! one line. A program that polls its stack by hand calls [`Service::poll`] between two turns. Only
//! the program's own user and root are answered, and changes are refused unless the program allows
//! them. docs/live.md describes the page, [`control`] the socket.
//!
//! ```no_run
//! # use wirespeed_observe as observe;
//! # fn started(net: net::Net) -> std::io::Result<()> {
//! let _seen = observe::Observer::new("my-program").start(net)?;
//! # Ok(()) }
//! ```
#![cfg(target_os = "linux")]

mod beyond;
mod observer;
mod service;

pub use beyond::Beyond;
pub use observer::{Observer, Seen};
pub use service::{Mailbox, Service, explain_packet, socket_path};
