//! A source of packets: what `file`, `interface` and `process` are.
//!
//! Called by: `run.rs`, which moves packets from a source to a sink; `top`.

use anyhow::Result;

use super::packet::Packet;
use super::write::{Counted, Port};

/// The name that stands for all interfaces.
pub(in crate::dump) const ANY: &str = "any";

/// A source of packets that the filter matched.
pub(crate) trait Source {
    /// The source's ports; more may be added later.
    fn ports(&self) -> Vec<Port>;

    /// The next packet, or why there is none; waits only briefly.
    fn next(&mut self) -> Result<Next>;

    /// The counts of each port so far.
    fn counted(&mut self) -> Result<Vec<Counted>>;
}

/// The result of [`Source::next`].
pub(crate) enum Next {
    Packet(Packet),
    /// No packet yet.
    Later,
    /// No more packets.
    End,
}
