//! A tap's buffer: packets one behind the other, each with what a capture file wants to know.
//!
//! Called by: `tap.rs`, which fills it, and its reader. It has its room from the start and never
//! grows.

use base::WallTime;

use crate::packet::Packet;
use crate::tap::{Direction, Shown};

/// Bytes in front of each packet: time, lengths captured and on the wire, segment, direction.
const HEADER_LEN: usize = 8 + 4 + 4 + 2 + 1;

/// Packets that were kept, in their order.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    room: usize,
}

/// A packet that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was seen.
    pub time: WallTime,
    /// Which way it went.
    pub direction: Direction,
    /// Its length on the wire, bytes.
    pub wire_len: u32,
    /// For a super-segment, the payload bytes of each segment; else 0.
    pub segment_bytes: u16,
    /// What was kept of it.
    pub bytes: &'a [u8],
}

/// Bytes that a packet of which `captured` are kept takes.
pub(crate) const fn record_len(captured: usize) -> usize {
    HEADER_LEN + captured
}

impl Buffer {
    pub(crate) fn new(room: usize) -> Buffer {
        Buffer { bytes: Vec::with_capacity(room), room }
    }

    pub(crate) fn room(&self) -> usize {
        self.room
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(crate) fn has_room_for(&self, captured: usize) -> bool {
        record_len(captured) <= self.room - self.bytes.len()
    }

    /// Append the first `captured` bytes of a packet, for which there is room.
    pub(crate) fn push(&mut self, shown: &Shown<'_>, captured: usize) {
        let packet: &Packet<'_> = &shown.packet;
        self.bytes.extend_from_slice(&shown.time.0.to_le_bytes());
        // A snapshot length fits: `tap::SNAPLEN_MAX`.
        self.bytes.extend_from_slice(&(captured as u32).to_le_bytes());
        self.bytes.extend_from_slice(&packet.wire_len.to_le_bytes());
        self.bytes.extend_from_slice(&shown.segment_bytes.to_le_bytes());
        self.bytes.push(u8::from(shown.direction == Direction::Out));
        packet.copy_to(&mut self.bytes, captured);
    }

    /// Is nothing in it?
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The packets in it.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut left = self.bytes.as_slice();
        core::iter::from_fn(move || {
            let (time, rest) = left.split_first_chunk()?;
            let (captured, rest) = rest.split_first_chunk()?;
            let (wire_len, rest) = rest.split_first_chunk()?;
            let (segment_bytes, rest) = rest.split_first_chunk()?;
            let (direction, rest) = rest.split_first()?;
            let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*captured) as usize)?;
            left = rest;
            Some(Record {
                time: WallTime(u64::from_le_bytes(*time)),
                direction: if *direction == 0 { Direction::In } else { Direction::Out },
                wire_len: u32::from_le_bytes(*wire_len),
                segment_bytes: u16::from_le_bytes(*segment_bytes),
                bytes,
            })
        })
    }
}
