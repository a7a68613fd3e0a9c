//! Keys: the tuple of a packet as a few words in memory order, and the keyed hash of them, which is
//! the same in both directions.
//!
//! Called by: `parse.rs`, which reads keys from packets; `index.rs` takes the hash, `record.rs`
//! compares. Nothing is swapped to host order on the way: keys are only compared and hashed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::Tuple;

/// The tuple of an IPv4 packet. Words are in memory order: the source comes first in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyV4 {
    /// Source and destination address, as bytes 12 to 20 of the header.
    pub addrs: u64,
    /// Source and destination port, as the first four bytes of the transport header.
    pub ports: u32,
    /// Protocol.
    pub protocol: u8,
}

/// The tuple of an IPv6 packet. Words are in memory order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyV6 {
    /// Two words of source, two of destination, as bytes 8 to 40 of the header.
    pub addrs: [u64; 4],
    /// Source and destination port, as the first four bytes of the transport header.
    pub ports: u32,
    /// Protocol behind the extension headers.
    pub protocol: u8,
}

/// The tuple of a packet of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Of an IPv4 packet.
    V4(KeyV4),
    /// Of an IPv6 packet.
    V6(KeyV6),
}

impl KeyV4 {
    /// The key of an answer. Rotating by half swaps source and destination on every machine.
    #[inline(always)]
    #[must_use]
    pub const fn reversed(self) -> KeyV4 {
        KeyV4 {
            addrs: self.addrs.rotate_left(32),
            ports: self.ports.rotate_left(16),
            protocol: self.protocol,
        }
    }
}

impl KeyV6 {
    /// The key of an answer.
    #[inline(always)]
    #[must_use]
    pub const fn reversed(self) -> KeyV6 {
        let [a, b, c, d] = self.addrs;
        KeyV6 { addrs: [c, d, a, b], ports: self.ports.rotate_left(16), protocol: self.protocol }
    }
}

impl Key {
    /// The key of an answer.
    #[inline(always)]
    #[must_use]
    pub const fn reversed(self) -> Key {
        match self {
            Key::V4(key) => Key::V4(key.reversed()),
            Key::V6(key) => Key::V6(key.reversed()),
        }
    }

    /// The protocol.
    #[inline(always)]
    #[must_use]
    pub const fn protocol(self) -> u8 {
        match self {
            Key::V4(key) => key.protocol,
            Key::V6(key) => key.protocol,
        }
    }

    /// Both ports in host order, the source's first.
    #[must_use]
    pub const fn ports(self) -> [u16; 2] {
        let bytes = match self {
            Key::V4(key) => key.ports.to_ne_bytes(),
            Key::V6(key) => key.ports.to_ne_bytes(),
        };
        [u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]])]
    }

    /// The source as limits for a source see it: an IPv4 address, or an IPv6 network of 64 bits.
    #[must_use]
    pub fn source(self) -> u64 {
        match self.tuple().src {
            IpAddr::V4(addr) => u64::from(addr.to_bits()),
            IpAddr::V6(addr) => (addr.to_bits() >> 64) as u64,
        }
    }

    /// The tuple in the words of rules.
    #[must_use]
    pub fn tuple(self) -> Tuple {
        let [src_port, dst_port] = self.ports();
        let (src, dst) = match self {
            Key::V4(key) => {
                let [a, b, c, d, e, f, g, h] = key.addrs.to_ne_bytes();
                let (src, dst) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
                (IpAddr::V4(src), IpAddr::V4(dst))
            }
            Key::V6(key) => {
                let [a, b, c, d] = key.addrs;
                (IpAddr::V6(addr_v6(a, b)), IpAddr::V6(addr_v6(c, d)))
            }
        };
        Tuple { src, dst, protocol: self.protocol(), src_port, dst_port }
    }

    /// The key of a tuple; `None` if its addresses are of different versions.
    #[must_use]
    pub fn of(tuple: &Tuple) -> Option<Key> {
        let ([a, b], [c, d]) = (tuple.src_port.to_be_bytes(), tuple.dst_port.to_be_bytes());
        let (ports, protocol) = (u32::from_ne_bytes([a, b, c, d]), tuple.protocol);
        match (tuple.src, tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
                let addrs = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                Some(Key::V4(KeyV4 { addrs, ports, protocol }))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let ([a, b], [c, d]) = (words_v6(src), words_v6(dst));
                Some(Key::V6(KeyV6 { addrs: [a, b, c, d], ports, protocol }))
            }
            _ => None,
        }
    }
}

