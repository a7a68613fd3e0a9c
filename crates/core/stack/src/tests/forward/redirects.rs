//! A router reports better first hops to hosts (ICMP redirects). RFC 1812 section 5.2.7.2, RFC 4861
//! section 8.2.

use super::*;
use crate::tests::craft;

/// A router reports a better first hop to a host on the first hop's link, and forwards the packet.
/// RFC 1812 5.2.7.2-a, 5.2.7.2-b.
#[test]
fn a_host_is_redirected_to_a_better_first_hop() {
    let beyond = |dst: &str| dst.parse().expect("a network");
    for in_bursts in [true, false] {
        let mut router = Router::new(1_500);
        router.stack.set_switch(base::Switch::ForwardBurst, in_bursts);
        let gateway = ip("192.0.2.7");
        let far_mac = MacAddr([2, 0, 0, 0, 1, 7]);
        router.stack.add_neighbour(PortId(0), gateway, far_mac);
        router.stack.add_route(inet::Route::new(beyond("203.0.113.0/24"), Some(gateway), 0));
        for round in 0..3 {
            let [back, out] = router.exchange(&frame(A, "203.0.113.5", 9, b"hello"));
            assert!(out.is_empty() && back.len() == 2, "round {round}");
            assert_eq!(link(&back[0]), (MACS[0], HOSTS[0]));
            let (header, _) = ipv4_any(&back[0][14..]).expect("sound");
            assert_eq!(
                (header.src().to_string(), header.dst().to_string()),
                ("192.0.2.1".into(), A.into())
            );
            let message = inet::icmp::icmp_input(&header, &back[0][34..]);
            assert_eq!(message, Ok(Message::Redirect { gateway }));
            // The redirect names the better first hop, is of code 1 (for the host), and quotes the
            // packet as it arrived.
            assert_eq!(back[0][35], 1);
            assert_eq!(back[0][42..], frame(A, "203.0.113.5", 9, b"hello")[14..]);
            assert_eq!(link(&back[1]), (MACS[0], far_mac));
            assert_eq!(back[1][22], 8);
        }
        assert_eq!(router.stack.counters().of(Counter::RedirectsOut), 3);
        // No redirect is sent if the source is in no network of the router's port, if the packet is
        // an ICMP error, or if redirects are off.
        let mut about_error = frame(A, "203.0.113.5", 9, &[3, 1, 0, 0, 0, 0, 0, 0]);
        about_error[23] = 1;
        craft::number(&mut about_error, 1);
        for bytes in [frame("203.0.113.200", "203.0.113.5", 9, b"x"), about_error] {
            let [back, out] = router.exchange(&bytes);
            assert!(out.is_empty() && back.len() == 1);
        }
        router.stack.set_redirects(false);
        let [back, _] = router.exchange(&frame(A, "203.0.113.5", 9, b"hello"));
        assert_eq!(back.len(), 1);
        assert_eq!(router.stack.counters().of(Counter::RedirectsOut), 3);
        let most = router.stack.budget().of(base::Limit::IcmpErrorsPerDestination);
        router.stack.set_redirects(true);
        for _ in 0..most + 20 {
            router.exchange(&frame(A, "203.0.113.5", 9, b"hello"));
        }
        assert_eq!(router.stack.counters().of(Counter::RedirectsOut), most as u64);
    }
}

/// RFC 4861 8.2-a, 8.2-b.
#[test]
fn an_ipv6_host_is_redirected_by_a_link_local_address() {
    let dst = "2001:db8:9::5";
    let route = |gateway: &str| {
        inet::Route::new("2001:db8:9::/48".parse().expect("a network"), Some(ip(gateway)), 0)
    };
    let far_mac = MacAddr([2, 0, 0, 0, 1, 7]);
    let mut router = Router::new(1_500);
    for gateway in ["fe80::7", "2001:db8:1::7"] {
        router.stack.add_neighbour(PortId(0), ip(gateway), far_mac);
    }
    router.stack.add_route(route("fe80::7"));
    // Without a link-local address of the router, hosts do not know it as a router.
    let [back, _] = router.exchange(&frame(A6, dst, 9, b"hello"));
    assert_eq!(back.len(), 1);
    let ours = crate::Address::fixed("fe80::1/64".parse().expect("an address"));
    router.stack.add_address(PortId(0), ours).expect("room");
    let [back, out] = router.exchange(&frame(A6, dst, 9, b"hello"));
    assert!(out.is_empty() && back.len() == 2);
    assert_eq!(link(&back[0]), (MACS[0], HOSTS[0]));
    let (header, _) = ipv6_any(&back[0][14..]).expect("sound");
    assert_eq!((header.src().to_string(), header.dst().to_string()), ("fe80::1".into(), A6.into()));
    let IpAddr::V6(src) = header.src() else { panic!("IPv6") };
    let redirect =
        inet::redirect_check::redirect_input(&back[0][54..], src, header.ttl).expect("sound");
    assert_eq!(
        (IpAddr::V6(redirect.target), IpAddr::V6(redirect.destination)),
        (ip("fe80::7"), ip(dst))
    );
    assert_eq!(redirect.link_addr, Some(far_mac));
    assert_eq!(link(&back[1]), (MACS[0], far_mac));
    // A router that is known only by a global address cannot be named in a redirect; a host can.
    router.stack.add_route(route("2001:db8:1::7"));
    assert_eq!(router.exchange(&frame(A6, dst, 9, b"hello"))[0].len(), 1);
    router.stack.add_neighbour(PortId(0), ip("2001:db8:1::8"), far_mac);
    assert_eq!(router.exchange(&frame(A6, "2001:db8:1::8", 9, b"hello"))[0].len(), 2);
}
