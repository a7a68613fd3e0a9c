//! What is punted, and what stays with the stack.

use base::{Counter, DropReason, Owner};
use device::Offloads;
use mbuf::Flags as MbufFlags;
use wire::protocol;
use wire::tcp::Flags;

use super::super::firewall::published;
use super::super::forward::{A, NOW, Router, ip};
use super::{
    OURS, OURS6, frame, icmp, is_punted, mirrored, nothing_is_held, punted, tcp, udp_frame,
};
use crate::{PortId, PuntClass, PuntConfig};

const A6: &str = "2001:db8:1::9";

/// Each would be refused with a RST or an ICMP error, and is again once the mirror is gone.
#[test]
fn what_would_be_refused_is_punted_whole() {
    for (theirs, ours) in [(A, OURS), (A6, OURS6)] {
        let syn = tcp(theirs, ours, (40_000, 22), Flags::SYN);
        let bgp = tcp(theirs, ours, (40_000, 179), Flags::SYN);
        let frames = [
            (frame(0, theirs, ours, protocol::TCP, &syn), PuntClass::Other),
            (frame(0, theirs, ours, protocol::TCP, &bgp), PuntClass::Routing),
            (udp_frame(0, theirs, ours, (40_000, 53)), PuntClass::Other),
            (udp_frame(0, theirs, ours, (40_000, 3_784)), PuntClass::Routing),
            (frame(0, theirs, ours, 89, b"OSPF"), PuntClass::Routing),
            (frame(0, theirs, ours, 47, b"GRE"), PuntClass::Other),
        ];
        let mut router = Router::new(1_500);
        for (bytes, _) in &frames {
            let [sent, _] = router.exchange(bytes);
            assert_eq!(sent.len(), 1, "nothing was refused without a mirror");
        }
        let before = router.stack.drops().total();
        router.stack.set_punt(PortId(0), true);
        for (bytes, class) in &frames {
            // Padding of the link is a part of the frame.
            let padded = [&bytes[..], &[7; 5]].concat();
            is_punted(&mut router, 0, &padded, *class);
        }
        let reset = tcp(theirs, ours, (179, 40_000), Flags::RST);
        let reset = frame(0, theirs, ours, protocol::TCP, &reset);
        is_punted(&mut router, 0, &reset, PuntClass::Routing);
        assert_eq!(router.stack.drops().total(), before);
        assert_eq!(router.stack.counters().of(Counter::PuntedOther), 3);
        assert_eq!(router.stack.counters().of(Counter::PuntedRouting), 4);
        router.stack.set_punt(PortId(0), false);
        for (bytes, _) in &frames {
            assert_eq!(router.exchange(bytes)[0].len(), 1);
        }
        assert!(punted(&mut router).is_empty());
        nothing_is_held(&mut router);
    }
}

#[test]
fn sockets_of_ours_come_first() {
    let mut router = mirrored();
    let address = |port| core::net::SocketAddr::new(ip(OURS), port);
    let udp = router.stack.udp_bind(address(53), Owner::program()).expect("free");
    router.stack.tcp_listen(address(22), crate::ListenConfig::default()).expect("free");
    router.exchange(&udp_frame(0, A, OURS, (40_000, 53)));
    assert!(router.stack.udp_receive(udp).is_some());
    let syn = tcp(A, OURS, (40_000, 22), Flags::SYN);
    let [answer, _] = router.exchange(&frame(0, A, OURS, protocol::TCP, &syn));
    assert_eq!(answer[0][47], (Flags::SYN | Flags::ACK).0);
    let ping = icmp(A, OURS, vec![8, 0, 0, 0, 0, 9, 0, 1, 1, 2, 3]);
    let [answer, _] = router.exchange(&frame(0, A, OURS, protocol::ICMP, &ping));
    assert_eq!(answer[0][34], 0, "no echo reply");
    // Only the port's own link, and no address but ours.
    router.exchange(&udp_frame(0, A, "192.0.2.77", (40_000, 54)));
    router.exchange(&udp_frame(0, OURS, OURS, (40_000, 54)));
    assert!(punted(&mut router).is_empty());
}

