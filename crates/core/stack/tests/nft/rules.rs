//! Random rule sets in both languages: ours, and nftables' by the words of docs/filter.md.
//!
//! Called by: `main.rs`. nft's chain has what `pass` means here: established and related packets
//! first, then no packet that connection tracking calls invalid, then the rules in order. A rule
//! without a version becomes a line for each version.

use std::fmt::Write;

use crate::network::{HOSTS, NAMES, host, network};
use crate::random::Rng;

/// Both texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    pub(crate) rules: String,
    pub(crate) nat: String,
    pub(crate) default: String,
    pub(crate) sets: Vec<(String, Vec<String>)>,
    pub(crate) nft: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    Block,
    Reject,
}

/// Networks with their versions, or the set of a number.
#[derive(Clone, Debug)]
enum Hosts {
    Any,
    Nets { negated: bool, nets: Vec<(bool, String)> },
    Set { negated: bool, number: usize },
}

#[derive(Clone, Debug)]
enum Protocol {
    Any,
    /// TCP, UDP or both, with destination ports if any are named.
    Ports {
        tcp: bool,
        udp: bool,
        ports: Vec<(u16, u16)>,
    },
    Icmp {
        v6: bool,
        types: Vec<&'static str>,
    },
    Number(u8),
}

#[derive(Clone, Debug)]
struct Rule {
    action: Action,
    ins: Vec<usize>,
    outs: Vec<usize>,
    from: Hosts,
    to: Hosts,
    protocol: Protocol,
    sports: Vec<(u16, u16)>,
    /// SET/MASK in our letters.
    flags: Option<(&'static str, &'static str)>,
}

/// Ports that flows go to as well.
pub(crate) const PORTS: [u16; 8] = [22, 53, 80, 443, 1_024, 8_000, 8_005, 65_535];
const TYPES: [&[&str]; 2] = [
    &["echo-request", "echo-reply", "timestamp-request", "redirect"],
    &["echo-request", "echo-reply"],
];
const FLAGS: [(&str, &str); 4] = [("S", "SA"), ("S", "FSRPA"), ("A", "A"), ("R", "R")];

/// The rule set of a number.
pub(crate) fn generate(rng: &mut Rng, number: u32) -> Texts {
    let sets = sets(rng, number);
    let actions = [Action::Pass, Action::Block, Action::Reject];
    let default = rng.weighted(&[(3, actions[1]), (3, actions[0]), (1, actions[2])]);
    let count = 1 + rng.below(12);
    let mut texts = Texts { default: word(default).to_owned(), ..Texts::default() };
    let mut lines = String::new();
    for _ in 0..count {
        let rule = rule(rng, number);
        texts.rules += &ours(&rule);
        theirs(&rule, &mut lines);
    }
    texts.nft = chain(&sets, &lines, default);
    texts.sets = sets.into_iter().enumerate().map(|(n, nets)| (format!("s{n}"), nets)).collect();
    texts
}

fn sets(rng: &mut Rng, number: u32) -> Vec<Vec<String>> {
    let set = |rng: &mut Rng| {
        let count = rng.below(8);
        (0..count).map(|_| net(rng, number, None).1).collect()
    };
    vec![set(rng), set(rng)]
}

/// A network of hosts that there are, of one version if that is given.
fn net(rng: &mut Rng, number: u32, v6: Option<bool>) -> (bool, String) {
    let v6 = v6.unwrap_or_else(|| rng.one_in(3));
    let (side, last) = (rng.below(2) as usize, rng.pick(&HOSTS));
    let bits = rng.weighted(&[(4, 0), (1, 1), (2, 6), (2, 7), (2, 8)]);
    (
        v6,
        if bits == 0 && rng.one_in(2) {
            host(number, side, v6, last).to_string()
        } else {
            network(number, side, v6, last, bits)
        },
    )
}

fn hosts(rng: &mut Rng, number: u32, v6: Option<bool>) -> Hosts {
    let negated = rng.one_in(4);
    match rng.below(10) {
        0..5 => Hosts::Any,
        5..8 => {
            // Hosts and networks that do not overlap, because nft's lists may not.
            let first = net(rng, number, v6);
            let mut nets = vec![first];
            for last in HOSTS {
                if rng.one_in(4) && nets[0].1.contains('/') {
                    let v6 = v6.unwrap_or_else(|| rng.one_in(2));
                    // The other networks are of the next number, which has no hosts here.
                    nets.push((v6, host(number + 1, 0, v6, last).to_string()));
                }
            }
            Hosts::Nets { negated, nets }
        }
        _ => Hosts::Set { negated, number: rng.below(2) as usize },
    }
}

