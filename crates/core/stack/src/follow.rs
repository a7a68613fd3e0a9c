//! Following: if a data segment has the headers of the one before it in the burst, except for
//! sequence number and checksum, they are not parsed again.
//!
//! Called by: `rx.rs`, inside one burst, after a leader was predicted. Bulk data comes this way:
//! one segment of a burst pays for the headers, the others for a comparison. It may only refuse,
//! or do exactly what prediction would do; switch `follow` turns it off and a differential test
//! compares. A peer may number its IPv4 packets, as Linux does, and push where it likes: such
//! segments follow as well (decision 0009).

use device::Burst;
use mbuf::{Flags, Mbuf};
use wire::checksum::{Ladder, Sum};
use wire::ipv4;
use wire::tcp::{CHECKSUM_OFFSET, FLAGS_OFFSET, Flags as TcpFlags, SEQ_OFFSET};

use crate::flows::{Flows, Frames};
use crate::handles::TcpHandle;

/// Bytes compared: Ethernet, IPv6 and a TCP header with timestamps are 86; this is six vectors of
/// 16. Stamping copies as many.
pub(crate) const HEADERS_MAX: usize = 96;

/// Headers of the last data segment of a burst that was predicted.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Leader {
    /// The connection of the segment; `None` for no leader.
    pub(crate) handle: Option<TcpHandle>,
    /// Bytes of payload; its followers have as many.
    pub(crate) len: u32,
    /// Bytes of the whole frame; its followers have as many.
    pub(crate) frame_len: usize,
    /// Sum of the pseudo-header, length included.
    pub(crate) pseudo: Sum,
    /// Where its headers begin.
    pub(crate) at: At,
    /// The sum of IPv4 identification and header checksum, if packets are numbered: if all else is
    /// the same, a header with another sum does not verify.
    numbers: Option<Sum>,
    headers: Headers,
    /// Mask with all ones where a follower must equal the leader.
    same: Headers,
}

/// Where the headers of a frame begin, from its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) ip: usize,
    pub(crate) tcp: usize,
    pub(crate) payload: usize,
}

/// Where followers may stand if flows alternate: behind the leader at `place`, `most` of them.
#[derive(Clone, Copy)]
pub(crate) struct Behind<'a> {
    pub(crate) flows: &'a Flows,
    pub(crate) place: usize,
    pub(crate) most: usize,
    /// Their checksums are to be verified.
    pub(crate) verify: bool,
}

/// Aligned, so that a vector of it can be compared in place.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Headers([u8; HEADERS_MAX]);

