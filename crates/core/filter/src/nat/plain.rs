//! The fast form of rewriting: packets of TCP and UDP without IP options, extensions or fragments.
//!
//! Called by: the burst path of the stack, which has found the state of a plain packet. All of the
//! new addresses and ports are written, 12 or 36 bytes, and the checksums change by a difference
//! that was computed once for a state and direction. `rewrite.rs` is the oracle. An estimate for
//! IPv4: 14 instructions for fields and 15 for two checksums, in one line of the packet. RFC 1624
//! equation 3.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;
use wire::protocol::{TCP, UDP};

use super::rewrite::Checksum;
use crate::Tuple;
use crate::states::{KeyV4, KeyV6};

/// What a translation adds to checksums, in one's complement arithmetic and in memory order: the
/// sum of the new fields less that of the old ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Of the addresses: for the IPv4 header, and for the partial sum of a pseudo-header.
    pub addresses: Sum,
    /// Of addresses and ports: for the checksum of TCP and UDP.
    pub transport: Sum,
}

impl Delta {
    /// The difference from a packet of tuple `from` to one of `to`.
    #[must_use]
    pub fn between(from: &Tuple, to: &Tuple) -> Delta {
        let addresses = of_addresses(to).minus(of_addresses(from));
        Delta { addresses, transport: addresses.plus(of_ports(to)).minus(of_ports(from)) }
    }

    /// A complemented checksum after the change.
    #[inline(always)]
    fn field(sum: Sum, field: u16) -> u16 {
        !Sum(!field).plus(sum).0
    }

    /// The transport checksum after the change; `is_udp` has a zero that means none.
    #[inline(always)]
    fn transport(self, field: u16, is_udp: bool, covers: Checksum) -> u16 {
        if covers == Checksum::PseudoHeader {
            return Sum(field).plus(self.addresses).0;
        }
        let new = Delta::field(self.transport, field);
        match is_udp {
            // RFC 768: no checksum.
            true if field == 0 => 0,
            true if new == 0 => 0xffff,
            _ => new,
        }
    }
}

fn of_addresses(tuple: &Tuple) -> Sum {
    match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_v4(src, dst, 0),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, 0),
        // A tuple has addresses of one version.
        _ => Sum::ZERO,
    }
}

fn of_ports(tuple: &Tuple) -> Sum {
    Sum::of_be16(tuple.src_port).plus(Sum::of_be16(tuple.dst_port))
}

/// One direction of a translated IPv4 flow of TCP or UDP: 16 bytes, in memory order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PlainV4 {
    /// Source and destination address.
    addrs: [u8; 8],
    /// Source and destination port.
    ports: [u8; 4],
    delta: Delta,
}

const _: () = assert!(size_of::<PlainV4>() == 16);

impl PlainV4 {
    /// The translation of packets of `from` to `to`; `None` if they are not of IPv4.
    #[must_use]
    pub fn new(from: &Tuple, to: &Tuple) -> Option<PlainV4> {
        let (src, dst) = v4(to)?;
        v4(from)?;
        let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
        Some(PlainV4 {
            addrs: [a, b, c, d, e, f, g, h],
            ports: ports(to),
            delta: Delta::between(from, to),
        })
    }

    /// The translation to this key, with the differences that a state keeps.
    #[inline(always)]
    #[must_use]
    pub fn of(to: &KeyV4, delta: Delta) -> PlainV4 {
        PlainV4 { addrs: to.addrs.to_ne_bytes(), ports: to.ports.to_ne_bytes(), delta }
    }

