//! The key of a connection: both addresses and both ports, of either version, as five words.
//!
//! Called by: demultiplexing in the stack, and whatever hashes a flow.

use core::net::IpAddr;

use base::KeyedHash;

/// Local and remote address and port. Two flows are the same exactly if their keys are equal.
#[derive(Clone, Copy, Debug)]
pub struct FlowKey {
    words: [u64; 5],
}

const V4: u64 = 4;
const V6: u64 = 6;

impl FlowKey {
    /// The key of a flow as this end sees it. Addresses of two versions make a key that no
    /// packet has.
    #[inline(always)]
    pub fn new(local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> FlowKey {
        let ports = u64::from(local_port) << 48 | u64::from(remote_port) << 32;
        let words = match (local, remote) {
            (IpAddr::V4(l), IpAddr::V4(r)) => {
                [u64::from(l.to_bits()) << 32 | u64::from(r.to_bits()), ports | V4, 0, 0, 0]
            }
            (IpAddr::V6(l), IpAddr::V6(r)) => {
                let (l, r) = (l.to_bits(), r.to_bits());
                [r as u64, ports | V6, (r >> 64) as u64, l as u64, (l >> 64) as u64]
            }
            _ => [0, ports, 0, 0, 0],
        };
        FlowKey { words }
    }

    /// Keyed hash: strangers choose the key's parts, so they must not know where it lands.
    #[inline]
    pub fn hash(&self, secret: &KeyedHash) -> u64 {
        let [a, b, c, d, e] = self.words;
        if b & 0xff == V4 { secret.hash([a, b]) } else { secret.hash([a, b, c, d, e]) }
    }

    /// A cheap index for a cache whose hits are verified; never for a table.
    #[inline(always)]
    pub fn cache_index(&self, size: usize) -> usize {
        let mixed =
            (self.words[0] ^ self.words[1].rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & (size - 1)
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
