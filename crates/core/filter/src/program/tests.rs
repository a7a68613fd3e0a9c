//! The compiled program against the plain list, with random rules and packets of one seed each.

mod always;
mod fixtures;

use base::Cidr;

use super::list;
use super::search::Trie;
use super::sweep::{Wanted, sweep};
use super::{Clause, Limits, Program, TooLarge, explain};
use crate::rules::{Action, Nat, Rules};
use crate::sets::Set;
use crate::text::{Question, Source, parse, question};
use fixtures::{PORTS, Random, random_rules, some_packet};

fn rules(text: &str) -> Rules {
    let source = Source { rules: text, ..Source::default() };
    parse(&source, PORTS, &|_| Err("no files".into())).expect("rules without mistakes")
}

fn ask(text: &str) -> Question {
    question(text, PORTS).expect("a question")
}

/// Compare program and list over `packets` packets.
fn compare(seed: u64, count: usize, packets: usize) -> [usize; 2] {
    let mut random = Random::new(seed);
    let rules = random_rules(&mut random, count);
    let program = Program::compile(&rules).expect("rules that fit");
    let (mut by_rule, mut by_nat) = (0, 0);
    for _ in 0..packets {
        let packet = some_packet(&mut random);
        let expected = list::judge(&rules, &packet);
        assert_eq!(program.judge(&packet).rule, expected, "seed {seed}: {packet:?}");
        let source = list::judge_source(&rules, &packet);
        assert_eq!(program.judge_source(&packet), source, "seed {seed}: {packet:?}");
        let dest = list::judge_dest(&rules, &packet);
        assert_eq!(program.judge_dest(&packet), dest, "seed {seed}: {packet:?}");
        by_rule += usize::from(expected.is_some());
        by_nat += usize::from(source.or(dest).is_some());
    }
    [by_rule, by_nat]
}

#[test]
fn the_program_agrees_with_the_list_on_a_million_packets() {
    let (mut by_rule, mut by_nat, mut packets) = (0, 0, 0);
    for (seed, count) in (1..).zip([1, 2, 7, 20, 63, 64, 65, 100, 129, 300].repeat(4)) {
        let [rule, nat] = compare(seed, count, 25_000);
        by_rule += rule;
        by_nat += nat;
        packets += 25_000;
    }
    assert_eq!(packets, 1_000_000);
    // Rules and packets meet often enough for the comparison to mean something, and miss too.
    assert!((200_000..900_000).contains(&by_rule), "{by_rule}");
    assert!((100_000..900_000).contains(&by_nat), "{by_nat}");
}

#[test]
fn the_program_agrees_with_the_list_at_the_limit_of_rules() {
    compare(77, 4_096, 2_000);
}

#[test]
fn the_first_rule_that_matches_wins() {
    let rules = rules("block in wan to 10.0.0.5\npass in wan to 10.0.0.0/8 tcp 443 loose log");
    let program = Program::compile(&rules).expect("two rules");
    let verdict = program.judge(&ask("in wan 192.0.2.1:1 > 10.0.0.5:443 tcp").packet);
    assert_eq!((verdict.rule, verdict.action, verdict.stateful), (Some(0), Action::Block, false));
    let verdict = program.judge(&ask("in wan 192.0.2.1:1 > 10.0.0.6:443 tcp").packet);
    assert_eq!((verdict.rule, verdict.action, verdict.stateful), (Some(1), Action::Pass, true));
    assert!(verdict.loose && verdict.log && !verdict.limited);
    let verdict = program.judge(&ask("in lan 192.0.2.1:1 > 10.0.0.6:443 tcp").packet);
    assert_eq!((verdict.rule, verdict.action), (None, Action::Block));
}

#[test]
fn packets_for_the_router_leave_by_it() {
    let rules = rules("pass in wan to self tcp 22\nblock in wan to !self");
    let program = Program::compile(&rules).expect("two rules");
    let rule = |text: &str| program.judge(&ask(text).packet).rule;
    assert_eq!(rule("in wan out self 192.0.2.1:1 > 10.0.0.5:22 tcp"), Some(0));
    assert_eq!(rule("in wan out lan 192.0.2.1:1 > 10.0.0.5:22 tcp"), Some(1));
    assert_eq!(rule("in wan out self 192.0.2.1:1 > 10.0.0.5:23 tcp"), None);
}

#[test]
fn a_rule_with_addresses_of_one_version_is_about_that_version() {
    let rules = rules("block from !10.0.0.0/8\npass");
    let program = Program::compile(&rules).expect("two rules");
    let rule = |text: &str| program.judge(&ask(text).packet).rule;
    assert_eq!(rule("in wan 192.0.2.1:1 > 10.0.0.5:22 tcp"), Some(0));
    assert_eq!(rule("in wan [2001:db8::1]:1 > [2001:db8::2]:22 tcp"), Some(1));
}

