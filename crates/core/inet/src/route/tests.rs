use core::num::NonZeroU8;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::ecmp::{BUCKETS, Share, distribute};
use super::*;

mod discard;
mod links;
mod readers;

fn route(dest: &str, via: &str, port: u16) -> Route {
    let via = (!via.is_empty()).then(|| via.parse().expect("an address"));
    Route::new(dest.parse().expect("a prefix"), via, port)
}

fn hop(routes: &Routes, dst: &str, table: u32) -> Option<(u16, IpAddr)> {
    let dst = dst.parse().expect("an address");
    let hop = routes.lookup_in(table, dst, None, Sender::Program)?;
    Some((hop.port, hop.neighbour))
}

fn weight(n: u8) -> NonZeroU8 {
    NonZeroU8::new(n).expect("not zero")
}

/// Longest prefix match by a search of a vector.
#[derive(Default)]
struct Model {
    routes: Vec<Route>,
    down: BTreeSet<u16>,
}

impl Model {
    fn add(&mut self, route: Route) {
        let is_same =
            |r: &&mut Route| r.dest == route.dest && r.table == route.table && r.port == route.port;
        match self.routes.iter_mut().find(is_same) {
            Some(old) if old.metric == route.metric => *old = route,
            _ => {
                self.remove(&route);
                self.routes.push(route);
            }
        }
    }

    fn remove(&mut self, of: &Route) {
        self.routes.retain(|r| !(r.dest == of.dest && r.table == of.table && r.port == of.port));
    }

    fn lookup(&self, dst: IpAddr, table: u32) -> Option<NextHop> {
        let fits =
            |r: &&Route| r.table == table && r.dest.contains(dst) && !self.down.contains(&r.port);
        // `min_by_key` returns the first of several equal routes.
        let best =
            self.routes.iter().filter(fits).min_by_key(|r| (!r.dest.prefix_len, r.metric))?;
        Some(NextHop { port: best.port, neighbour: best.via.unwrap_or(dst), mtu: best.mtu })
    }
}

/// Addresses with few bits set, in few places, so that prefixes overlap and the trie has short and
/// long paths.
fn address(is_v6: bool) -> impl Strategy<Value = IpAddr> {
    (any::<[u8; 16]>(), any::<u16>()).prop_map(move |(random, which)| {
        let thin = |at: usize| if which >> at & 1 == 1 { random[at] & 0x81 } else { 0 };
        if is_v6 {
            IpAddr::from(core::array::from_fn::<u8, 16, _>(thin))
        } else {
            IpAddr::from(core::array::from_fn::<u8, 4, _>(thin))
        }
    })
}

#[derive(Clone, Debug)]
struct Change {
    route: Route,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Add,
    Remove,
    /// The link of the route's port goes down, or comes up.
    Link,
}

fn change() -> impl Strategy<Value = Change> {
    any::<bool>().prop_flat_map(|is_v6| {
        let bits = if is_v6 { 128_u8 } else { 32 };
        (address(is_v6), 0..=bits, 0..3_u16, 0..2_u32, 0..2_u32, address(is_v6), 0..4_u8).prop_map(
            |(addr, len, port, table, metric, via, what)| {
                let dest = Cidr::new(addr, len).expect("within the address").network();
                let via = (what == 1).then_some(via);
                let route = Route {
                    table: if table == 0 { MAIN_TABLE } else { table },
                    metric,
                    ..Route::new(dest, via, port)
                };
                let all = [What::Add, What::Add, What::Remove, What::Link];
                Change { route, what: all[usize::from(what)] }
            },
        )
    })
}

/// Add so many long prefixes, away from all others, that both versions have the array for 24 bits.
fn crowd(routes: &mut Routes) {
    for n in 0..600_u32 {
        let v4 = Cidr::new(IpAddr::from((0xf000_0000 + (n << 8)).to_be_bytes()), 24);
        let v6 = Cidr::new(IpAddr::from((0xf << 124 | u128::from(n) << 80).to_be_bytes()), 48);
        for dest in [v4, v6] {
            assert!(routes.add(Route::new(dest.expect("a prefix"), None, 9)));
        }
    }
}