fn rule(rng: &mut Rng, number: u32) -> Rule {
    let action = rng.weighted(&[(4, Action::Pass), (2, Action::Block), (2, Action::Reject)]);
    let ports = |rng: &mut Rng| match rng.below(6) {
        0..3 => vec![],
        3 => vec![0],
        4 => vec![1],
        _ => vec![0, 1],
    };
    let protocol = protocol(rng);
    let (mut sports, mut flags) = (vec![], None);
    let mut version = None;
    match protocol {
        Protocol::Ports { tcp, udp, .. } => {
            if rng.one_in(5) {
                sports = ranges(rng, &[1_024, 20_000, 32_768, 40_000, 60_999]);
            }
            if tcp && !udp && rng.one_in(4) {
                flags = Some(rng.pick(&FLAGS));
            }
        }
        Protocol::Icmp { v6, .. } => version = Some(v6),
        _ => {}
    }
    let version = version.or_else(|| rng.one_in(2).then(|| rng.one_in(3)));
    let from = hosts(rng, number, version);
    // Addresses of two versions match no packet, and are refused.
    let of_source = match &from {
        Hosts::Nets { nets, .. } => nets[0].0,
        _ => rng.one_in(3),
    };
    let to = hosts(rng, number, version.or(Some(of_source)));
    Rule { action, ins: ports(rng), outs: ports(rng), from, to, protocol, sports, flags }
}

fn protocol(rng: &mut Rng) -> Protocol {
    match rng.below(10) {
        0..2 => Protocol::Any,
        2..8 => {
            let (tcp, udp) = rng.pick(&[(true, false), (true, false), (false, true), (true, true)]);
            let ports = if rng.one_in(4) { vec![] } else { ranges(rng, &PORTS) };
            Protocol::Ports { tcp, udp, ports }
        }
        8 => {
            let v6 = rng.one_in(2);
            let mut types: Vec<&str> = TYPES[usize::from(v6)].to_vec();
            types.retain(|_| rng.one_in(2));
            Protocol::Icmp { v6, types }
        }
        _ => Protocol::Number(rng.pick(&[99, 253])),
    }
}

/// Ranges that do not overlap.
fn ranges(rng: &mut Rng, from: &[u16]) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for pair in from.windows(2) {
        let begin = ranges.last().map_or(0, |range| range.1.saturating_add(1)).max(pair[0]);
        match rng.below(4) {
            0 if begin <= pair[0] => ranges.push((pair[0], pair[0])),
            1 => ranges.push((begin, pair[1])),
            _ => {}
        }
    }
    if ranges.is_empty() {
        let one = rng.pick(from);
        ranges.push((one, one));
    }
    ranges
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Block => "block",
        Action::Reject => "reject",
    }
}

fn list(words: &[String]) -> String {
    if let [one] = words { one.clone() } else { format!("{{{}}}", words.join(", ")) }
}

fn range_words(ranges: &[(u16, u16)]) -> Vec<String> {
    let range = |&(a, b): &(u16, u16)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    ranges.iter().map(range).collect()
}

/// The rule in our language.
fn ours(rule: &Rule) -> String {
    let mut line = word(rule.action).to_owned();
    for (clause, ports) in [("in", &rule.ins), ("out", &rule.outs)] {
        let names: Vec<String> = ports.iter().map(|&port| NAMES[port].to_owned()).collect();
        if !names.is_empty() {
            let _ = write!(line, " {clause} {}", list(&names));
        }
    }
    for (clause, hosts) in [("from", &rule.from), ("to", &rule.to)] {
        let is_source = clause == "from" && !rule.sports.is_empty();
        match hosts {
            Hosts::Any if !is_source => continue,
            Hosts::Any => line += " from any",
            Hosts::Nets { negated, nets } => {
                let nets: Vec<String> = nets.iter().map(|(_, net)| net.clone()).collect();
                let not = if *negated { "!" } else { "" };
                let _ = write!(line, " {clause} {not}{}", list(&nets));
            }
            Hosts::Set { negated, number } => {
                let not = if *negated { "!" } else { "" };
                let _ = write!(line, " {clause} {not}@s{number}");
            }
        }
        if is_source {
            let _ = write!(line, " port {}", list(&range_words(&rule.sports)));
        }
    }
    match &rule.protocol {
        Protocol::Any => {}
        Protocol::Ports { tcp, udp, ports } => {
            line += match (tcp, udp) {
                (true, true) => " {tcp, udp}",
                (true, _) => " tcp",
                _ => " udp",
            };
            if !ports.is_empty() {
                let _ = write!(line, " {}", list(&range_words(ports)));
            }
        }
        Protocol::Icmp { v6, types } => {
            line += if *v6 { " icmpv6" } else { " icmp" };
            let types: Vec<String> = types.iter().map(|&t| t.to_owned()).collect();
            if !types.is_empty() {
                let _ = write!(line, " {}", list(&types));
            }
        }
        Protocol::Number(number) => {
            let _ = write!(line, " proto {number}");
        }
    }
    if let Some((set, mask)) = rule.flags {
        let _ = write!(line, " flags {set}/{mask}");
    }
    line + "\n"
}