#[test]
fn all_but_a_set_are_hosts_of_both_versions() {
    let sets = [("inside".to_owned(), vec!["10.0.0.0/8".to_owned()])];
    let source = Source { rules: "block from !@inside", sets: &sets, ..Source::default() };
    let rules = parse(&source, PORTS, &|_| Err("no files".into())).expect("a rule");
    let program = Program::compile(&rules).expect("a rule");
    let rule = |text: &str| program.judge(&ask(text).packet).rule;
    assert_eq!(rule("in wan 10.0.0.1:1 > 192.0.2.1:22 tcp"), None);
    assert_eq!(rule("in wan 192.0.2.1:1 > 10.0.0.5:22 tcp"), Some(0));
    assert_eq!(rule("in wan [2001:db8::1]:1 > [2001:db8::2]:22 tcp"), Some(0));
}

#[test]
fn an_explanation_names_the_clause_that_does_not_fit() {
    let rules = rules(
        "block from @private\npass in lan\npass in wan to 10.0.0.5 udp\n\
         pass in wan to 10.0.0.5 tcp 80\npass in wan to 10.0.0.6 tcp 443\n\
         pass in wan out lan tcp flags A/A\nreject in wan tcp 443\npass",
    );
    let asked = ask("in wan out lan 198.51.100.7:999 > 10.0.0.5:443 tcp syn");
    let steps = explain(&rules, &asked.packet);
    let clauses: Vec<Option<Clause>> = steps.iter().map(|&(_, clause)| clause).collect();
    let expected = [
        Some(Clause::From),
        Some(Clause::In),
        Some(Clause::Protocol),
        Some(Clause::Service),
        Some(Clause::To),
        Some(Clause::Flags),
        None,
    ];
    assert_eq!(clauses, expected);
    let other = ask("in wan out lan [2001:db8::1]:999 > [2001:db8::2]:444 tcp syn");
    assert_eq!(explain(&rules, &other.packet)[2], (2, Some(Clause::Version)));
    assert_eq!(other.packet.to_string(), "[2001:db8::1]:999 > [2001:db8::2]:444 tcp syn");
}

#[test]
fn rules_that_share_a_set_cost_it_once() {
    let networks: Vec<Cidr> = (0..50_000u32)
        .map(|n| Cidr::new(core::net::Ipv4Addr::from_bits(n << 12).into(), 24).expect("a length"))
        .collect();
    let set = Set::new("many", &networks);
    let wanted = vec![Wanted::Operands { operands: vec![0], negated: false }; 100];
    let swept = sweep(&[&set.v4], &wanted, 0, |last: u32| last.checked_add(1)).expect("it fits");
    let intervals = swept.expect("rules that ask");
    assert_eq!(intervals.rows.len(), 2);
    assert_eq!(intervals.begins.len(), 100_000);
    let trie = Trie::new(&intervals, 32);
    for n in (0..50_000u32).step_by(7) {
        let inside = trie.find_v4(n << 12);
        assert_eq!(trie.find_v4(n << 12 | 0xff), inside);
        assert_ne!(trie.find_v4(n << 12 | 0x100), inside);
    }
}

#[test]
fn addresses_of_version_6_have_the_class_of_their_interval() {
    let mut random = Random::new(5);
    for count in [1usize, 2, 8, 9, 64, 65, 1_000] {
        let mut ranges: Vec<(u128, u128)> = Vec::new();
        for _ in 0..count {
            // Short ones would join all of them.
            let short = if count < 9 { 0 } else { 2 };
            let lens = [0, 3, 32, 48, 63, 64, 65, 96, 127, 128];
            let len = lens[(short + random.below(10 - short)) as usize];
            let host = u128::MAX.checked_shr(len).unwrap_or(0);
            // Most of them in one /16, so that its node has an index.
            let near = 0x2001 << 112 | random.wide() >> 16;
            let first = if random.below(4) == 0 { random.wide() } else { near } & !host;
            ranges.push((first, first | host));
        }
        crate::sets::join(&mut ranges, |last| last.checked_add(1));
        let wanted = [Wanted::Operands { operands: vec![0], negated: false }];
        let swept = sweep(&[&ranges], &wanted, 0, |last: u128| last.checked_add(1));
        let intervals = swept.expect("it fits").expect("a rule that asks");
        let trie = Trie::new(&intervals, 128);
        let keys = intervals.begins.iter().flat_map(|&(begin, _)| {
            [begin, begin.wrapping_sub(1), begin.wrapping_add(1), begin ^ 1 << 64]
        });
        for key in keys.chain([0, u128::MAX, u128::MAX << 64]) {
            let at = intervals.begins.partition_point(|&(begin, _)| begin <= key);
            assert_eq!(trie.find_v6(key), intervals.begins[at - 1].1, "{key:x}");
        }
    }
}