#[test]
fn groups_of_the_link_are_punted_unless_a_socket_takes_them() {
    let mut router = mirrored();
    let link_local = "fe80::9";
    for (src, dst, number) in [
        (A, "224.0.0.5", 89),
        (A, "224.0.0.13", 103),
        (A, "224.0.0.18", 112),
        (link_local, "ff02::5", 89),
        (link_local, "ff02::12", 112),
    ] {
        is_punted(&mut router, 0, &frame(0, src, dst, number, b"hello"), PuntClass::Routing);
    }
    is_punted(&mut router, 0, &udp_frame(0, A, "224.0.0.9", (520, 520)), PuntClass::Routing);
    is_punted(&mut router, 0, &udp_frame(0, link_local, "ff02::9", (521, 521)), PuntClass::Routing);
    let mdns = udp_frame(0, A, "224.0.0.251", (5_353, 5_353));
    is_punted(&mut router, 0, &mdns, PuntClass::Other);
    let socket = router.stack.udp_bind("0.0.0.0:5353".parse().expect("one"), Owner::program());
    let socket = socket.expect("free");
    // It has not joined.
    is_punted(&mut router, 0, &mdns, PuntClass::Other);
    router.stack.udp_join(socket, PortId(0), ip("224.0.0.251")).expect("room");
    router.exchange(&mdns);
    assert!(punted(&mut router).is_empty() && router.stack.udp_receive(socket).is_some());
    // Groups of more than the link: only to a port that is named.
    let wide = udp_frame(0, A, "239.1.1.1", (1_900, 1_900));
    router.exchange(&wide);
    assert!(punted(&mut router).is_empty());
    router.stack.set_punt_config(PuntConfig { ports: vec![1_900], ..PuntConfig::default() });
    is_punted(&mut router, 0, &wide, PuntClass::Other);
    // Nobody connects to a group, and a group sends nothing.
    let syn = tcp(A, "224.0.0.5", (1, 179), Flags::SYN);
    router.exchange(&frame(0, A, "224.0.0.5", protocol::TCP, &syn));
    router.exchange(&frame(0, "224.0.0.6", "224.0.0.5", 89, b"hello"));
    router.exchange(&frame(0, OURS, "224.0.0.5", 89, b"our own, looped back"));
    assert!(punted(&mut router).is_empty());
}

#[test]
fn broadcasts_are_punted_to_named_ports() {
    let mut router = mirrored();
    let discover = udp_frame(0, "0.0.0.0", "255.255.255.255", (68, 67));
    is_punted(&mut router, 0, &discover, PuntClass::Other);
    let rip = udp_frame(0, A, "255.255.255.255", (520, 520));
    is_punted(&mut router, 0, &rip, PuntClass::Routing);
    let other = udp_frame(0, A, "255.255.255.255", (137, 137));
    router.exchange(&other);
    assert!(punted(&mut router).is_empty());
    router.stack.set_punt_config(PuntConfig { ports: vec![137], ..PuntConfig::default() });
    is_punted(&mut router, 0, &other, PuntClass::Other);
    let socket = router.stack.udp_bind("0.0.0.0:67".parse().expect("one"), Owner::program());
    router.exchange(&discover);
    assert!(punted(&mut router).is_empty());
    router.stack.udp_close(socket.expect("free"));
}

