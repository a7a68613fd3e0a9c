//! What the hardware of an interface counts.
//!
//! Called by: `wire.rs` and `cable.rs`, which count; `nic.rs`, whose drops they become.

/// What one end of a link has sent and received, as its hardware counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames put on the wire; those that collided are not counted until they pass.
    pub tx_frames: u64,
    /// Their bytes, padding included.
    pub tx_bytes: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes, padding included.
    pub rx_bytes: u64,
    /// Times that a frame of this end met one of the other's on the cable.
    pub collisions: u64,
    /// Frames given up after sixteen collisions.
    pub given_up: u64,
    /// Frames lost because the receive ring was full.
    pub rx_ring_full: u64,
}
