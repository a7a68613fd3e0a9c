//! The quick way of a plain packet of a known flow, for bursts: found, passed and translated, each
//! step for all packets of a burst, so that the memory of all of them is fetched at once.
//!
//! Called by: the stack's burst path of forwarding. It may only refuse a packet, with nothing
//! changed, or do exactly what [`Firewall::arrive`] and [`Firewall::change`] do; refused packets
//! go there. RFC 1624.

use core::net::{Ipv4Addr, Ipv6Addr};

use base::Instant;
use wire::protocol::TCP;
use wire::tcp::HEADER_LEN;
use wire::{ipv4, ipv6};

use super::arrive::Known;
use super::{Change, Firewall};
use crate::nat::{Checksum, Delta, PlainV4, PlainV6};
use crate::states::{
    Direction, Guess, Key, PassedPlain, Plain, Segment, StateId, Transport, key_v4, key_v6,
    plain_v4, plain_v6,
};

/// Rows of a rule's counters that were not added yet: a burst's packets are mostly of one rule.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    rule: u16,
    packets: u64,
    bytes: u64,
}

/// A packet of a known flow, by its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    id: StateId,
    direction: Direction,
    /// Its packets leave with another tuple.
    pub is_translated: bool,
}

impl Flow {
    #[inline(always)]
    fn of(passed: &PassedPlain) -> Flow {
        let PassedPlain { id, direction, is_translated, .. } = *passed;
        Flow { id, direction, is_translated }
    }
}

impl From<&Known> for Flow {
    fn from(known: &Known) -> Flow {
        let Known { id, direction, change } = *known;
        Flow { id, direction, is_translated: change != Change::None }
    }
}

/// A segment of TCP in a plain packet.
#[inline(always)]
fn segment(bytes: &[u8]) -> Option<Segment> {
    Segment::parse(bytes, bytes.len() as u32).ok()
}

impl Firewall {
    /// The hash of a plain packet's key, whose line of the index is fetched; `None` for other
    /// packets.
    #[inline(always)]
    #[must_use]
    pub fn look<const V6: bool>(&self, packet: &[u8]) -> Option<u64> {
        let hasher = self.states.hasher();
        let hash = match V6 {
            false => hasher.of_v4(&plain_v4(packet)?),
            true => hasher.of_v6(&plain_v6(packet)?),
        };
        self.states.prefetch(hash);
        Some(hash)
    }

    /// The state that the index has for a hash; its record is fetched.
    #[inline(always)]
    #[must_use]
    pub fn fetch(&self, hash: u64) -> Guess {
        self.states.guess(hash)
    }

    /// Fetch what a flow will need that begins with a plain packet.
    #[inline]
    pub fn fetch_beginning(&self, packet: &[u8]) {
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let key = match is_v6 {
            false => packet.first_chunk().map(|head| Key::V4(key_v4(head))),
            true => packet.first_chunk().map(|head| Key::V6(key_v6(head))),
        };
        if let Some(key) = key {
            self.states.fetch_source(&key);
        }
    }

    /// Does the state of a flow live?
    #[inline]
    #[must_use]
    pub fn lives(&self, flow: &Flow) -> bool {
        self.states.is_alive(flow.id)
    }

