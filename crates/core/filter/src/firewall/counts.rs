//! The counters of each rule. They are kept over reloads: rules with a label are known by it,
//! others by their text.
//!
//! Called by: the firewall; `show filter` and the metrics read it. Names are hashed and sorted when
//! rules are compiled, so that the forwarding thread reads no text: it walks two sorted lists.

use base::Instant;

use crate::names::Names;
use crate::rules::Rules;

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

#[cfg(test)]
mod tests;
