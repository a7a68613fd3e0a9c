//! One incomplete datagram: its fragments in order, without overlaps.
//!
//! Called by: `table.rs`. Fragments that contradict each other condemn the datagram: its fragments
//! are dropped, and it accepts no more until its time is up (RFC 5722 section 4).

use base::{DropReason, Instant};
use mbuf::Mbuf;

use crate::ip_input::Part;

/// Bytes of an mbuf's header, which are charged together with its buffer.
const HEADER: usize = 64;

/// Room for fragments in a new list. A datagram of 8 KB at an MTU of 1500 has six.
const USUAL: usize = 8;

/// The fragments of one datagram that have arrived.
#[derive(Debug)]
pub struct Datagram {
    /// A number that counts up with every datagram: a lower number is older.
    pub(super) serial: u64,
    pub(super) expires: Instant,
    /// The fragments, by offset. No two overlap.
    pub(super) pieces: Vec<Piece>,
    /// Bytes of buffers held.
    pub(super) cost: usize,
    /// Bytes of data in `pieces`.
    data_len: u32,
    /// Bytes of data of the whole datagram, once the last fragment has arrived.
    total: Option<u32>,
    /// Bit n is set if a fragment had n in its ECN field.
    ecn_seen: u8,
    /// The datagram accepts no more fragments.
    pub(super) is_condemned: bool,
}

/// A fragment: `m` begins with its IP header and ends with its data.
#[derive(Debug)]
pub(super) struct Piece {
    /// The data of the fragment is `begin..end` of the datagram's data.
    pub(super) begin: u32,
    end: u32,
    /// Offset of its data in `m`.
    pub(super) data_at: u32,
    /// It is not the last fragment.
    pub(super) more: bool,
    /// Bytes of memory that the fragment holds.
    pub(super) cost: usize,
    pub(super) m: Mbuf,
}

impl Piece {
    /// `data_at`: where the data begins in `m`.
    pub(super) fn new(part: Part, data_at: u32, m: Mbuf) -> Piece {
        let cost = HEADER + m.held_bytes();
        let end = part.begin + (m.len() as u32).saturating_sub(data_at);
        Piece { begin: part.begin, end, data_at, more: part.more, cost, m }
    }

    pub(super) fn data(&self) -> &[u8] {
        self.m.as_slice().get(self.data_at as usize..).unwrap_or_default()
    }
}

/// Why a fragment was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The fragment is held already; the held fragments stay.
    Duplicate,
    /// The whole datagram is to be dropped.
    Datagram(DropReason),
}

impl Datagram {
    /// A datagram without fragments. `pieces` is an empty list, possibly one that an earlier
    /// datagram used.
    pub(super) fn new(serial: u64, expires: Instant, mut pieces: Vec<Piece>) -> Datagram {
        pieces.reserve(USUAL);
        Datagram {
            serial,
            expires,
            pieces,
            cost: 0,
            data_len: 0,
            total: None,
            ecn_seen: 0,
            is_condemned: false,
        }
    }

    /// Add a fragment with ECN field `ecn`, if there are fewer than `most`. Returns `true` if the
    /// datagram is complete.
    #[inline(always)]
    pub(super) fn insert(&mut self, piece: Piece, ecn: u8, most: usize) -> Result<bool, Fault> {
        let (begin, end) = (piece.begin, piece.end);
        // Most fragments arrive in order, after all others.
        let at = match self.pieces.last() {
            Some(last) if last.begin >= begin => self.pieces.partition_point(|p| p.begin < begin),
            _ => self.pieces.len(),
        };
        let next = self.pieces.get(at);
        if next
            .is_some_and(|p| p.begin == begin && p.more == piece.more && p.data() == piece.data())
        {
            return Err(Fault::Duplicate);
        }
        let before = at.checked_sub(1).and_then(|i| self.pieces.get(i));
        // RFC 5722 4-a, RFC 8200 4.5-g.
        if before.is_some_and(|p| p.end > begin) || next.is_some_and(|p| p.begin < end) {
            return Err(Fault::Datagram(DropReason::FragmentOverlap));
        }
        // No data may lie after the last fragment, and there is only one last fragment.
        let contradicts = match (self.total, piece.more) {
            (Some(total), true) => end >= total,
            (Some(_), false) => true,
            (None, true) => false,
            (None, false) => next.is_some(),
        };
        // RFC 3168 section 5.3: a CE mark must not be lost, and a datagram whose sender does not
        // use ECN must not get one.
        let ecn_seen = self.ecn_seen | 1 << (ecn & 3);
        if contradicts || ecn_seen & 0b1001 == 0b1001 {
            return Err(Fault::Datagram(DropReason::FragmentContradiction));
        }
        if self.pieces.len() >= most {
            return Err(Fault::Datagram(DropReason::FragmentLimit));
        }
        if !piece.more {
            self.total = Some(end);
        }
        self.ecn_seen = ecn_seen;
        self.data_len += end - begin;
        self.cost += piece.cost;
        if at == self.pieces.len() {
            self.pieces.push(piece);
        } else {
            self.pieces.insert(at, piece);
        }
        Ok(Some(self.data_len) == self.total)
    }

    /// Drop all fragments and accept no more; returns how many were dropped.
    pub(super) fn condemn(&mut self) -> u64 {
        let count = self.pieces.len() as u64;
        self.pieces = Vec::new();
        self.cost = 0;
        self.is_condemned = true;
        count
    }

    /// The number of fragments held.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Are no fragments held?
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes of data of the whole datagram, once all fragments have arrived.
    pub(super) fn data_len(&self) -> usize {
        self.data_len as usize
    }

    /// Did a fragment have a CE mark?
    pub(super) fn is_ce(&self) -> bool {
        self.ecn_seen & 0b1000 != 0
    }
}
