//! Identifications of fragmented datagrams. They cannot be predicted, and do not repeat soon.
//!
//! Called by: `stack/frag/output.rs`, for each datagram that it fragments. Packets that are not
//! fragmented have no identification (RFC 6864 section 4.1). Several flows may share a counter. A
//! permutation of the whole space, keyed by the secret and the flow, turns the counter into an
//! identification, so no identification repeats in a flow before the counter has wrapped. The keys
//! of a flow are keyed hashes, so an observer of one flow learns nothing about another. Within a
//! flow a mixer that is no cipher is enough: an observer of the flow sees the identifications and
//! need not guess. RFC 6864 section 4.3 (IPv4), RFC 7739 section 5 (IPv6).

use base::KeyedHash;

use crate::flow::FlowKey;

/// Number of counters. If flows share a counter, it only counts faster.
const COUNTERS: usize = 1024;
/// Rounds of the Feistel network: three make a pseudo-random permutation (Luby and Rackoff, 1988).
/// A fourth would protect against an attacker who can find the counter that belongs to an
/// identification; nobody can.
const ROUNDS: usize = 3;
/// An odd number with zeros and ones spread over it.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The counters of a stack.
#[derive(Debug)]
pub struct Identifications {
    counters: Vec<u32>,
    /// The flow of the last datagram, with its counter and keys.
    last: Option<(FlowKey, OfFlow)>,
}

/// Which counter a flow has, and the keys of its permutation.
#[derive(Clone, Copy, Debug)]
struct OfFlow {
    counter: usize,
    keys: [u64; ROUNDS],
}

impl Default for Identifications {
    fn default() -> Identifications {
        Identifications { counters: vec![0; COUNTERS], last: None }
    }
}

impl Identifications {
    /// The counters of shard `index` of `count`. The shards share a secret; each begins in another
    /// part of the counters' range, so that two shards do not soon give a flow the same number.
    pub fn of_shard(index: usize, count: usize) -> Identifications {
        let part = |range: u64| (range * index as u64 / count.max(1) as u64) as u32;
        // The lower 16 bits are used for IPv4, all of them for IPv6.
        let first = part(1 << 32) & !0xffff | part(1 << 16);
        Identifications { counters: vec![first; COUNTERS], last: None }
    }

    /// The identification of the next datagram of a flow: 16 bits for IPv4, 32 for IPv6.
    pub fn next(&mut self, secret: &KeyedHash, flow: FlowKey) -> u32 {
        let OfFlow { counter, keys } = match self.last {
            Some((last, known)) if last == flow => known,
            _ => self.of_flow(secret, flow),
        };
        let counter = &mut self.counters[counter];
        *counter = counter.wrapping_add(1);
        permuted(keys, *counter, if flow.is_v4() { 8 } else { 16 })
    }

    /// The counter and keys of a flow that is not that of the last datagram.
    #[cold]
    fn of_flow(&mut self, secret: &KeyedHash, flow: FlowKey) -> OfFlow {
        let hash = secret.hash([0x6964_656e_7469_6679, flow.hash(secret)]);
        let keys = core::array::from_fn(|round| secret.hash([hash, round as u64]));
        let known = OfFlow { counter: hash as usize % COUNTERS, keys };
        self.last = Some((flow, known));
        known
    }
}

/// A permutation of the numbers of `2 * half_bits` bits; other keys give another permutation.
fn permuted(keys: [u64; ROUNDS], counter: u32, half_bits: u32) -> u32 {
    let mask = (1 << half_bits) - 1;
    let (mut left, mut right) = (counter >> half_bits & mask, counter & mask);
    for key in keys {
        (left, right) = (right, left ^ (mixed(key, right) & mask));
    }
    left << half_bits | right
}

/// 32 bits, each of which depends on all bits of `key` and of `half`.
fn mixed(key: u64, half: u32) -> u32 {
    let spread = (u64::from(half) ^ key).wrapping_mul(SPREAD);
    let mixed = (spread ^ spread >> 32).wrapping_mul(key | 1);
    (mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;
    use std::collections::BTreeSet;

    use super::*;

    const SECRET: KeyedHash = KeyedHash::new(17, 71);

    fn drawn(ids: &mut Identifications, dst: &str, protocol: u8, count: usize) -> Vec<u32> {
        let dst: IpAddr = dst.parse().expect("an address");
        let src = if dst.is_ipv4() { "192.0.2.1" } else { "2001:db8::1" };
        let src = src.parse().expect("an address");
        let flow = FlowKey::new(dst, 0, src, protocol.into());
        (0..count).map(|_| ids.next(&SECRET, flow)).collect()
    }

    /// RFC 6864 4.3-a.
    #[test]
    fn no_identification_of_a_flow_comes_twice_before_all_were_used() {
        let mut ids = Identifications::default();
        let all = drawn(&mut ids, "192.0.2.2", 17, 65_536);
        assert!(all.iter().all(|&id| id <= 0xffff));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 65_536);
        assert_eq!(
            drawn(&mut ids, "192.0.2.2", 17, 3),
            all[..3],
            "the identifications did not repeat"
        );
        let v6 = drawn(&mut ids, "2001:db8::2", 17, 200_000);
        assert_eq!(v6.iter().collect::<BTreeSet<_>>().len(), v6.len());
        assert!(v6.iter().any(|&id| id > 1 << 31));
    }

    /// RFC 7739 section 3: an attacker who knows the last one, or those of his own flow, does not
    /// know the next.
    #[test]
    fn identifications_are_not_predictable() {
        let mut ids = Identifications::default();
        for dst in ["192.0.2.2", "2001:db8::2"] {
            let first = drawn(&mut ids, dst, 17, 1_000);
            let steps: BTreeSet<u32> = first.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
            assert!(steps.len() > 950, "{} different steps", steps.len());
        }
        // The same counters for another destination, protocol and secret.
        let fresh =
            |dst: &str, protocol| drawn(&mut Identifications::default(), dst, protocol, 1_000);
        let here = fresh("192.0.2.2", 17);
        for other in [fresh("192.0.2.3", 17), fresh("192.0.2.2", 1)] {
            let alike = here.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(alike < 10, "{alike} alike");
        }
    }
}
