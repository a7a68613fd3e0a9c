//! A packet as it is shown to taps: its bytes, its direction and the time.
//!
//! Called by: the stack's ports, which make it; taps and their buffers read it.

use base::WallTime;

use crate::packet::Packet;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It was received.
    In,
    /// It was sent.
    Out,
}

/// A packet shown to taps.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Its bytes, borrowed.
    pub packet: Packet<'a>,
    /// Received or sent.
    pub direction: Direction,
    /// When it was received or sent.
    pub time: WallTime,
    /// For a super-segment, the payload bytes of each of its segments; else 0.
    pub segment_bytes: u16,
}
