//! IPv4 by a next hop that has an IPv6 address: forwarded packets and our own. RFC 8950.

use core::net::{Ipv6Addr, SocketAddr};

use super::*;
use inet::Route;

const FAR: &str = "203.0.113.5";
const GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 5);

/// A router whose route to 203.0.113.0/24 leads over `port` by [`GATEWAY`].
fn routed(port: u16, in_bursts: bool) -> Router {
    let mut router = Router::new(1_500);
    router.stack.set_switch(base::Switch::ForwardBurst, in_bursts);
    let dest = "203.0.113.0/24".parse().expect("a network");
    assert!(router.stack.add_route(Route::new(dest, Some(GATEWAY.into()), port)));
    router
}

/// The gateway at port 1 advertises its link address.
fn advertise(router: &mut Router) -> Vec<Vec<u8>> {
    let ours: Ipv6Addr = "2001:db8:2::1".parse().expect("an address");
    let mut bytes = frame("fe80::5", "2001:db8:2::1", 255, &[0; 32]);
    ether::Header { dst: MACS[1], src: HOSTS[1], ethertype: ether::IPV6 }.emit(&mut bytes);
    bytes[20] = 58;
    let kind = wire::nd::Kind::Advertisement { router: true, solicited: true, overrides: true };
    let header = wire::nd::Header { kind, target: GATEWAY, link_addr: Some(HOSTS[1]) };
    assert_eq!(header.emit(&mut bytes[54..], GATEWAY, ours), Some(32));
    let [_, out] = router.exchange_at(1, &bytes);
    out
}

/// Neighbour discovery finds the gateway, and the packets stay IPv4.
/// RFC 8950 4-a.
#[test]
fn packets_wait_for_neighbour_discovery_and_leave_as_ipv4() {
    for in_bursts in [true, false] {
        let mut router = routed(1, in_bursts);
        let [back, out] = router.exchange(&frame(A, FAR, 9, b"hello"));
        assert!(back.is_empty() && out.len() == 1, "one solicitation");
        // Ethernet, IPv6, and the type of a neighbour solicitation.
        assert_eq!((&out[0][12..14], out[0][54]), (&[0x86, 0xdd][..], 135));
        let [mut sent, frames] = [advertise(&mut router), vec![frame(A, FAR, 9, b"hello"); 8]];
        assert_eq!(sent.len(), 1, "the packet that waited");
        for _ in 0..2 {
            let [_, out] = router.exchange_burst(0, &frames, NOW);
            sent.extend(out);
        }
        assert_eq!(sent.len(), 17);
        for frame in &sent {
            let header = ether::Header::parse(frame).expect("a frame");
            assert_eq!((header.dst, header.src), (HOSTS[1], MACS[1]));
            assert_eq!((header.ethertype, frame[22]), (ether::IPV4, 8));
        }
        let fast = router.stack.counters().of(Counter::ForwardedInBursts);
        assert_eq!(fast >= 14, in_bursts, "{fast} in bursts");
        assert_eq!(router.stack.drops().total(), 0);
    }
}

/// One neighbour is the next hop of both versions at once, in one burst too.
#[test]
fn both_versions_go_by_one_neighbour() {
    for in_bursts in [true, false] {
        let mut router = routed(1, in_bursts);
        let dest = "2001:db8:9::/48".parse().expect("a network");
        router.stack.add_route(Route::new(dest, Some(GATEWAY.into()), 1));
        assert!(router.stack.add_neighbour(PortId(1), GATEWAY.into(), HOSTS[1]));
        let frames: Vec<Vec<u8>> = (0..12)
            .map(|n| {
                if n % 3 == 0 {
                    frame(A6, "2001:db8:9::5", 9, b"x")
                } else {
                    frame(A, FAR, 9, b"x")
                }
            })
            .collect();
        for _ in 0..2 {
            let [_, out] = router.exchange_burst(0, &frames, NOW);
            assert_eq!(out.len(), frames.len());
            for (frame, sent) in frames.iter().zip(&out) {
                assert_eq!(frame[12..14], sent[12..14], "the type is that of the packet");
            }
        }
        let fast = router.stack.counters().of(Counter::ForwardedInBursts);
        assert_eq!(fast > 12, in_bursts, "{fast} in bursts");
    }
}

/// A gateway that does not answer: the source of a packet is told that the host is unreachable. No
/// redirect names a gateway of another version.
#[test]
fn the_source_is_told_of_a_silent_gateway_and_never_redirected_there() {
    let mut router = routed(1, true);
    assert_eq!(router.exchange(&frame(A, FAR, 9, b"hello"))[1].len(), 1);
    let mut told = Vec::new();
    for second in 1..9 {
        let [back, _] = router.sent(NOW + Duration::from_secs(second));
        told.extend(back);
    }
    assert_eq!(told.len(), 1);
    assert_eq!(error(&told[0], "192.0.2.1", A), ErrorKind::Unreachable(Unreachable::Host));
    assert_eq!(router.drops(DropReason::IpNoNeighbour), 1);

    let mut router = routed(0, true);
    assert!(router.stack.add_neighbour(PortId(0), GATEWAY.into(), HOSTS[1]));
    for _ in 0..3 {
        let [back, out] = router.exchange(&frame(A, FAR, 9, b"hello"));
        assert!(out.is_empty() && back.len() == 1);
        assert_eq!(back[0][12..14], [8, 0]);
    }
    assert_eq!(router.stack.counters().of(Counter::RedirectsOut), 0);
}