fn agree(routes: &Routes, model: &Model, changes: &[Change], dsts: &[IpAddr]) {
    let near = changes.iter().flat_map(|c| match c.route.dest.addr {
        IpAddr::V4(a) => [a.to_bits(), a.to_bits().wrapping_sub(1)].map(|n| IpAddr::V4(n.into())),
        IpAddr::V6(a) => [a.to_bits(), a.to_bits().wrapping_sub(1)].map(|n| IpAddr::V6(n.into())),
    });
    let dsts: Vec<IpAddr> = near.chain(dsts.iter().copied()).collect();
    for table in [MAIN_TABLE, 1] {
        for &dst in &dsts {
            let found = routes.lookup_in(table, dst, None, Sender::Program);
            assert_eq!(found, model.lookup(dst, table), "{dst} table {table}");
        }
        burst_agrees(routes, &dsts, table);
    }
    assert_eq!(routes.iter().filter(|r| r.port != 9).count(), model.routes.len());
}

/// A burst of lookups finds the same as single lookups.
fn burst_agrees(routes: &Routes, dsts: &[IpAddr], table: u32) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for dst in dsts {
        match dst {
            IpAddr::V4(dst) => v4.push(*dst),
            IpAddr::V6(dst) => v6.push(*dst),
        }
    }
    let view = routes.view();
    let mut out = vec![GroupIndex(7); v4.len()];
    view.lookup_burst_v4(&v4, &mut out, table);
    assert!(v4.iter().zip(&out).all(|(&dst, &found)| view.lookup(dst.into(), table) == found));
    let mut out = vec![GroupIndex(7); v6.len()];
    view.lookup_burst_v6(&v6, &mut out, table);
    assert!(v6.iter().zip(&out).all(|(&dst, &found)| view.lookup(dst.into(), table) == found));
}

