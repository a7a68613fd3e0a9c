//! An adversarial peer that is not our stack. It accepts a connection, receives data and sends a
//! little data itself. Until a given time it breaks the protocol; from then on it keeps to the
//! protocol.
//!
//! Called by: `adversaries`, which puts the adversary at the end of a link. The adversary records
//! the bytes that it has really received separately from those that it acknowledges, and checks
//! every byte. It follows RFC 9293 section 3.10.7 as far as a receiver needs it. `misbehave.rs`
//! contains its misbehaviour.

use core::net::SocketAddrV4;
use std::collections::BTreeMap;

use base::{Duration, Instant, SeqNumber, WindowScale};
use device::fault::Rng;
use wire::tcp::{Flags, Options};

use crate::hand::{Said, packet};
use crate::misbehaviour::Misbehaviour;
use crate::pattern::Pattern;
use crate::seen::Seen;
use crate::violation::Violation;

/// The window that an adversary advertises while it behaves, before scaling; scaled it is 256 KB.
pub(crate) const WINDOW: u16 = u16::MAX;
const SCALE: u8 = 2;
/// Interval between two retransmissions of unacknowledged bytes.
const TICK: Duration = Duration::from_millis(300);
/// Bytes in each segment that an adversary sends. It sends one segment at a time.
const SEGMENT_BYTES: u64 = 500;
/// The most pieces out of order that an adversary keeps.
const PIECES_MAX: usize = 1_000;

/// The settings of an adversary.
#[derive(Clone, Copy, Debug)]
pub struct AdversarySettings {
    /// How it misbehaves.
    pub misbehaviour: Misbehaviour,
    /// From this time on it keeps to the protocol.
    pub honest_from: Instant,
    /// Bytes that it sends before it closes.
    pub bytes: u64,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// An adversary with its one connection.
pub(crate) struct Adversary {
    pub(crate) settings: AdversarySettings,
    pub(crate) rng: Rng,
    own: SocketAddrV4,
    peer: Option<SocketAddrV4>,
    /// The number of the stream that the adversary writes, and of the stream that it reads.
    streams: (u64, u64),
    /// The sequence number of its own first byte, and of its peer's.
    own_first: SeqNumber,
    pub(crate) peer_first: SeqNumber,
    /// How many of the adversary's own bytes were acknowledged; at the end the FIN counts as one
    /// more.
    acked: u64,
    /// Pieces of the peer's stream that have arrived: each maps its begin to its end.
    pub(crate) pieces: BTreeMap<u64, u64>,
    /// The position just past the peer's last byte, once it is known.
    peer_end: Option<u64>,
    /// The highest position of the peer's stream that the adversary has seen, the FIN included.
    pub(crate) seen_to: u64,
    /// The peer's last timestamp, if the peer sends timestamps.
    pub(crate) their_clock: Option<u32>,
    /// By how many milliseconds the adversary's clock is ahead.
    pub(crate) clock_offset: u32,
    /// The adversary neither receives nor sends any more.
    pub(crate) is_gone: bool,
    pub(crate) wake: Instant,
    /// How often the adversary broke the protocol.
    pub(crate) misbehaved: u64,
}

/// An adversary with its link and its connection.
pub(crate) struct AttachedAdversary {
    pub(crate) adversary: Adversary,
    /// The direction into which the adversary sends.
    pub(crate) out: usize,
    pub(crate) source: usize,
    pub(crate) flow: usize,
}

impl Adversary {
    pub(crate) fn new(
        settings: AdversarySettings,
        own: SocketAddrV4,
        streams: (u64, u64),
    ) -> Adversary {
        let mut rng = Rng::new(settings.seed);
        Adversary {
            settings,
            own,
            peer: None,
            streams,
            own_first: SeqNumber(rng.next_u64() as u32),
            peer_first: SeqNumber(0),
            rng,
            acked: 0,
            pieces: BTreeMap::new(),
            peer_end: None,
            seen_to: 0,
            their_clock: None,
            clock_offset: 0,
            is_gone: false,
            wake: Instant::NEVER,
            misbehaved: 0,
        }
    }

    /// Bytes of the peer's stream that have arrived without a gap.
    pub(crate) fn received(&self) -> u64 {
        self.pieces.get(&0).copied().unwrap_or(0)
    }

    /// The length of the adversary's own stream, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.settings.bytes
    }

    pub(crate) fn misbehaves_at(&self, now: Instant) -> bool {
        now < self.settings.honest_from
    }

    /// Process a segment that arrived undamaged. Answers are appended to `out`.
    ///
    /// # Errors
    /// If the segment's bytes are not those of the stream.
    pub(crate) fn take(
        &mut self,
        seen: &Seen,
        payload: &[u8],
        pattern: &Pattern,
        now: Instant,
        out: &mut Vec<Vec<u8>>,
    ) -> Result<(), Violation> {
        let core::net::SocketAddr::V4(from) = seen.src else { return Ok(()) };
        if seen.flags.contains(Flags::RST) {
            self.is_gone = self.peer == Some(from);
            return Ok(());
        }
        if seen.flags.contains(Flags::SYN) {
            self.peer = Some(from);
            self.peer_first = seen.end();
            self.their_clock = seen.timestamps.map(|t| t.value);
            self.wake = now + TICK;
            out.push(self.syn_ack(from, now));
            return Ok(());
        }
        self.is_gone |= self.gives_up(now);
        if self.peer != Some(from) || self.is_gone {
            return Ok(());
        }
        if let Some(timestamps) = seen.timestamps {
            self.their_clock = Some(timestamps.value);
        }
        let acked = i64::from(seen.ack.since(self.own_first)).max(0) as u64;
        if seen.flags.contains(Flags::ACK) && acked > self.acked && acked <= self.bytes() + 1 {
            self.acked = acked;
            self.send(pattern, now, out);
        }
        let before = self.received();
        self.keep(seen, payload, pattern)?;
        if seen.end() != seen.seq || self.is_answer_due(seen) {
            self.answer(before, now, out);
        }
        if self.peer_is_done() && self.acked == self.bytes() {
            self.send(pattern, now, out);
        }
        Ok(())
    }

