//! The key of a flow: both addresses and both ports, IPv4 or IPv6, in five 64-bit words.
//!
//! Called by: the stack's demultiplexer, and all code that hashes a flow.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::KeyedHash;
use wire::checksum::Sum;

use crate::vrf::Vrf;

/// Source and destination of a packet, as words in the header's memory order: they are only
/// compared, hashed and summed, so no bytes are swapped. There is a type for each IP version, so
/// that the packet path is compiled separately for each.
pub trait Addrs: Copy {
    /// The flow's key. `raw_ports`: the first four bytes of the transport header, in memory order.
    fn key(self, raw_ports: u32) -> FlowKey;
    /// The sum of both addresses and `rest`.
    fn sum_with(self, rest: u64) -> Sum;
    /// Source address.
    fn src(self) -> IpAddr;
    /// Destination address.
    fn dst(self) -> IpAddr;
}

/// An IPv4 header's addresses.
#[derive(Clone, Copy, Debug)]
pub struct V4Addrs(pub u64);

/// An IPv6 header's addresses: two words of source, two of destination, as in memory.
#[derive(Clone, Copy, Debug)]
pub struct V6Addrs(pub [u64; 4]);

impl V4Addrs {
    /// From two addresses.
    pub fn of(src: Ipv4Addr, dst: Ipv4Addr) -> V4Addrs {
        let word = |addr: Ipv4Addr| u64::from(u32::from_ne_bytes(addr.octets()));
        let (src, dst) = (word(src), word(dst));
        V4Addrs(if cfg!(target_endian = "little") { src | dst << 32 } else { src << 32 | dst })
    }
}

impl V6Addrs {
    /// From two addresses.
    #[inline(always)]
    pub fn of(src: Ipv6Addr, dst: Ipv6Addr) -> V6Addrs {
        let ([a, b], [c, d]) = (words(src), words(dst));
        V6Addrs([a, b, c, d])
    }

    fn half(self, first: usize) -> IpAddr {
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&self.0[first].to_ne_bytes());
        octets[8..].copy_from_slice(&self.0[first + 1].to_ne_bytes());
        IpAddr::V6(Ipv6Addr::from(octets))
    }
}

/// The two halves of an address, as in memory.
#[inline(always)]
fn words(addr: Ipv6Addr) -> [u64; 2] {
    let both = u128::from_ne_bytes(addr.octets());
    let (low, high) = (both as u64, (both >> 64) as u64);
    if cfg!(target_endian = "little") { [low, high] } else { [high, low] }
}

impl Addrs for V4Addrs {
    #[inline(always)]
    fn key(self, raw_ports: u32) -> FlowKey {
        FlowKey { words: [self.0, u64::from(raw_ports) << 32 | V4, 0, 0, 0] }
    }

    #[inline(always)]
    fn sum_with(self, rest: u64) -> Sum {
        Sum::from_u64s([self.0, rest])
    }

    fn src(self) -> IpAddr {
        let [a, b, c, d, ..] = self.0.to_ne_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    }

    fn dst(self) -> IpAddr {
        let [.., a, b, c, d] = self.0.to_ne_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    }
}

impl Addrs for V6Addrs {
    #[inline(always)]
    fn key(self, raw_ports: u32) -> FlowKey {
        let [a, b, c, d] = self.0;
        FlowKey { words: [a, u64::from(raw_ports) << 32 | V6, b, c, d] }
    }

    #[inline(always)]
    fn sum_with(self, rest: u64) -> Sum {
        let [a, b, c, d] = self.0;
        Sum::from_u64s([a, b, c, d, rest])
    }

    fn src(self) -> IpAddr {
        self.half(0)
    }

    fn dst(self) -> IpAddr {
        self.half(2)
    }
}

/// Both addresses and both ports. Keys are equal exactly if the flows are the same.
#[derive(Clone, Copy, Debug, PartialOrd, Ord)]
pub struct FlowKey {
    words: [u64; 5],
}

const V4: u64 = 4;
const V6: u64 = 6;
/// A bit in the word that contains the version.
const LOOPED: u64 = 1 << 8;
/// Where the VRF's number is in that word.
const VRF_AT: u32 = 16;

impl FlowKey {
    /// A key that no flow has.
    pub const NONE: FlowKey = FlowKey { words: [0; 5] };

    /// The key of a flow, as received packets have it (`remote` is the source). Two addresses of
    /// different versions give [`FlowKey::NONE`].
    pub fn new(local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> FlowKey {
        let mut ports = [0; 4];
        ports[..2].copy_from_slice(&remote_port.to_be_bytes());
        ports[2..].copy_from_slice(&local_port.to_be_bytes());
        let ports = u32::from_ne_bytes(ports);
        match (remote, local) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => V4Addrs::of(src, dst).key(ports),
            (IpAddr::V6(src), IpAddr::V6(dst)) => V6Addrs::of(src, dst).key(ports),
            _ => FlowKey::NONE,
        }
    }

