//! Mistakes: each has its line, its column and what to write instead.

use super::{PORTS, read};
use crate::text::{Most, Source, parse_within, question};

fn lines(source: &Source<'_>) -> Vec<String> {
    let found = read(source).expect_err("mistakes");
    found.iter().map(ToString::to_string).collect()
}

/// The only mistake of a rule, without its text's name.
fn mistake(rules: &str) -> String {
    let found = lines(&Source { rules, ..Source::default() });
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].strip_prefix("filter rules:").expect("a mistake of the rules").to_owned()
}

fn nat_mistake(nat: &str) -> String {
    let found = lines(&Source { nat, ..Source::default() });
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].strip_prefix("nat rules:").expect("a mistake of NAT").to_owned()
}

#[test]
fn a_mistake_says_what_to_write_instead() {
    for (rule, expected) in [
        ("pas in lan", "1:1: unknown action `pas`: did you mean `pass`?"),
        ("drop in lan", "1:1: unknown action `drop`: write `block`"),
        ("pass in lna", "1:9: unknown port `lna`: did you mean `lan`?"),
        ("pass in vpn", "1:9: unknown port `vpn`: there are `lan`, `wan`, `guests`"),
        ("pass in", "1:8: `in` needs the name of a port, or `{a, b}`"),
        ("pass in self", "1:9: `self` is no port: write `to self`"),
        ("pass form any", "1:6: unknown clause `form`: did you mean `from`?"),
        ("pass from lan", "1:11: `lan` is a port: write it behind `in` or `out`"),
        ("pass from 10.0.0.5/8", "1:11: `10.0.0.5/8` has host bits: write 10.0.0.0/8"),
        ("pass from private", "1:11: unknown host `private`: write `@private` for the set"),
        ("pass from @privat", "1:11: unknown set `privat`: did you mean `private`?"),
        ("pass 10.0.0.5", "1:6: `10.0.0.5` stands alone: write `from 10.0.0.5` or `to 10.0.0.5`"),
        ("pass tcp htps", "1:10: unknown port or clause `htps`: did you mean `https`?"),
        ("pass tcp 99999", "1:10: `99999` is no port: ports are numbers from 0 to 65535"),
        ("pass tcp 20-10", "1:10: the range ends before it begins: write 10-20"),
        (
            "pass tcp port 443",
            "1:10: `port` stands behind hosts: `to any port 443`; or write `tcp 443`",
        ),
        ("pass 443", "1:6: `443` stands alone: write a port behind its protocol: `tcp 443`"),
        ("pass esp 50", "1:10: `esp` has no ports"),
        (
            "pass icmp ping",
            "1:11: unknown ICMP type or clause `ping`: there are `echo-reply`, `unreachable`, \
             `net-unreachable`, `host-unreachable`, `protocol-unreachable`, `port-unreachable`, \
             `fragmentation-needed`, `admin-prohibited`, `source-quench`, `redirect`, \
             `echo-request`, `router-advertisement`, `router-solicitation`, `time-exceeded`, \
             `parameter-problem`, `timestamp-request`",
        ),
        (
            "pass to any port 53",
            "1:6: ports need a protocol: write `tcp`, `udp` or `{tcp, udp}` too",
        ),
        ("pass tcp 1 udp 2", "1:12: a second protocol: write `{tcp, udp}`, or two rules"),
        ("pass in lan in wan", "1:13: a second `in` in one rule"),
        (
            "pass to self out lan",
            "1:14: packets for the router itself leave by no port: write `to self`, or `out`, not \
             both",
        ),
        (
            "pass from self tcp 22",
            "1:6: packets of the router itself pass without a rule, and untranslated: leave `from \
             self` out",
        ),
        ("pass from {self, 10.0.0.1}", "1:12: `self` stands alone, not in a list"),
        ("pass from !any", "1:12: `!any` is nobody: no packet matches"),
        (
            "pass from 10.0.0.1 to ::1",
            "1:20: no packet matches: its addresses and its protocol are of one version of IP, \
             those of the rule are not",
        ),
        ("pass udp flags S/SA", "1:10: only TCP has flags: write `tcp` too"),
        ("pass tcp flags S", "1:16: write the flags that are looked at too: `S/SA`"),
        ("pass tcp flags SF/S", "1:16: no segment matches: write `SF/SSF`"),
        ("block new 5/s", "1:7: `new` is about flows that pass: leave it out"),
        ("pass stateless loose", "1:16: `loose` needs states: leave out `stateless`"),
        ("pass new 5", "1:10: `new` needs flows in a second: `new 200/s`, `new 200/s per source`"),
        ("pass from {10.0.0.1", "1:11: a `{` without a `}`"),
        (
            "pass from {}",
            "1:12: empty list: `from` needs hosts: an address, a network, `@set`, `{a, b}`, \
             `self` or `any`",
        ),
    ] {
        assert_eq!(mistake(rule), expected, "{rule}");
    }
}

