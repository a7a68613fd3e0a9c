//! Steering: both directions of a flow, its errors, and frames that go to all shards or to the
//! first.

use core::net::{IpAddr, SocketAddr};

use base::LinkKind;
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use mbuf::Pool;

use super::*;

fn steering(count: usize) -> Steering {
    Steering::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210], count)
}

fn packet(from: SocketAddr, to: SocketAddr, protocol: u8) -> Vec<u8> {
    let mut payload = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    payload.extend([0; 20]);
    wrap(from.ip(), to.ip(), protocol, &payload)
}

fn wrap(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut pool = Pool::new(1 << 20);
    let mut m = pool.copy_of(payload).expect("room");
    let fields = Fields { src, dst, protocol, tos: 0, ttl: 64 };
    let none = base::MacAddr::default();
    HeaderTemplate::new(LinkKind::Ip, none, none, &fields).prepend(&mut m).expect("fits");
    m.as_slice().to_vec()
}

fn ends(n: u16) -> [(SocketAddr, SocketAddr); 2] {
    let [a, b] = n.to_be_bytes();
    let v4 = |host: u8, port| SocketAddr::from(([192, 0, host, b], port));
    let v6 = |host: u16, port| SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, host, n], port));
    [(v4(2, 1024 + n), v4(a, 80)), (v6(2, 1024 + n), v6(3, 443))]
}

#[test]
fn both_directions_of_a_flow_and_its_errors_go_to_one_shard() {
    let (steering, mut counts) = (steering(4), [0; 4]);
    for (one, other) in (0..2_000).flat_map(ends) {
        for protocol in [protocol::TCP, protocol::UDP] {
            let there = packet(one, other, protocol);
            let home = steering.packet(&there);
            assert_eq!(home, steering.packet(&packet(other, one, protocol)));
            assert_eq!(home, Home::Shard(steering.of_flow(one, other)));
            let (icmp, kind) =
                if one.is_ipv4() { (protocol::ICMP, 3) } else { (protocol::ICMPV6, 1) };
            let error = [&[kind, 0, 0, 0, 0, 0, 0, 0], &there[..]].concat();
            let router = ends(7)[usize::from(one.is_ipv6())].0.ip();
            assert_eq!(home, steering.packet(&wrap(router, one.ip(), icmp, &error)));
            let Home::Shard(index) = home else { panic!("a flow has one shard") };
            counts[index] += 1;
        }
    }
    assert!(counts.iter().all(|&n| (1_800..2_200).contains(&n)), "{counts:?} of 8,000");
}

#[test]
fn fragments_of_a_datagram_meet() {
    for (one, other) in (0..100).flat_map(ends).filter(|(one, _)| one.is_ipv4()) {
        let homes = [[0x20, 0], [0x20, 1], [0, 2]].map(|bits| {
            let mut fragment = packet(one, other, protocol::UDP);
            fragment[6..8].copy_from_slice(&bits);
            fragment[20] = bits[1];
            steering(4).packet(&fragment)
        });
        assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
    }
}

#[test]
fn what_is_for_the_host_goes_to_the_first_and_neighbours_answers_to_all() {
    let steering = steering(16);
    let frame = |dst: u8, ethertype: u16, packet: &[u8]| {
        let [high, low] = ethertype.to_be_bytes();
        [&[dst, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, high, low], packet].concat()
    };
    let home = |frame: &[u8]| steering.home(LinkKind::Ethernet, frame);
    assert_eq!(home(&frame(0xff, ether::ARP, &[0; 28])), Home::All);
    assert_eq!(home(&frame(2, ether::ARP, &[0; 28])), Home::All);
    for (one, other) in (0..50).flat_map(ends) {
        let v6 = one.is_ipv6();
        let ethertype = if v6 { ether::IPV6 } else { ether::IPV4 };
        let plain = packet(one, other, protocol::UDP);
        assert_eq!(home(&frame(0xff, ethertype, &plain)), FIRST);
        let dhcp = if v6 { 546 } else { 68 };
        let to = SocketAddr::new(other.ip(), dhcp);
        assert_eq!(home(&frame(2, ethertype, &packet(one, to, protocol::UDP))), FIRST);
        if v6 {
            for (kind, expected) in [(134, FIRST), (135, FIRST), (136, Home::All), (137, FIRST)] {
                let nd = wrap(one.ip(), other.ip(), protocol::ICMPV6, &[kind; 24]);
                assert_eq!(home(&frame(2, ethertype, &nd)), expected);
            }
        } else {
            let redirect = wrap(one.ip(), other.ip(), protocol::ICMP, &[5; 36]);
            assert_eq!(home(&frame(2, ethertype, &redirect)), FIRST);
        }
    }
    for short in 0..64 {
        home(&frame(2, ether::IPV4, &[0x45; 64])[..short]);
        home(&frame(2, ether::IPV6, &[0x60; 64])[..short]);
    }
}

/// IEEE 802.1Q table 9-2: a frame with a tag of VLAN 0 counts as an untagged frame.
#[test]
fn a_priority_tag_does_not_change_the_shard() {
    let steering = steering(16);
    for (one, other) in (0..50).flat_map(ends) {
        let ethertype = if one.is_ipv6() { ether::IPV6 } else { ether::IPV4 };
        for (dst, packet) in [2, 0xff].into_iter().flat_map(|dst| {
            [(dst, packet(one, other, protocol::TCP)), (dst, packet(one, other, protocol::UDP))]
        }) {
            let of = |tags: &[u16], packet: &[u8]| {
                let mut frame = vec![dst, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
                tags.iter().for_each(|tag| {
                    frame.extend(tag.to_be_bytes());
                    frame.extend([0xa0, 0]);
                });
                frame.extend(ethertype.to_be_bytes());
                frame.extend(packet);
                steering.home(LinkKind::Ethernet, &frame)
            };
            let plain = of(&[], &packet);
            for tags in [&[ether::VLAN][..], &[ether::SERVICE_VLAN], &[0x88a8, ether::VLAN]] {
                assert_eq!(of(tags, &packet), plain);
            }
        }
    }
    let arp = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0xe0, 0, 8, 6];
    assert_eq!(steering.home(LinkKind::Ethernet, &arp), Home::All);
}
