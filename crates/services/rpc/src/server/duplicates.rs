//! The duplicate-request cache: recent replies, for calls that clients repeat because a reply was
//! lost.
//!
//! Called by: `server/mod.rs` and `tasks`, for calls over datagrams. Source: C. Juszczak,
//! "Improving the Performance and Correctness of an NFS Server", 1989. Limits: `DUPLICATES_MAX`,
//! `DUPLICATE_BYTES`, `DUPLICATE_AGE`.

use core::net::{IpAddr, SocketAddr};
use std::collections::{HashMap, VecDeque};

use base::{Instant, KeyedHash};

use crate::limits::{DUPLICATE_AGE, DUPLICATE_BYTES, DUPLICATES_MAX};

/// The key of a call in the cache: two keyed hashes of the caller's address and the whole call, so
/// that another call with the same xid has another key.
pub(crate) type Key = (u64, u64);

/// How many bytes of a call are hashed at a time.
const BLOCK: usize = 128;

#[derive(Debug)]
struct Kept {
    reply: Vec<u8>,
    at: Instant,
}

#[derive(Debug)]
pub(crate) struct Duplicates {
    hash: KeyedHash,
    replies: HashMap<Key, Kept>,
    order: VecDeque<Key>,
    bytes: usize,
    found: u64,
}

impl Duplicates {
    pub(crate) fn new(hash: KeyedHash) -> Duplicates {
        let (replies, order) = (HashMap::new(), VecDeque::new());
        Duplicates { hash, replies, order, bytes: 0, found: 0 }
    }

    pub(crate) fn found(&self) -> u64 {
        self.found
    }

    /// The key of a call.
    pub(crate) fn key(&self, datagram: &[u8], from: SocketAddr) -> Key {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let (high, low) = ((ip >> 64) as u64, ip as u64);
        let length = datagram.len() as u64;
        let start = self.hash.hash([high, low, u64::from(from.port()), length]);
        // The last block is filled with zeros. The length is hashed too, so that these zeros differ
        // from data.
        let (blocks, rest) = datagram.as_chunks::<BLOCK>();
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&last);
        let body = blocks.iter().chain(last).fold(start, |hash, block| {
            let (words, _) = block.as_chunks::<8>();
            let word = |at: usize| match at.checked_sub(1) {
                None => hash,
                Some(at) => u64::from_le_bytes(words[at]),
            };
            self.hash.hash::<{ 1 + BLOCK / 8 }>(core::array::from_fn(word))
        });
        (start, body)
    }

    /// The reply to a call that was answered before.
    pub(crate) fn find(&mut self, key: Key, now: Instant) -> Option<&[u8]> {
        let kept = self.replies.get(&key).filter(|k| now.since(k.at) < DUPLICATE_AGE)?;
        self.found += 1;
        Some(&kept.reply)
    }

    /// Keep a reply. The oldest replies are evicted to make room.
    pub(crate) fn insert(&mut self, key: Key, reply: &[u8], now: Instant) {
        while let Some(oldest) = self.order.front() {
            let kept = self.replies.get(oldest);
            let is_old = kept.is_none_or(|kept| now.since(kept.at) >= DUPLICATE_AGE);
            let is_full =
                self.order.len() >= DUPLICATES_MAX || self.bytes + reply.len() > DUPLICATE_BYTES;
            if !(is_old || is_full) {
                break;
            }
            self.bytes -= self.replies.remove(oldest).map_or(0, |kept| kept.reply.len());
            self.order.pop_front();
        }
        let kept = Kept { reply: reply.to_vec(), at: now };
        if let Some(before) = self.replies.insert(key, kept) {
            self.bytes -= before.reply.len();
        } else {
            self.order.push_back(key);
        }
        self.bytes += reply.len();
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.order.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_replies_make_room() {
        let mut cache = Duplicates::new(KeyedHash::new(1, 2));
        for n in 0..5_000_u64 {
            cache.insert((n, n), &[0; 8_192], Instant::from_nanos(n));
            let (count, bytes) = cache.size();
            assert!(count <= DUPLICATES_MAX && bytes <= DUPLICATE_BYTES, "{count} {bytes}");
        }
        assert_eq!(cache.size(), (512, DUPLICATE_BYTES));
        assert!(cache.find((0, 0), Instant::from_nanos(5_000)).is_none());
        assert!(cache.find((4_999, 4_999), Instant::from_nanos(5_000)).is_some());
        assert!(cache.find((4_999, 4_999), Instant::from_nanos(5_000) + DUPLICATE_AGE).is_none());
    }

    #[test]
    fn calls_of_other_lengths_are_others_at_every_length() {
        let cache = Duplicates::new(KeyedHash::new(1, 2));
        let from = "192.0.2.1:1".parse().expect("an address");
        let zeros = [0; 3 * BLOCK];
        let mut keys: Vec<Key> = (0..=zeros.len()).map(|n| cache.key(&zeros[..n], from)).collect();
        // Add calls that differ in the last byte only.
        keys.extend((1..=zeros.len()).map(|n| {
            let mut call = zeros[..n].to_vec();
            call[n - 1] = 1;
            cache.key(&call, from)
        }));
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn another_port_another_address_and_another_call_are_others() {
        let cache = Duplicates::new(KeyedHash::new(1, 2));
        let from = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let keys = [
            cache.key(b"call", from("192.0.2.1:1")),
            cache.key(b"call", from("192.0.2.1:2")),
            cache.key(b"call", from("192.0.2.2:1")),
            cache.key(b"Call", from("192.0.2.1:1")),
            cache.key(b"call\0", from("192.0.2.1:1")),
        ];
        let mut distinct = keys.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
    }
}
