//! Homes: both directions of a flow, hosts of the inside, outside ports, and what does not fit.

use std::sync::Arc;

use super::*;
use crate::states::Timeouts;
use crate::text::{Source, parse};
use wire::protocol::{ICMP, TCP, UDP};

const PORTS: [(&str, u16); 2] = [("lan", 0), ("wan", 1)];
const LAN: u16 = 0;
const WAN: u16 = 1;
const OURS: &str = "198.51.100.1";

fn rules(nat: &str) -> crate::Rules {
    let source = Source { nat, ..Source::default() };
    parse(&source, &PORTS, &|_| Err("no files".into())).expect("rules")
}

fn homes(nat: &str, count: usize) -> Option<Homes> {
    let published = Published::compile(rules(nat), Timeouts::default(), 1).expect("small");
    let own = [(LAN, "192.0.2.1/24"), (WAN, "198.51.100.1/24")];
    let own = own.map(|(port, cidr)| (port, cidr.parse().expect("a network")));
    Homes::new(&published, own.to_vec(), count, [11, 22])
}

fn tuple(protocol: u8, from: (&str, u16), to: (&str, u16)) -> Tuple {
    let ip = |text: &str| text.parse().expect("an address");
    let (src, dst) = (ip(from.0), ip(to.0));
    Tuple { src, dst, protocol, src_port: from.1, dst_port: to.1 }
}

const NAT: &str = "dest in wan to self tcp 443 to 192.0.2.9\n\
                   source out wan from 192.0.2.0/24 to port\n\
                   both out wan 10.0.0.5 to 203.0.113.5";

#[test]
fn flows_of_an_inside_host_have_one_home_and_answers_that_of_the_port() {
    let homes = homes(NAT, 4).expect("rules of NAT");
    let mut seen = [0; 4];
    for n in 2..200 {
        let host = format!("192.0.2.{n}");
        let home = homes.of(&tuple(UDP, (&host, 1), ("203.0.113.9", 53)), LAN, None);
        for port in [80, 443] {
            let out = tuple(TCP, (&host, port + 7), ("198.51.100.77", port));
            assert_eq!(homes.of(&out, LAN, None), home);
            // A flow that is not translated.
            assert_eq!(homes.of(&out.reversed(), WAN, None), home);
        }
        seen[home.expect("NAT of IPv4")] += 1;
    }
    assert!(seen.iter().all(|&n| n > 25), "{seen:?}");
    let shards = Shards::of_count(0, 4).expect("shards");
    for port in (1..=u16::MAX).step_by(97) {
        let back = tuple(UDP, ("203.0.113.9", 53), (OURS, port));
        assert_eq!(homes.of(&back, WAN, None), Some(shards.of_outside(UDP, port)));
        let echo = tuple(ICMP, ("203.0.113.9", port), (OURS, port));
        assert_eq!(homes.of(&echo, WAN, Some((0, 0))), Some(shards.of_outside(ICMP, port)));
    }
}

#[test]
fn servers_have_their_packets_at_the_home_of_the_inside_address() {
    let homes = homes(NAT, 4).expect("rules of NAT");
    for n in 1..60 {
        let far = ("203.0.113.77", 1_000 + n);
        let web = homes.of(&tuple(TCP, ("192.0.2.9", 443), far), LAN, None);
        assert_eq!(homes.of(&tuple(TCP, far, (OURS, 443)), WAN, None), web);
        let both = homes.of(&tuple(UDP, ("10.0.0.5", 9), far), LAN, None);
        assert_eq!(homes.of(&tuple(UDP, far, ("203.0.113.5", 9)), WAN, None), both);
        // From a neighbour of the server.
        let near = (format!("192.0.2.{}", 20 + n), 5_000);
        let near = (near.0.as_str(), near.1);
        let direct = tuple(TCP, near, ("192.0.2.9", 443));
        assert_eq!(homes.of(&direct, LAN, None), web);
        assert_eq!(homes.of(&direct.reversed(), LAN, None), web);
    }
    let other = homes.of(&tuple(50, ("192.0.2.9", 0), ("203.0.113.1", 0)), LAN, None);
    assert_eq!(other, Some(0), "a protocol without ports");
}

#[test]
fn a_version_without_rules_has_no_homes() {
    let v6 = tuple(UDP, ("2001:db8::1", 1), ("2001:db8::2", 2));
    assert_eq!(homes(NAT, 2).expect("NAT").of(&v6, LAN, None), None);
    assert!(homes("", 2).is_none());
    assert!(homes("keep out wan", 2).is_none(), "nothing is translated");
    let prefix = homes("prefix out wan fd00:1::/48 to 2001:db8:1::/48", 2).expect("NAT");
    assert!(prefix.of(&v6, LAN, None).is_some());
    assert_eq!(prefix.of(&tuple(UDP, ("192.0.2.9", 1), ("203.0.113.1", 2)), LAN, None), None);
}

/// Without `from` the networks of ports are inside that the rule does not name.
#[test]
fn a_rule_without_sources_is_about_what_is_behind_other_ports() {
    let homes = homes("source out wan to port", 4).expect("NAT");
    let home = |src| homes.of(&tuple(UDP, (src, 5), ("203.0.113.9", 53)), LAN, None);
    for (src, dst) in [("192.0.2.7", "8.8.8.8"), ("10.1.2.3", "9.9.9.9")] {
        assert_eq!(home(src), homes.of(&tuple(TCP, (src, 9), (dst, 80)), LAN, None));
        assert_eq!(home(src), homes.of(&tuple(TCP, (dst, 80), (src, 9)), WAN, None));
    }
}

#[test]
fn blocks_and_ranges_fit_the_shards_or_a_mistake_says_what_does() {
    let said = |nat: &str, count| -> Vec<String> {
        misfits(&rules(nat), count).iter().map(ToString::to_string).collect()
    };
    let nat = "source out wan to port block 4096\nsource out wan to port ports 41000-41999";
    assert!(said(nat, 1).is_empty());
    let two = said(nat, 2);
    assert!(two.len() == 1 && two[0].contains("2:1: ports 41000-41999"), "{two:?}");
    assert_eq!(said(nat, 4).len(), 2);
    // What a mistake asks for is enough, wherever it begins.
    for count in 2..=64 {
        let shards = Shards::of_count(0, count).expect("shards");
        for first in (1_024..40_000).step_by(777) {
            let last = first + shards.range_min() as u16 - 1;
            assert!(shards.all_have(first, last), "{count} {first}");
        }
    }
    assert!(!said("source out wan to port", 2_000).is_empty());
}

#[test]
fn homes_are_kept_while_nothing_changes() {
    let published = Published::compile(rules(NAT), Timeouts::default(), 1).expect("small");
    let own = vec![(LAN, "192.0.2.1/24".parse().expect("a network"))];
    let homes = Homes::new(&published, own.clone(), 2, [1, 2]).expect("NAT");
    assert!(homes.is_of(&published, &own) && !homes.is_of(&published, &[]));
    let again = Published::compile(rules(NAT), Timeouts::default(), 1).expect("small");
    assert!(!homes.is_of(&Arc::clone(&again), &own));
}
