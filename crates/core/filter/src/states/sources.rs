//! Sources: how many states each has, in all and by a rule, and how fast it begins new ones.
//!
//! Called by: `insert.rs`, `walk.rs`. A source is an IPv4 address, or an IPv6 network of 64 bits.
//! The table has a fixed number of places, eight for each hash. If they are full, the source that
//! was idle longest goes, one without states before others. Its counts are forgotten, so a limit
//! may then admit more. A rate is one time for each source, as in the generic cell rate algorithm
//! (ITU-T I.371). Limits: `filter_sources`, `filter_states_per_source`.

use base::{Duration, Instant};

use super::key::KeyHash;
use super::wheel::tick_of;

/// Places for one hash.
const WAYS: usize = 8;
/// In place of a rule: all states of the source.
const ANY_RULE: u32 = 1 << 16;
/// In place of a rule: the rate of all sources together is a rule's own, with address 0.
const ALL_SOURCES: u32 = 1 << 17;
/// In the word of a rule: the source is an IPv6 network.
const V6: u32 = 1 << 18;

/// How fast new flows may begin: `new N/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Flows a second, and as many at once.
    pub per_second: u32,
    /// Each source by itself, else all sources of the rule together.
    pub per_source: bool,
}

/// A source and what is counted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    addr: u64,
    rule: u32,
    generation: u32,
}

impl Who {
    fn version(is_v6: bool) -> u32 {
        if is_v6 { V6 } else { 0 }
    }

    /// A source, whatever rules pass its flows.
    pub(super) fn source(addr: u64, is_v6: bool) -> Who {
        Who { addr, rule: ANY_RULE | Who::version(is_v6), generation: 0 }
    }

    /// A source, as a rule of one generation sees it.
    pub(super) fn by_rule(addr: u64, is_v6: bool, rule: u16, generation: u32) -> Who {
        Who { addr, rule: u32::from(rule) | Who::version(is_v6), generation }
    }

    /// All sources of a rule.
    pub(super) fn all_of_rule(rule: u16, generation: u32) -> Who {
        Who { addr: 0, rule: u32::from(rule) | ALL_SOURCES, generation }
    }
}

#[derive(Clone, Copy)]
struct Counted {
    who: Who,
    /// The time at which the bucket of tokens would be full again, in ns.
    full_at: u64,
    states: u32,
    seen: u32,
}

const FREE: Counted =
    Counted { who: Who { addr: 0, rule: u32::MAX, generation: 0 }, full_at: 0, states: 0, seen: 0 };

const _: () = assert!(size_of::<Counted>() == 32);

/// The sources of one table.
pub(super) struct Sources {
    places: Vec<[Counted; WAYS]>,
    hash: KeyHash,
    /// Sources that were forgotten although they had states.
    forgotten: u64,
}

impl Sources {
    /// An empty table. Its memory is taken when the first source comes.
    pub(super) fn new(secret: [u64; 2]) -> Sources {
        Sources { places: Vec::new(), hash: KeyHash::new(secret), forgotten: 0 }
    }

    fn at(&self, who: Who) -> usize {
        let rest = u64::from(who.rule) << 32 | u64::from(who.generation);
        let hash = self.hash.of_words(who.addr, rest);
        (((hash >> 32) * self.places.len() as u64) >> 32) as usize
    }

    fn set(&mut self, who: Who) -> Option<&mut [Counted; WAYS]> {
        let at = self.at(who);
        self.places.get_mut(at)
    }

    /// Fetch the places that a source may have.
    pub(super) fn prefetch(&self, who: Who) {
        self.places.get(self.at(who)).map(mbuf::prefetch);
    }

    fn find(&mut self, who: Who) -> Option<&mut Counted> {
        self.set(who)?.iter_mut().find(|place| place.who == who)
    }

    /// The place of a source, new if it had none.
    fn place(&mut self, who: Who, most: usize, now: Instant) -> Option<&mut Counted> {
        if self.places.is_empty() {
            self.places = vec![[FREE; WAYS]; most.div_ceil(WAYS).max(1)];
        }
        let (tick, mut forgotten) = (tick_of(now), 0);
        let set = self.set(who)?;
        let at = set.iter().position(|place| place.who == who).unwrap_or_else(|| {
            let idle = |place: &Counted| (place.states == 0, tick.wrapping_sub(place.seen));
            let free = set.iter().position(|place| place.who == FREE.who);
            let oldest = || (0..WAYS).max_by_key(|&at| idle(&set[at])).unwrap_or_default();
            let at = free.unwrap_or_else(oldest);
            forgotten = u64::from(set[at].states > 0);
            set[at] = Counted { who, seen: tick, ..FREE };
            at
        });
        self.forgotten += forgotten;
        let place = self.set(who)?.get_mut(at)?;
        place.seen = tick;
        Some(place)
    }

    /// May one more flow begin at this rate? If so, it is counted.
    pub(super) fn begins(&mut self, who: Who, rate: u32, most: usize, now: Instant) -> bool {
        const SECOND: u64 = Duration::from_secs(1).as_nanos();
        if rate == 0 {
            return false;
        }
        let Some(place) = self.place(who, most, now) else { return false };
        let full_at = place.full_at.max(now.as_nanos()).saturating_add(SECOND / u64::from(rate));
        let admits = full_at - now.as_nanos() <= SECOND;
        if admits {
            place.full_at = full_at;
        }
        admits
    }

    /// How many states there are of a source.
    pub(super) fn states(&mut self, who: Who) -> u32 {
        self.find(who).map_or(0, |place| place.states)
    }

    pub(super) fn add(&mut self, who: Who, most: usize, now: Instant) {
        if let Some(place) = self.place(who, most, now) {
            place.states = place.states.saturating_add(1);
        }
    }

    pub(super) fn remove(&mut self, who: Who) {
        if let Some(place) = self.find(who) {
            place.states = place.states.saturating_sub(1);
        }
    }

    /// How many sources with states were forgotten because the table was full.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}
