//! NAT over several shards: whichever queues frames arrive by, a router of two, three or four
//! shards does what a router of one does. Both directions of a flow use one translation, no outside
//! port is assigned twice, and an inside endpoint has one outside endpoint. RFC 4787, RFC 5508.

mod talk;

use std::collections::BTreeMap;

use super::Random;
use talk::{Kind, Talk, World};

/// Ports: lan, dmz, wan. Hosts 9 to 40 are at each.
const LAN: usize = 0;
const DMZ: usize = 1;
const WAN: usize = 2;
const OURS: &str = "198.51.100.1";

const RULES: &str = "\
block to 198.51.100.13 udp 53
pass in {lan, dmz}
pass in wan to 10.0.1.9 tcp {80, 443}
pass in wan to 10.0.1.10 udp 5353
pass in wan to 10.0.1.11
pass in wan to self icmp echo-request
pass in wan to self udp 7000
pass in wan icmp echo-request";

const NAMED: &str = "\
both   out wan 10.0.1.11 to 198.51.100.77
dest   in {lan, dmz, wan} to self tcp {80, 443} to 10.0.1.9
dest   in {lan, wan} to self tcp 8443 to 10.0.1.9:443
dest   in {lan, dmz, wan} to 203.0.113.5 udp 53 to 10.0.1.10:5353
source out wan from 10.0.0.0/24 to port
source out wan from 10.0.1.0/24 to 203.0.113.8/30";

/// Everything that leaves by the WAN is masqueraded, and TCP connections to some ports are passed
/// to a server.
const ALL: &str = "\
dest   in {lan, wan} to self tcp {80, 443, 8443} to 10.0.1.9:443
dest   in wan tcp 2000-3000 to 10.0.1.9:80
source out wan to port filtering independent
source out dmz from 198.51.100.0/24 to port";

/// The address of a host at a port.
fn host(port: usize, n: usize) -> String {
    format!("{}.{}", ["10.0.0", "10.0.1", "198.51.100"][port], 9 + n)
}

fn random_talk(random: &mut Random) -> Talk {
    let kind = [Kind::Udp, Kind::Tcp, Kind::Echo][random.below(3)];
    let port = |random: &mut Random| [53, 80, 443, 2_500, 5_000, 40_000, 61_000][random.below(7)];
    let from = random.below(3);
    let to = match random.below(12) {
        0 => (OURS.to_owned(), [80, 443, 8_443, 2_500, 7_000][random.below(5)]),
        1 => ("203.0.113.5".to_owned(), 53),
        2 => ("198.51.100.77".to_owned(), port(random)),
        // No mapping has such a port; which mappings have a lower port is random.
        3 => (OURS.to_owned(), 61_000 + random.below(4_000) as u16),
        _ if from == WAN => (OURS.to_owned(), [80, 443, 8_443][random.below(3)]),
        _ => {
            let far = [WAN, WAN, WAN, 1 - from][random.below(4)];
            (host(far, random.below(6)), port(random))
        }
    };
    // Whether an identifier at the router's address belongs to a mapping depends on which ports NAT
    // kept.
    let own_port = match from {
        _ if to.0 == OURS => 21_000 + random.below(9) as u16,
        WAN => 20_000 + random.below(9) as u16,
        _ => [1_000, 5_000, 40_000, 50_000][random.below(4)] + random.below(3) as u16,
    };
    Talk { kind, at: from, from: (host(from, random.below(12)), own_port), to }
}

/// The same talks through two routers, each with its own replies.
fn same_as_one_shard(nat: &str, count: usize, seed: u64) -> usize {
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let mut one = World::new(1, RULES, nat);
    let mut several = World::new(count, RULES, nat);
    let (mut passed, mut differ) = (0, Vec::new());
    for n in 0..400 {
        let talk = random_talk(&mut random);
        let expected = one.have(&talk, &mut random);
        let got = several.have(&talk, &mut random);
        if got != expected {
            differ.push(format!("talk {n}, {talk:?}: {got:?}, not {expected:?}"));
        }
        passed += usize::from(got.len() > 2);
    }
    assert!(differ.is_empty(), "{count} shards, seed {seed}: {differ:#?}");
    assert_eq!(several.outstanding(), 0);
    passed
}

#[test]
fn several_shards_do_what_one_does() {
    for nat in [NAMED, ALL] {
        for (count, seed) in [(2, 1), (3, 2), (4, 3), (2, 4), (4, 5)] {
            let passed = same_as_one_shard(nat, count, seed);
            assert!(passed > 150, "only {passed} of 400 talks passed");
        }
    }
}