    /// The key of a flow from this host to itself: no packet from outside has this key.
    #[must_use]
    pub fn looped(self) -> FlowKey {
        let [a, b, c, d, e] = self.words;
        FlowKey { words: [a, b | LOOPED, c, d, e] }
    }

    /// The key of the same flow in a VRF. Flows of two VRFs may have the same ends.
    #[inline(always)]
    #[must_use]
    pub fn within(self, vrf: Vrf) -> FlowKey {
        let [a, b, c, d, e] = self.words;
        FlowKey { words: [a, b | vrf.number() << VRF_AT, c, d, e] }
    }

    /// Are the addresses those of IPv4?
    #[inline(always)]
    pub fn is_v4(&self) -> bool {
        self.words[1] & 0xff == V4
    }

    /// Local address and port.
    pub fn local(&self) -> SocketAddr {
        let [a, b, c, d, e] = self.words;
        let ip = if b & 0xff == V6 { V6Addrs([a, c, d, e]).dst() } else { V4Addrs(a).dst() };
        SocketAddr::new(ip, self.port(2))
    }

    /// Remote address and port.
    pub fn remote(&self) -> SocketAddr {
        let [a, b, c, d, e] = self.words;
        let ip = if b & 0xff == V6 { V6Addrs([a, c, d, e]).src() } else { V4Addrs(a).src() };
        SocketAddr::new(ip, self.port(0))
    }

    /// The port at byte `at` of the transport header.
    fn port(&self, at: usize) -> u16 {
        let ports = ((self.words[1] >> 32) as u32).to_ne_bytes();
        u16::from_be_bytes([ports[at], ports[at + 1]])
    }

    /// Keyed hash. Remote hosts choose parts of the key and must not be able to predict the hash.
    #[inline]
    pub fn hash(&self, secret: &KeyedHash) -> u64 {
        let [a, b, c, d, e] = self.words;
        if b & 0xff == V4 { secret.hash([a, b]) } else { secret.hash([a, b, c, d, e]) }
    }

    /// A cheap hash for a cache whose hits are verified; never for a table.
    #[inline(always)]
    pub fn cheap_hash(&self) -> u64 {
        let [a, b, ..] = self.words;
        // The ports are in the upper half of their word. A product only carries upwards, so the
        // halves are swapped first.
        let product = u128::from(a ^ b.rotate_left(32)) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    }
}

impl PartialEq for FlowKey {
    #[inline(always)]
    fn eq(&self, other: &FlowKey) -> bool {
        let [a, b, c, d, e] = self.words;
        let [k, l, m, n, o] = other.words;
        (a ^ k) | (b ^ l) == 0 && (b & 0xff == V4 || (c ^ m) | (d ^ n) | (e ^ o) == 0)
    }
}

impl Eq for FlowKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_with_oneself_is_another_than_the_same_from_outside() {
        for ip in [IpAddr::from([192, 0, 2, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let outside = FlowKey::new(ip, 80, ip, 1_024);
            let looped = outside.looped();
            assert_ne!(outside, looped);
            assert_eq!(looped, looped.looped());
            assert_eq!((looped.local(), looped.remote()), (outside.local(), outside.remote()));
            assert_eq!(looped.is_v4(), ip.is_ipv4());
            let secret = KeyedHash::new(1, 2);
            assert_ne!(looped.hash(&secret), outside.hash(&secret));
        }
    }

    #[test]
    fn a_flow_of_a_vrf_is_another_than_the_same_outside() {
        let secret = KeyedHash::new(1, 2);
        for ip in [IpAddr::from([192, 0, 2, 1]), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let outside = FlowKey::new(ip, 80, ip, 1_024);
            let keys = [10, 11, 65_535].map(|table| Vrf::of_table(table).expect("a table"));
            let keys = keys.map(|vrf| outside.within(vrf));
            assert_eq!(outside.within(Vrf::NONE), outside);
            for (n, key) in keys.iter().enumerate() {
                assert_eq!(key.is_v4(), ip.is_ipv4());
                assert_eq!((key.local(), key.remote()), (outside.local(), outside.remote()));
                let others = keys.iter().skip(n + 1).chain([&outside]);
                for other in others {
                    assert_ne!(key, other);
                    assert_ne!(key.hash(&secret), other.hash(&secret));
                }
            }
        }
    }

    #[test]
    fn a_key_tells_the_ends_it_was_made_of() {
        for (local, remote) in
            [("192.0.2.1:80", "198.51.100.254:65535"), ("[2001:db8::1]:443", "[fe80::1:2:3:4]:1")]
        {
            let (local, remote): (SocketAddr, SocketAddr) =
                (local.parse().expect("an address"), remote.parse().expect("an address"));
            let key = FlowKey::new(local.ip(), local.port(), remote.ip(), remote.port());
            assert_eq!((key.local(), key.remote()), (local, remote));
        }
    }
}
