//! The hardware counters of an interface.
//!
//! Called by: `wire.rs` and `cable.rs`, which count; `nic.rs`, which derives its drops from them.

/// The hardware counters of one end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that reached the other end. A frame that collides counts when it finally passes.
    pub tx_frames: u64,
    /// Bytes of the frames that reached the other end, padding included.
    pub tx_bytes: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes of the received frames, padding included.
    pub rx_bytes: u64,
    /// Collisions in which a frame of this end took part.
    pub collisions: u64,
    /// Frames given up after sixteen collisions.
    pub given_up: u64,
    /// Frames lost because the receive ring was full.
    pub rx_ring_full: u64,
}
