//! Packets as lines of text, in tcpdump's words.
//!
//! Called by: `wirespeed dump`, and whoever wants a packet as a line. A protocol is a file; each is
//! a function that takes a [`data::Data`], the bytes it may look at, and a [`Printer`], to which it
//! writes. It reads no file, no clock and no time zone.
//!
//! Anything may stand in a packet. What is cut off ends with `[|tcp]`, and [`data::Cut`] carries it
//! there; what is wrong is printed as it is. Names are never looked up, as with `tcpdump -n`.

mod app;
mod data;
mod hex;
mod link;
mod local;
mod names;
mod net;
mod print;
mod text;
mod transport;

pub use hex::{As, Hex};
pub use link::is_decoded;
pub use print::{Frame, Printer, Style};

#[cfg(test)]
mod tests;