#[test]
fn addresses_of_version_4_have_the_class_of_their_interval() {
    let mut random = Random::new(6);
    // Long prefixes in one /16, /24s in one, hosts in one, and every second host of one.
    for (count, lens) in
        [(9u32, [8, 20, 31]), (90, [24, 23, 24]), (3_000, [32, 31, 32]), (0, [0; 3])]
    {
        let mut sets = [Vec::new(), Vec::new()];
        for n in 0..count {
            let host = u32::MAX.checked_shr(lens[n as usize % 3]).unwrap_or(0);
            let first = (0x0a00_0000 | random.next() as u32 >> 15) & !host;
            sets[usize::from(random.below(9) == 0 && count < 90)].push((first, first | host));
        }
        if count == 0 {
            sets[0].extend((0..1 << 15).map(|n| (n * 2, n * 2)));
        }
        sets.iter_mut().for_each(|set| crate::sets::join(set, |last| last.checked_add(1)));
        let wanted =
            [0, 1].map(|operand| Wanted::Operands { operands: vec![operand], negated: false });
        let operands = [sets[0].as_slice(), sets[1].as_slice()];
        let swept = sweep(&operands, &wanted, 0, |last: u32| last.checked_add(1));
        let intervals = swept.expect("it fits").expect("rules that ask");
        let trie = Trie::new(&intervals, 32);
        for &(begin, _) in &intervals.begins {
            for key in [begin, begin.wrapping_sub(1), begin.wrapping_add(1), begin ^ 0x100] {
                let at = intervals.begins.partition_point(|&(begin, _)| begin <= key);
                assert_eq!(trie.find_v4(key), intervals.begins[at - 1].1, "{key:x}");
            }
        }
    }
}

#[test]
fn sets_that_overlap_in_too_many_ways_are_refused() {
    // Seventeen operands whose ranges make every combination: 131,072 classes.
    let operands: Vec<Vec<(u32, u32)>> = (0..17)
        .map(|bit| {
            let has = |n: &u32| n >> bit & 1 == 1;
            let mut ranges = (0..1u32 << 17).filter(has).map(|n| (n, n)).collect();
            crate::sets::join(&mut ranges, |last| last.checked_add(1));
            ranges
        })
        .collect();
    let operands: Vec<&[(u32, u32)]> = operands.iter().map(Vec::as_slice).collect();
    let wanted: Vec<Wanted> = (0..17)
        .map(|operand| Wanted::Operands { operands: vec![operand], negated: false })
        .collect();
    let swept = sweep(&operands, &wanted, 0, |last| last.checked_add(1));
    assert_eq!(swept.err(), Some(TooLarge::Classes));
}

#[test]
fn limits_and_targets_go_with_the_program() {
    let source = Source {
        rules: "pass in lan\npass in wan new 7/s per source states 9 per source",
        nat: "keep out wan to @private\nsource out wan to port",
        ..Source::default()
    };
    let rules = parse(&source, PORTS, &|_| Err("no files".into())).expect("rules");
    let program = Program::compile(&rules).expect("rules that fit");
    let verdict = program.judge(&ask("in wan 192.0.2.1:1 > 10.0.0.5:443 tcp").packet);
    assert_eq!((verdict.rule, verdict.limited), (Some(1), true));
    let limits = program.limits(1);
    let rate = limits.rate.expect("a rate");
    assert_eq!((rate.per_second, rate.per_source, limits.states_per_source), (7, true, Some(9)));
    assert_eq!((program.limits(0), program.limits(9)), (Limits::default(), Limits::default()));
    let asked = ask("in lan out wan 10.0.0.5:1 > 198.51.100.1:443 tcp");
    assert_eq!(program.judge_source(&asked.packet), Some(1));
    // RFC 6888 REQ-6.
    assert!(matches!(program.nat(1), Nat::Source { .. }));
    assert_eq!(program.nat(0), Nat::Keep);
}

#[test]
fn without_rules_the_default_decides() {
    let source = Source { default: "reject", ..Source::default() };
    let rules = parse(&source, PORTS, &|_| Err("no files".into())).expect("no rules");
    let program = Program::compile(&rules).expect("no rules");
    let packet = ask("in wan 192.0.2.1:1 > 10.0.0.5:443 tcp").packet;
    assert_eq!(
        (program.judge(&packet).rule, program.judge(&packet).action),
        (None, Action::Reject)
    );
    assert_eq!((program.judge_source(&packet), program.judge_dest(&packet)), (None, None));
}
