//! A packet as it is shown to taps: its bytes, which way it goes, and when.
//!
//! Called by: the driver's edge, which makes it; taps and their buffers read it.

use base::WallTime;

use crate::packet::Packet;

/// Which way a packet went.
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
    /// Which way it goes.
    pub direction: Direction,
    /// When.
    pub time: WallTime,
    /// For a super-segment, the payload bytes of each segment it will be cut into; else 0.
    pub segment_bytes: u16,
}