/// The route's MTU may be less than every IPv6 link carries; the source of a larger packet
/// gets an error.
#[test]
fn the_mtu_of_the_route_is_that_of_ipv4() {
    for in_bursts in [true, false] {
        let mut router = routed(1, in_bursts);
        let dest = "203.0.113.0/24".parse().expect("a network");
        let route = Route::new(dest, Some(GATEWAY.into()), 1);
        router.stack.add_route(Route { mtu: Mtu::new(600), ..route });
        assert!(router.stack.add_neighbour(PortId(1), GATEWAY.into(), HOSTS[1]));
        assert_eq!(router.stack.mtu_towards(SocketAddr::new(ip(FAR), 9)), Mtu::new(600));
        for (len, is_sent) in [(580, true), (581, false)] {
            let [back, out] = router.exchange(&frame(A, FAR, 9, &vec![7; len]));
            assert_eq!((out.len(), back.len()), (usize::from(is_sent), usize::from(!is_sent)));
        }
        assert_eq!(router.drops(DropReason::IpTooBig), 1);
    }
}

/// A router sends packets of its own with an address of another port if this one has none of IPv4.
#[test]
fn a_port_without_ipv4_borrows_an_address() {
    let mut router = routed(1, true);
    assert!(router.stack.remove_address(PortId(1), ip("198.51.100.1")));
    assert!(router.stack.add_neighbour(PortId(1), GATEWAY.into(), HOSTS[1]));
    let query = crate::FibQuery {
        dst: ip(FAR),
        src: None,
        output: None,
        input: None,
        owner: base::Owner::program(),
        mark: 0,
        vrf: inet::Vrf::NONE,
    };
    let source = |router: &Router| match router.stack.fib_lookup(&query) {
        crate::FibResult::Leaves(found) => found.source,
        other => panic!("{other:?}"),
    };
    assert_eq!(source(&router), Some(ip("192.0.2.1")));
    // A host accepts packets to an address at the address's own port only.
    router.stack.set_forwarding(false);
    assert_eq!(source(&router), None);
}

/// A connection of our own waits for neighbour discovery, and sends its SYN as IPv4. A gateway that
/// does not answer ends it.
#[test]
fn a_connection_of_our_own_goes_by_it() {
    for answers in [true, false] {
        let mut router = routed(1, true);
        let to = SocketAddr::new(ip(FAR), 80);
        let (config, owner) = (tcp::Config::default(), base::Owner::program());
        router.stack.poll(NOW);
        let handle = router.stack.tcp_connect(to, None, &config, owner, NOW).expect("a route");
        let [_, out] = router.sent(NOW);
        assert_eq!((out.len(), out[0][54]), (1, 135), "a neighbour solicitation");
        if answers {
            let sent = advertise(&mut router);
            let [sent] = &sent[..] else { panic!("one SYN: {sent:?}") };
            assert_eq!((&sent[12..14], sent[23], sent[47]), (&[8, 0][..], 6, 2));
            assert_eq!(sent[26..30], [198, 51, 100, 1]);
            continue;
        }
        for second in 1..9 {
            router.sent(NOW + Duration::from_secs(second));
        }
        let (_, error) = router.stack.tcp_state(handle).expect("the program has not closed it");
        assert_eq!(error, Some(tcp::Error::HostUnreachable));
    }
}

/// The MTU of a neighbour with an IPv6 address bounds the IPv4 packets that go by it.
#[test]
fn the_mtu_of_the_neighbour_holds_for_ipv4() {
    for in_bursts in [true, false] {
        let mut router = routed(1, in_bursts);
        assert!(router.stack.add_neighbour(PortId(1), GATEWAY.into(), HOSTS[1]));
        let mtu = Mtu::new(1_300);
        assert_eq!(router.stack.set_neighbour_mtu(PortId(1), GATEWAY.into(), mtu), Ok(()));
        for (len, is_sent) in [(1_280, true), (1_281, false), (1_280, true)] {
            let [back, out] = router.exchange(&frame(A, FAR, 9, &vec![7; len]));
            assert_eq!((out.len(), back.len()), (usize::from(is_sent), usize::from(!is_sent)));
        }
        assert_eq!(router.stack.mtu_towards(SocketAddr::new(ip(FAR), 9)), mtu);
    }
}

/// Datagrams of our own leave as IPv4 by the gateway, from another port's address if this port has
/// none, and answers to that address are received by any port.
#[test]
fn datagrams_of_our_own_go_by_it() {
    for has_address in [true, false] {
        let mut router = routed(1, true);
        assert!(router.stack.add_neighbour(PortId(1), GATEWAY.into(), HOSTS[1]));
        if !has_address {
            assert!(router.stack.remove_address(PortId(1), ip("198.51.100.1")));
        }
        let any = "0.0.0.0:9".parse().expect("an address");
        let socket = router.stack.udp_bind(any, base::Owner::program()).expect("a socket");
        let to = SocketAddr::new(ip(FAR), 7);
        for len in [8, 2_000] {
            router.stack.udp_send(socket, to, &vec![1; len], NOW).expect("sent");
            let [back, out] = router.sent(NOW);
            assert!(back.is_empty());
            assert_eq!(out.len(), if len > 1_472 { 2 } else { 1 }, "{len} bytes");
            for frame in &out {
                let header = ether::Header::parse(frame).expect("a frame");
                assert_eq!((header.dst, header.ethertype), (HOSTS[1], ether::IPV4));
                let from = if has_address { [198, 51, 100, 1] } else { [192, 0, 2, 1] };
                assert_eq!((&frame[26..30], &frame[30..34]), (&from[..], &[203, 0, 113, 5][..]));
            }
        }
    }
}
