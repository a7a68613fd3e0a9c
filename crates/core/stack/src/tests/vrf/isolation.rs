//! Forwarding in VRFs with the same networks: packets stay in their VRF, and so do answers and
//! errors of the router.

use base::{Counter, DropReason};
use inet::RouteOrigin;
use inet::route::{Action, MAIN_TABLE, Rule, SourceCheck};

use super::*;
use crate::{FibQuery, FibResult};

/// Hosts with the same addresses in two VRFs each reach the host of their own VRF.
#[test]
fn the_same_networks_in_two_vrfs_do_not_meet() {
    for in_bursts in [true, false] {
        let mut world = World::new(in_bursts);
        for id in 0..PORTS.len() {
            assert!(world.router.set_source_check(port(id), SourceCheck::Strict));
        }
        let [from_blue, from_red] = [BLUE_LAN, RED_LAN].map(|host| world.udp(host, "0.0.0.0:9"));
        let [to_blue, to_red] = [BLUE_UP, RED_UP].map(|host| world.udp(host, "0.0.0.0:7"));
        for round in 0..12 {
            for (host, socket, name) in [(BLUE_LAN, from_blue, "blue"), (RED_LAN, from_red, "red")]
            {
                let text = format!("{name} {round}");
                let now = world.now;
                let host = &mut world.hosts[host];
                host.udp_send(socket, at("10.1.0.9:7"), text.as_bytes(), now).expect("sent");
            }
            world.run();
        }
        for (host, socket, name) in [(BLUE_UP, to_blue, "blue"), (RED_UP, to_red, "red")] {
            let got = world.received(host, socket);
            let expected: Vec<_> =
                (0..12).map(|n| (at("10.0.0.9:9"), format!("{name} {n}"))).collect();
            assert_eq!(got, expected, "in bursts: {in_bursts}");
        }
        let fast = world.router.counters().of(Counter::ForwardedInBursts);
        assert_eq!(fast >= 20, in_bursts, "{fast} in bursts");
        assert_eq!(world.router.drops().total(), 0);
    }
}

/// The router answers at its addresses in each VRF, by any port of it; another VRF's addresses are
/// not its own there.
#[test]
fn the_router_has_its_addresses_once_in_each_vrf() {
    let mut world = World::new(true);
    for host in [BLUE_LAN, RED_LAN, BLUE_UP, RED_UP] {
        for own in ["10.0.0.1", "10.1.0.1"] {
            assert_eq!(world.ping(host, own), Some((ip(own), false)), "from host {host}");
        }
        // It is an address of the router outside, but here nobody has a route to it.
        let gateway = ip(PORTS[host].1.split('/').next().unwrap_or_default());
        assert_eq!(world.ping(host, "192.0.2.1"), Some((gateway, true)));
    }
    assert_eq!(world.ping(MAIN, "10.0.0.1"), Some((ip("192.0.2.1"), true)));
    assert_eq!(world.router.drops().of(DropReason::IpNoRoute), 5);
}

/// The main table has a default route; packets of a VRF without a route do not take it. Rules from
/// priority 1000 on do not concern them, earlier ones do.
#[test]
fn a_vrf_never_falls_through_to_the_main_table() {
    for in_bursts in [true, false] {
        let mut world = World::new(in_bursts);
        let all = "0.0.0.0/0".parse().expect("a network");
        assert!(world.router.add_route(Route::new(all, Some(ip("192.0.2.9")), MAIN as u16)));
        let socket = world.udp(MAIN, "0.0.0.0:7");
        // The host at the main port takes the packets for its own.
        let own = "203.0.113.9/32".parse().expect("an address");
        let id = world.hosts[MAIN].port_ids()[0];
        world.hosts[MAIN].add_address(id, crate::Address::fixed(own)).expect("room");
        let from = world.udp(BLUE_LAN, "0.0.0.0:9");
        let send = |world: &mut World| {
            let now = world.now;
            let sent = world.hosts[BLUE_LAN].udp_send(from, at("203.0.113.9:7"), b"x", now);
            sent.expect("sent");
            world.run();
            world.received(MAIN, socket).len()
        };
        assert_eq!(send(&mut world), 0);
        let late = Rule { in_port: Some(BLUE_LAN as u16), ..Rule::new(1_000, MAIN_ACTION) };
        world.router.add_rule(late).expect("room");
        assert_eq!(send(&mut world), 0);
        world.router.remove_rule(&late);
        world.router.add_rule(Rule { priority: 999, ..late }).expect("room");
        assert_eq!(send(&mut world), 1);
    }
}

const MAIN_ACTION: Action = Action::Table(MAIN_TABLE);