/// The only version that a rule is about, by docs/filter.md.
fn version(rule: &Rule) -> Option<bool> {
    if let Protocol::Icmp { v6, .. } = rule.protocol {
        return Some(v6);
    }
    [&rule.from, &rule.to].into_iter().find_map(|hosts| match hosts {
        Hosts::Nets { nets, .. } => nets.iter().all(|net| net.0 == nets[0].0).then_some(nets[0].0),
        _ => None,
    })
}

/// Lines of the rule in nft's language.
fn theirs(rule: &Rule, lines: &mut String) {
    for v6 in [false, true] {
        if version(rule).is_some_and(|only| only != v6) {
            continue;
        }
        let mut line = String::from(if v6 { "meta nfproto ipv6" } else { "meta nfproto ipv4" });
        for (clause, ports) in [("iifname", &rule.ins), ("oifname", &rule.outs)] {
            let names: Vec<String> = ports.iter().map(|&p| format!("\"{}\"", NAMES[p])).collect();
            if !names.is_empty() {
                let _ = write!(line, " {clause} {}", list(&names));
            }
        }
        let family = if v6 { "ip6" } else { "ip" };
        let mut is_empty = false;
        for (clause, hosts) in [("saddr", &rule.from), ("daddr", &rule.to)] {
            let (negated, word) = match hosts {
                Hosts::Any => continue,
                Hosts::Set { negated, number } => {
                    (*negated, format!("@s{number}_{}", if v6 { 6 } else { 4 }))
                }
                Hosts::Nets { negated, nets } => {
                    let of_version = nets.iter().filter(|net| net.0 == v6);
                    let nets: Vec<String> = of_version.map(|(_, net)| net.clone()).collect();
                    if nets.is_empty() {
                        is_empty |= !negated;
                        continue;
                    }
                    (*negated, format!("{{ {} }}", nets.join(", ")))
                }
            };
            let not = if negated { "!= " } else { "" };
            let _ = write!(line, " {family} {clause} {not}{word}");
        }
        if !is_empty {
            transport(rule, v6, &mut line);
            let _ = writeln!(lines, "  {line} {}", verdict(rule));
        }
    }
}

fn transport(rule: &Rule, v6: bool, line: &mut String) {
    match &rule.protocol {
        Protocol::Any => {}
        Protocol::Ports { tcp, udp, ports } => {
            *line += match (tcp, udp) {
                (true, true) => " meta l4proto { tcp, udp }",
                (true, _) => " meta l4proto tcp",
                _ => " meta l4proto udp",
            };
            for (word, ports) in [("dport", ports), ("sport", &rule.sports)] {
                if !ports.is_empty() {
                    let _ = write!(line, " th {word} {{ {} }}", range_words(ports).join(", "));
                }
            }
        }
        Protocol::Icmp { types, .. } => {
            let name = if v6 { "icmpv6" } else { "icmp" };
            *line += if v6 { " meta l4proto icmpv6" } else { " meta l4proto icmp" };
            if !types.is_empty() {
                let _ = write!(line, " {name} type {{ {} }}", types.join(", "));
            }
        }
        Protocol::Number(number) => {
            let _ = write!(line, " meta l4proto {number}");
        }
    }
    if let Some((set, mask)) = rule.flags {
        let names = |letters: &str| {
            let name = |letter| match letter {
                'S' => "syn",
                'A' => "ack",
                'F' => "fin",
                'R' => "rst",
                _ => "psh",
            };
            letters.chars().map(name).collect::<Vec<_>>().join(" | ")
        };
        let _ = write!(line, " tcp flags & ({}) == {}", names(mask), names(set));
    }
}

fn verdict(rule: &Rule) -> &'static str {
    match rule.action {
        Action::Pass => "accept",
        Action::Block => "drop",
        Action::Reject => "jump refuse",
    }
}

/// The whole table.
fn chain(sets: &[Vec<String>], lines: &str, default: Action) -> String {
    let mut text = String::from("table inet filter {\n");
    for (number, nets) in sets.iter().enumerate() {
        for (version, family) in [(4, "ipv4_addr"), (6, "ipv6_addr")] {
            let of_version = nets.iter().filter(|net| net.contains(':') == (version == 6));
            let nets: Vec<&str> = of_version.map(String::as_str).collect();
            let elements = if nets.is_empty() {
                String::new()
            } else {
                format!(" elements = {{ {} }};", nets.join(", "))
            };
            let _ = writeln!(
                text,
                " set s{number}_{version} {{ type {family}; flags interval; auto-merge;\
                 {elements} }}"
            );
        }
    }
    text += " chain refuse {\n  meta l4proto tcp reject with tcp reset\n  \
             reject with icmpx admin-prohibited\n }\n";
    text += " chain forward {\n  type filter hook forward priority 0\n";
    text += "  ct state untracked accept\n  ct state established,related accept\n  \
             ct state invalid drop\n";
    text += lines;
    text += match default {
        Action::Pass => "  accept\n",
        Action::Block => "  drop\n",
        Action::Reject => "  jump refuse\n",
    };
    text + " }\n}\n"
}
