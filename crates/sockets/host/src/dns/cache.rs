//! Answers by name and type, for as long as their servers allow (RFC 1035 section 7.4, RFC 2308).
//!
//! Called by: `lookup.rs`. It keeps only answers to our own questions, never a server's records
//! about other names. Limits: `CACHE_ENTRIES`, `TTL_MAX`, `NEGATIVE_TTL_MAX`.

use std::collections::BTreeMap;

use base::Instant;

use super::message::{Answer, Found, Kind};
use super::name::DomainName;

pub(super) struct Cache {
    entries: BTreeMap<(DomainName, Kind), (Found, Instant)>,
    most: usize,
}

impl Cache {
    pub(super) fn new(most: usize) -> Cache {
        Cache { entries: BTreeMap::new(), most }
    }

    /// The answer that is still valid at `now`.
    pub(super) fn of(&mut self, name: &DomainName, kind: Kind, now: Instant) -> Option<Found> {
        let key = (name.clone(), kind);
        match self.entries.get(&key) {
            Some((found, until)) if now < *until => Some(found.clone()),
            Some(_) => {
                self.entries.remove(&key);
                None
            }
            None => None,
        }
    }

    /// Keep an answer; a lifetime of zero keeps nothing.
    pub(super) fn add(&mut self, name: &DomainName, kind: Kind, answer: &Answer, now: Instant) {
        let (key, until) = ((name.clone(), kind), now + answer.ttl);
        if until <= now || self.most == 0 {
            self.entries.remove(&key);
            return;
        }
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            self.entries.retain(|_, (_, until)| now < *until);
            if self.entries.len() >= self.most {
                let first = self.entries.iter().min_by_key(|(_, (_, until))| *until);
                if let Some(key) = first.map(|(key, _)| key.clone()) {
                    self.entries.remove(&key);
                }
            }
        }
        self.entries.insert(key, (answer.found.clone(), until));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;

    #[test]
    fn the_cache_is_bounded_and_evicts_what_expires_first() {
        let mut cache = Cache::new(3);
        let name = |i: u64| DomainName::parse(&format!("n{i}")).expect("a name");
        let answer = |s| Answer { found: Found::NoData, ttl: Duration::from_secs(s) };
        let now = Instant::from_nanos(1);
        for (i, ttl) in [(1, 50), (2, 10), (3, 40), (4, 60), (5, 0)] {
            cache.add(&name(i), Kind::A, &answer(ttl), now);
            assert!(cache.len() <= 3);
        }
        let kept = |cache: &mut Cache, now| {
            (1..=5).filter(|&i| cache.of(&name(i), Kind::A, now).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(kept(&mut cache, now), [1, 3, 4]);
        assert_eq!(cache.of(&name(1), Kind::Aaaa, now), None);
        assert_eq!(kept(&mut cache, now + Duration::from_secs(40)), [1, 4]);
        assert_eq!(cache.len(), 2);
        cache.add(&name(1), Kind::A, &answer(0), now);
        assert_eq!(kept(&mut cache, now), [4]);
    }
}
