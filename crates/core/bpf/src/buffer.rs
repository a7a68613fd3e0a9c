//! A tap's buffer: packets one after the other, each with the fields that a capture file needs.
//!
//! Called by: `tap.rs`, which fills it, and its reader. It is allocated once and never grows.

use base::WallTime;

use crate::packet::{Direction, Packet, Shown};

/// Bytes of a record's header: time, captured length, wire length, segment bytes, direction.
pub const RECORD_HEADER_BYTES: usize = 8 + 4 + 4 + 2 + 2;

/// Captured packets, in the order in which the tap saw them.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When the packet was received or sent.
    pub time: WallTime,
    /// Whether the packet was received or sent.
    pub direction: Direction,
    /// The packet's length on the wire, in bytes.
    pub wire_len: u32,
    /// For a super-segment, the payload bytes of each segment; else 0.
    pub segment_bytes: u16,
    /// The captured bytes: the first bytes of the packet, or all of it.
    pub bytes: &'a [u8],
}

/// Bytes that a record takes if it holds `captured` bytes of a packet.
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

    /// The offset where the last record ends and the next one goes.
    pub(crate) fn end(&self) -> usize {
        self.len
    }

    /// Set the end, after records were appended.
    pub(crate) fn set_end(&mut self, end: usize) {
        self.len = end;
    }

    /// The whole buffer, for [`record`].
    pub(crate) fn room_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Does the buffer hold no record?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of all records, for [`records`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The packets in the buffer.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        records(self.as_bytes())
    }
}

/// Write a record at offset `end` that holds the first `captured` bytes of a packet. Returns the
/// copied bytes and the offset where the record ends, or `None` if there is no room.
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
    // `captured` is at most `tap::SNAPLEN_MAX`, so both lengths fit one 64-bit write.
    let lengths = captured as u64 | u64::from(packet.wire_len) << 32;
    let is_out = shown.direction == Direction::Out;
    let rest = u32::from(shown.segment_bytes) | u32::from(is_out) << 16;
    header[..8].copy_from_slice(&shown.time.0.to_le_bytes());
    header[8..16].copy_from_slice(&lengths.to_le_bytes());
    header[16..].copy_from_slice(&rest.to_le_bytes());
    packet.copy_to(copy);
    Some((copy, then))
}

/// The packets in the bytes of a [`Buffer`], up to the first invalid record.
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
