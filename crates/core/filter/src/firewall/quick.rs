//! The quick way of a plain packet of a known flow, for bursts: found, passed and translated, each
//! step for all packets of a burst, so that the memory of all of them is fetched at once.
//!
//! Called by: the stack's burst path of forwarding. It may only refuse a packet, with nothing
//! changed, or do exactly what [`Firewall::arrive`] and [`Firewall::change`] do; refused packets
//! go there. RFC 1624.

use core::net::{Ipv4Addr, Ipv6Addr};

use base::Instant;

use super::arrive::Known;
use super::{Change, Firewall};
use crate::nat::{Checksum, Delta, PlainV4, PlainV6};
use crate::states::{
    FirstBucket, Flow, Guess, Key, PassedPlain, Terms, key_v4, key_v6, plain_v4, plain_v6,
};

/// Rows of a rule's counters that were not added yet: a burst's packets are mostly of one rule.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    rule: u16,
    packets: u64,
    bytes: u64,
}

impl From<&Known> for Flow {
    fn from(known: &Known) -> Flow {
        Flow::new(known.id, known.direction, known.change != Change::None)
    }
}

impl Firewall {
    /// The hash of a plain packet's key, and its place in the index, whose line is fetched; `None`
    /// for other packets.
    #[inline(always)]
    #[must_use]
    pub fn look<const V6: bool>(&self, packet: &[u8]) -> Option<(u64, FirstBucket<'_>)> {
        let hasher = self.states.hasher();
        let hash = match V6 {
            false => hasher.of_v4(&plain_v4(packet)?),
            true => hasher.of_v6(&plain_v6(packet)?),
        };
        Some((hash, self.states.first_bucket(hash)))
    }

    /// The state that the index has for a hash; its record is fetched.
    #[inline(always)]
    #[must_use]
    pub fn fetch(&self, hash: u64, place: FirstBucket<'_>) -> Guess {
        self.states.guess(hash, place)
    }

    /// Fetch what a flow will need that begins with a plain packet.
    #[inline]
    pub fn fetch_beginning(&self, packet: &[u8]) {
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let key = match is_v6 {
            false => packet.first_chunk().map(|head| Key::V4(key_v4(head))),
            true => packet.first_chunk().map(|head| Key::V6(key_v6(head))),
        };
        let Some(key) = key else { return };
        self.states.fetch_source(&key);
        if self.nats.has_pools() {
            let (protocol, [src_port, _]) = (key.protocol(), key.ports());
            self.mappings.prefetch(protocol, key.tuple().src, src_port);
        }
    }

    /// Does the state of a flow live?
    #[inline]
    #[must_use]
    pub fn lives(&self, flow: &Flow) -> bool {
        self.states.is_alive(flow.id())
    }

    /// How many states have ended so far.
    #[inline(always)]
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.states.ended()
    }

    /// Pass an IPv4 packet without padding, which [`Firewall::look`] found plain, if the present
    /// rules have judged its flow and `accepts` takes the destination that it leaves with. `None`,
    /// with nothing changed, if it does not pass as a packet of a known flow.
    #[inline(always)]
    pub fn pass_v4(
        &mut self,
        packet: &[u8],
        found: Guess,
        now: Instant,
        tally: &mut Tally,
        accepts: impl FnOnce(Ipv4Addr) -> bool,
    ) -> Option<Flow> {
        let terms = Terms { now, generation: self.generation };
        let passed = self.states.pass_v4(packet, found, terms, accepts)?;
        self.tally(&passed, packet.len(), now, tally);
        Some(passed.flow)
    }

    /// The same for a plain IPv6 packet.
    #[inline(always)]
    pub fn pass_v6(
        &mut self,
        packet: &[u8],
        found: Guess,
        now: Instant,
        tally: &mut Tally,
        accepts: impl FnOnce(Ipv6Addr) -> bool,
    ) -> Option<Flow> {
        let terms = Terms { now, generation: self.generation };
        let passed = self.states.pass_v6(packet, found, terms, accepts)?;
        self.tally(&passed, packet.len(), now, tally);
        Some(passed.flow)
    }

    #[inline(always)]
    fn tally(&mut self, passed: &PassedPlain, len: usize, now: Instant, tally: &mut Tally) {
        if passed.rule != tally.rule {
            self.settle(tally, now);
            tally.rule = passed.rule;
        }
        tally.packets += 1;
        tally.bytes += len as u64;
    }

    /// Add what a burst counted.
    #[inline(never)]
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
        self.known(flow.id(), flow.direction(), false)
    }

    /// Translate a plain packet that [`Firewall::pass_v4`] or [`Firewall::pass_v6`] has passed.
    #[inline(always)]
    pub fn translate(&self, flow: &Flow, packet: &mut [u8]) {
        if let Some((key, [addresses, transport])) =
            self.states.translation_v4(flow.id(), flow.direction())
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
        let Some(found) = self.states.translation(flow.id(), flow.direction()) else { return };
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

/// May an IPv4 packet be cut into fragments further on? Then its identification is another one.
#[inline(always)]
fn may_be_cut(packet: &[u8]) -> bool {
    packet.get(6).is_none_or(|flags| flags & 0x40 == 0)
}
