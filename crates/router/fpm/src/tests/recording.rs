//! What zebra of FRR 8.4.4 sent, recorded: static routes of all kinds, changed, removed and added
//! while the link went down and up; then a second connection, without numbers of nexthops, after
//! `no fpm use-next-hop-groups`. `ip route` of that machine said at the end what is expected here.

use std::collections::BTreeMap;

use super::changes;
use crate::{Change, Discard, Fpm, Hop, Key, NextHops, Reachable};

const NUMBERED: &[u8] = include_bytes!("zebra-nexthops.fpm");
const INLINE: &[u8] = include_bytes!("zebra-inline.fpm");
/// The index of the interface v0.
const V0: u32 = 3;

/// Nexthops and groups at the end of the first connection.
const NUMBERS: usize = 22;

type Routes = BTreeMap<Key, NextHops>;

fn apply(routes: &mut Routes, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Replace { key, next_hops, .. } => drop(routes.insert(key, next_hops)),
            Change::Delete { key } => drop(routes.remove(&key)),
            Change::NextHops { .. } => {}
        }
    }
}

/// The routes with their next hops, as text.
fn shown(routes: &Routes, fpm: &Fpm) -> Vec<String> {
    let reachable = |next_hops: &NextHops| match next_hops {
        NextHops::Id(id) => fpm.next_hops(*id).expect("zebra named a nexthop that it sent"),
        NextHops::Inline(reachable) => reachable.clone(),
    };
    let hop = |hop: &Hop| {
        assert_eq!(hop.interface, V0);
        hop.gateway.map_or("dev".to_owned(), |gateway| gateway.to_string())
    };
    let line = |(key, next_hops): (&Key, &NextHops)| {
        let to = match reachable(next_hops) {
            Reachable::Hops(mut hops) => {
                hops.sort();
                hops.iter().map(hop).collect::<Vec<_>>().join(" ")
            }
            Reachable::Discard(how) => how.name().to_owned(),
        };
        format!("{} {} {to}", key.table, key.prefix)
    };
    routes.iter().map(line).collect()
}

const EXPECTED: [&str; 8] = [
    "100 10.5.0.0/16 192.0.2.2",
    "254 10.1.0.0/16 192.0.2.4",
    "254 10.2.0.0/16 192.0.2.2 192.0.2.3",
    "254 10.4.0.0/16 unreachable",
    "254 10.6.0.0/16 192.0.2.2",
    "254 10.7.0.0/16 dev",
    "254 2001:db8:1::/48 2001:db8::2",
    "254 2001:db8:2::/48 blackhole",
];

#[test]
fn the_routes_of_zebra_are_those_of_its_kernel() {
    let (mut fpm, mut routes) = (Fpm::default(), Routes::new());
    fpm.begin();
    apply(&mut routes, changes(&mut fpm, NUMBERED));
    assert_eq!(shown(&routes, &fpm), EXPECTED);
    assert!(fpm.nexthops() > 0);

    // The replay has everything but tables that are no VRF's main one: zebra does not replay those.
    let mut replayed = Routes::new();
    fpm.begin();
    apply(&mut replayed, changes(&mut fpm, INLINE));
    let mut expected = EXPECTED[1..].to_vec();
    expected.insert(5, "254 10.8.0.0/16 192.0.2.2");
    assert_eq!(shown(&replayed, &fpm), expected);
    assert_eq!(fpm.sweep(&mut |_| ()), NUMBERS);
}

#[test]
fn a_blackhole_that_was_removed_is_gone() {
    let (mut fpm, mut seen) = (Fpm::default(), Vec::new());
    for change in changes(&mut fpm, NUMBERED) {
        match change {
            Change::Replace { key, next_hops, .. } if key.prefix.to_string() == "10.3.0.0/16" => {
                let blackhole = NextHops::Inline(Reachable::Discard(Discard::Blackhole));
                assert_eq!(next_hops, blackhole);
                seen.push(true);
            }
            Change::Delete { key } if key.prefix.to_string() == "10.3.0.0/16" => seen.push(false),
            _ => {}
        }
    }
    assert_eq!(seen, [true, false]);
}