/// RFC 4787 REQ-1, REQ-2.
#[test]
fn an_inside_endpoint_has_one_outside_endpoint_and_no_port_is_given_twice() {
    for (count, nat) in [(2, NAMED), (4, NAMED), (4, ALL)] {
        let mut world = World::new(count, RULES, nat);
        let mut random = Random(77 + count as u64);
        let mut by_inside = BTreeMap::new();
        let mut by_outside = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        for _ in 0..600 {
            let kind = [Kind::Udp, Kind::Tcp, Kind::Echo][random.below(3)];
            let at = random.below(2);
            let from =
                (host(at, [0, 1, 5, 6, 7][random.below(5)]), 5_000 + random.below(40) as u16);
            let to = (host(WAN, random.below(30)), 443);
            let talk = Talk { kind, at, from: from.clone(), to };
            let Some(outside) = world.outside_of(&talk, &mut random) else { continue };
            let inside = (kind, from);
            assert_eq!(by_inside.entry(inside.clone()).or_insert(outside.clone()), &outside);
            let of = by_outside.entry((kind, outside.clone())).or_insert(inside.clone());
            assert_eq!(of, &inside, "{outside:?} was assigned twice");
            let host = inside.1.0;
            assert_eq!(addresses.entry(host).or_insert(outside.0.clone()), &outside.0, "paired");
        }
        assert!(by_inside.len() > 300, "{}", by_inside.len());
        let shards = world.mappings();
        assert!(shards.iter().all(|&mappings| mappings > 20), "{shards:?}");
    }
}

/// RFC 4787 REQ-11: no mapping of the old address may be left beside the new ones.
#[test]
fn flows_begin_again_at_every_shard_when_the_address_changes() {
    let mut world = World::new(4, RULES, NAMED);
    let mut random = Random(3);
    let talks: Vec<Talk> = (0..40)
        .map(|n| Talk {
            kind: Kind::Udp,
            at: LAN,
            from: (host(LAN, n % 10), 5_000 + n as u16),
            to: (host(WAN, n % 7), 443),
        })
        .collect();
    for address in [OURS, "198.51.100.2"] {
        if address != OURS {
            world.renumber(OURS, "198.51.100.2/24");
        }
        for talk in &talks {
            let outside = world.outside_of(talk, &mut random).expect("it passes");
            assert_eq!(outside.0, address);
            let course = world.have(talk, &mut random);
            assert!(course.len() == 4 && course.iter().all(Option::is_some), "{course:?}");
        }
        assert_eq!(world.mappings().iter().sum::<usize>(), 40, "at {address}");
    }
    assert_eq!(world.outstanding(), 0);
}

#[test]
fn fragments_come_to_the_shard_of_their_flow() {
    for (count, seed) in [(2, 1), (4, 2)] {
        let mut world = World::new(count, RULES, NAMED);
        let mut random = Random(seed);
        for n in 0..60 {
            let at = [LAN, DMZ][random.below(2)];
            let from = (host(at, random.below(12)), 30_000 + n);
            let talk = Talk { kind: Kind::Udp, at, from, to: (host(WAN, random.below(9)), 443) };
            world.exchange_fragments(&talk, n, &mut random);
        }
        assert_eq!(world.outstanding(), 0);
    }
}

/// The datagrams of a flow are whole or in fragments; without NAT rules too.
#[test]
fn fragments_of_a_flow_follow_it_without_nat() {
    let mut world = World::new(4, RULES, "");
    let mut random = Random(5);
    for n in 0..60 {
        let from = (host(LAN, random.below(12)), 30_000 + n);
        let talk = Talk { kind: Kind::Udp, at: LAN, from, to: (host(WAN, random.below(9)), 443) };
        world.have(&talk, &mut random);
        world.exchange_fragments(&talk, n, &mut random);
    }
    assert_eq!(world.outstanding(), 0);
}

#[test]
fn prefixes_are_exchanged_at_every_shard() {
    let nat = "prefix out wan fd00:1::/48 to 2001:db8:1::/48";
    for count in [1, 2, 4] {
        let mut world = World::new(count, "pass in {lan, wan}", nat);
        let mut random = Random(9);
        for n in 0..50 {
            let inside = format!("fd00:1::{:x}", 9 + n % 20);
            let outside = format!("2001:db8:2::{:x}", 9 + n % 7);
            world.exchange_v6(&inside, &outside, 4_000 + n, &mut random);
        }
        assert_eq!(world.outstanding(), 0);
    }
}
