//! Do rules of NAT fit a router of several shards, which have ports of the outside of their own?
//!
//! Called by: the router's configuration, and rules on trial.

use crate::nat::Shards;
use crate::rules::{Nat, Rules};
use crate::text::{Location, Mistake};

/// What is wrong with rules of NAT for a router of `count` shards.
#[must_use]
pub fn misfits(rules: &Rules, count: usize) -> Vec<Mistake> {
    if count < 2 || rules.nat.is_empty() {
        return Vec::new();
    }
    let mistake = |line, what| Mistake { location: Location::Nat, line, column: 1, what };
    let Some(shards) = Shards::of_count(0, count) else {
        return vec![mistake(
            1,
            format!("NAT divides ports among 1024 shards at most, not {count}"),
        )];
    };
    let (block_max, range_min) = (shards.block_max(), shards.range_min());
    let of_rule = |(line, nat): (u32, &Nat)| {
        let &Nat::Source { ports: (first, last), block, .. } = nat else { return None };
        let what = if block.is_some_and(|block| block > block_max) {
            format!(
                "a block has {block_max} ports at most with shards = {count}: \
                 write block {block_max}"
            )
        } else if !shards.all_have(first, last) {
            format!(
                "ports {first}-{last} are too few for shards = {count}, which divide them: \
                 write a range of {range_min} ports"
            )
        } else {
            return None;
        };
        Some(mistake(line, what))
    };
    rules.nat.iter().map(|rule| (rule.line, &rule.nat)).filter_map(of_rule).collect()
}
