//! The counters of each rule. They are kept over reloads: rules with a label are known by it,
//! others by their text.
//!
//! Called by: the firewall; `show filter` and the metrics read it. Names are hashed and sorted when
//! rules are compiled, so that the forwarding thread reads no text: it walks two sorted lists.

use base::{Instant, KeyedHash};

use crate::rules::{Rule, Rules};

/// Counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that it decided on, those of its flows included.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Flows that it passed.
    pub flows: u64,
    /// When the last of these packets came.
    pub last_hit: Option<Instant>,
}

/// Counters of all rules, and of the default behind them.
pub(super) struct Counters {
    counts: Vec<Counts>,
}

impl Counters {
    pub(super) fn of(rules: &Rules) -> Counters {
        Counters { counts: vec![Counts::default(); rules.filter.len() + 1] }
    }

    pub(super) fn all(&self) -> &[Counts] {
        &self.counts
    }

    /// The counters of a rule; the default's without one.
    #[inline(always)]
    fn at(&mut self, rule: Option<u16>) -> Option<&mut Counts> {
        let default = self.counts.len().saturating_sub(1);
        let at = rule.map_or(default, |rule| usize::from(rule).min(default));
        self.counts.get_mut(at)
    }

    /// A packet of `len` bytes that `rule` decides on.
    #[inline(always)]
    pub(super) fn count(&mut self, rule: Option<u16>, len: u32, now: Instant) {
        self.add(rule, 1, u64::from(len), now);
    }

    /// Several packets that `rule` decides on.
    #[inline(always)]
    pub(super) fn add(&mut self, rule: Option<u16>, packets: u64, bytes: u64, now: Instant) {
        if let Some(counts) = self.at(rule) {
            counts.packets += packets;
            counts.bytes += bytes;
            counts.last_hit = Some(now);
        }
    }

    /// A flow begins that `rule` passed.
    pub(super) fn begins(&mut self, rule: Option<u16>) {
        if let Some(counts) = self.at(rule) {
            counts.flows += 1;
        }
    }

    /// The counters for new rules: those of a rule with the same name go on. It takes a few
    /// microseconds for 1,000 rules.
    pub(super) fn moved(&self, from: &Names, to: &Names) -> Counters {
        let mut counts = vec![Counts::default(); to.rules + 1];
        let mut old = from.sorted.iter().peekable();
        for (hash, rule) in &to.sorted {
            while old.next_if(|(of_old, _)| of_old < hash).is_some() {}
            if let Some((_, before)) = old.next_if(|(of_old, _)| of_old == hash)
                && let Some(place) = counts.get_mut(usize::from(*rule))
            {
                *place = self.counts.get(usize::from(*before)).copied().unwrap_or_default();
            }
        }
        if let Some(default) = counts.last_mut() {
            *default = self.counts.last().copied().unwrap_or_default();
        }
        Counters { counts }
    }
}

/// What the rules of a list are known by over reloads.
#[derive(Debug)]
pub(super) struct Names {
    /// The hash of each name with the first rule that has it, by hash. Two names of one hash would
    /// share counters: with 4,096 rules, once in 10^12 lists.
    sorted: Vec<(u64, u16)>,
    /// Rules in the list.
    rules: usize,
}

impl Names {
    pub(super) fn of(rules: &Rules) -> Names {
        let numbered = (0u16..).zip(&rules.filter);
        let mut sorted: Vec<(u64, u16)> =
            numbered.map(|(number, rule)| (hash(name(rule)), number)).collect();
        sorted.sort_unstable();
        sorted.dedup_by_key(|(hash, _)| *hash);
        Names { sorted, rules: rules.filter.len() }
    }
}

/// What a rule is known by over reloads.
fn name(rule: &Rule) -> &str {
    rule.label.as_deref().unwrap_or(&rule.text)
}

/// The operator writes names, so the key is no secret.
fn hash(name: &str) -> u64 {
    let key = KeyedHash::new(0, 0);
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        chunk.iter().zip(&mut word).for_each(|(from, to)| *to = *from);
        u64::from_le_bytes(word)
    };
    let before = name.len() as u64;
    name.as_bytes().chunks(8).fold(before, |before, chunk| key.hash([before, word(chunk)]))
}

#[cfg(test)]
mod tests;