    /// Does the adversary give up? It does so when it should keep to the protocol, but has
    /// acknowledged bytes that it lost.
    fn gives_up(&self, now: Instant) -> bool {
        self.settings.misbehaviour.loses_bytes() && !self.misbehaves_at(now)
    }

    /// Does a segment without data need an answer? A probe does: its sequence number was
    /// acknowledged before.
    fn is_answer_due(&self, seen: &Seen) -> bool {
        seen.len == 0 && i64::from(seen.seq.since(self.peer_first)) < self.seen_to as i64
    }

    fn keep(&mut self, seen: &Seen, payload: &[u8], pattern: &Pattern) -> Result<(), Violation> {
        let from = i64::from(seen.seq.since(self.peer_first));
        // A segment that begins before the stream, as a keepalive may, is not kept.
        let Ok(from) = u64::try_from(from) else { return Ok(()) };
        let end = from + payload.len() as u64;
        if let Err(right) = pattern.check(self.streams.1, from, payload) {
            let what = format!("an adversary got a wrong byte at {}", from + right as u64);
            return Err(Violation::new("stream", what));
        }
        let is_last = seen.flags.contains(Flags::FIN);
        if is_last {
            self.peer_end = Some(end);
        }
        self.seen_to = self.seen_to.max(end + u64::from(is_last));
        let is_full = self.pieces.len() >= PIECES_MAX && from > self.received();
        if payload.is_empty() || is_full {
            return Ok(());
        }
        let (mut from, mut end) = (from, end);
        while let Some((&other, &other_end)) = self.pieces.range(..=end).next_back()
            && other_end >= from
        {
            self.pieces.remove(&other);
            (from, end) = (from.min(other), end.max(other_end));
        }
        self.pieces.insert(from, end);
        Ok(())
    }

    /// Has all of the peer's stream arrived? If the adversary acknowledges too much, all bytes that
    /// it has seen count as arrived.
    fn peer_is_done(&self) -> bool {
        let so_far =
            if self.settings.misbehaviour.loses_bytes() { self.seen_to } else { self.received() };
        self.peer_end.is_some_and(|end| so_far >= end)
    }

    /// The acknowledgment that an honest peer would send. A FIN after the last byte counts.
    pub(crate) fn honest_ack(&self) -> u64 {
        let received = self.received();
        received + u64::from(self.peer_end == Some(received))
    }

    /// The timer has expired: retransmit the unacknowledged bytes, with a correct or a wrong ACK.
    pub(crate) fn tick(&mut self, pattern: &Pattern, now: Instant, out: &mut Vec<Vec<u8>>) {
        self.is_gone |= self.gives_up(now);
        self.wake = if self.is_gone { Instant::NEVER } else { now + TICK };
        if self.is_gone {
            return;
        }
        self.send(pattern, now, out);
        self.answer(self.received(), now, out);
    }

    /// Send one segment with unacknowledged bytes of the adversary's own stream, or its FIN.
    fn send(&mut self, pattern: &Pattern, now: Instant, out: &mut Vec<Vec<u8>>) {
        let left = self.bytes().saturating_sub(self.acked).min(SEGMENT_BYTES);
        let is_fin = left == 0 && self.acked == self.bytes() && self.peer_is_done();
        if left == 0 && !is_fin {
            return;
        }
        let mut said = self.said(now);
        said.flags = if is_fin { Flags::ACK | Flags::FIN } else { Flags::ACK };
        let payload = pattern.at(self.streams.0, self.acked, left as usize);
        self.push(&said, payload, out);
    }

    /// The header fields of an ordinary segment. The timestamps are wrong if that is the
    /// adversary's misbehaviour.
    pub(crate) fn said(&mut self, now: Instant) -> Said {
        let ack = self.peer_first + self.honest_ack() as u32;
        let timestamps = self.timestamps(now);
        Said {
            seq: self.own_first + self.acked as u32,
            ack,
            flags: Flags::ACK,
            window: WINDOW,
            options: Options { timestamps, ..Options::default() },
        }
    }

    pub(crate) fn push(&self, said: &Said, payload: &[u8], out: &mut Vec<Vec<u8>>) {
        if let Some(peer) = self.peer {
            out.push(packet(self.own, peer, said, payload));
        }
    }

    fn syn_ack(&mut self, to: SocketAddrV4, now: Instant) -> Vec<u8> {
        let mss = self.mss();
        let timestamps = self.their_clock.and_then(|_| self.timestamps(now));
        let said = Said {
            // The SYN's number is the one before the first byte.
            seq: self.own_first - 1,
            ack: self.peer_first,
            flags: Flags::SYN | Flags::ACK,
            window: WINDOW,
            options: Options {
                mss: Some(mss),
                window_scale: Some(WindowScale::new(SCALE)),
                sack_permitted: true,
                timestamps,
                ..Options::default()
            },
        };
        packet(self.own, to, &said, &[])
    }
}