#[test]
fn mistakes_of_nat_are_found_alike() {
    for (rule, expected) in [
        ("source to port", "1:1: a port is missing: write `source out PORT ...`"),
        ("source out wan", "1:1: a target is missing: write `source ... to port`"),
        ("snat out wan to port", "1:1: unknown kind `snat`: write `source`"),
        ("source in lan out wan to port", "1:8: a rule `source` has no `in`: leave it out"),
        (
            "source out wan from 10.0.0.0/8 to 2001:db8::1",
            "1:35: NAT keeps the version of IP: the target is of the other one than the packets",
        ),
        (
            "source out wan to port block 60000",
            "1:24: a block has more ports than there are from 1024 to 60999",
        ),
        (
            "dest in wan to 10.0.0.5",
            "1:1: every packet would be translated: write a protocol with its ports, or `to`",
        ),
        (
            "dest in wan tcp 80-90 to 10.0.0.5:80-85",
            "1:26: a range maps to a range of as many ports, or to one port",
        ),
        (
            "dest in wan gre to 10.0.0.5:80",
            "1:20: a target with a port needs a protocol: write `tcp`, `udp` or `{tcp, udp}` too",
        ),
        (
            "dest in wan tcp 80 to 2001:db8::5:x",
            "1:23: `2001:db8::5:x` is no target: write ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT",
        ),
        (
            "prefix out wan fd00::/48 to 2001:db8::/56",
            "1:29: the networks differ in length: write two of /48",
        ),
        (
            "prefix out wan fd00::/80 to 2001:db8::/80",
            "1:29: prefixes have 64 bits at most (RFC 6296): write `both` for longer ones",
        ),
        (
            "prefix out wan 10.0.0.0/8 to 11.0.0.0/8",
            "1:30: `prefix` is for IPv6 (RFC 6296): write `both` for IPv4",
        ),
        (
            "both out wan 10.0.0.1 to fd00::1",
            "1:26: NAT keeps the version of IP: write networks of one version",
        ),
    ] {
        assert_eq!(nat_mistake(rule), expected, "{rule}");
    }
}