    /// How many states have ended so far.
    #[inline(always)]
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.states.ended()
    }

    /// Pass an IPv4 packet of `len` bytes, which [`Firewall::look`] found plain, if the present
    /// rules have judged its flow and `accepts` takes the destination that it leaves with. `None`,
    /// with nothing changed, if it does not pass as a packet of a known flow.
    #[inline(always)]
    pub fn pass_v4(
        &mut self,
        packet: &[u8],
        found: Guess,
        (len, now): (u16, Instant),
        tally: &mut Tally,
        accepts: impl FnOnce(Ipv4Addr) -> bool,
    ) -> Option<Flow> {
        let key = key_v4(packet.first_chunk()?);
        let bytes = packet.get(ipv4::HEADER_LEN..usize::from(len))?;
        let segment = if key.protocol == TCP { Some(segment(bytes)?) } else { None };
        let plain = self.plain(segment.as_ref(), bytes, (len, now))?;
        let passed = self.states.pass_v4(&key, found, &plain, accepts)?;
        self.tally(&passed, len, now, tally);
        Some(Flow::of(&passed))
    }

    /// The same for a plain IPv6 packet.
    #[inline(always)]
    pub fn pass_v6(
        &mut self,
        packet: &[u8],
        found: Guess,
        (len, now): (u16, Instant),
        tally: &mut Tally,
        accepts: impl FnOnce(Ipv6Addr) -> bool,
    ) -> Option<Flow> {
        let key = key_v6(packet.first_chunk()?);
        let bytes = packet.get(ipv6::HEADER_LEN..usize::from(len))?;
        let segment = if key.protocol == TCP { Some(segment(bytes)?) } else { None };
        let plain = self.plain(segment.as_ref(), bytes, (len, now))?;
        let passed = self.states.pass_v6(&key, found, &plain, accepts)?;
        self.tally(&passed, len, now, tally);
        Some(Flow::of(&passed))
    }

    #[inline(always)]
    fn plain<'a>(
        &self,
        segment: Option<&'a Segment>,
        bytes: &[u8],
        (len, now): (u16, Instant),
    ) -> Option<Plain<'a>> {
        let transport = match segment {
            Some(segment) => Transport::Tcp(segment),
            None if !is_whole_udp(bytes) => return None,
            None => Transport::Other,
        };
        Some(Plain { transport, len: u32::from(len), now, generation: self.generation })
    }

    #[inline(always)]
    fn tally(&mut self, passed: &PassedPlain, len: u16, now: Instant, tally: &mut Tally) {
        if passed.rule != tally.rule {
            self.settle(tally, now);
            tally.rule = passed.rule;
        }
        tally.packets += 1;
        tally.bytes += u64::from(len);
    }

    /// Add what a burst counted.
    pub fn settle(&mut self, tally: &mut Tally, now: Instant) {
        let Tally { rule, packets, bytes } = core::mem::take(tally);
        if packets > 0 {
            // The default rule has no number.
            self.counters.add((rule != u16::MAX).then_some(rule), packets, bytes, now);
        }
    }

    /// A packet of this flow for the long way, which does not judge it again.
    #[must_use]
    pub fn known_flow(&self, flow: &Flow) -> Known {
        self.known(flow.id, flow.direction, false)
    }

    /// Translate a plain packet that [`Firewall::pass_v4`] or [`Firewall::pass_v6`] has passed.
    #[inline(always)]
    pub fn translate(&self, flow: &Flow, packet: &mut [u8]) {
        if let Some((key, [addresses, transport])) =
            self.states.translation_v4(flow.id, flow.direction)
            && !may_be_cut(packet)
            && PlainV4::of(&key, Delta { addresses, transport }).apply(packet, Checksum::Whole)
        {
            return;
        }
        self.translate_other(flow, packet);
    }

    /// The same for IPv6, and for IPv4 packets whose identification changes.
    #[inline(never)]
    fn translate_other(&self, flow: &Flow, packet: &mut [u8]) {
        let Some(found) = self.states.translation(flow.id, flow.direction) else { return };
        let delta = Delta { addresses: found.ip, transport: found.transport };
        let is_done = match found.key {
            Key::V4(_) => false,
            Key::V6(key) => PlainV6::of(&key, delta).apply(packet, Checksum::Whole),
        };
        if !is_done {
            // A packet that passed is well-formed.
            let _ = self.change(&Change::Packet(found.key.tuple()), packet, false);
        }
    }
}

const UDP_HEADER_LEN: usize = 8;

/// Is the length of a UDP datagram one that the packet has room for? Others take the long way.
#[inline(always)]
fn is_whole_udp(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<UDP_HEADER_LEN>() else { return false };
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    UDP_HEADER_LEN <= len && len <= bytes.len()
}

const _: () = assert!(UDP_HEADER_LEN < HEADER_LEN);

/// May an IPv4 packet be cut into fragments further on? Then its identification is another one.
#[inline(always)]
fn may_be_cut(packet: &[u8]) -> bool {
    packet.get(6).is_none_or(|flags| flags & 0x40 == 0)
}