    /// Rewrite a plain packet: no options, no fragment, TCP or UDP with its whole header. The
    /// caller has seen that when it found the state. `false`, with nothing written, if `packet` is
    /// not such a packet.
    #[inline(always)]
    pub fn apply(&self, packet: &mut [u8], covers: Checksum) -> bool {
        // UDP's checksum is in the first 28 bytes, TCP's behind them.
        let Some((b, rest)) = packet.split_first_chunk_mut::<28>() else { return false };
        let is_fragment = (b[6] & 0x3f) | b[7] != 0;
        if b[0] != 0x45 || is_fragment {
            return false;
        }
        let field = match (b[9], rest.first_chunk_mut::<10>()) {
            (TCP, Some([.., high, low])) => {
                put16(high, low, |field| self.delta.transport(field, false, covers));
                true
            }
            (UDP, _) => {
                let [.., high, low] = b;
                put16(high, low, |field| self.delta.transport(field, true, covers));
                true
            }
            _ => false,
        };
        if field {
            let sum = Delta::field(self.delta.addresses, u16::from_ne_bytes([b[10], b[11]]));
            b[10..12].copy_from_slice(&sum.to_ne_bytes());
            b[12..20].copy_from_slice(&self.addrs);
            b[20..24].copy_from_slice(&self.ports);
        }
        field
    }
}

/// One direction of a translated IPv6 flow of TCP or UDP: 40 bytes, in memory order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PlainV6 {
    src: [u8; 16],
    dst: [u8; 16],
    ports: [u8; 4],
    delta: Delta,
}

const _: () = assert!(size_of::<PlainV6>() == 40);

impl PlainV6 {
    /// The translation of packets of `from` to `to`; `None` if they are not of IPv6.
    #[must_use]
    pub fn new(from: &Tuple, to: &Tuple) -> Option<PlainV6> {
        let (src, dst) = v6(to)?;
        v6(from)?;
        let (src, dst) = (src.octets(), dst.octets());
        Some(PlainV6 { src, dst, ports: ports(to), delta: Delta::between(from, to) })
    }

    /// The translation to this key, with the differences that a state keeps.
    #[inline(always)]
    #[must_use]
    pub fn of(to: &KeyV6, delta: Delta) -> PlainV6 {
        let [a, b, c, d] = to.addrs.map(u64::to_ne_bytes);
        let whole = |first: [u8; 8], second: [u8; 8]| {
            let mut octets = [0; 16];
            let (low, high) = octets.split_at_mut(8);
            low.copy_from_slice(&first);
            high.copy_from_slice(&second);
            octets
        };
        PlainV6 { src: whole(a, b), dst: whole(c, d), ports: to.ports.to_ne_bytes(), delta }
    }

    /// Rewrite a plain packet: TCP or UDP with its whole header right behind the IPv6 header.
    /// `false`, with nothing written, if `packet` is not such a packet.
    #[inline(always)]
    pub fn apply(&self, packet: &mut [u8], covers: Checksum) -> bool {
        let Some((b, rest)) = packet.split_first_chunk_mut::<48>() else { return false };
        if b[0] >> 4 != 6 {
            return false;
        }
        let field = match (b[6], rest.first_chunk_mut::<10>()) {
            (TCP, Some([.., high, low])) => {
                put16(high, low, |field| self.delta.transport(field, false, covers));
                true
            }
            (UDP, _) => {
                let [.., high, low] = b;
                put16(high, low, |field| self.delta.transport(field, true, covers));
                true
            }
            _ => false,
        };
        if field {
            b[8..24].copy_from_slice(&self.src);
            b[24..40].copy_from_slice(&self.dst);
            b[40..44].copy_from_slice(&self.ports);
        }
        field
    }
}

/// Replace two bytes in memory order.
#[inline(always)]
fn put16(high: &mut u8, low: &mut u8, new: impl FnOnce(u16) -> u16) {
    [*high, *low] = new(u16::from_ne_bytes([*high, *low])).to_ne_bytes();
}

fn ports(tuple: &Tuple) -> [u8; 4] {
    let ([a, b], [c, d]) = (tuple.src_port.to_be_bytes(), tuple.dst_port.to_be_bytes());
    [a, b, c, d]
}

fn v4(tuple: &Tuple) -> Option<(Ipv4Addr, Ipv4Addr)> {
    match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some((src, dst)),
        _ => None,
    }
}

fn v6(tuple: &Tuple) -> Option<(Ipv6Addr, Ipv6Addr)> {
    match (tuple.src, tuple.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some((src, dst)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
