//! Resilient hashing: assigns the buckets of a group to its next hops. If a member goes, the others
//! get its buckets, and no other bucket moves; a new member takes its share from all.
//!
//! Called by: `group.rs`. A flow has the bucket of its hash, so that a flow whose next hop is still
//! there keeps it. RFC 2992 compares ways to do this; Linux calls it resilient next-hop groups.

use std::cmp::Ordering;

/// Number of buckets of a group.
pub(super) const BUCKETS: usize = 128;

/// A member of a group, and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    pub(super) member: u32,
    pub(super) weight: u8,
}

/// The bucket of a flow. The flow's hash is mixed, because its lowest bits may have chosen the core
/// already, and are then equal in all flows of this core.
#[inline(always)]
pub(super) fn bucket(flow: u32) -> usize {
    (flow.wrapping_mul(0x9e37_79b9) >> (u32::BITS - BUCKETS.ilog2())) as usize
}

/// The number of buckets that a member is to have, and the number that it has.
struct Count {
    share: Share,
    quota: usize,
    held: usize,
}

impl Count {
    fn missing(&self) -> usize {
        self.quota.saturating_sub(self.held)
    }

    fn excess(&self) -> usize {
        self.held.saturating_sub(self.quota)
    }
}

/// The new member of each bucket; `before` has the old ones. `shares` has at least two members and
/// no more than there are buckets.
pub(super) fn distribute(before: [u32; BUCKETS], shares: &[Share]) -> [u32; BUCKETS] {
    let mut counts = counts(&before, shares);
    let mut buckets = before;
    for bucket in &mut buckets {
        if counts.iter().any(|c| c.share.member == *bucket) {
            continue;
        }
        // The bucket's member is gone: the member that misses most buckets gets it.
        if let Some(heir) = counts.iter_mut().max_by_key(|c| c.missing()) {
            heir.held += 1;
            *bucket = heir.share.member;
        }
    }
    while let Some(taker) = counts.iter().position(|c| c.missing() > 0) {
        let Some(giver) = (0..counts.len()).max_by_key(|&at| counts[at].excess()) else { break };
        let (from, to) = (counts[giver].share.member, counts[taker].share.member);
        let Some(bucket) = buckets.iter_mut().find(|bucket| **bucket == from) else { break };
        *bucket = to;
        counts[giver].held -= 1;
        counts[taker].held += 1;
    }
    buckets
}

/// Hand out the buckets one by one, each to the member with the greatest claim to one more. A new
/// member then never raises the quota of another, and a member that goes never lowers one, which
/// rounding the exact shares would do: no bucket moves between members that stay.
fn counts(before: &[u32; BUCKETS], shares: &[Share]) -> Vec<Count> {
    let count = |&share: &Share| {
        let held = before.iter().filter(|bucket| **bucket == share.member).count();
        Count { share, quota: 0, held }
    };
    let mut counts: Vec<Count> = shares.iter().map(count).collect();
    for _ in 0..BUCKETS {
        if let Some(next) = counts.iter_mut().max_by(|a, b| claim(a, b)) {
            next.quota += 1;
        }
    }
    counts
}

/// Compare the claims of two members: weight / sqrt(n (n + 1)) for the bucket after `n`, so that
/// each member gets a first one (the method of Huntington and Hill for seats of a parliament).
fn claim(a: &Count, b: &Count) -> Ordering {
    let weight = |c: &Count| usize::from(c.share.weight).pow(2);
    let divisor = |c: &Count| c.quota * (c.quota + 1);
    let by_claim = (weight(a) * divisor(b)).cmp(&(weight(b) * divisor(a)));
    // Of equal claims, that of the member with the lower number is met first, always.
    by_claim.then(divisor(b).cmp(&divisor(a))).then(b.share.member.cmp(&a.share.member))
}
