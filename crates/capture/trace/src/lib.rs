//! What a capture says about its TCP connections: retransmissions, reordering, lost segments,
//! round trips, throughput, and the points of a time-sequence graph.
//!
//! Called by: `wirespeed trace`, which reads the file. Give [`Trace::take`] each packet, in the
//! order of the file; then read [`Trace::connections`]. Nothing here reads a file or a clock.
//!
//! The marks of segments ([`Marks`]) are those of Wireshark's TCP analysis, so that both programs
//! count the same. Memory is bounded whatever the packets say: see [`limits`].

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
