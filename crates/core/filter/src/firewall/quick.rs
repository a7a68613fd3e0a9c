//! The quick way of a plain packet of a known flow, for bursts: found, passed and translated, each
//! step for all packets of a burst, so that the memory of all of them is fetched at once.
//!
//! Called by: the stack's burst path of forwarding. It may only refuse a packet, with nothing
//! changed, or do exactly what [`Firewall::arrive`] and [`Firewall::change`] do; refused packets
//! go there. RFC 1624.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::Instant;
use wire::protocol::TCP;
use wire::tcp::HEADER_LEN;

use super::arrive::Known;
use super::{Change, Firewall};
use crate::nat::{Checksum, Delta, PlainV4, PlainV6};
use crate::states::{
    Candidate, Direction, Key, KeyV4, KeyV6, Pass, Segment, StateId, Transport, plain_v4, plain_v6,
};

/// Rows of a rule's counters that were not added yet: a burst's packets are mostly of one rule.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    rule: Option<u16>,
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
    pub fn candidate(&self, hash: u64) -> Candidate {
        self.states.candidate(hash)
    }

    /// The flow of an IPv4 packet with this hash, if the present rules have judged it.
    #[inline(always)]
    #[must_use]
    pub fn find_v4(&self, packet: &[u8], hash: u64, candidate: Candidate) -> Option<Flow> {
        let key: KeyV4 = plain_v4(packet)?;
        self.flow(self.states.find_v4(&key, hash, candidate)?)
    }

    /// The flow of an IPv6 packet with this hash, if the present rules have judged it.
    #[inline(always)]
    #[must_use]
    pub fn find_v6(&self, packet: &[u8], hash: u64, candidate: Candidate) -> Option<Flow> {
        let key: KeyV6 = plain_v6(packet)?;
        self.flow(self.states.find_v6(&key, hash, candidate)?)
    }

    #[inline(always)]
    fn flow(&self, (id, direction): (StateId, Direction)) -> Option<Flow> {
        let is_translated = self.states.is_current(id, self.generation)?;
        Some(Flow { id, direction, is_translated })
    }

    /// The destination of a translated IPv4 packet.
    #[inline(always)]
    #[must_use]
    pub fn dst_v4(&self, flow: &Flow) -> Option<Ipv4Addr> {
        match self.states.translation(flow.id, flow.direction)?.key {
            Key::V4(key) => {
                let [.., a, b, c, d] = key.addrs.to_ne_bytes();
                Some(Ipv4Addr::new(a, b, c, d))
            }
            Key::V6(_) => None,
        }
    }

    /// The destination of a translated IPv6 packet.
    #[inline(always)]
    #[must_use]
    pub fn dst_v6(&self, flow: &Flow) -> Option<Ipv6Addr> {
        match self.states.translation(flow.id, flow.direction)?.key.tuple().dst {
            IpAddr::V6(dst) => Some(dst),
            IpAddr::V4(_) => None,
        }
    }

    /// Pass a plain packet of `len` bytes, whose transport header begins at `AT`. `false` if it
    /// does not pass as a packet of its flow; then nothing is changed.
    #[inline(always)]
    pub fn pass<const AT: usize>(
        &mut self,
        flow: &Flow,
        packet: &[u8],
        len: u16,
        now: Instant,
        tally: &mut Tally,
    ) -> bool {
        let Flow { id, direction, .. } = *flow;
        let protocol = if AT == 40 { packet.get(6) } else { packet.get(9) };
        let bytes = packet.get(AT..usize::from(len)).unwrap_or_default();
        let len = u32::from(len);
        let passes = if protocol == Some(&TCP) {
            let Ok(segment) = Segment::parse(bytes, bytes.len() as u32) else { return false };
            self.states.pass(id, direction, Transport::Tcp(&segment), len, now)
        } else if bytes.len() < UDP_HEADER_LEN {
            return false;
        } else {
            self.states.pass(id, direction, Transport::Other, len, now)
        };
        if passes != Ok(Pass::Known) {
            return false;
        }
        let rule = self.states.rule(id).filter(|&rule| rule != u16::MAX);
        if rule != tally.rule || tally.packets == 0 {
            self.settle(tally, now);
            tally.rule = rule;
        }
        tally.packets += 1;
        tally.bytes += u64::from(len);
        true
    }

    /// Add what a burst counted.
    pub fn settle(&mut self, tally: &mut Tally, now: Instant) {
        let Tally { rule, packets, bytes } = core::mem::take(tally);
        if packets > 0 {
            self.counters.add(rule, packets, bytes, now);
        }
    }

    /// A packet of this flow for the long way, which does not judge it again.
    #[must_use]
    pub fn known_flow(&self, flow: &Flow) -> Known {
        self.known(flow.id, flow.direction, false)
    }

    /// Translate a plain packet that [`Firewall::pass`] has passed.
    #[inline(always)]
    pub fn translate(&self, flow: &Flow, packet: &mut [u8]) {
        if !flow.is_translated {
            return;
        }
        let Some(found) = self.states.translation(flow.id, flow.direction) else { return };
        let delta = Delta { addresses: found.ip, transport: found.transport };
        let is_done = match found.key {
            Key::V4(key) if !may_be_cut(packet) => {
                PlainV4::of(&key, delta).apply(packet, Checksum::Whole)
            }
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
const _: () = assert!(UDP_HEADER_LEN < HEADER_LEN);

/// May an IPv4 packet be cut into fragments further on? Then its identification is another one.
#[inline(always)]
fn may_be_cut(packet: &[u8]) -> bool {
    packet.get(6).is_none_or(|flags| flags & 0x40 == 0)
}
