//! Analysis of the TCP connections of a capture: retransmissions, reordering, lost segments, round
//! trips, throughput, and the points of a time-sequence graph.
//!
//! Called by: `wirespeed trace`, which reads the file. It gives each packet to [`Trace::take`], in
//! the order of the file, and then reads [`Trace::connections`]. This crate reads neither files nor
//! clocks.
//!
//! The marks of segments ([`Marks`]) are those of Wireshark's TCP analysis, so that both programs
//! count the same. Memory is bounded, whatever the packets contain: see [`limits`].

mod bins;
mod connection;
pub mod limits;
mod marks;
mod outstanding;
mod packet;
mod rules;
mod side;
mod thinned;
mod trace;

pub use bins::Bins;
pub use connection::{Connection, Direction};
pub use marks::{Marks, NAMES};
pub use packet::{Link, Segment, Skipped};
pub use side::{AckPoint, Counts, Graph, RttPoint, SackPoint, SegmentPoint};
pub use thinned::Thinned;
pub use trace::{Skips, Trace};

#[cfg(test)]
mod tests;
