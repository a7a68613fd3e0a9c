//! Counters over a reload, against a plain search by name.

use super::{Counters, Counts};
use crate::names::{Names, name};
use crate::rules::Rules;
use crate::text::{self, Source};

fn parsed(rules: &str) -> Rules {
    let source = Source { rules, ..Source::default() };
    text::parse(&source, &[("lan", 0), ("wan", 1)], &|_| Err("no files".into())).expect("rules")
}

/// Each rule has its number as packets, the default one more than the last.
fn numbered(rules: &Rules) -> Counters {
    let packets = |packets| Counts { packets, ..Counts::default() };
    Counters { counts: (1..=rules.filter.len() as u64 + 1).map(packets).collect() }
}

/// Packets that each of the `new` rules has after a reload of `old` ones.
fn moved(old: &str, new: &str) -> Vec<u64> {
    let (old, new) = (parsed(old), parsed(new));
    let moved = numbered(&old).moved(&Names::of(&old), &Names::of(&new));
    moved.all().iter().map(|counts| counts.packets).collect()
}

#[test]
fn rules_keep_their_counters_by_label_or_text() {
    let old = "block in wan\npass tcp 80 label web\npass tcp 22\npass udp 53";
    let new = "pass udp 53\npass tcp {80, 443} label web\npass tcp 2222\nblock in wan";
    assert_eq!(moved(old, new), [4, 2, 0, 1, 5]);
    assert_eq!(moved(old, ""), [5]);
    assert_eq!(moved("", old), [0, 0, 0, 0, 1]);
}

#[test]
fn of_rules_with_one_name_the_first_keeps_the_counters() {
    assert_eq!(
        moved("pass tcp 1\npass tcp 1\nblock", "block\npass tcp 1\npass tcp 1"),
        [3, 1, 0, 4]
    );
}

#[test]
fn many_rules_are_paired_as_a_search_pairs_them() {
    let text = |from: u32, to: u32, step: u32| -> String {
        let numbers = (from..to).map(|n| n * step % 1_009 + 1);
        numbers.map(|n| format!("pass tcp {n}{}\n", if n % 3 == 0 { " log" } else { "" })).collect()
    };
    let (old, new) = (text(0, 700, 7), text(200, 1_000, 11));
    let (old_rules, new_rules) = (parsed(&old), parsed(&new));
    let searched = new_rules.filter.iter().map(|rule| {
        let found = old_rules.filter.iter().position(|before| name(before) == name(rule));
        found.map_or(0, |at| at as u64 + 1)
    });
    let searched: Vec<u64> = searched.chain([701]).collect();
    assert!(searched.iter().filter(|&&packets| packets > 0).count() > 300, "too few are paired");
    assert_eq!(moved(&old, &new), searched);
}
