//! Leaks: routes from one VRF to ports of another.

use base::DropReason;
use inet::route::{MAIN_TABLE, SourceCheck};

use super::*;

/// Routes in the main table to VRF blue, and back.
fn leak(world: &mut World) {
    let net = |text: &str| text.parse().expect("a network");
    for (dest, table, to) in [
        ("10.0.0.0/24", MAIN_TABLE, BLUE_LAN),
        ("10.1.0.0/24", MAIN_TABLE, BLUE_UP),
        ("192.0.2.0/24", 10, MAIN),
    ] {
        let route = Route { table, ..Route::new(net(dest), None, to as u16) };
        assert!(world.router.add_route(route));
    }
}

#[test]
fn a_route_leads_from_one_vrf_to_another() {
    for in_bursts in [true, false] {
        let mut world = World::new(in_bursts);
        for id in 0..PORTS.len() {
            assert!(world.router.set_source_check(port(id), SourceCheck::Strict));
        }
        leak(&mut world);
        for _ in 0..4 {
            assert_eq!(world.ping(MAIN, "10.0.0.9"), Some((ip("10.0.0.9"), false)));
            assert_eq!(world.ping(BLUE_UP, "192.0.2.9"), Some((ip("192.0.2.9"), false)));
            // Red has no such route.
            assert_eq!(world.ping(RED_LAN, "192.0.2.9"), Some((ip("10.0.0.1"), true)));
        }
        // The broadcast address of the other VRF's network is one here too.
        assert_eq!(world.ping(MAIN, "10.0.0.255"), None);
        assert_eq!(world.router.drops().of(DropReason::IpDirectedBroadcast), 1);
    }
}

/// The router's own address in another VRF is reached by a route that leads there, and a socket of
/// that VRF answers.
#[test]
fn a_leak_leads_to_addresses_of_the_router_too() {
    let mut world = World::new(true);
    assert_eq!(world.ping(MAIN, "10.0.0.1"), Some((ip("192.0.2.1"), true)));
    leak(&mut world);
    assert_eq!(world.ping(MAIN, "10.0.0.1"), Some((ip("10.0.0.1"), false)));
    assert_eq!(world.ping(BLUE_LAN, "192.0.2.1"), Some((ip("192.0.2.1"), false)));

    let listen = crate::ListenConfig { ip: settings(10), ..crate::ListenConfig::default() };
    let listener = world.router.tcp_listen(at("10.0.0.1:80"), listen).expect("a listener");
    let (config, now) = (tcp::Config::default(), world.now);
    let host = &mut world.hosts[MAIN];
    let client = host.tcp_connect(at("10.0.0.1:80"), None, &config, Owner::program(), now);
    let client = client.expect("a connection");
    world.run();
    let server = world.router.tcp_accept(listener).expect("accepted");
    assert_eq!(world.router.tcp_ip(server).map(|ip| ip.vrf), Some(vrf(10)));
    world.hosts[MAIN].tcp_write(client, b"over there").expect("room");
    world.run();
    let mut bytes = [0; 16];
    assert_eq!(world.router.tcp_read(server, &mut bytes), Ok(10));
}

/// The router's own sockets send by a leak with an address of their VRF, and reach the router's
/// addresses there.
#[test]
fn own_sockets_send_by_leaks() {
    let mut world = World::new(true);
    leak(&mut world);
    let now = world.now;
    let from = world.router.udp_bind(at("0.0.0.0:9"), Owner::program()).expect("a socket");
    let there = world.udp(BLUE_LAN, "0.0.0.0:7");
    world.router.udp_send(from, at("10.0.0.9:7"), b"hello", now).expect("sent");
    world.run();
    assert_eq!(world.received(BLUE_LAN, there), [(at("192.0.2.1:9"), "hello".to_owned())]);
    let now = world.now;
    world.hosts[BLUE_LAN].udp_send(there, at("192.0.2.1:9"), b"back", now).expect("sent");
    world.run();
    assert_eq!(received(&mut world.router, from), [(at("10.0.0.9:7"), "back".to_owned())]);

    let own = world.router.udp_bind(at("10.0.0.1:53"), Owner::program()).expect("a socket");
    world.router.udp_ip_mut(own).expect("open").vrf = vrf(10);
    let now = world.now;
    world.router.udp_send(from, at("10.0.0.1:53"), b"self", now).expect("sent");
    world.run();
    assert_eq!(received(&mut world.router, own), [(at("192.0.2.1:9"), "self".to_owned())]);
    let now = world.now;
    world.router.udp_send(own, at("192.0.2.1:9"), b"yes", now).expect("sent");
    world.run();
    assert_eq!(received(&mut world.router, from), [(at("10.0.0.1:53"), "yes".to_owned())]);
}