#[test]
fn packets_are_translated_to_hosts_only() {
    for (rule, expected) in [
        ("dest in wan tcp 80 to 224.0.0.1", "1:23: no host has the address 224.0.0.1"),
        ("dest in wan tcp 80 to [::]:80", "1:23: no host has the address ::"),
        ("source out wan to 0.0.0.0/0", "1:19: no host has the address 0.0.0.0"),
        ("source out wan to 255.255.255.255", "1:19: no host has the address 255.255.255.255"),
    ] {
        assert_eq!(nat_mistake(rule), expected, "{rule}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let sets = [
        ("bad".to_owned(), vec!["file:broken.txt".to_owned(), "10.0.0.x".to_owned()]),
        ("private".to_owned(), vec!["file:gone.txt".to_owned()]),
    ];
    let source = Source {
        rules: "pass in lna from {10.0.0.1, 10.0.0.x, @bda} tpc\n\nblck",
        nat: "source out wna to port",
        default: "allow",
        sets: &sets,
    };
    let expected = [
        "filter default:1:1: unknown default `allow`: write `pass`",
        "broken.txt:2:1: `192.0.2/24` is no network: write an address or ADDRESS/LENGTH",
        "broken.txt:3:10: one network a line",
        "set bad:2:1: `10.0.0.x` is no network: write an address or ADDRESS/LENGTH",
        "set private:1:1: there is a set `private` already: choose another name",
        "set private:1:1: `gone.txt`: no such file",
        "filter rules:1:9: unknown port `lna`: did you mean `lan`?",
        "filter rules:1:29: unknown host `10.0.0.x`: write an address, ADDRESS/LENGTH, `@set`, \
         `self` or `any`",
        "filter rules:1:39: unknown set `bda`: did you mean `bad`?",
        "filter rules:1:45: unknown clause `tpc`: did you mean `tcp`?",
        "filter rules:3:1: unknown action `blck`: did you mean `block`?",
        "nat rules:1:12: unknown port `wna`: did you mean `wan`?",
    ];
    assert_eq!(lines(&source), expected);
}

#[test]
fn there_is_a_limit_of_rules_and_of_mistakes() {
    let many = "pass\n".repeat(4_096);
    assert_eq!(
        read(&Source { rules: &many, ..Source::default() }).expect("rules").filter.len(),
        4_096
    );
    let expected = "4097:1: 4097 rules: filter_rules allows 4096";
    assert_eq!(mistake(&format!("{many}pass")), expected);
    let most = Most { rules: 1, networks: 2 };
    let sets = [("s".to_owned(), ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(str::to_owned).into())];
    let source = Source { rules: "pass\nblock", sets: &sets, ..Source::default() };
    let found = parse_within(most, &source, PORTS, &|_| Ok(String::new())).expect_err("mistakes");
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let expected = [
        "set s:3:1: more than 2 networks in all sets (filter_set_networks)",
        "filter rules:2:1: 2 rules: filter_rules allows 1",
    ];
    assert_eq!(found, expected);
    let found = lines(&Source { rules: &"oops\n".repeat(500), ..Source::default() });
    assert_eq!(found.len(), 100);
    assert!(found[99].ends_with("(and 400 more mistakes)"), "{}", found[99]);
}

#[test]
fn a_mistake_is_one_line_of_characters_that_a_terminal_shows() {
    let bytes = "pass in \u{1b}[2J\u{7}\u{202e}lan";
    assert!(!mistake(bytes).contains(|c: char| c.is_control() || c == '\u{202e}'));
    let default = "drop\nall";
    let found = lines(&Source { default, ..Source::default() });
    assert_eq!(found.len(), 1);
    assert!(!found[0].contains('\n'), "{}", found[0]);
    let long = format!("pass in {}", "a".repeat(100_000));
    assert!(mistake(&long).len() < 500);
}

#[test]
fn columns_are_characters() {
    assert_eq!(mistake("pass label größe in lna"), "1:21: unknown port `lna`: did you mean `lan`?");
}

#[test]
fn a_question_has_mistakes_too() {
    let wrong = |text: &str| question(text, PORTS).expect_err("a mistake").to_string();
    assert_eq!(
        wrong("in lna 10.0.0.1 > 10.0.0.2 esp"),
        "question:1:4: unknown port `lna`: did you mean `lan`?"
    );
    assert_eq!(
        wrong("in lan 10.0.0.1 > ::1 esp"),
        "question:1:19: the addresses are of different versions of IP"
    );
    assert_eq!(
        wrong("in lan 10.0.0.1 > 10.0.0.2 tcp"),
        "question:1:28: a port is missing: write ADDRESS:PORT twice"
    );
    assert_eq!(
        wrong("in lan 10.0.0.1 > 10.0.0.2 icmp"),
        "question:1:32: a type is missing: `echo-request`, `3/4`"
    );
    assert_eq!(
        wrong("in lan 10.0.0.1:1 > 10.0.0.2:2 tcp sny"),
        "question:1:36: unknown flag `sny`: did you mean `syn`?"
    );
}

#[test]
fn nonsense_is_a_mistake_and_no_panic() {
    let words = [
        "pass", "in", "{", "}", ",", "!", "from", "@", "tcp", "port", "to", "80-", "-", ":", "/",
        "flags", "new", "/s", "per", "::", "source", "dest", "prefix", "out", "lan", "é", "[", "#",
    ];
    let mut state = 1u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(words[(state >> 33) as usize % words.len()]);
            text.push_str([" ", " ", "", "\n"][(state >> 60) as usize % 4]);
        }
        let _ = read(&Source { rules: &text, nat: &text, ..Source::default() });
        let _ = question(&text, PORTS);
    }
}
