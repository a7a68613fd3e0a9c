//! Reverse paths: next hops that share a prefix, rules, restricted routes, links that are down.

use core::net::IpAddr;
use core::num::NonZeroU8;
use std::sync::Arc;

use base::{Cidr, Owner};

use super::SourceCheck::{Loose, Off, Strict};
use crate::route::{Access, Action, Route, Routes, Rule, Selector, Sender};
use crate::vrf::Vrf;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn net(text: &str) -> Cidr {
    text.parse().expect("a network")
}

/// A route by port `port` with a gateway on that port.
fn route(to: &str, port: u16) -> Route {
    Route::new(net(to), Some(ip(&format!("192.0.2.{port}"))), port)
}

fn routes(all: &[Route]) -> Routes {
    let mut routes = Routes::default();
    all.iter().for_each(|route| assert!(routes.add(route.clone())));
    routes
}

const DST: &str = "203.0.113.1";

/// Does a packet of a source pass by ports 0 to 2: if it is forwarded, by the FIB alone, and if it
/// is for the host?
fn passes(routes: &Routes, check: crate::route::SourceCheck, src: &str) -> [[bool; 3]; 3] {
    let (src, view) = (ip(src), routes.view());
    let group = view.lookup(src, crate::route::MAIN_TABLE);
    let ends = (src, ip(DST));
    [
        [0, 1, 2].map(|port| routes.passes(check, (port, Vrf::NONE), ends, 2)),
        [0, 1, 2].map(|port| view.passes(check, port, group)),
        [0, 1, 2].map(|port| routes.passes_to_host(check, (port, Vrf::NONE), ends)),
    ]
}

#[test]
fn strict_wants_the_port_loose_a_route_and_off_nothing() {
    let routes = routes(&[route("10.1.0.0/16", 0), route("10.1.2.0/24", 1)]);
    assert_eq!(passes(&routes, Strict, "10.1.9.9"), [[true, false, false]; 3]);
    assert_eq!(passes(&routes, Strict, "10.1.2.9"), [[false, true, false]; 3]);
    assert_eq!(passes(&routes, Strict, "10.2.0.1"), [[false; 3]; 3]);
    assert_eq!(passes(&routes, Loose, "10.1.2.9"), [[true; 3]; 3]);
    assert_eq!(passes(&routes, Loose, "10.2.0.1"), [[false; 3]; 3]);
    assert_eq!(passes(&routes, Off, "10.2.0.1"), [[true; 3]; 3]);
}

#[test]
fn any_port_of_those_that_share_a_prefix_will_do() {
    let shared = |port: u16, weight: u8| {
        route("10.1.0.0/16", port).shared(NonZeroU8::new(weight).expect("not 0"))
    };
    let mut routes = routes(&[shared(0, 200), shared(2, 1), Route { metric: 5, ..shared(1, 1) }]);
    assert_eq!(passes(&routes, Strict, "10.1.9.9"), [[true, false, true]; 3]);
    routes.set_link(0, false);
    assert_eq!(passes(&routes, Strict, "10.1.9.9"), [[false, false, true]; 3]);
    routes.set_link(2, false);
    assert_eq!(
        passes(&routes, Strict, "10.1.9.9"),
        [[false, true, false]; 3],
        "the route of a higher metric is used"
    );
}

/// The table is the one for the answers, which come by the port that the packet leaves by.
#[test]
fn rules_select_the_table_of_the_answers() {
    let mut routes = routes(&[
        route("0.0.0.0/0", 0),
        Route { table: 10, ..route("0.0.0.0/0", 1) },
        Route { table: 11, ..route("10.9.0.0/16", 1) },
    ]);
    let rule = Rule::new(100, Action::Table(10));
    routes.add_rule(Rule { in_port: Some(2), ..rule }).expect("room");
    let by = |routes: &Routes, to_port| {
        let ends = (ip("198.51.100.1"), ip(DST));
        [0, 1].map(|port| routes.passes(Strict, (port, Vrf::NONE), ends, to_port))
    };
    assert_eq!(by(&routes, 2), [false, true]);
    assert_eq!(by(&routes, 3), [true, false]);
    // `from` is the source of the answer: the destination of the packet.
    let from = Rule { from: Some(net("203.0.113.0/24")), ..Rule::new(50, Action::Table(10)) };
    routes.add_rule(from).expect("room");
    assert_eq!(by(&routes, 3), [false, true]);
    let blackhole = Rule { to: Some(net("198.51.100.0/24")), ..Rule::new(1, Action::Blackhole) };
    routes.add_rule(blackhole).expect("room");
    assert_eq!(by(&routes, 3), [false; 2]);
    let ends = (ip("198.51.100.1"), ip(DST));
    assert!(
        !routes.passes(Loose, (0, Vrf::NONE), ends, 3)
            && routes.passes(Off, (0, Vrf::NONE), ends, 3)
    );
    // For the host: the table that a rule may select for the answers of some user.
    let ends = (ip("10.9.0.1"), ip("192.0.2.9"));
    assert!(!routes.passes_to_host(Strict, (1, Vrf::NONE), ends));
    let marked = Rule { mark: Some((1, 1)), ..Rule::new(60, Action::Table(11)) };
    routes.add_rule(marked).expect("room");
    assert!(routes.passes_to_host(Strict, (1, Vrf::NONE), ends));
}

/// Forwarded packets belong to no user and skip restricted routes. The host's own packets belong to
/// some user.
#[test]
fn routes_that_are_not_for_all_are_judged_by_whose_the_answers_are() {
    let staff = Some(Arc::new(Access::Include([7].into())));
    let routes = routes(&[
        Route { access: staff, ..route("10.1.0.0/16", 1) },
        Route { no_forward: true, ..route("10.2.0.0/16", 1) },
        route("10.0.0.0/8", 0),
    ]);
    let [forwarded, by_fib, to_host] = passes(&routes, Strict, "10.1.0.1");
    assert_eq!(forwarded, [true, false, false]);
    assert_eq!(by_fib, [false; 3], "the FIB decides about a restricted route");
    assert_eq!(to_host, [true, true, false]);
    let [forwarded, _, to_host] = passes(&routes, Strict, "10.2.0.1");
    assert_eq!((forwarded, to_host), ([true, false, false], [false, true, false]));
    let user = Owner { uid: 1, groups: [7].into() };
    let sender = Sender::Socket { owner: &user, by: Selector::default() };
    let hop = routes.lookup(ip("10.1.0.1"), None, sender).expect("a route");
    assert_eq!(hop.port, 1, "the answer of that user leaves by another port");
}
