//! Following: a data segment whose headers are those of the one before it in the burst, but for
//! sequence number and checksum, needs none of them parsed again.
//!
//! Called by: `rx.rs`, inside one burst, after a leader was predicted. Bulk data comes this way:
//! one segment of a burst pays for the headers, the others for a comparison. It may only refuse, or
//! do exactly what prediction would do; switch `follow` turns it off and a differential test
//! compares.

use mbuf::{Flags, Mbuf};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{CHECKSUM_OFFSET, SEQ_OFFSET};

use crate::TcpHandle;
use crate::rx::bytepass_sum;

/// Bytes compared: Ethernet, IPv6 and a TCP header with timestamps are 86; this is six vectors of
/// 16. As many are stamped.
pub(crate) const HEADERS_MAX: usize = 96;

/// Headers of the last data segment of a burst that was predicted.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Leader {
    /// Whose segment it was; `None` for no leader.
    pub(crate) handle: Option<TcpHandle>,
    /// Bytes of payload; its followers have as many.
    pub(crate) len: u32,
    /// Bytes of the whole frame; its followers have as many.
    pub(crate) frame_len: usize,
    /// Sum of the pseudo-header, length included.
    pub(crate) pseudo: Sum,
    /// Where the TCP header begins, and where it ends.
    pub(crate) tcp_at: usize,
    pub(crate) payload_at: usize,
    headers: Headers,
    /// All ones where a follower must be the same.
    same: Headers,
}

/// Aligned, so that a vector of it can be compared where it lies.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Headers([u8; HEADERS_MAX]);

/// Is it worth the while to keep `m`'s headers for `next`? A glance at their lengths and at where
/// ports stand, behind `link_len` bytes of link header: no more than a guess.
#[inline(always)]
pub(crate) fn may_follow(m: &Mbuf, next: &Mbuf, link_len: usize) -> bool {
    let (m, next) = (m.as_slice(), next.as_slice());
    let is_v6 = m.get(link_len).is_some_and(|first| first >> 4 == 6);
    let at = link_len + if is_v6 { 40 } else { 20 };
    let (ports, next_ports) = (m.get(at..at + 4), next.get(at..at + 4));
    m.len() == next.len() && ports.is_some() && ports == next_ports
}

impl Leader {
    pub(crate) fn none() -> Leader {
        Leader {
            handle: None,
            len: 0,
            frame_len: 0,
            pseudo: Sum::ZERO,
            tcp_at: 0,
            payload_at: 0,
            headers: Headers([0; HEADERS_MAX]),
            same: Headers([0; HEADERS_MAX]),
        }
    }

    /// A data segment was predicted: those behind it may follow. `frame` is the whole frame; one
    /// that is shorter than what is compared has no followers.
    #[inline(always)]
    pub(crate) fn lead(
        &mut self,
        handle: TcpHandle,
        frame: &[u8],
        tcp_at: usize,
        payload_at: usize,
        len: u32,
        pseudo: Sum,
    ) {
        let Some(headers) = frame.first_chunk::<HEADERS_MAX>() else { return };
        self.headers = Headers(*headers);
        let moved = (self.tcp_at, self.payload_at) != (tcp_at, payload_at);
        if moved && !self.compare(tcp_at, payload_at) {
            return;
        }
        self.handle = Some(handle);
        self.len = len;
        self.frame_len = frame.len();
        self.pseudo = pseudo;
    }

    /// Compare headers of this shape, but for sequence number and checksum.
    #[inline(never)]
    fn compare(&mut self, tcp_at: usize, payload_at: usize) -> bool {
        (self.tcp_at, self.payload_at) = (tcp_at, payload_at);
        self.same.0.fill(0);
        let checksum = tcp_at + CHECKSUM_OFFSET;
        let seq = tcp_at + SEQ_OFFSET;
        for part in [0..seq, seq + 4..checksum, checksum + 2..payload_at] {
            match self.same.0.get_mut(part) {
                Some(part) => part.fill(0xff),
                None => {
                    *self = Leader::none();
                    return false;
                }
            }
        }
        true
    }

    /// How many of these, the last one first, have the leader's headers but for checksums, and the
    /// raw sequence numbers from `next` on? No call is made between two of them, so that what they
    /// are compared with stays in registers.
    #[inline(always)]
    pub(crate) fn count_alike(&self, frames: &[Mbuf], ladder: Ladder, next: u32) -> usize {
        // A copy, which nothing that is written can be taken to change.
        let leader = *self;
        ladder.run(move || {
            // So it is, but here it is known where they are compared.
            if leader.frame_len < HEADERS_MAX {
                return 0;
            }
            let mut next = next;
            let follows = |m: &&Mbuf| {
                let is_next = leader.is_followed_by(m) == Some(next);
                next = next.wrapping_add(leader.len);
                is_next
            };
            frames.iter().rev().take_while(follows).count()
        })
    }

    /// Are this frame's headers the leader's but for sequence number and checksum? Then here is
    /// its raw sequence number.
    #[inline(always)]
    fn is_followed_by(&self, m: &Mbuf) -> Option<u32> {
        let frame = m.as_slice();
        if frame.len() != self.frame_len {
            return None;
        }
        let new = frame.first_chunk::<HEADERS_MAX>()?;
        // All differences gathered, for the compiler to take sixteen bytes at a time: a call to
        // compare slices costs more than the comparison.
        let mut different = 0;
        for ((new, old), same) in new.iter().zip(&self.headers.0).zip(&self.same.0) {
            different |= (new ^ old) & same;
        }
        if different != 0 {
            return None;
        }
        new.get(self.tcp_at + SEQ_OFFSET..)?.first_chunk().map(|seq| u32::from_be_bytes(*seq))
    }

    /// How many of these followers, the last one first, have checksums that verify?
    #[inline(always)]
    pub(crate) fn count_sound(&self, frames: &[Mbuf], ladder: Ladder) -> usize {
        // A header is not all zeros: no segment sums to the zero that is 0.
        let whole = Sum(0xffff).minus(self.pseudo);
        // Behind the segment is the link's padding.
        let end = self.payload_at + self.len as usize;
        let segment = self.tcp_at.min(end)..end;
        let is_sound = |m: &&Mbuf| {
            m.has(Flags::CSUM_VERIFIED)
                || m.as_slice()
                    .get(segment.clone())
                    .is_some_and(|segment| bytepass_sum(ladder, segment) == whole)
        };
        frames.iter().rev().take_while(is_sound).count()
    }
}
