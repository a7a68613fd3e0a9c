//! The looks at several connections in the last seconds, and the verdict for each.
//!
//! Called by: the live page and `top`, which look at connections four times a second.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::{LOOKS_LEAST, Look, Verdict, Words};

/// The number of looks kept for each connection: those of five seconds.
const LOOKS: usize = 20;

/// The looks at each connection, by its key.
#[derive(Debug)]
pub struct Recent<K> {
    looks: HashMap<K, (VecDeque<Look>, u64)>,
    /// The number of complete rounds so far.
    rounds: u64,
}

impl<K> Default for Recent<K> {
    fn default() -> Recent<K> {
        Recent { looks: HashMap::new(), rounds: 0 }
    }
}

impl<K: Eq + Hash> Recent<K> {
    /// Add a look at a connection. Returns the words for its looks, once there are enough.
    pub fn take(&mut self, key: K, look: Look) -> Option<Words> {
        let (looks, seen) = self.looks.entry(key).or_default();
        // The count of segments went back: this is another connection between the same ends, whose
        // looks begin anew.
        if looks.back().is_some_and(|last| last.segments_out > look.segments_out) {
            looks.clear();
        }
        looks.push_back(look);
        while looks.len() > LOOKS {
            looks.pop_front();
        }
        *seen = self.rounds;
        let verdict = Verdict::of(looks.make_contiguous())?;
        (verdict.looks >= LOOKS_LEAST).then(|| Words::of(&verdict))
    }

    /// A round of looks is complete: forget the connections that were not in it.
    pub fn forget(&mut self) {
        let now = self.rounds;
        self.looks.retain(|_, (_, seen)| *seen == now);
        self.rounds += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_looks_at_what_was_seen_are_kept() {
        let mut recent = Recent::default();
        let mut words = None;
        for n in 0..40 {
            let look = Look { at_us: n * 250_000, segments_out: n, acked: n, ..Look::default() };
            words = recent.take("one", look);
            recent.forget();
        }
        let words = words.expect("a verdict of enough looks").answer;
        assert!(words.contains("limited by the application"), "{words}");
        assert_eq!(recent.looks["one"].0.len(), LOOKS);
        recent.forget();
        assert!(recent.looks.is_empty());
    }

    #[test]
    fn another_connection_between_the_same_ends_begins_anew() {
        let mut recent = Recent::default();
        for n in 0..10 {
            let look = Look { at_us: n * 250_000, segments_out: 100 + n, ..Look::default() };
            assert_eq!(recent.take(1, look).is_some(), n >= 7, "look {n}");
        }
        let look = Look { at_us: 2_500_000, segments_out: 2, ..Look::default() };
        assert!(recent.take(1, look).is_none(), "one look gave a verdict");
    }
}