fn run(changes: &[Change], dsts: &[IpAddr], crowd_at: usize) {
    let (mut routes, mut model) = (Routes::default(), Model::default());
    for (number, Change { route, what }) in changes.iter().enumerate() {
        if number == crowd_at {
            crowd(&mut routes);
        }
        match what {
            What::Add => {
                assert!(routes.add(route.clone()));
                model.add(route.clone());
            }
            What::Remove => {
                routes.remove_exact(route.dest, route.table, |r| r.port == route.port);
                model.remove(route);
            }
            What::Link => {
                let is_down = !model.down.remove(&route.port) && model.down.insert(route.port);
                assert!(routes.set_link(route.port, !is_down));
            }
        }
        if number % 16 == 0 {
            agree(&routes, &model, changes, dsts);
        }
    }
    agree(&routes, &model, changes, dsts);
    routes.remove(|_| true);
    // No group and no node remains.
    assert!(routes.is_empty() && routes.next_deadline() == Instant::NEVER);
    let left = format!("{routes:?}");
    assert!(left.contains("nodes: 0, lone_prefixes: 0, groups: 0, retired: 0"), "{left}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// RFC 7608 2-a.
    #[test]
    fn a_lookup_finds_what_a_search_of_all_routes_does(
        changes in prop::collection::vec(change(), 1..120),
        dsts in prop::collection::vec(any::<bool>().prop_flat_map(address), 40),
    ) {
        run(&changes, &dsts, usize::MAX);
    }

    #[test]
    fn the_same_with_the_array_of_24_bits(
        changes in prop::collection::vec(change(), 1..120),
        dsts in prop::collection::vec(any::<bool>().prop_flat_map(address), 40),
        crowd_at in 0..120_usize,
    ) {
        run(&changes, &dsts, crowd_at);
    }
}

/// RFC 1812 5.2.4.3-a.
#[test]
fn the_longest_prefix_of_its_table_is_used_from_the_default_to_a_host() {
    let mut routes = Routes::default();
    for (dest, via) in [
        ("0.0.0.0/0", "192.0.2.1"),
        ("10.0.0.0/8", "192.0.2.2"),
        ("10.1.0.0/16", "192.0.2.3"),
        ("10.1.1.1/32", "192.0.2.4"),
        ("::/0", "fe80::1"),
        ("2001:db8::1/128", "fe80::2"),
    ] {
        routes.add(route(dest, via, 0));
    }
    routes.add(Route { table: 7, ..route("10.0.0.0/8", "", 1) });
    let via = |dst| hop(&routes, dst, MAIN_TABLE).map(|(_, ip)| ip.to_string());
    assert_eq!(via("11.0.0.1").as_deref(), Some("192.0.2.1"));
    assert_eq!(via("10.2.0.1").as_deref(), Some("192.0.2.2"));
    assert_eq!(via("10.1.1.2").as_deref(), Some("192.0.2.3"));
    assert_eq!(via("10.1.1.1").as_deref(), Some("192.0.2.4"));
    assert_eq!(via("2001:db8::").as_deref(), Some("fe80::1"));
    assert_eq!(via("2001:db8::1").as_deref(), Some("fe80::2"));
    assert_eq!(hop(&routes, "10.1.1.1", 7), Some((1, "10.1.1.1".parse().expect("an address"))));
    assert_eq!(hop(&routes, "11.1.1.1", 7), None);
    assert_eq!(hop(&routes, "10.1.1.1", 8), None);
}

#[test]
fn the_lowest_metric_is_used_and_the_next_when_it_goes() {
    let mut routes = Routes::default();
    routes.add(Route { metric: 20, ..route("10.0.0.0/8", "", 1) });
    routes.add(Route { metric: 10, ..route("10.0.0.0/8", "", 2) });
    routes.add(Route { metric: 10, ..route("10.0.0.0/8", "", 3) });
    let port = |routes: &Routes| hop(routes, "10.0.0.1", MAIN_TABLE).map(|(port, _)| port);
    assert_eq!(port(&routes), Some(2));
    routes.forget_port(2);
    assert_eq!(port(&routes), Some(3));
    routes.add(Route { metric: 30, ..route("10.0.0.0/8", "", 3) });
    assert_eq!(port(&routes), Some(1));
    assert_eq!(routes.len(), 2);
}

#[test]
fn the_first_route_to_expire_is_the_deadline_and_goes_at_its_time() {
    let mut routes = Routes::default();
    let at = |s| Instant::from_nanos(s);
    for (dest, expires) in [("10.0.0.0/8", 30), ("10.1.0.0/16", 20), ("10.2.0.0/16", 20)] {
        let route = route(dest, "", 0).with_origin(RouteOrigin::Redirect);
        routes.add(Route { expires: at(expires), ..route });
    }
    assert_eq!((routes.next_deadline(), routes.expire(at(19))), (at(20), 0));
    assert_eq!((routes.expire(at(20)), routes.next_deadline()), (2, at(30)));
    assert_eq!(routes.count_of(RouteOrigin::Redirect), 1);
    // A route that expires later is the same route.
    let later = Route { expires: at(40), ..routes.iter().next().expect("one").clone() };
    assert!(!routes.renew(later));
    assert_eq!((routes.len(), routes.next_deadline()), (1, at(40)));
}

#[test]
fn a_route_of_another_origin_is_not_renewed() {
    let mut routes = Routes::default();
    routes.add(route("10.0.0.0/8", "192.0.2.1", 0));
    assert!(!routes.renew(route("10.0.0.0/8", "192.0.2.2", 0).with_origin(RouteOrigin::Dhcp)));
    assert!(routes.renew(route("10.0.0.0/8", "192.0.2.2", 0)));
    assert!(!routes.renew(route("10.0.0.0/8", "192.0.2.2", 0)));
}

#[test]
fn tables_beyond_the_limit_are_refused() {
    let mut routes = Routes::default();
    for table in 1000..1000 + TABLES_MAX as u32 - 1 {
        assert!(routes.add(Route { table, ..route("10.0.0.0/8", "", 1) }));
    }
    assert!(!routes.add(Route { table: 1, ..route("10.0.0.0/8", "", 1) }));
    assert!(routes.add(route("10.0.0.0/8", "", 1)));
    assert_eq!(routes.len(), TABLES_MAX);
}

fn next_hops(routes: &Routes) -> Vec<IpAddr> {
    let dst = "10.0.0.1".parse().expect("an address");
    let view = routes.view();
    let group = view.lookup(dst, MAIN_TABLE);
    let hop = |flow: u32| view.next_hop(group, dst, flow.wrapping_mul(0x0101_0101));
    (0..20_000).map(|flow| hop(flow).expect("a next hop").neighbour).collect()
}

fn shared(via: &str, of: u8) -> Route {
    route("10.0.0.0/8", via, 0).shared(weight(of))
}

#[test]
fn a_flow_changes_its_next_hop_only_if_that_goes_or_another_comes() {
    let mut routes = Routes::default();
    for via in ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"] {
        routes.add(shared(via, 1));
    }
    let gone: IpAddr = "192.0.2.2".parse().expect("an address");
    let before = next_hops(&routes);
    let dest = "10.0.0.0/8".parse().expect("a prefix");
    routes.remove_exact(dest, MAIN_TABLE, |r| r.via == Some(gone));
    let without = next_hops(&routes);
    let moved = before.iter().zip(&without).filter(|(a, b)| a != b);
    assert!(moved.clone().all(|(a, _)| *a == gone), "a flow of another next hop moved");
    assert!((4_000..6_000).contains(&moved.count()));
    assert!(!without.contains(&gone));
    routes.add(shared("192.0.2.2", 1));
    let after = next_hops(&routes);
    let moved = without.iter().zip(&after).filter(|(a, b)| a != b);
    assert!(
        moved.clone().all(|(_, b)| *b == gone),
        "a flow moved to a next hop that is not the new one"
    );
    assert!((4_000..6_000).contains(&moved.count()));
}

