//! Fragments: those behind the first one have no ports, so they inherit the verdict on it.
//!
//! Called by: the stack, for packets that `parse` calls pieces. A first fragment is judged as any
//! packet, and its verdict is kept for two seconds. Fragments of a datagram leave their sender in
//! one go, so their distance is a matter of queues and reordering; a host's 30 or 60 seconds (RFC
//! 1122 section 3.3.2, RFC 8200 section 4.5) would be wrong here, because 16 bits of identification
//! are used again much earlier (RFC 4963), and a verdict must not go to another datagram. RFC 1858,
//! 3128 (headers that are overlapped), RFC 5722 (overlaps refuse the datagram). Counter:
//! `filter_fragment`. Limit: `filter_fragments`.

use base::{Budget, Duration, Instant, Limit};

use super::key::KeyHash;
use super::{Direction, StateId};

/// How long a verdict is kept.
const LIFETIME: Duration = Duration::from_secs(2);
/// Places for one hash.
const WAYS: usize = 8;

/// What tells the fragments of one datagram from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datagram {
    /// Addresses in memory order; those of IPv4 are in the first word.
    pub addrs: [u64; 4],
    /// Identification.
    pub id: u32,
    /// Protocol of an IPv4 datagram; the number of the fragment header for IPv6, where addresses
    /// and identification suffice.
    pub protocol: u8,
}

/// The verdict on a first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passed, as a packet of this state in this direction.
    Pass(StateId, Direction),
    /// It passed without a state.
    PassAlone,
    /// It went to this shard, which judges it.
    Elsewhere(u16),
    /// It was dropped.
    Drop,
}

/// What happens to a fragment behind the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// What happened to the first one.
    As(Verdict),
    /// The first one has not come yet, or long ago: the caller may hold the fragment, else drops it
    /// as [`base::DropReason::FilterFragment`].
    Unknown,
}

/// A first fragment and the verdict on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstFragment {
    /// Its datagram.
    pub datagram: Datagram,
    /// Bytes of its data.
    pub len: u32,
    /// The verdict.
    pub verdict: Verdict,
}

#[derive(Clone, Copy)]
struct Kept {
    first: FirstFragment,
    until: Instant,
}

const FREE: Kept = Kept {
    first: FirstFragment {
        datagram: Datagram { addrs: [0; 4], id: 0, protocol: 0 },
        len: 0,
        verdict: Verdict::Drop,
    },
    until: Instant::ZERO,
};

/// The verdicts of one shard on fragments.
pub struct Fragments {
    places: Vec<[Kept; WAYS]>,
    hash: KeyHash,
}

impl Fragments {
    /// An empty table. `secret` has 128 bits that no other host knows.
    #[must_use]
    pub const fn new(secret: [u64; 2]) -> Fragments {
        Fragments { places: Vec::new(), hash: KeyHash::new(secret) }
    }

    fn set(&mut self, datagram: &Datagram) -> Option<&mut [Kept; WAYS]> {
        let [a, b, c, d] = datagram.addrs;
        let addrs = self.hash.of_words(a, b) ^ self.hash.of_words(d, c).rotate_left(1);
        let rest = u64::from(datagram.id) << 8 | u64::from(datagram.protocol);
        let hash = self.hash.of_words(addrs, rest);
        let at = ((hash >> 32) * self.places.len() as u64) >> 32;
        self.places.get_mut(at as usize)
    }

    /// Keep the verdict on a first fragment. The oldest verdict goes if there is no place (RFC 4787
    /// REQ-14a: a flood of fragments takes no place from other packets). A second
    /// first fragment of a datagram contradicts the first one unless its length and verdict are the
    /// same; then the datagram is dropped (RFC 5722 section 3, RFC 8200 section 4.5 for repeated
    /// ones). Returns the verdict that counts.
    pub fn first(&mut self, first: FirstFragment, budget: &mut Budget, now: Instant) -> Verdict {
        if self.places.is_empty() {
            let sets = budget.of(Limit::FilterFragments).div_ceil(WAYS).max(1);
            self.places = vec![[FREE; WAYS]; sets];
        }
        let until = now + LIFETIME;
        let Some(set) = self.set(&first.datagram) else { return Verdict::Drop };
        let known = |place: &&mut Kept| place.first.datagram == first.datagram;
        if let Some(place) = set.iter_mut().filter(|place| place.until > now).find(known) {
            if place.first != first {
                place.first.verdict = Verdict::Drop;
            }
            return place.first.verdict;
        }
        let Some(oldest) = set.iter_mut().min_by_key(|place| place.until) else {
            return Verdict::Drop;
        };
        let is_evicted = oldest.until > now;
        *oldest = Kept { first, until };
        if is_evicted {
            budget.admits(Limit::FilterFragments, usize::MAX);
        }
        first.verdict
    }

    /// What happens to a fragment whose data begins at `offset`. One that overlaps the first
    /// fragment could rewrite its headers (RFC 1858 section 3.2, RFC 3128), so that the rest of the
    /// datagram is dropped.
    pub fn later(&mut self, datagram: &Datagram, offset: u32, now: Instant) -> Later {
        let Some(set) = self.set(datagram) else { return Later::Unknown };
        let known = |place: &&mut Kept| place.until > now && place.first.datagram == *datagram;
        let Some(place) = set.iter_mut().find(known) else { return Later::Unknown };
        if offset < place.first.len {
            place.first.verdict = Verdict::Drop;
        }
        Later::As(place.first.verdict)
    }
}