/// The routes of a port follow it into a VRF and out of it; those that the program set stay.
#[test]
fn routes_move_with_their_port() {
    let mut world = World::new(true);
    let table_of = |world: &World, dest: &str, origin| {
        let dest = dest.parse().expect("a network");
        let tables = [MAIN_TABLE, 10, 20, 30];
        tables.into_iter().find(|&table| {
            let there = world.router.routes_to(dest, table);
            there.iter().any(|r| r.origin == origin && r.port == MAIN as u16)
        })
    };
    let set = "198.51.100.0/24".parse().expect("a network");
    let learnt = "0.0.0.0/0".parse().expect("a network");
    let via = Some(ip("192.0.2.9"));
    assert!(world.router.add_route(Route::new(set, via, MAIN as u16)));
    let dhcp = Route::new(learnt, via, MAIN as u16).with_origin(RouteOrigin::Dhcp);
    assert!(world.router.add_route(dhcp.clone()));
    for table in [30, MAIN_TABLE, 30] {
        assert!(world.router.set_vrf(port(MAIN), Vrf::of_table(table).unwrap_or_default()));
        let connected = table_of(&world, "192.0.2.0/24", RouteOrigin::Connected);
        assert_eq!(connected, Some(table));
        assert_eq!(table_of(&world, "0.0.0.0/0", RouteOrigin::Dhcp), Some(table));
        assert_eq!(table_of(&world, "198.51.100.0/24", RouteOrigin::Static), Some(MAIN_TABLE));
    }
    // What is learnt, or added, later is in the VRF at once, and can be taken back.
    assert!(world.router.remove_one_route(&dhcp));
    assert!(world.router.add_route(dhcp.clone()));
    assert_eq!(table_of(&world, "0.0.0.0/0", RouteOrigin::Dhcp), Some(30));
    let other = "192.0.3.1/24".parse().expect("a network");
    world.router.add_address(port(MAIN), crate::Address::fixed(other)).expect("room");
    assert_eq!(table_of(&world, "192.0.3.0/24", RouteOrigin::Connected), Some(30));
    assert!(world.router.remove_address(port(MAIN), ip("192.0.3.1")));
    assert_eq!(table_of(&world, "192.0.3.0/24", RouteOrigin::Connected), None);
    assert!(!world.router.set_vrf(PortId(77), vrf(30)), "no such port");
}

/// A lookup says what happens to a packet of a VRF.
#[test]
fn lookups_are_those_of_packets() {
    let world = World::new(true);
    let query = |dst: &str, vrf, input: Option<usize>| FibQuery {
        dst: ip(dst),
        src: None,
        output: None,
        input: input.map(port),
        owner: Owner::program(),
        mark: 0,
        vrf,
    };
    let leaves = |query: &FibQuery| match world.router.fib_lookup(query) {
        FibResult::Leaves(found) => Some((found.table, usize::from(found.hop.port), found.source)),
        FibResult::Local(port) => Some((0, usize::from(port.0), None)),
        FibResult::Dropped(..) => None,
    };
    let [near, far] = ["10.0.0.1", "10.1.0.1"].map(|addr| Some(ip(addr)));
    for (table, lan, up) in [(10, BLUE_LAN, BLUE_UP), (20, RED_LAN, RED_UP)] {
        assert_eq!(leaves(&query("10.0.0.5", vrf(table), None)), Some((table, lan, near)));
        assert_eq!(leaves(&query("10.1.0.5", vrf(table), None)), Some((table, up, far)));
        // The port by which a packet came says more than the VRF of the question.
        assert_eq!(leaves(&query("10.1.0.5", Vrf::NONE, Some(lan))), Some((table, up, far)));
        assert_eq!(leaves(&query("10.1.0.1", vrf(table), None)), Some((0, up, None)));
        assert_eq!(leaves(&query("192.0.2.9", vrf(table), None)), None);
    }
    assert_eq!(leaves(&query("10.0.0.5", Vrf::NONE, None)), None);
    let main = Some((MAIN_TABLE, MAIN, Some(ip("192.0.2.1"))));
    assert_eq!(leaves(&query("192.0.2.9", Vrf::NONE, None)), main);
}

/// One VRF's broadcast address is a host's in another, whose network is larger.
#[test]
fn broadcast_addresses_are_those_of_the_vrf() {
    let mut world = World::new(true);
    let wide = "10.0.0.1/16".parse().expect("a network");
    assert!(world.router.remove_address(port(RED_LAN), ip("10.0.0.1")));
    world.router.add_address(port(RED_LAN), crate::Address::fixed(wide)).expect("room");
    let id = world.hosts[RED_LAN].port_ids()[0];
    let host = "10.0.0.255/16".parse().expect("an address");
    assert!(world.hosts[RED_LAN].remove_address(id, ip("10.0.0.9")));
    world.hosts[RED_LAN].add_address(id, crate::Address::fixed(host)).expect("room");
    assert_eq!(world.ping(RED_LAN, "10.0.0.1"), Some((ip("10.0.0.1"), false)));
    assert_eq!(world.ping(RED_UP, "10.0.0.255"), Some((ip("10.0.0.255"), false)));
    // In blue it is the directed broadcast of a network, which is not forwarded.
    assert_eq!(world.ping(BLUE_UP, "10.0.0.255"), None);
    assert_eq!(world.router.drops().of(DropReason::IpDirectedBroadcast), 1);
}
