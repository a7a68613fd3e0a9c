//! TELNET (RFC 854, RFC 855) over any transport: options negotiated by the Q method (RFC 1143),
//! LINEMODE (RFC 1184), and the two ends, [`Client`] and [`Server`].
//!
//! Called by: programs, which provide the connection, the keyboard and the terminal. The crate does
//! no I/O and reads no clock. A program passes received bytes to an end ([`Client::receive`]) and
//! takes the bytes to be sent from it ([`Client::out`]).
//!
//! Limits: [`limits`]. Counters: [`Counts`].

mod client;
pub mod code;
mod editor;
mod engine;
pub mod limits;
mod linemode;
mod options;
mod out;
mod parser;
mod server;
pub mod slc;
mod suboption;
#[cfg(test)]
mod tests;
mod transcript;
mod words;

pub use client::{Client, Settings};
pub use editor::{Echo, Editor, Typed};
pub use engine::Counts;
pub use linemode::Mode;
pub use options::{Options, Side};
pub use out::Out;
pub use parser::{Item, Parser};
pub use server::{Event, Server};
pub use transcript::{Direction, Transcript};
