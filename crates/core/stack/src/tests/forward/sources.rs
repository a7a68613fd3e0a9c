//! Source checks (RFC 3704), packet by packet and in bursts, for packets to the router too.

use base::Switch;
use inet::Route;
use inet::route::SourceCheck;

use super::*;
use crate::tests::craft;

const GATEWAY: &str = "192.0.2.254";

fn router(check: SourceCheck, in_bursts: bool) -> Router {
    let mut router = Router::new(1_500);
    router.stack.set_switch(Switch::ForwardBurst, in_bursts);
    assert_eq!(router.stack.source_check(PortId(0)), Some(SourceCheck::Off));
    assert!(router.stack.set_source_check(PortId(0), check));
    assert!(!router.stack.set_source_check(PortId(9), check));
    router
}

/// How many of three packets reached port 1, and how many the check dropped.
fn cross(router: &mut Router, src: &str, dst: &str) -> (usize, u64) {
    let before = router.drops(DropReason::IpSourceCheck);
    let out: usize = (0..3)
        .map(|_| {
            let [back, out] = router.exchange(&frame(src, dst, 9, b"x"));
            assert!(back.is_empty(), "{src} got an answer");
            out.len()
        })
        .sum();
    (out, router.drops(DropReason::IpSourceCheck) - before)
}

#[test]
fn what_comes_by_a_port_is_from_behind_it() {
    for in_bursts in [false, true] {
        for (check, known, unknown) in [
            (SourceCheck::Strict, (0, 3), (0, 3)),
            (SourceCheck::Loose, (3, 0), (0, 3)),
            (SourceCheck::Off, (3, 0), (3, 0)),
        ] {
            let mut router = router(check, in_bursts);
            let beyond = Route::new("10.0.0.0/8".parse().expect("it"), Some(ip(B)), 1);
            router.stack.add_route(beyond);
            for (src, dst) in [(A, B), (A6, B6)] {
                assert_eq!(cross(&mut router, src, dst), (3, 0));
            }
            // From hosts at the other port.
            assert_eq!(cross(&mut router, "198.51.100.7", B), known);
            assert_eq!(cross(&mut router, "10.1.2.3", B), known);
            assert_eq!(cross(&mut router, "2001:db8:2::7", B6), known);
            // From a source without a route; later there is a route by the port that the packet
            // arrived by.
            assert_eq!(cross(&mut router, "203.0.113.5", B), unknown);
            let all = Route::new("0.0.0.0/0".parse().expect("it"), Some(ip(GATEWAY)), 0);
            router.stack.add_route(all);
            assert_eq!(cross(&mut router, "203.0.113.5", B), (3, 0));
            assert_eq!(
                cross(&mut router, "10.1.2.3", B),
                known,
                "the check ignored a longer prefix by another port"
            );
            let in_bursts_of = router.stack.counters().of(Counter::ForwardedInBursts);
            assert_eq!(in_bursts_of > 0, in_bursts);
        }
    }
}

/// No error about used-up hops or a missing route goes to a source that fails the check, since it
/// did not send the packet.
#[test]
fn nothing_is_reported_to_a_forged_source() {
    let mut router = router(SourceCheck::Strict, true);
    for (src, dst, ttl) in [("198.51.100.7", B, 1), ("198.51.100.7", "203.0.113.5", 9)] {
        assert!(router.exchange(&frame(src, dst, ttl, b"x")).iter().all(Vec::is_empty));
    }
    assert_eq!(router.drops(DropReason::IpSourceCheck), 2);
    router.stack.set_source_check(PortId(0), SourceCheck::Off);
    let [_, out] = router.exchange(&frame("198.51.100.7", B, 1, b"x"));
    assert_eq!(out.len(), 1, "no error was sent");
}

