//! Routes of ports whose links go down and come up.

use super::*;

fn gateway(via: &str, port: u16, metric: u32) -> Route {
    Route { metric, ..route("10.0.0.0/8", via, port) }
}

fn to(routes: &Routes) -> Option<(u16, IpAddr)> {
    hop(routes, "10.0.0.1", MAIN_TABLE)
}

fn ports_of_flows(routes: &Routes) -> [usize; 3] {
    let dst = "10.0.0.1".parse().expect("an address");
    let view = routes.view();
    let group = view.lookup(dst, MAIN_TABLE);
    let mut counts = [0; 3];
    for flow in 0..3_000_u32 {
        let hop = view.next_hop(group, dst, flow.wrapping_mul(0x0101_0101));
        counts[usize::from(hop.expect("a next hop").port)] += 1;
    }
    counts
}

#[test]
fn a_route_of_a_link_that_is_down_waits_and_the_next_metric_takes_over() {
    let mut routes = Routes::default();
    assert!(routes.add(route("0.0.0.0/0", "192.0.2.254", 0)));
    assert!(routes.add(gateway("192.0.2.1", 1, 0)));
    assert!(routes.add(gateway("192.0.2.2", 2, 10)));
    let ports = |routes: &Routes| to(routes).map(|(port, _)| port);
    assert_eq!(ports(&routes), Some(1));
    assert!(routes.set_link(1, false) && routes.is_down(1));
    assert_eq!((ports(&routes), routes.len()), (Some(2), 3));
    let found = routes.route_for("10.0.0.1".parse().expect("an address"), None, Sender::Program);
    assert_eq!(found.map(|route| route.port), Ok(2));
    // Then the shorter prefix is used, then no route.
    assert!(routes.set_link(2, false));
    assert_eq!(ports(&routes), Some(0));
    assert!(routes.set_link(0, false));
    assert_eq!((ports(&routes), routes.len()), (None, 3));
    // A state that the link already has changes nothing.
    assert!(!routes.set_link(0, false));
    for port in [0, 1, 2] {
        assert!(routes.set_link(port, true));
    }
    assert_eq!(ports(&routes), Some(1));
}

#[test]
fn a_route_that_comes_while_its_link_is_down_is_used_when_it_is_up() {
    let mut routes = Routes::default();
    assert!(routes.set_link(1, false));
    assert!(routes.add(gateway("192.0.2.1", 1, 0)));
    assert_eq!((to(&routes), routes.len()), (None, 1));
    assert!(routes.set_link(1, true));
    assert_eq!(to(&routes).map(|(port, _)| port), Some(1));
    // The number of a port that was removed may be given to another.
    assert!(routes.set_link(1, false));
    routes.forget_port(1);
    assert!(routes.is_empty() && !routes.is_down(1));
    assert!(routes.add(gateway("192.0.2.1", 1, 0)));
    assert_eq!(to(&routes).map(|(port, _)| port), Some(1));
}

#[test]
fn of_routes_that_share_one_whose_link_is_down_loses_its_part_alone() {
    let mut routes = Routes::default();
    for port in 0..3 {
        let via = format!("192.0.2.{port}");
        assert!(routes.add(gateway(&via, port, 0).shared(weight(1))));
    }
    let all = ports_of_flows(&routes);
    assert!(all.iter().all(|&count| (800..1_200).contains(&count)), "{all:?}");
    assert!(routes.set_link(1, false));
    let without = ports_of_flows(&routes);
    assert!(without[1] == 0 && without[0] >= all[0] && without[2] >= all[2], "{without:?}");
    assert!(routes.set_link(1, true));
    let back = ports_of_flows(&routes);
    assert!(back.iter().all(|&count| (800..1_200).contains(&count)), "{back:?}");
    // When all links of these are down, a route of a higher metric is used.
    assert!(routes.add(gateway("192.0.2.9", 9, 5)));
    for port in 0..3 {
        assert!(routes.set_link(port, false));
    }
    assert_eq!(to(&routes).map(|(port, _)| port), Some(9));
    routes.remove(|_| true);
    let left = format!("{routes:?}");
    assert!(left.contains("nodes: 0, lone_prefixes: 0, groups: 0, retired: 0"), "{left}");
}
