//! Prints packets as lines of text, in the format of tcpdump.
//!
//! Called by: `wirespeed dump`, and programs that print packets. Each protocol is a file with a
//! function that takes a [`data::Data`], the bytes it may look at, and a [`Printer`] to write to.
//! Nothing here reads a file, a clock or a time zone.
//!
//! A packet may contain anything. Truncated content ends with `[|tcp]` (see [`data::Cut`]); invalid
//! values are printed as they are. Names are never looked up, as with `tcpdump -n`.

mod app;
mod data;
mod hex;
mod link;
mod local;
mod names;
mod net;
mod packet;
mod print;
mod text;
mod transport;

pub use hex::{As, Hex};
pub use link::is_decoded;
pub use packet::Frame;
pub use print::{Printer, Style};

#[cfg(test)]
mod tests;
