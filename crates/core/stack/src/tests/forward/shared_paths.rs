//! Networks with several next hops of equal cost (ECMP): an ICMP error, forwarded or the router's
//! own, takes the next hop of the flow that it is about. RFC 7690.

use base::Switch;
use core::num::NonZeroU8;
use inet::Route;

use super::*;
use crate::tests::craft;

/// A router with two gateways to the servers, at port 1.
fn router(in_bursts: bool) -> Router {
    let mut router = Router::new(1_500);
    router.stack.set_switch(Switch::ForwardBurst, in_bursts);
    for (to, gateways) in [
        ("203.0.113.0/24", ["198.51.100.10", "198.51.100.11"]),
        ("2001:db8:f::/48", ["2001:db8:2::10", "2001:db8:2::11"]),
    ] {
        for (n, gateway) in gateways.into_iter().enumerate() {
            let route = Route::new(to.parse().expect("a network"), Some(ip(gateway)), 1);
            router.stack.add_route(route.shared(NonZeroU8::MIN));
            let mac = MacAddr([2, 0, 0, 0, 9, n as u8]);
            router.stack.add_neighbour(PortId(1), ip(gateway), mac);
        }
    }
    router
}

/// The gateway that forwarded frames went to: the destination MAC address of what leaves by port 1
/// after a frame to port 0.
fn gateway(router: &mut Router, frame: &[u8]) -> MacAddr {
    let [_, out] = router.exchange(frame);
    assert_eq!(out.len(), 1);
    link(&out[0]).1
}

fn packet(src: &str, dst: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = craft::frame_between(ip(src), ip(dst), protocol, payload);
    frame[..12].copy_from_slice(&[MACS[0].0, HOSTS[0].0].concat());
    frame
}

/// An error about a packet from the server to the client, from a router between them.
fn error_about(from: &str, server: &str, client: &str) -> Vec<u8> {
    let quoted = &packet(server, client, 6, &[0; 20])[14..];
    let (protocol, kind) = if ip(server).is_ipv4() { (1, 3) } else { (58, 2) };
    packet(from, server, protocol, &[&[kind, 4, 0, 0, 0, 0, 5, 120], quoted].concat())
}

#[test]
fn an_error_takes_the_next_hop_of_its_flow() {
    for in_bursts in [false, true] {
        let mut router = router(in_bursts);
        let mut used = std::collections::BTreeSet::new();
        for n in 1..100 {
            for (client, server, between) in [
                (format!("192.0.2.{}", 100 + n), "203.0.113.80", "192.0.2.77"),
                (format!("2001:db8:1::{n:x}:{n}"), "2001:db8:f::80", "2001:db8:1::77"),
            ] {
                let flow = packet(&client, server, 6, &[0; 20]);
                let way = gateway(&mut router, &flow);
                used.insert(way.0);
                let error = error_about(between, server, &client);
                assert_eq!(gateway(&mut router, &error), way, "{client}");
                // Both arrive in one burst, one after the other, with other packets between them.
                let other = error_about(between, server, between);
                let of_other = gateway(&mut router, &other);
                for frame in [&flow, &error, &other, &error, &flow] {
                    let m = router.pool.copy_of(frame).expect("room");
                    router.offer(m);
                }
                let [_, out] = router.sent(NOW);
                let ways: Vec<MacAddr> = out.iter().map(|frame| link(frame).1).collect();
                assert_eq!(ways, [way, way, of_other, way, way]);
            }
        }
        assert_eq!(used.len(), 2, "all flows took one gateway");
        let count = router.stack.counters().of(Counter::ForwardedInBursts);
        assert_eq!(count > 0, in_bursts);
    }
}

/// The router's own error to a server takes the next hop of packets from the client to the server.
#[test]
fn an_error_of_our_own_takes_the_next_hop_of_its_flow_too() {
    let mut router = router(true);
    router.stack.set_redirects(false);
    for n in 1..60 {
        for (server, client) in
            [(format!("203.0.113.{n}"), "192.0.2.5"), (format!("2001:db8:f::{n}"), "2001:db8:1::5")]
        {
            let way = gateway(&mut router, &packet(client, &server, 6, &[0; 20]));
            // A packet "from the server" whose hops are used up. It arrived by the wrong port, but
            // has the server's address as its source.
            let mut spent = packet(&server, client, 6, &[0; 20]);
            let hops_at = if ip(client).is_ipv4() { 14 + 8 } else { 14 + 7 };
            spent[hops_at] = 1;
            if ip(client).is_ipv4() {
                craft::number(&mut spent, 1);
            }
            assert_eq!(gateway(&mut router, &spent), way, "{server}");
        }
    }
}
