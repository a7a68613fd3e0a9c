//! Following: if a data segment has the same headers as the one before it in the burst, except for
//! sequence number and checksum, they are not parsed again.
//!
//! Called by: `rx.rs`, inside one burst, after a leader was predicted. Bulk data is received this
//! way: one segment of a burst pays for parsing the headers, the others for a comparison. This code
//! may only refuse a segment, or do exactly what prediction would do; switch `follow` turns it off
//! and a differential test compares both. A peer may number its IPv4 packets, as Linux does, and
//! may set PSH on any segment: such segments follow as well (decision 0009).

use device::Burst;
use mbuf::{Flags, Mbuf};
use wire::checksum::{Ladder, Sum};
use wire::ipv4;
use wire::tcp::{CHECKSUM_OFFSET, FLAGS_OFFSET, Flags as TcpFlags, SEQ_OFFSET};

use crate::flows::{Flows, Frames};
use crate::handles::TcpHandle;

/// Bytes compared: the headers of Ethernet, IPv6 and TCP with timestamps take 86; this is six
/// vectors of 16 bytes. Stamping copies as many.
pub(crate) const HEADERS_MAX: usize = 96;

/// Headers of the last data segment of a burst that was predicted.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Leader {
    /// The connection of the segment; `None` for no leader.
    pub(crate) handle: Option<TcpHandle>,
    /// Bytes of payload. A follower has the same number.
    pub(crate) len: u32,
    /// Bytes of the whole frame. A follower has the same number.
    pub(crate) frame_len: usize,
    /// Sum of the pseudo-header, which includes the length.
    pub(crate) pseudo: Sum,
    /// Where the headers of its frame begin.
    pub(crate) at: At,
    /// The sum of IPv4 identification and header checksum, if packets are numbered. A header in
    /// which all else is the same has a correct checksum only if this sum is equal.
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

/// The frames among which followers are searched if flows alternate: those after the leader, which
/// is at `place`; at most `most` followers.
#[derive(Clone, Copy)]
pub(crate) struct Behind<'a> {
    pub(crate) flows: &'a Flows,
    pub(crate) place: usize,
    pub(crate) most: usize,
    /// Their checksums are to be verified.
    pub(crate) verify: bool,
}

/// Aligned, so that a vector of headers can be compared in place.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Headers([u8; HEADERS_MAX]);

/// Is it worth the cost to keep `m`'s headers for the frame `next`? This is a guess by the lengths
/// of both frames and by their ports, which follow `link_len` bytes of link header and the IP
/// header.
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

    /// Make a predicted data segment the leader, so that the segments after it may follow. `frame`
    /// is the whole frame; its headers begin at `at`. A frame shorter than the bytes to compare has
    /// no followers.
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

    /// Set the mask for headers of this shape: all bytes but sequence number, checksum and PSH
    /// (which changes nothing) are compared. If packets are `numbered`, identification and header
    /// checksum are left out, too.
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

    /// Counts the frames at the end of `frames` that have the leader's headers except for
    /// checksums, and consecutive raw sequence numbers from `next` on. The last frame of the slice
    /// was received first. No function is called between two frames, so that the leader's bytes
    /// stay in registers.
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
        // Never true. With this check the compiler knows the length where the frames are compared.
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

    /// Where flows alternate: move the leader's followers to `into`, in order. The first has the
    /// raw sequence number `next`. Ends at the first frame of the leader's flow that is no
    /// follower.
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

    /// The raw sequence number of this frame, if its headers equal the leader's except for sequence
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
        // All differences are collected, so that the compiler takes sixteen bytes at a time: a call
        // that compares slices costs more than the comparison.
        let mut different = 0;
        for ((new, old), same) in new.iter().zip(&self.headers.0).zip(&self.same.0) {
            different |= (new ^ old) & same;
        }
        if different != 0 || !verifies(new) {
            return None;
        }
        new.get(self.at.tcp + SEQ_OFFSET..)?.first_chunk().map(|seq| u32::from_be_bytes(*seq))
    }

    /// Counts the followers at the end of `frames` whose checksums are correct. The last frame of
    /// the slice was received first.
    #[inline(always)]
    pub(crate) fn count_sound(&self, frames: &[Mbuf], ladder: Ladder) -> usize {
        count_while(frames, self.sound(ladder))
    }

    /// Returns a check whether a frame with this leader's headers has a correct checksum.
    #[inline(always)]
    fn sound(&self, ladder: Ladder) -> impl Fn(&Mbuf) -> bool {
        // A header is not all zeros: of the two forms of zero, a segment's sum can only be 0xffff.
        let whole = Sum(0xffff).minus(self.pseudo);
        // After the segment there may be padding of the link.
        let end = self.at.payload + self.len as usize;
        let begin = self.at.tcp.min(end);
        move |m| {
            let segment = || m.as_slice().get(begin..end);
            m.has(Flags::CSUM_VERIFIED)
                || segment().is_some_and(|segment| bytepass_sum(ladder, segment) == whole)
        }
    }
}

/// Counts the frames at the end of `frames` for which `has` is true. A plain loop: an iterator's
/// may become a function of its own, compiled without the instructions that were chosen for its
/// caller.
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

/// [`sum_of_numbers`] of a leader. `None` for IPv6, or if the sender does not number its packets
/// (RFC 6864: our stack does not).
#[inline(always)]
fn numbers(headers: &[u8; HEADERS_MAX], at: At) -> Option<Sum> {
    let is_v4 = at.tcp - at.ip == ipv4::HEADER_LEN;
    let is_numbered = is_v4 && word(headers, at.ip + ipv4::ID_OFFSET)? != Sum::ZERO;
    is_numbered.then(|| sum_of_numbers(headers, at))?
}

/// The sum of IPv4 identification and header checksum. If all else is the same in two headers and
/// one of them is correct, the other is correct if this sum is equal. Zero has two forms, so a
/// correct header may be refused here; parsing then accepts it.
#[inline(always)]
fn sum_of_numbers(headers: &[u8; HEADERS_MAX], at: At) -> Option<Sum> {
    let id = word(headers, at.ip + ipv4::ID_OFFSET)?;
    Some(id.plus(word(headers, at.ip + ipv4::CHECKSUM_OFFSET)?))
}

#[inline(always)]
fn word(headers: &[u8; HEADERS_MAX], at: usize) -> Option<Sum> {
    headers.get(at..)?.first_chunk().map(|word| Sum(u16::from_ne_bytes(*word)))
}

/// Sums a received segment: the one pass over its bytes before its reader copies them. It is a
/// function of its own, so that instruction counts show it separately.
#[inline(never)]
pub(crate) fn bytepass_sum(ladder: Ladder, data: &[u8]) -> Sum {
    ladder.sum(data)
}
