//! Addresses and routes that change while the stack runs. RFC 4862 section 5.5.4.

use core::net::{IpAddr, SocketAddr, SocketAddrV6};

use base::{Cidr, Duration, Instant, IpVersion, Limit, Owner};
use inet::{Address, AddressState, Origin, Route, RouteOrigin};

use super::craft::frame_between;
use super::icmp::{BOTH, NOW, bench, connect};
use crate::{AddressError, PortId, Stack};

const PORT: PortId = PortId(0);

fn cidr(text: &str) -> Cidr {
    text.parse().expect("an address and a prefix length")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn connected_routes(stack: &Stack) -> usize {
    stack.routes.iter().filter(|r| r.origin == RouteOrigin::Connected).count()
}

/// The source of a frame's IP packet.
fn source_of(frame: &[u8]) -> IpAddr {
    let packet = &frame[14..];
    match packet[0] >> 4 {
        4 => IpAddr::from(<[u8; 4]>::try_from(&packet[12..16]).expect("four bytes")),
        _ => IpAddr::from(<[u8; 16]>::try_from(&packet[8..24]).expect("sixteen bytes")),
    }
}

/// RFC 4443 4.2-a.
#[test]
fn an_address_added_is_answered_and_one_removed_is_not() {
    for (version, new) in [(IpVersion::V4, "192.0.2.77/24"), (IpVersion::V6, "2001:db8::77/64")] {
        let mut bench = bench(version);
        let new = cidr(new);
        let is_v4 = version == IpVersion::V4;
        let (protocol, kind) = if is_v4 { (1, 8) } else { (58, 128) };
        let mut echo = vec![kind, 0, 0, 0, 0, 1, 0, 1];
        let sum = super::craft::transport_sum(bench.theirs, new.addr, protocol, &echo);
        let sum = if is_v4 { wire::checksum::Ladder::Word64.sum(&echo) } else { sum };
        echo[2..4].copy_from_slice(&sum.field());
        let frame = frame_between(bench.theirs, new.addr, protocol, &echo);
        assert_eq!(
            bench.exchange(&frame, NOW).len(),
            0,
            "an address that is not ours yet is answered"
        );
        bench.stack.add_address(PORT, Address::fixed(new)).expect("added");
        let answers = bench.exchange(&frame, NOW);
        assert_eq!(answers.iter().map(|f| source_of(f)).collect::<Vec<_>>(), [new.addr]);
        assert!(bench.stack.remove_address(PORT, new.addr));
        assert!(!bench.stack.remove_address(PORT, new.addr), "twice");
        assert_eq!(
            bench.exchange(&frame, NOW).len(),
            0,
            "an address that is no longer ours is answered"
        );
    }
}

#[test]
fn a_tentative_address_is_used_for_nothing() {
    let mut bench = bench(IpVersion::V6);
    let new = cidr("2001:db8:5::77/64");
    let address = Address { state: AddressState::Tentative, ..Address::fixed(new) };
    bench.stack.add_address(PORT, address).expect("added");
    assert!(!bench.stack.has_address(new.addr));
    assert_eq!(bench.stack.source_for(SocketAddr::new(ip("2001:db8:5::1"), 1)), None);
    bench.stack.add_address(PORT, Address::fixed(new)).expect("changed");
    assert!(bench.stack.has_address(new.addr));
    assert_eq!(bench.stack.source_for(SocketAddr::new(ip("2001:db8:5::1"), 1)), Some(new.addr));
    assert_eq!(bench.stack.addresses(PORT).len(), 3);
}

#[test]
fn lifetimes_end() {
    let mut bench = bench(IpVersion::V6);
    let old = cidr("2001:db8:5::77/64");
    let address = Address {
        origin: Origin::Dhcp,
        preferred_until: NOW + Duration::from_secs(10),
        valid_until: NOW + Duration::from_secs(20),
        ..Address::fixed(old)
    };
    bench.poll(NOW);
    bench.stack.add_address(PORT, address).expect("added");
    bench.stack.add_address(PORT, Address::fixed(cidr("2001:db8:6::1/64"))).expect("added");
    assert_eq!(bench.stack.next_deadline(), NOW + Duration::from_secs(10));
    bench.poll(NOW + Duration::from_secs(10));
    let state =
        |stack: &Stack| stack.addresses(PORT).iter().find(|a| a.cidr == old).map(|a| a.state);
    assert_eq!(state(&bench.stack), Some(AddressState::Deprecated));
    assert!(bench.stack.has_address(old.addr), "a deprecated address is no longer ours");
    let routes = connected_routes(&bench.stack);
    bench.poll(NOW + Duration::from_secs(20));
    assert_eq!(state(&bench.stack), None);
    assert_eq!(connected_routes(&bench.stack), routes - 1);
    assert_eq!(bench.stack.next_deadline(), Instant::NEVER);
}

#[test]
fn connections_from_an_address_that_is_removed_fail_and_say_why() {
    for version in BOTH {
        let mut bench = bench(version);
        let (handle, syn) = connect(&mut bench);
        let ours = source_of(&syn);
        assert!(bench.stack.remove_address(PORT, ours));
        let (_, error) = bench.stack.tcp_state(handle).expect("kept");
        assert_eq!(error, Some(tcp::Error::NetworkDown));
        assert!(bench.stack.tcp_failure(handle).expect("a reason").contains("address was removed"));
    }
}

#[test]
fn addresses_that_no_host_has_and_too_many_are_refused() {
    let mut bench = bench(IpVersion::V4);
    for no_host in [
        "224.0.0.1/4",
        "255.255.255.255/32",
        "127.0.0.1/8",
        "0.0.0.0/0",
        "::/0",
        "ff02::1/16",
        "192.0.2.255/24",
        "192.0.2.0/24",
    ] {
        let added = bench.stack.add_address(PORT, Address::fixed(cidr(no_host)));
        assert_eq!(added, Err(AddressError::NotAHost), "{no_host}");
    }
    let gone = bench.stack.add_address(PortId(9), Address::fixed(cidr("192.0.2.9/24")));
    assert_eq!(gone, Err(AddressError::NoPort));
    bench.stack.core.cx.budget.set(Limit::Addresses, 3);
    let add = |stack: &mut Stack, text| stack.add_address(PORT, Address::fixed(cidr(text)));
    assert_eq!(add(&mut bench.stack, "192.0.2.9/24"), Ok(()));
    assert_eq!(add(&mut bench.stack, "192.0.2.10/24"), Err(AddressError::LimitReached));
}

/// RFC 4291 section 2.1.
#[test]
fn a_port_with_an_ipv6_address_has_a_link_local_one_too() {
    let mut bench = bench(IpVersion::V6);
    let stack = &mut bench.stack;
    let made = |stack: &Stack| {
        let all = stack.addresses(PORT).iter().filter(|a| a.origin == Origin::LinkLocal);
        all.map(Address::ip).collect::<Vec<IpAddr>>()
    };
    stack.follow_link_local(PORT).expect("there is room");
    stack.follow_link_local(PORT).expect("it is there");
    let [own] = made(stack)[..] else { panic!("{:?}", made(stack)) };
    let neighbour = SocketAddr::new(ip("fe80::1"), 7);
    assert_eq!(
        stack.source_for(neighbour),
        Some(own),
        "the link-local address is not the source for a neighbour"
    );
    assert_eq!(stack.source_for(SocketAddr::new(bench.theirs, 7)), Some(bench.ours));
    // A link-local address that the user sets replaces it. If the user has set no address, there is
    // none.
    stack.add_address(PORT, Address::fixed(cidr("fe80::9/64"))).expect("added");
    stack.follow_link_local(PORT).expect("it goes");
    assert!(made(stack).is_empty());
    stack.remove_address(PORT, ip("fe80::9"));
    stack.follow_link_local(PORT).expect("it comes again");
    assert_eq!(made(stack), [own]);
    stack.remove_address(PORT, bench.ours);
    stack.follow_link_local(PORT).expect("it goes");
    assert!(made(stack).is_empty());
    assert_eq!(stack.follow_link_local(PortId(9)), Err(AddressError::NoPort));
}

/// RFC 4007 section 6: the same link-local address may be on two links.
#[test]
fn a_scope_identifier_chooses_the_port() {
    let mut bench = bench(IpVersion::V6);
    let stack = &mut bench.stack;
    stack.add_address(PORT, Address::fixed(cidr("fe80::1/64"))).expect("added");
    let remote =
        |scope| SocketAddr::V6(SocketAddrV6::new("fe80::9".parse().expect("v6"), 7, 0, scope));
    assert_eq!(stack.source_for(remote(PORT.scope_id())), Some(ip("fe80::1")));
    assert_eq!(
        stack.source_for(remote(PortId(1).scope_id())),
        None,
        "a source was found for a port that does not exist"
    );
    assert_eq!(
        stack.source_for(remote(0)),
        Some(ip("fe80::1")),
        "the only link-local address is not the source"
    );
    assert_eq!(PortId::of_scope(0), None);
    assert_eq!(PortId::of_scope(PORT.scope_id()), Some(PORT));
    assert_eq!(PortId::of_scope(70_000), None);
}

#[test]
fn routes_expire_and_connections_find_the_next() {
    let mut bench = bench(IpVersion::V4);
    let far = SocketAddr::new(ip("198.51.100.1"), 9);
    let socket =
        bench.stack.udp_bind(SocketAddr::new(bench.ours, 9), Owner::program()).expect("free");
    assert!(
        bench.stack.udp_send(socket, far, b"x", NOW).is_err(),
        "a datagram was sent without a route"
    );
    let via = Route::new(cidr("198.51.100.9/24"), Some(bench.theirs), 0);
    let until = NOW + Duration::from_secs(5);
    bench.stack.add_route(Route { expires: until, ..via });
    bench.stack.udp_send(socket, far, b"x", NOW).expect("routed");
    bench.poll(until);
    assert!(bench.stack.udp_send(socket, far, b"x", until).is_err(), "expired");
    bench.stack.add_route(Route::new(cidr("0.0.0.0/0"), Some(bench.theirs), 0));
    bench.stack.udp_send(socket, far, b"x", until).expect("routed");
    assert_eq!(bench.stack.remove_route(cidr("0.0.0.0/0"), PORT), 1);
    assert!(bench.stack.udp_send(socket, far, b"x", until).is_err(), "removed");
}