/// Addresses that are never a valid source, at any port and with every check.
#[test]
fn a_broadcast_of_any_port_and_the_destination_itself_are_no_sources() {
    for in_bursts in [false, true] {
        let mut router = router(SourceCheck::Off, in_bursts);
        let mut sent = 0;
        for (src, dst) in [
            ("198.51.100.255", B),
            ("198.51.100.0", B),
            ("192.0.2.255", B),
            (B, B),
            (B6, B6),
            ("198.51.100.255", "192.0.2.1"),
            ("198.51.100.255", "198.51.100.1"),
        ] {
            let frames = router.exchange(&frame(src, dst, 9, b"x"));
            assert!(frames.iter().all(Vec::is_empty), "{src} to {dst}");
            sent += 1;
            assert_eq!(router.drops(DropReason::IpMartianSource), sent, "{src} to {dst}");
        }
        // With another prefix length of the port's address, this source is no longer a broadcast
        // address.
        router.stack.remove_address(PortId(1), ip("198.51.100.1"));
        let wider = inet::Address::fixed("198.51.100.1/16".parse().expect("an address"));
        router.stack.add_address(PortId(1), wider).expect("room");
        let [_, out] = router.exchange(&frame("198.51.100.255", B, 9, b"x"));
        assert_eq!(out.len(), 1);
    }
}

/// An echo request to an address of the router arrives by one of its ports.
fn echo(router: &mut Router, src: &str, dst: &str) -> usize {
    let v4 = ip(src).is_ipv4();
    let (protocol, mut message) = match v4 {
        true => (1, [8, 0, 0xf7, 0xfe, 0, 1, 0, 0]),
        false => (58, [128, 0, 0, 0, 0, 1, 0, 0]),
    };
    if !v4 {
        let sum = craft::transport_sum(ip(src), ip(dst), 58, &message);
        message[2..4].copy_from_slice(&sum.field());
    }
    let mut request = craft::frame_between(ip(src), ip(dst), protocol, &message);
    request[..12].copy_from_slice(&[MACS[0].0, HOSTS[0].0].concat());
    router.exchange(&request).iter().map(Vec::len).sum()
}

#[test]
fn who_speaks_to_the_router_itself_is_checked_too() {
    let link_local = inet::Address::fixed("fe80::1/64".parse().expect("an address"));
    for (check, forged) in [(SourceCheck::Strict, 0), (SourceCheck::Off, 1)] {
        let mut router = router(check, true);
        router.stack.add_address(PortId(0), link_local).expect("room");
        router.stack.add_neighbour(PortId(0), ip("fe80::9"), HOSTS[0]);
        router.stack.add_neighbour(PortId(1), ip("198.51.100.7"), HOSTS[1]);
        for dst in ["192.0.2.1", "198.51.100.1"] {
            assert_eq!(echo(&mut router, A, dst), 1);
            assert_eq!(echo(&mut router, "198.51.100.7", dst), forged, "{dst}");
        }
        assert_eq!(echo(&mut router, A6, "2001:db8:1::1"), 1);
        assert_eq!(echo(&mut router, "fe80::9", "fe80::1"), 1, "a link-local source was refused");
        assert_eq!(router.drops(DropReason::IpSourceCheck), 2 - 2 * forged as u64);
    }
}

/// 240.0.0.0/4 is treated as unicast: as a destination with an explicit route, and as a source.
#[test]
fn class_e_is_forwarded_as_any_other() {
    for in_bursts in [false, true] {
        let mut router = router(SourceCheck::Strict, in_bursts);
        router.stack.add_route(Route::new("240.0.0.0/4".parse().expect("it"), Some(ip(B)), 1));
        assert_eq!(cross(&mut router, A, "240.1.2.3"), (3, 0));
        assert_eq!(cross(&mut router, "240.1.2.3", B), (0, 3), "a source of the other port passed");
        router.stack.set_source_check(PortId(0), SourceCheck::Off);
        assert_eq!(cross(&mut router, "240.1.2.3", B), (3, 0));
        assert_eq!(cross(&mut router, A, "255.255.255.255"), (0, 0));
    }
}

