//! Datagrams to groups: their hop limit, copies for members on the sending host, fragments, and the
//! port that they leave by.

use core::net::SocketAddrV6;

use super::*;
use crate::tests::frag;
use crate::{MulticastOptions, UdpError};

/// RFC 1112 6.1-a, 6.1-b, 6.4-a.
#[test]
fn what_is_sent_has_one_hop_and_comes_back_to_members() {
    for version in BOTH {
        let mut bench = bench(version);
        let to = SocketAddr::new(group_of(version), 9);
        let sender = bind(&mut bench, any(9));
        let stack = &mut bench.stack;
        stack.udp_send(sender, to, b"alone", NOW).expect("sent");
        let frames = bench.sent();
        assert_eq!(frames.len(), 1);
        let (ttl, hops, mac) = (frames[0][14 + 8], frames[0][14 + 7], frames[0][0]);
        let is_v4 = version == IpVersion::V4;
        assert_eq!((if is_v4 { ttl } else { hops }, mac), (1, if is_v4 { 1 } else { 0x33 }));
        assert_eq!(
            received(&mut bench, sender),
            [] as [Vec<u8>; 0],
            "a socket that has not joined got it"
        );
        bench.stack.udp_join(sender, PORT, to.ip()).expect("joined");
        bench.sent();
        bench.stack.udp_send(sender, to, b"both", NOW).expect("sent");
        assert_eq!(bench.sent().len(), 1);
        let back = bench.stack.udp_receive(sender).expect("looped");
        assert_eq!((back.from.ip(), back.to), (bench.ours, to));
        bench.stack.give_back(back.payload);
        let set = |bench: &mut Bench, options| {
            bench.stack.udp_set_multicast_options(sender, options).expect("open");
            bench.stack.udp_send(sender, to, b"x", NOW).expect("sent");
            (bench.sent().len(), received(bench, sender).len())
        };
        let usual = MulticastOptions::default();
        assert_eq!(set(&mut bench, MulticastOptions { loops: false, ..usual }), (1, 0));
        assert_eq!(
            set(&mut bench, MulticastOptions { hops: 0, ..usual }),
            (0, 1),
            "it left the host"
        );
        assert_eq!(set(&mut bench, MulticastOptions { port: Some(PORT), ..usual }), (1, 1));
        let gone = MulticastOptions { port: Some(PortId(9)), ..usual };
        let refused = bench.stack.udp_set_multicast_options(sender, gone);
        assert_eq!(refused, Err(GroupError::NoPort));
        assert_eq!(bench.stack.counters().of(Counter::GroupLooped), 3);
    }
}

#[test]
fn datagrams_to_groups_are_fragmented_and_come_back_whole() {
    for version in BOTH {
        let mut bench = bench(version);
        let to = SocketAddr::new(group_of(version), 9);
        let sender = bind(&mut bench, any(9));
        bench.stack.udp_join(sender, PORT, to.ip()).expect("joined");
        bench.sent();
        let data = frag::pattern(4_000);
        bench.stack.udp_send(sender, to, &data, NOW).expect("sent");
        assert_eq!(bench.sent().len(), 3);
        assert_eq!(received(&mut bench, sender), [data]);
        let sent = bench.stack.udp_send(sender, to, &vec![0; 65_536], NOW);
        assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpTooBig)));
    }
}

/// A group of link-local scope exists on each of several links, so the program must choose one. RFC
/// 4007.
/// RFC 1112 6.1-c, 7.1-c.
#[test]
fn the_port_is_that_of_the_option_the_scope_the_address_or_the_route() {
    let mut bench = bench(IpVersion::V6);
    let config = PairConfig::new([1, 2]);
    let (second, _held) = mem::pair(&config.wire);
    let addresses: Vec<Cidr> =
        ["198.51.100.1/24", "2001:db8:2::1/64"].map(|a| a.parse().expect("a network")).to_vec();
    let mac = pair::mac(9);
    let other = bench
        .stack
        .add_port(Box::new(second), PortConfig { mac, addresses, ..PortConfig::default() });
    let socket = bind(&mut bench, any(9));
    let scoped =
        |scope| SocketAddr::V6(SocketAddrV6::new("ff02::fb".parse().expect("v6"), 5353, 0, scope));
    let leaves_by_first = |bench: &mut Bench, to| {
        bench.stack.udp_send(socket, to, b"x", NOW).map(|()| bench.sent().len())
    };
    let no_route = Err(UdpError::Unsendable(DropReason::IpNoRoute));
    assert_eq!(leaves_by_first(&mut bench, scoped(0)), no_route);
    assert_eq!(leaves_by_first(&mut bench, scoped(PORT.scope_id())), Ok(1));
    assert_eq!(leaves_by_first(&mut bench, scoped(other.scope_id())), Ok(0));
    let v4 = SocketAddr::new(ip("239.1.2.3"), 5353);
    assert_eq!(leaves_by_first(&mut bench, v4), no_route);
    assert_eq!(bench.stack.group_port(v4.ip()), None);
    let all: Cidr = "0.0.0.0/0".parse().expect("a network");
    bench.stack.add_route(crate::Route::new(all, Some(ip("192.0.2.2")), PORT.0));
    assert_eq!(leaves_by_first(&mut bench, v4), Ok(1));
    assert_eq!(bench.stack.group_port(v4.ip()), Some(PORT));
    let options = MulticastOptions { port: Some(other), ..MulticastOptions::default() };
    bench.stack.udp_set_multicast_options(socket, options).expect("open");
    assert_eq!(leaves_by_first(&mut bench, v4), Ok(0));
    let bound = bind(&mut bench, SocketAddr::new(ip("198.51.100.1"), 9));
    bench.stack.udp_send(bound, v4, b"x", NOW).expect("sent");
    assert_eq!(bench.sent().len(), 0, "it left by the wrong port");
    let from = ip("198.51.100.1");
    bench.stack.udp_set_multicast_options(socket, MulticastOptions::default()).expect("open");
    bench.stack.udp_send_from(socket, from, v4, b"x", NOW).expect("sent");
    assert_eq!(bench.sent().len(), 0, "it left by the wrong port");
    // A membership belongs to one port.
    bench.stack.udp_join(socket, other, v4.ip()).expect("joined");
    bench.exchange(&datagram(ip("192.0.2.2"), v4.ip(), b"x"), NOW);
    assert_eq!(drops(&bench, DropReason::GroupNotJoined), 1);
    // It ends when the port is removed.
    assert_eq!(bench.stack.groups_page(0, 10).rows.len(), 1);
    bench.stack.remove_port(other).expect("there");
    assert_eq!(bench.stack.groups_page(0, 10).rows.len(), 0);
    assert_eq!(bench.stack.udp_source_filter(socket, other, v4.ip()), None);
    assert_eq!(bench.stack.udp_join(socket, other, v4.ip()), Err(GroupError::NoPort));
}