#[test]
fn weights_share_the_flows_out_and_prefixes_share_a_group() {
    let mut routes = Routes::default();
    routes.add(shared("192.0.2.1", 3));
    routes.add(shared("192.0.2.2", 1));
    let first: IpAddr = "192.0.2.1".parse().expect("an address");
    let of_first = next_hops(&routes).iter().filter(|ip| **ip == first).count();
    assert!((14_000..16_000).contains(&of_first), "{of_first} of 20000");
    for (via, of) in [("192.0.2.2", 1), ("192.0.2.1", 3)] {
        routes.add(Route { dest: "10.9.0.0/16".parse().expect("a prefix"), ..shared(via, of) });
    }
    let group = |dest: &str| routes.group(dest.parse().expect("a prefix"), MAIN_TABLE);
    assert_ne!(group("10.0.0.0/8"), GroupIndex::NONE);
    assert_eq!(group("10.0.0.0/8"), group("10.9.0.0/16"));
}

proptest! {
    #[test]
    fn every_bucket_is_a_members_and_none_moves_without_need(
        steps in prop::collection::vec((0..12_u32, 1..=20_u8, any::<bool>()), 1..60)
    ) {
        let (mut shares, mut buckets): (Vec<Share>, _) = (Vec::new(), [0; BUCKETS]);
        for (number, weight, is_removal) in steps {
            let member = number + 1;
            let at = shares.iter().position(|s| s.member == member);
            match at {
                Some(at) if is_removal && shares.len() > 1 => { shares.remove(at); }
                None => shares.push(Share { member, weight: if is_removal { 1 } else { weight } }),
                Some(_) => continue,
            }
            let next = distribute(buckets, &shares);
            for (old, new) in buckets.iter().zip(&next) {
                prop_assert!(shares.iter().any(|s| s.member == *new));
                let is_gone = !shares.iter().any(|s| s.member == *old);
                let is_new = *new == member && at.is_none();
                prop_assert!(old == new || is_gone || is_new);
            }
            prop_assert!(shares.iter().all(|s| next.contains(&s.member)), "a member has no bucket");
            buckets = next;
        }
    }
}

#[test]
fn prefixes_with_equal_routes_share_them() {
    let mut routes = Routes::default();
    for n in 0..100 {
        assert!(routes.add(route(&format!("10.0.{n}.0/24"), "192.0.2.1", 1)));
        assert!(routes.add(route(&format!("2001:db8:{n}::/48"), "fe80::1", 1)));
    }
    assert_eq!(routes.sets(), 2);
    let worse = Route { metric: 7, ..route("10.0.3.0/24", "192.0.2.9", 2) };
    assert!(routes.add(worse.clone()));
    let first = route("10.0.3.0/24", "192.0.2.1", 1);
    assert_eq!(routes.at(worse.dest, MAIN_TABLE).collect::<Vec<_>>(), [first, worse.clone()]);
    assert_eq!(routes.sets(), 3);
    assert_eq!(routes.remove_exact(worse.dest, MAIN_TABLE, |r| *r == worse), 1);
    assert_eq!(routes.sets(), 2);
    assert_eq!(routes.iter().filter(|r| r.dest.addr.is_ipv4()).count(), 100);
    assert_eq!(routes.remove(|_| true), 200);
    assert_eq!((routes.sets(), routes.iter().count()), (0, 0));
}