/// RFC 4291 2.6.1-a: the network's own address (subnet-router anycast) belongs to each router of
/// the network.
#[test]
fn the_subnet_router_anycast_address_answers() {
    let mut router = router(SourceCheck::Off, true);
    for (dst, from) in [("2001:db8:1::", "2001:db8:1::1"), ("2001:db8:2::", "2001:db8:2::1")] {
        let request = [128, 0, 0, 0, 0, 1, 0, 0];
        let sum = craft::transport_sum(ip(A6), ip(dst), 58, &request);
        let mut message = request;
        message[2..4].copy_from_slice(&sum.field());
        let mut request = craft::frame_between(ip(A6), ip(dst), 58, &message);
        request[..12].copy_from_slice(&[MACS[0].0, HOSTS[0].0].concat());
        let [back, out] = router.exchange(&request);
        assert_eq!((back.len(), out.len()), (1, 0), "{dst}");
        let (reply, _) = ipv6_any(&back[0][14..]).expect("sound");
        assert_eq!(
            (reply.src(), back[0][54]),
            (ip(from), 129),
            "the answer is not from a unicast address"
        );
    }
    // A neighbour solicits the anycast address; the router's advertisement does not set the
    // override flag, so that the neighbour may prefer another router.
    let IpAddr::V6(anycast) = ip("2001:db8:1::") else { unreachable!() };
    let IpAddr::V6(asker) = ip(A6) else { unreachable!() };
    let group = inet::nd::solicited_node(anycast);
    let mut bytes = [0; wire::nd::LEN_MAX];
    let len = inet::nd::solicitation(&mut bytes, HOSTS[0], asker, group, anycast).expect("room");
    let mut asks = craft::frame_between(asker.into(), group.into(), 58, &bytes[..len]);
    asks[..12].copy_from_slice(&[[0x33, 0x33, 0xff, 0, 0, 0], HOSTS[0].0].concat());
    asks[14 + 7] = 255;
    let [back, _] = router.exchange(&asks);
    let (answer, _) = ipv6_any(&back[0][14..]).expect("sound");
    let said = wire::nd::Header::parse(&back[0][54..]).expect("an advertisement");
    assert_eq!((answer.src(), said.target), (ip("2001:db8:1::1"), anycast));
    assert!(matches!(said.kind, wire::nd::Kind::Advertisement { overrides: false, .. }));
    // An anycast address belongs to several routers, and a TCP connection needs one end: the SYN is
    // dropped, as on Linux.
    let syn = craft::frame_between(asker.into(), anycast.into(), 6, &[0; 20]);
    let mut syn = [&MACS[0].0[..], &HOSTS[0].0, &syn[12..]].concat();
    syn[54 + 12] = 0x50;
    let before = router.stack.drops().total();
    assert!(router.exchange(&syn).iter().all(Vec::is_empty));
    assert_eq!(router.stack.drops().total(), before + 1);
    // A host (no forwarding) does not have the anycast address.
    router.stack.set_forwarding(false);
    assert!(router.exchange(&asks).iter().all(Vec::is_empty));
}

/// RFC 4443 3.1-c.
#[test]
fn a_link_local_source_that_would_leave_its_link_hears_of_it() {
    let mut router = router(SourceCheck::Strict, true);
    let ours = inet::Address::fixed("fe80::1/64".parse().expect("an address"));
    router.stack.add_address(PortId(0), ours).expect("room");
    router.stack.add_address(PortId(1), ours).expect("room");
    router.stack.add_neighbour(PortId(0), ip("fe80::9"), HOSTS[0]);
    let [back, out] = router.exchange(&frame("fe80::9", B6, 9, b"x"));
    assert_eq!((back.len(), out.len()), (1, 0));
    let (answer, _) = ipv6_any(&back[0][14..]).expect("sound");
    assert_eq!((answer.src(), answer.dst()), (ip("fe80::1"), ip("fe80::9")));
    assert_eq!(back[0][54..56], [1, 2], "the error is not \"beyond scope of source address\"");
    assert_eq!(router.drops(DropReason::IpLinkLocal), 1);
    // No such error is sent about packets that stay on the link, nor in IPv4, which does not have
    // it.
    for (src, dst) in [("fe80::9", "fe80::77"), ("169.254.1.1", B), (A6, "fe80::77")] {
        assert!(router.exchange(&frame(src, dst, 9, b"x")).iter().all(Vec::is_empty), "{src}");
    }
}
