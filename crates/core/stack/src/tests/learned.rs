//! Routes that a network offers and that are refused ("TunnelVision", CVE-2024-3661).

use base::{Cidr, Counter, IpVersion, Limit};
use inet::{Route, RouteOrigin};

use super::icmp::{NOW, bench};
use crate::{PortId, RouteRefusal};

/// The networks of the test are on port 0; routes are offered on this other port.
const OTHER: PortId = PortId(1);

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a network")
}

/// Routes that are refused for the networks that they overlap, by IP version.
const REFUSED_V4: &[&str] = &[
    "192.0.2.0/24",
    "192.0.2.0/25",
    "192.0.2.7/32",
    "192.0.0.0/16",
    "0.0.0.0/1",
    "128.0.0.0/1",
    "64.0.0.0/2",
    "0.0.0.0/8",
    "127.0.0.0/8",
    "127.1.0.0/16",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "239.1.2.3/32",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "10.77.0.0/16",
    "10.77.2.0/25",
    "10.0.0.0/8",
];
const REFUSED_V6: &[&str] = &[
    "2001:db8::/64",
    "2001:db8::/65",
    "2001:db8::/32",
    "::/1",
    "8000::/1",
    "2000::/3",
    "::1/128",
    "::ffff:0:0/96",
    "fe80::/64",
    "ff00::/8",
    "2001:db8:77::/48",
    "2001:db8:77:1::/64",
];
const TAKEN_V4: &[&str] = &["0.0.0.0/0", "10.78.0.0/16", "198.51.100.0/24", "192.0.3.0/24"];
const TAKEN_V6: &[&str] = &["::/0", "2001:db8:78::/48", "64:ff9b::/96", "fd00:1::/32"];

#[test]
fn a_learnt_route_touches_no_other_network_and_nothing_special() {
    for (version, refused, taken) in
        [(IpVersion::V4, REFUSED_V4, TAKEN_V4), (IpVersion::V6, REFUSED_V6, TAKEN_V6)]
    {
        let mut bench = bench(version);
        bench.stack.set_port_name(PortId(0), "lan");
        let via = Some(bench.theirs);
        let mine = if version == IpVersion::V4 { "10.77.0.0/16" } else { "2001:db8:77::/48" };
        assert!(bench.stack.add_route(Route::new(cidr(mine), via, 0)));
        for text in refused {
            for _ in 0..2 {
                let is_taken =
                    bench.stack.admits_route(OTHER, cidr(text), false, RouteOrigin::Dhcp);
                assert!(!is_taken, "{text}");
            }
            let told = bench.stack.take_refused_route().expect("told");
            assert_eq!((told.dest, told.port), (cidr(text), OTHER));
            assert_eq!(bench.stack.take_refused_route(), None, "the refusal was reported twice");
            let text = told.to_string();
            match &told.why {
                RouteRefusal::Touches { port, .. } => assert_eq!(port, "lan", "{text}"),
                why => assert_eq!(*why, RouteRefusal::Special, "{text}"),
            }
        }
        let count = bench.stack.counters().of(Counter::RoutesRefused);
        assert_eq!(count, refused.len() as u64);
        for text in taken {
            let is_taken = bench.stack.admits_route(OTHER, cidr(text), false, RouteOrigin::Dhcp);
            assert!(is_taken, "{text}");
        }
        // A port's own network may be divided by its routes, and a static route by the port itself
        // does not keep it from getting a network.
        let own = if version == IpVersion::V4 { "192.0.2.0/25" } else { "2001:db8::/65" };
        assert!(bench.stack.admits_route(PortId(0), cidr(own), false, RouteOrigin::Dhcp));
        assert!(bench.stack.admits_route(PortId(0), cidr(mine), true, RouteOrigin::Dhcp));
        assert!(!bench.stack.admits_route(PortId(0), cidr(mine), false, RouteOrigin::Dhcp));
        bench.poll(NOW);
    }
}

#[test]
fn refused_routes_are_remembered_within_their_limit() {
    let mut bench = bench(IpVersion::V4);
    for number in 0..=255 {
        let dest = cidr(&format!("127.0.{number}.0/24"));
        assert!(!bench.stack.admits_route(OTHER, dest, false, RouteOrigin::Dhcp));
    }
    let mut told = 0;
    while bench.stack.take_refused_route().is_some() {
        told += 1;
    }
    assert_eq!(told, bench.stack.budget().of(Limit::RefusedRoutes));
    assert!(bench.stack.budget().hits(Limit::RefusedRoutes) > 0);
}
