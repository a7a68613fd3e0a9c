//! A tap's buffer: packets one behind the other, each with what a capture file wants to know.
//!
//! Called by: `tap.rs`, which fills it, and its reader. It has its room from the start and never
//! grows.

use base::WallTime;

use crate::packet::Packet;
use crate::shown::{Direction, Shown};

/// Bytes in front of each packet: time, lengths captured and on the wire, segment, direction.
pub const RECORD_HEADER_BYTES: usize = 8 + 4 + 4 + 2 + 2;

/// Packets that were kept, in their order.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
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
    RECORD_HEADER_BYTES + captured
}

impl Buffer {
    pub(crate) fn new(room: usize) -> Buffer {
        Buffer { bytes: vec![0; room].into_boxed_slice(), len: 0 }
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Where the next record goes.
    pub(crate) fn end(&self) -> usize {
        self.len
    }

    /// After records were appended.
    pub(crate) fn set_end(&mut self, end: usize) {
        self.len = end;
    }

    /// All its room, for [`record`].
    pub(crate) fn room_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Is nothing in it?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of it, for [`records`] somewhere else.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The packets in it.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        records(self.as_bytes())
    }
}

/// Put the first `captured` bytes of a packet behind `end`; the copy, and where the next record
/// goes, or None if there is no room.
#[inline(always)]
pub(crate) fn record<'r>(
    room: &'r mut [u8],
    end: usize,
    shown: &Shown<'_>,
    captured: usize,
) -> Option<(&'r mut [u8], usize)> {
    let packet: &Packet<'_> = &shown.packet;
    let then = end + record_len(captured);
    let (header, copy) = room.get_mut(end..then)?.split_first_chunk_mut::<RECORD_HEADER_BYTES>()?;
    // A snapshot length fits: `tap::SNAPLEN_MAX`. One write, of what is in registers.
    let lengths = captured as u64 | u64::from(packet.wire_len) << 32;
    let is_out = shown.direction == Direction::Out;
    let rest = u32::from(shown.segment_bytes) | u32::from(is_out) << 16;
    header[..8].copy_from_slice(&shown.time.0.to_le_bytes());
    header[8..16].copy_from_slice(&lengths.to_le_bytes());
    header[16..].copy_from_slice(&rest.to_le_bytes());
    packet.copy_to(copy);
    Some((copy, then))
}

/// The packets in the bytes of a [`Buffer`], as far as they make sense.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut left = bytes;
    core::iter::from_fn(move || {
        let (time, rest) = left.split_first_chunk()?;
        let (captured, rest) = rest.split_first_chunk()?;
        let (wire_len, rest) = rest.split_first_chunk()?;
        let (segment_bytes, rest) = rest.split_first_chunk()?;
        let ([direction, _], rest) = rest.split_first_chunk::<2>()?;
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
