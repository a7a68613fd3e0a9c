//! Routes that drop their packets, and routes of several origins to one prefix.

use super::*;
use crate::Vrf;

fn dst(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn a_lookup_ends_at_a_route_that_drops_in_the_main_table_and_in_others() {
    let mut routes = Routes::default();
    let net = |text: &str| text.parse::<Cidr>().expect("a prefix");
    assert!(routes.add(route("0.0.0.0/0", "192.0.2.1", 0)));
    for (network, how) in ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"].into_iter().zip([
        Discard::Blackhole,
        Discard::Unreachable,
        Discard::Prohibit,
    ]) {
        assert!(routes.add(Route::discarding(net(network), how)));
        let to = net(network).addr;
        let found = routes.lookup(to, None, Sender::Program);
        assert_eq!(found, Err(how.into()));
        let route = routes.route_for(to, None, Sender::Program).expect("it is a route");
        assert_eq!((route.discard, route.port), (Some(how), NO_PORT));
        let view = routes.view();
        assert_eq!(view.next_hop(view.lookup(to, MAIN_TABLE), to, 0), None);
    }
    // A table that a rule selects: the main table is not asked.
    let table = Route { table: 7, ..Route::discarding(net("0.0.0.0/0"), Discard::Prohibit) };
    assert!(routes.add(table.clone()));
    routes.add_rule(Rule::new(5, Action::Table(7))).expect("new");
    let found = |routes: &Routes| routes.lookup(dst("10.9.9.9"), None, Sender::Program);
    assert_eq!(found(&routes), Err(NoRoute::Prohibit));
    assert_eq!(routes.remove_exact(table.dest, 7, |_| true), 1);
    assert!(found(&routes).is_ok());
    // Some users may not use it: the RIB is asked.
    let access = Some(Arc::new(Access::Include([5].into())));
    assert!(routes.add(Route { access, ..table }));
    let user = base::Owner { uid: 1, groups: [5].into() };
    let sender = |owner| Sender::Socket { owner, by: Selector::default() };
    let of = |owner| routes.lookup(dst("10.9.9.9"), None, sender(owner));
    assert_eq!(of(&user), Err(NoRoute::Prohibit));
    assert!(of(&base::Owner { uid: 1, groups: [6].into() }).is_ok());
}

#[test]
fn a_source_behind_a_route_that_drops_passes_no_check() {
    let mut routes = Routes::default();
    assert!(routes.add(route("0.0.0.0/0", "192.0.2.1", 0)));
    let dest = "10.0.0.0/8".parse().expect("a prefix");
    let (src, to) = (dst("10.1.1.1"), dst("192.0.2.9"));
    let passes = |routes: &Routes, check| {
        let view = routes.view();
        let by_fib = view.passes(check, 0, view.lookup(src, MAIN_TABLE));
        let at = (0, Vrf::NONE);
        let to_host = routes.passes_to_host(check, at, (src, to));
        [routes.passes(check, at, (src, to), 1), by_fib, to_host]
    };
    for check in [SourceCheck::Loose, SourceCheck::Strict] {
        assert_eq!(passes(&routes, check), [true; 3]);
        routes.add(Route::discarding(dest, Discard::Blackhole));
        assert_eq!(passes(&routes, check), [false; 3], "{check}");
        routes.remove_exact(dest, MAIN_TABLE, |_| true);
    }
    routes.add(Route::discarding(dest, Discard::Blackhole));
    assert_eq!(passes(&routes, SourceCheck::Off), [true; 3]);
}

/// The metric decides, then the distance of the origin; routes of a daemon share packets only with
/// each other, and never replace another's.
#[test]
fn origins_have_distances_and_daemons_routes_of_their_own() {
    use RouteOrigin::{Advertised, Dhcp, Fpm, Static};
    let mut routes = Routes::default();
    let of = |origin, host: u8, metric| Route {
        metric,
        ..route("10.0.0.0/8", &format!("192.0.2.{host}"), host.into()).with_origin(origin)
    };
    let first = |routes: &Routes| hop(routes, "10.1.1.1", MAIN_TABLE).map(|(port, _)| port);
    for (origin, host) in [(Advertised, 4), (Dhcp, 3), (Fpm, 2), (Static, 1)] {
        assert!(routes.add(of(origin, host, 20)));
        assert_eq!(first(&routes), Some(host.into()), "{origin:?} wins over those before");
    }
    assert!(routes.add(of(Dhcp, 3, 10)), "in place of that with metric 20");
    assert_eq!((first(&routes), routes.len()), (Some(3), 4));
    let dest = "10.0.0.0/8".parse().expect("a prefix");
    routes.remove_exact(dest, MAIN_TABLE, |_| true);
    // The same gateway, with weights, of the file and of a daemon.
    for origin in [Static, Fpm] {
        assert!(routes.add(of(origin, 1, 20).shared(weight(1))));
        assert!(routes.add(of(origin, 2, 20).shared(weight(1))));
    }
    assert_eq!(routes.len(), 4);
    assert_eq!(next_hops(&routes).len(), next_hops(&routes).len());
    assert_eq!(routes.remove_exact(dest, MAIN_TABLE, |r| r.origin == Fpm), 2);
    assert_eq!(first(&routes).map(|port| port > 0), Some(true));
}