fn words_v6(addr: Ipv6Addr) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = addr.octets();
    [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes([i, j, k, l, m, n, o, p])]
}

#[inline(always)]
pub(super) fn addr_v6(first: u64, second: u64) -> Ipv6Addr {
    let mut octets = [0; 16];
    let (low, high) = octets.split_at_mut(8);
    low.copy_from_slice(&first.to_ne_bytes());
    high.copy_from_slice(&second.to_ne_bytes());
    Ipv6Addr::from(octets)
}

/// The hash of keys under a secret.
///
/// It is two rounds of a folded multiplication. The first round has one half of the secret in each
/// factor, so that no tuple is known to make a factor zero, and the second makes all bits of the
/// result depend on all bits of the first. It is no pseudo-random function with a proof, as SipHash
/// is, which takes four times as long. Two things bound the harm if somebody finds tuples that
/// collide: a bucket never overflows (`index.rs`), so a look-up reads two lines whatever is in the
/// table, and a flow that finds both of its buckets full is refused, which hits the sender of the
/// colliding tuples, since others have other buckets.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash {
    secret: [u64; 2],
}

impl KeyHash {
    /// The hash under this secret, which no remote host may know.
    #[must_use]
    pub const fn new(secret: [u64; 2]) -> KeyHash {
        KeyHash { secret }
    }

    /// The hash of an IPv4 key; equal for the reversed key.
    #[inline(always)]
    #[must_use]
    pub const fn of_v4(&self, key: &KeyV4) -> u64 {
        let one = (key.addrs as u32 as u64) << 16 | key.ports as u16 as u64;
        let other = key.addrs >> 32 << 16 | (key.ports >> 16) as u64;
        self.between(one, other, key.protocol)
    }

    /// The hash of an IPv6 key; equal for the reversed key.
    #[inline(always)]
    #[must_use]
    pub const fn of_v6(&self, key: &KeyV6) -> u64 {
        let [a, b] = self.secret;
        let one = fold(key.addrs[0] ^ b, key.addrs[1] ^ a) ^ key.ports as u16 as u64;
        let other = fold(key.addrs[2] ^ b, key.addrs[3] ^ a) ^ (key.ports >> 16) as u64;
        self.between(one, other, key.protocol)
    }

    /// The hash of a key; equal for the reversed key.
    #[inline(always)]
    #[must_use]
    pub const fn of(&self, key: &Key) -> u64 {
        match key {
            Key::V4(key) => self.of_v4(key),
            Key::V6(key) => self.of_v6(key),
        }
    }

    /// The hash of two words that have an order, for tables other than the one of states.
    #[inline(always)]
    pub(crate) const fn of_words(&self, one: u64, other: u64) -> u64 {
        let [a, b] = self.secret;
        fold(fold(one ^ a, other ^ b) ^ b, a ^ SPREAD)
    }

    /// The hash of four words that have an order.
    #[inline(always)]
    pub(crate) const fn of_four(&self, [one, two, three, four]: [u64; 4]) -> u64 {
        let [a, b] = self.secret;
        let (first, second) = (fold(one ^ b, two ^ a), fold(three ^ a, four ^ b ^ SPREAD));
        self.of_words(first, second)
    }

    #[inline(always)]
    const fn between(&self, one: u64, other: u64, protocol: u8) -> u64 {
        let [a, b] = self.secret;
        let (low, high) = if one < other { (one, other) } else { (other, one) };
        fold(fold(low ^ a, high ^ b) ^ b ^ protocol as u64, a ^ SPREAD)
    }
}

/// The golden ratio as a fraction of 2^64.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Both halves of a product, which depend on all bits of both factors.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}