/// Is it worth while to keep `m`'s headers for `next`? A guess by the lengths of both frames and by
/// their ports, behind `link_len` bytes of link header.
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
            at: At::default(),
            numbers: None,
            headers: Headers([0; HEADERS_MAX]),
            same: Headers([0; HEADERS_MAX]),
        }
    }

    /// A data segment was predicted: those behind it may follow. `frame` is the whole frame, its
    /// headers begin at `at`; a frame shorter than the bytes to compare has no followers.
    #[inline(always)]
    pub(crate) fn lead(&mut self, handle: TcpHandle, frame: &[u8], at: At, len: u32, pseudo: Sum) {
        let Some(headers) = frame.first_chunk::<HEADERS_MAX>() else { return };
        self.headers = Headers(*headers);
        let numbers = numbers(headers, at);
        let moved = self.at != at || self.numbers.is_some() != numbers.is_some();
        if moved && !self.compare(at, numbers.is_some()) {
            return;
        }
        self.numbers = numbers;
        self.handle = Some(handle);
        self.len = len;
        self.frame_len = frame.len();
        self.pseudo = pseudo;
    }

    /// Set the mask for headers of this shape: all but sequence number, checksum and PSH, which
    /// changes nothing. If packets are `numbered`, identification and header checksum are left out,
    /// too.
    #[inline(never)]
    fn compare(&mut self, at: At, numbered: bool) -> bool {
        self.at = at;
        self.same.0.fill(0);
        let (seq, checksum) = (at.tcp + SEQ_OFFSET, at.tcp + CHECKSUM_OFFSET);
        for part in [0..seq, seq + 4..checksum, checksum + 2..at.payload] {
            match self.same.0.get_mut(part) {
                Some(part) => part.fill(0xff),
                None => {
                    *self = Leader::none();
                    return false;
                }
            }
        }
        self.same.0[at.tcp + FLAGS_OFFSET] = !TcpFlags::PSH.0;
        if numbered {
            for field in [ipv4::ID_OFFSET, ipv4::CHECKSUM_OFFSET] {
                self.same.0[at.ip + field..at.ip + field + 2].fill(0);
            }
        }
        true
    }

    /// How many of these frames, of which the last one comes first, have the leader's headers
    /// except for checksums, and consecutive raw sequence numbers from `next` on? No function is
    /// called between two frames, so that the leader's bytes stay in registers.
    #[inline(always)]
    pub(crate) fn count_alike(&self, frames: &[Mbuf], ladder: Ladder, next: u32) -> usize {
        // A copy, so that the compiler knows that no write changes it.
        let leader = *self;
        match leader.numbers {
            None => ladder.run(move || leader.count(frames, next, |_| true)),
            Some(sum) => ladder.run(move || {
                leader.count(frames, next, |new| sum_of_numbers(new, leader.at) == Some(sum))
            }),
        }
    }

    #[inline(always)]
    fn count(
        &self,
        frames: &[Mbuf],
        mut next: u32,
        verifies: impl Fn(&[u8; HEADERS_MAX]) -> bool,
    ) -> usize {
        // Never true; with this check the compiler knows it where the frames are compared.
        if self.frame_len < HEADERS_MAX {
            return 0;
        }
        let follows = |m: &Mbuf| {
            let is_next = self.is_followed_by(m, &verifies) == Some(next);
            next = next.wrapping_add(self.len);
            is_next
        };
        count_while(frames, follows)
    }

    /// Where flows alternate, move the leader's followers to `into`, in order, beginning with raw
    /// sequence number `next`, up to the first frame of its flow that is no follower.
    #[inline(always)]
    pub(crate) fn gather(
        &self,
        frames: &mut Frames,
        behind: Behind,
        ladder: Ladder,
        next: u32,
        into: &mut Burst,
    ) {
        let Some(sum) = self.numbers else {
            return ladder.run(move || self.take(frames, behind, ladder, next, into, |_| true));
        };
        ladder.run(move || {
            let verifies = |new: &_| sum_of_numbers(new, self.at) == Some(sum);
            self.take(frames, behind, ladder, next, into, verifies);
        });
    }

    #[inline(always)]
    fn take(
        &self,
        frames: &mut Frames,
        behind: Behind,
        ladder: Ladder,
        mut next: u32,
        into: &mut Burst,
        verifies: impl Fn(&[u8; HEADERS_MAX]) -> bool,
    ) {
        let Behind { flows, mut place, most, verify } = behind;
        while into.len() < most
            && let Some(at) = flows.next(place)
            && let Some(m) = &frames[at]
            && self.is_followed_by(m, &verifies) == Some(next)
            && (!verify || self.sound(ladder)(m))
            && let Some(m) = frames[at].take()
        {
            into.push(m);
            next = next.wrapping_add(self.len);
            place = at;
        }
    }

    /// The raw sequence number of this frame, if its headers are the leader's except for sequence
    /// number and checksum.
    #[inline(always)]
    fn is_followed_by(
        &self,
        m: &Mbuf,
        verifies: impl Fn(&[u8; HEADERS_MAX]) -> bool,
    ) -> Option<u32> {
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
        if different != 0 || !verifies(new) {
            return None;
        }
        new.get(self.at.tcp + SEQ_OFFSET..)?.first_chunk().map(|seq| u32::from_be_bytes(*seq))
    }

    /// How many of these followers, of which the last one comes first, have checksums that verify?
    #[inline(always)]
    pub(crate) fn count_sound(&self, frames: &[Mbuf], ladder: Ladder) -> usize {
        count_while(frames, self.sound(ladder))
    }

    /// Does a frame with this leader's headers have a checksum that verifies?
    #[inline(always)]
    fn sound(&self, ladder: Ladder) -> impl Fn(&Mbuf) -> bool {
        // A header is not all zeros: of the two forms of zero, a segment's sum can only be 0xffff.
        let whole = Sum(0xffff).minus(self.pseudo);
        // Behind the segment is the link's padding.
        let end = self.at.payload + self.len as usize;
        let begin = self.at.tcp.min(end);
        move |m| {
            let segment = || m.as_slice().get(begin..end);
            m.has(Flags::CSUM_VERIFIED)
                || segment().is_some_and(|segment| bytepass_sum(ladder, segment) == whole)
        }
    }
}

/// How many frames from the last one on have a property. A plain loop: an iterator's may become a
/// function of its own, compiled without the instructions that were chosen for its caller.
#[inline(always)]
fn count_while(frames: &[Mbuf], mut has: impl FnMut(&Mbuf) -> bool) -> usize {
    let mut count = 0;
    for m in frames.iter().rev() {
        if !has(m) {
            break;
        }
        count += 1;
    }
    count
}

/// [`sum_of_numbers`] of a leader; `None` for IPv6, and if the sender does not number its packets
/// (RFC 6864: ours does not).
#[inline(always)]
fn numbers(headers: &[u8; HEADERS_MAX], at: At) -> Option<Sum> {
    let is_v4 = at.tcp - at.ip == ipv4::HEADER_LEN;
    let is_numbered = is_v4 && word(headers, at.ip + ipv4::ID_OFFSET)? != Sum::ZERO;
    is_numbered.then(|| sum_of_numbers(headers, at))?
}

/// The sum of IPv4 identification and header checksum. If all else is the same, a header verifies
/// if this sum equals that of a header that did. Zero has two forms, so a header that would verify
/// may be refused here; parsing then accepts it.
#[inline(always)]
fn sum_of_numbers(headers: &[u8; HEADERS_MAX], at: At) -> Option<Sum> {
    let id = word(headers, at.ip + ipv4::ID_OFFSET)?;
    Some(id.plus(word(headers, at.ip + ipv4::CHECKSUM_OFFSET)?))
}

#[inline(always)]
fn word(headers: &[u8; HEADERS_MAX], at: usize) -> Option<Sum> {
    headers.get(at..)?.first_chunk().map(|word| Sum(u16::from_ne_bytes(*word)))
}

/// The one pass over a received segment's bytes before its reader's copy; a separate function, so
/// that instruction counts can tell this pass from the other work.
#[inline(never)]
pub(crate) fn bytepass_sum(ladder: Ladder, data: &[u8]) -> Sum {
    ladder.sum(data)
}
