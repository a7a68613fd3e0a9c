//! A router between hosts, each of which is on a network of its own. It forwards IP packets. If a
//! packet exceeds the MTU of the next network, the router sends an ICMP error, or drops the packet
//! silently (a black hole).
//!
//! Called by: `world`, which makes a router, and `events`, with packets that reach it. RFC 1812
//! sections 5.2 and 5.3, RFC 8200 section 5, RFC 1191 section 4, RFC 4443 section 3.2. The router
//! has no neighbour discovery (its links carry bare IP packets), no fragmentation and no routes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::Instant;
use wire::{icmp, icmpv6, ipv4, ipv6, protocol};

/// The last byte of a router's address on each of its networks.
const NUMBER: u8 = 254;
const HOPS: u8 = 64;
/// An IPv4 router quotes at least the header and eight more bytes of a packet that is too long.
const QUOTE_BYTES: usize = 28;
/// An IPv6 router quotes as much as fits the minimum MTU.
const QUOTE_V6_BYTES: usize = 1280 - ipv6::HEADER_LEN - icmpv6::HEADER_LEN;

/// A router's connection to one of its networks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) network: u8,
    /// The direction of the link to the host.
    pub(crate) out: usize,
    /// The longest packet that fits, in bytes.
    pub(crate) mtu: usize,
}

/// Counts of a router, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterCounts {
    /// Packets forwarded.
    pub forwarded: u64,
    /// Packets that were too long, and were reported to their senders.
    pub reported: u64,
    /// Packets that were too long, and were dropped silently.
    pub swallowed: u64,
    /// Packets that were malformed, whose TTL or hop limit had run out, or for which there was no
    /// network.
    pub dropped: u64,
}

/// A router.
pub(crate) struct Router {
    pub(crate) legs: Vec<Leg>,
    /// From this time on the router reports packets that are too long; before, it drops them
    /// silently.
    pub(crate) reports_from: Instant,
    pub(crate) counts: RouterCounts,
}

/// A router's address on a network.
pub(crate) fn address(network: u8, is_v4: bool) -> IpAddr {
    match is_v4 {
        true => Ipv4Addr::new(10, 0, network, NUMBER).into(),
        false => v6(network).into(),
    }
}

fn v6(network: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, network.into(), 0, 0, 0, NUMBER.into())
}

/// A packet to be sent, and the direction into which it is sent.
pub(crate) struct Onward {
    pub(crate) out: usize,
    pub(crate) packet: Vec<u8>,
    /// Is this the packet itself? Otherwise it is an ICMP error about it.
    pub(crate) is_forwarded: bool,
}

impl Router {
    /// Process a packet from the network `by`. Returns the packet to send, if there is one.
    pub(crate) fn take(&mut self, packet: &[u8], by: u8, now: Instant) -> Option<Onward> {
        let onward = self.route(packet).and_then(|leg| {
            let mut packet = packet.to_vec();
            hop(&mut packet).then_some((leg, packet))
        });
        let Some((leg, copy)) = onward else {
            self.counts.dropped += 1;
            return None;
        };
        if copy.len() <= leg.mtu {
            self.counts.forwarded += 1;
            return Some(Onward { out: leg.out, packet: copy, is_forwarded: true });
        }
        let back = self.legs.iter().find(|leg| leg.network == by).copied();
        match back.filter(|_| now >= self.reports_from) {
            Some(back) => {
                self.counts.reported += 1;
                let packet = too_big(packet, by, leg.mtu)?;
                Some(Onward { out: back.out, packet, is_forwarded: false })
            }
            None => {
                self.counts.swallowed += 1;
                None
            }
        }
    }

    /// The leg to the network of a packet's destination; `None` if there is none, or the packet is
    /// malformed or for the router itself.
    fn route(&self, packet: &[u8]) -> Option<Leg> {
        let (network, is_own) = match packet.first()? >> 4 {
            4 => {
                let [.., network, host] = ipv4::Header::parse(packet).ok()?.dst.octets();
                (u16::from(network), host == NUMBER)
            }
            _ => {
                let dst = ipv6::Header::parse(packet).ok()?.dst;
                let [0x2001, 0xdb8, 0, network, .., host] = dst.segments() else { return None };
                (network, host == u16::from(NUMBER))
            }
        };
        let leg = self.legs.iter().find(|leg| u16::from(leg.network) == network)?;
        (!is_own).then_some(*leg)
    }
}

/// Decrement the TTL or hop limit. Returns `false` if it has run out.
fn hop(packet: &mut [u8]) -> bool {
    if packet.first().is_some_and(|b| b >> 4 == 4) {
        return ipv4::decrement_ttl(packet).is_some_and(|left| left > 0);
    }
    let Some(hops) = packet.get_mut(7) else { return false };
    *hops = hops.saturating_sub(1);
    *hops > 0
}

/// "Fragmentation needed" or "packet too big", sent to the sender of a packet that came from
/// `network`.
fn too_big(packet: &[u8], network: u8, mtu: usize) -> Option<Vec<u8>> {
    if packet.first()? >> 4 == 4 {
        let quote = packet.get(..packet.len().min(QUOTE_BYTES))?;
        let mut out = vec![0; ipv4::HEADER_LEN + icmp::HEADER_LEN];
        out.extend_from_slice(quote);
        let ip = ipv4::Header {
            header_len: ipv4::HEADER_LEN,
            tos: 0,
            total_len: out.len() as u16,
            id: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: HOPS,
            protocol: protocol::ICMP,
            src: Ipv4Addr::new(10, 0, network, NUMBER),
            dst: ipv4::Header::parse_quoted(packet).ok()?.src,
        };
        let message = icmp::Header::FragmentationNeeded { mtu: u16::try_from(mtu).ok()? };
        let is_written = ip.emit(&mut out) && message.emit(&mut out[ipv4::HEADER_LEN..]);
        return is_written.then_some(out);
    }
    let quote = packet.get(..packet.len().min(QUOTE_V6_BYTES))?;
    let mut out = vec![0; ipv6::HEADER_LEN + icmpv6::HEADER_LEN];
    out.extend_from_slice(quote);
    let ip = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: (out.len() - ipv6::HEADER_LEN) as u16,
        next_header: protocol::ICMPV6,
        hop_limit: HOPS,
        src: v6(network),
        dst: ipv6::Header::parse_quoted(packet).ok()?.src,
    };
    let message = icmpv6::Header::PacketTooBig { mtu: u32::try_from(mtu).ok()? };
    let is_written =
        ip.emit(&mut out) && message.emit(&mut out[ipv6::HEADER_LEN..], ip.src, ip.dst);
    is_written.then_some(out)
}