/// IGMP, MLD and messages of routers are the stack's too; other neighbour discovery is its alone.
#[test]
fn memberships_and_messages_of_routers_are_copied() {
    let mut router = mirrored();
    let mut query = vec![0x11, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let sum = wire::checksum::Ladder::Word64.sum(&query);
    query[2..4].copy_from_slice(&sum.field());
    let query = frame(0, A, "224.0.0.1", protocol::IGMP, &query);
    router.exchange(&query);
    assert_eq!(punted(&mut router), [(0, PuntClass::Routing, query)]);
    let mut report = vec![0x16, 0, 0, 0, 224, 0, 0, 9];
    let sum = wire::checksum::Ladder::Word64.sum(&report);
    report[2..4].copy_from_slice(&sum.field());
    let report = frame(0, A, "224.0.0.9", protocol::IGMP, &report);
    router.exchange(&report);
    assert_eq!(punted(&mut router), [(0, PuntClass::Routing, report)]);
    let of_link = |mut bytes: Vec<u8>| {
        bytes[21] = 255;
        bytes
    };
    let (host, all) = ("fe80::9", "ff02::2");
    let message = icmp(host, all, vec![133, 0, 0, 0, 0, 0, 0, 0]);
    let solicitation = of_link(frame(0, host, all, protocol::ICMPV6, &message));
    router.exchange(&solicitation);
    assert_eq!(punted(&mut router), [(0, PuntClass::Routing, solicitation.clone())]);
    // BGP over link-local addresses learns its peer's address by the advertisement.
    let message =
        icmp("fe80::9", "ff02::1", [[134, 0, 0, 0], [64, 0, 0, 0], [0; 4], [0; 4]].concat());
    let advertisement = of_link(frame(0, "fe80::9", "ff02::1", protocol::ICMPV6, &message));
    router.exchange(&advertisement);
    assert_eq!(punted(&mut router), [(0, PuntClass::Routing, advertisement)]);
    assert_eq!(router.stack.drops().total(), 0);
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    let target: core::net::Ipv6Addr = OURS6.parse().expect("an address");
    message.extend(target.octets());
    let to = inet::nd::solicited_node(target).to_string();
    let message = icmp(A6, &to, message);
    let [answer, _] = router.exchange(&of_link(frame(0, A6, &to, protocol::ICMPV6, &message)));
    assert_eq!(answer[0][54], 136, "no advertisement");
    // A router says that it is one: a host gives up a default router that says it is none.
    assert_eq!(answer[0][58] & 0xe0, 0xe0);
    assert!(punted(&mut router).is_empty());
    router.stack.set_punt(PortId(0), false);
    router.exchange(&solicitation);
    assert_eq!(router.drops(DropReason::IpNotForUs), 1);
}

#[test]
fn errors_and_replies_go_to_whom_they_are_about() {
    let mut router = mirrored();
    let reply = icmp(A, OURS, vec![0, 0, 0, 0, 0x12, 0x34, 0, 1]);
    is_punted(&mut router, 0, &frame(0, A, OURS, protocol::ICMP, &reply), PuntClass::Other);
    let error_about = |src_port: u16| {
        let quoted = frame(0, OURS, A, protocol::UDP, &super::udp(OURS, A, (src_port, 9), b"x"));
        let message = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted[14..]].concat();
        frame(0, A, OURS, protocol::ICMP, &icmp(A, OURS, message))
    };
    is_punted(&mut router, 0, &error_about(50_000), PuntClass::Other);
    let local = core::net::SocketAddr::new(ip(OURS), 50_000);
    let socket = router.stack.udp_bind(local, Owner::program()).expect("free");
    router.stack.udp_send(socket, "192.0.2.9:9".parse().expect("one"), b"x", NOW).expect("sent");
    router.exchange(&error_about(50_000));
    assert!(punted(&mut router).is_empty());
    assert_eq!(router.stack.counters().of(Counter::IcmpErrorsIn), 1);
    let ours = frame(0, OURS, A, 89, b"a packet of a daemon");
    let message = [&[3, 2, 0, 0, 0, 0, 0, 0][..], &ours[14..]].concat();
    let error = frame(0, A, OURS, protocol::ICMP, &icmp(A, OURS, message));
    is_punted(&mut router, 0, &error, PuntClass::Other);
}

