//! What pairs rules with those before a reload, whose counters they continue: a rule is known by
//! its label, or without one by its text.
//!
//! Called by: `published.rs`, when rules are compiled, so that the forwarding thread reads no text;
//! `firewall/counts.rs` walks two lists of them.

use base::KeyedHash;

use crate::rules::{Rule, Rules};

/// What the rules of a list are known by over reloads.
#[derive(Debug)]
pub(crate) struct Names {
    /// The hash of each name with the first rule that has it, by hash. Two names of one hash would
    /// share counters: with 4,096 rules, once in 10^12 lists.
    pub(crate) sorted: Vec<(u64, u16)>,
    /// Rules in the list.
    pub(crate) rules: usize,
}

impl Names {
    pub(crate) fn of(rules: &Rules) -> Names {
        let numbered = (0u16..).zip(&rules.filter);
        let mut sorted: Vec<(u64, u16)> =
            numbered.map(|(number, rule)| (hash(name(rule)), number)).collect();
        sorted.sort_unstable();
        sorted.dedup_by_key(|(hash, _)| *hash);
        Names { sorted, rules: rules.filter.len() }
    }
}

/// What a rule is known by over reloads.
pub(crate) fn name(rule: &Rule) -> &str {
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
