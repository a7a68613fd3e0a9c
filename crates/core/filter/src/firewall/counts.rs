//! The counters of each rule. They are kept over reloads: rules with a label are known by it,
//! others by their text.
//!
//! Called by: the firewall; `show filter` and the metrics read it.

use std::collections::BTreeMap;

use base::Instant;

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

    /// The counters for new rules: those of a rule with the same name go on.
    pub(super) fn moved(&self, from: &Rules, to: &Rules) -> Counters {
        let mut named: BTreeMap<&str, Counts> = BTreeMap::new();
        for (rule, counts) in from.filter.iter().zip(&self.counts) {
            named.entry(name(rule)).or_insert(*counts);
        }
        let of = |rule: &Rule| named.remove(name(rule)).unwrap_or_default();
        let mut counts: Vec<Counts> = to.filter.iter().map(of).collect();
        counts.push(self.counts.last().copied().unwrap_or_default());
        Counters { counts }
    }
}

/// What a rule is known by over reloads.
pub(super) fn name(rule: &Rule) -> &str {
    rule.label.as_deref().unwrap_or(&rule.text)
}