/// A packet to an address of ours on another port goes to the mirror of the port that it came by.
#[test]
fn the_mirror_is_that_of_the_port_that_a_packet_came_by() {
    let mut router = mirrored();
    let bytes = udp_frame(0, A, "198.51.100.1", (40_000, 53));
    is_punted(&mut router, 0, &bytes, PuntClass::Other);
    router.stack.set_punt(PortId(0), false);
    assert_eq!(router.exchange(&bytes)[0].len(), 1, "no error was sent");
    assert!(punted(&mut router).is_empty());
}

#[test]
fn a_datagram_in_fragments_is_punted_in_one_frame() {
    for dst in [OURS, "224.0.0.5"] {
        let mut router = mirrored();
        let data: Vec<u8> = (0..3_000).map(|n| n as u8).collect();
        let whole = frame(0, A, dst, 89, &data);
        for (begin, end) in [(0, 1_480), (1_480, 2_960), (2_960, 3_000)] {
            let mut part = frame(0, A, dst, 89, &data[begin..end]);
            let more = if end < 3_000 { 0x2000 } else { 0 };
            part[20..22].copy_from_slice(&((begin as u16 / 8) | more).to_be_bytes());
            super::super::craft::number(&mut part, 7);
            let sent = router.exchange(&part);
            assert!(sent.iter().all(Vec::is_empty));
        }
        let got = punted(&mut router);
        let [(0, PuntClass::Routing, got)] = &got[..] else { panic!("{got:?}") };
        assert_eq!(got[..6], whole[..6]);
        assert_eq!(got[12..14], whole[12..14]);
        let (ip, part) = inet::ip_input::ipv4_any(&got[14..]).expect("a sound header");
        assert!(part.is_none() && ip.transport_len == 3_000);
        assert_eq!(got[34..], data);
        nothing_is_held(&mut router);
    }
}

/// Several segments that a device delivers as one, with an unfinished checksum.
#[test]
fn a_super_segment_is_punted_in_packets() {
    let tso_max_bytes = 65_549;
    let offloads =
        Offloads { tso_max_bytes, tx_checksum: true, rx_checksum: true, ..Offloads::default() };
    let mut router = Router::between(1_500, [offloads; 2]);
    router.stack.set_punt(PortId(0), true);
    let mut segment = tcp(A, OURS, (179, 40_000), Flags::ACK);
    segment.extend([5; 250]);
    let whole = frame(0, A, OURS, protocol::TCP, &segment);
    for size in [100, 0] {
        let mut m = router.pool.copy_of(&whole).expect("room");
        m.set(MbufFlags::CSUM_PARTIAL);
        m.set_csum(34);
        m.set_segment_size(size);
        router.offer_at(0, m);
        router.sent(NOW);
        let got = punted(&mut router);
        assert_eq!(got.len(), if size == 0 { 1 } else { 3 });
        let mut data = 0;
        for (_, _, bytes) in &got {
            assert_eq!(bytes[..14], whole[..14]);
            let (ip, _) = inet::ip_input::ipv4_any(&bytes[14..]).expect("a sound header");
            let sum = wire::checksum::Ladder::Word64.sum(&bytes[34..]);
            assert!(ip.with_pseudo_header(sum).is_whole());
            data += bytes.len() - 54;
        }
        assert_eq!(data, 250);
    }
    nothing_is_held(&mut router);
}

#[test]
fn rules_of_the_filter_are_asked_before() {
    let mut router = mirrored();
    router.stack.set_filter(Some(published("pass in lan to self udp 53", "", 1)));
    is_punted(&mut router, 0, &udp_frame(0, A, OURS, (40_000, 53)), PuntClass::Other);
    for refused in [
        udp_frame(0, A, OURS, (40_000, 54)),
        frame(0, A, OURS, 89, b"OSPF"),
        frame(0, A, "224.0.0.5", 89, b"OSPF"),
        frame(0, A, OURS, protocol::TCP, &tcp(A, OURS, (40_000, 179), Flags::SYN)),
    ] {
        router.exchange(&refused);
    }
    assert!(punted(&mut router).is_empty());
    assert_eq!(router.drops(DropReason::FilterRule), 4);
}
