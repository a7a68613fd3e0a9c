//! What leaves by mirrors, and what does not.

use base::{Counter, DropReason, MacAddr};
use wire::protocol;
use wire::tcp::Flags;

use super::super::firewall::published;
use super::super::forward::{A, B, HOSTS, MACS, NOW, Router};
use super::{
    OURS, OURS6, frame, icmp, is_punted, mirrored, nothing_is_held, punted, tcp, udp, udp_frame,
};
use crate::{MirrorError, PortId, PuntClass};

const OURS_1: &str = "198.51.100.1";

/// A frame that the kernel of the control namespace writes to a mirror: its link addresses mean
/// nothing.
fn written(src: &str, dst: &str, protocol: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = frame(0, src, dst, protocol, data);
    bytes[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    bytes[6..12].copy_from_slice(&[2, 8, 8, 8, 8, 8]);
    bytes
}

/// What left by each port after a frame was written to the mirror of port 0.
fn send(router: &mut Router, bytes: &[u8]) -> [Vec<Vec<u8>>; 2] {
    router.stack.send_by_mirror(NOW, PortId(0), bytes).expect("it leaves");
    router.sent(NOW)
}

fn refused(router: &mut Router, bytes: &[u8], why: MirrorError) {
    let before = router.drops(why.reason());
    assert_eq!(router.stack.send_by_mirror(NOW, PortId(0), bytes), Err(why));
    assert_eq!(router.drops(why.reason()), before + 1);
    assert!(router.sent(NOW).iter().all(Vec::is_empty));
}

fn link_of(bytes: &[u8]) -> (MacAddr, MacAddr) {
    let header = wire::ether::Header::parse(bytes).expect("a frame");
    (header.dst, header.src)
}

#[test]
fn a_packet_leaves_by_its_port_or_its_route_as_it_is() {
    let mut router = mirrored();
    for (src, dst, out, number) in [
        (OURS, A, 0, 89),
        (OURS6, "2001:db8:1::9", 0, 89),
        (OURS, B, 1, 47),
        // Of another port of ours, as a daemon's that answers by the port that it was asked by.
        (OURS_1, A, 0, 47),
        (OURS6, "2001:db8:2::9", 1, 47),
    ] {
        let bytes = written(src, dst, number, b"payload");
        let sent = send(&mut router, &[&bytes[..], &[0; 9]].concat());
        assert!(sent[1 - out].is_empty(), "{dst}");
        assert_eq!(sent[out].len(), 1, "{dst}");
        assert_eq!(link_of(&sent[out][0]), (HOSTS[out], MACS[out]));
        assert_eq!(sent[out][0][14..], bytes[14..], "the packet was changed");
    }
    assert_eq!(router.stack.counters().of(Counter::MirrorOut), 5);
    nothing_is_held(&mut router);
}

#[test]
fn groups_and_broadcasts_leave_by_the_port_itself() {
    let mut router = mirrored();
    for (src, dst, mac) in [
        (OURS, "224.0.0.5", [1, 0, 0x5e, 0, 0, 5]),
        (OURS6, "ff02::5", [0x33, 0x33, 0, 0, 0, 5]),
        (OURS, "255.255.255.255", [0xff; 6]),
        (OURS, "192.0.2.255", [0xff; 6]),
        (OURS, "239.1.1.1", [1, 0, 0x5e, 1, 1, 1]),
    ] {
        let bytes = written(src, dst, 89, b"hello");
        let [sent, other] = send(&mut router, &bytes);
        assert!(sent.len() == 1 && other.is_empty(), "{dst}");
        assert_eq!(link_of(&sent[0]), (MacAddr(mac), MACS[0]));
        assert_eq!(sent[0][14..], bytes[14..]);
    }
    // Membership reports may have no source, and a daemon advertises the router.
    let report = [0x16, 0, 9, 4, 224, 0, 0, 251];
    assert_eq!(send(&mut router, &written("0.0.0.0", "224.0.0.251", 2, &report))[0].len(), 1);
    let advertisement = icmp(OURS6, "ff02::1", [&[134, 0, 0, 0][..], &[0; 12]].concat());
    let advertisement = written(OURS6, "ff02::1", protocol::ICMPV6, &advertisement);
    assert_eq!(send(&mut router, &advertisement)[0].len(), 1);
}

#[test]
fn each_refusal_has_a_name() {
    let mut router = mirrored();
    let foreign = written(A, B, 17, b"from a host that is not ours");
    refused(&mut router, &foreign, MirrorError::Source);
    for (src, dst) in [
        (OURS_1, "224.0.0.5"),
        (OURS_1, "192.0.2.255"),
        (OURS_1, "169.254.1.1"),
        ("0.0.0.0", A),
        ("0.0.0.0", "224.0.0.5"),
        ("127.0.0.1", A),
        ("224.0.0.5", A),
        ("fe80::77", "ff02::5"),
    ] {
        refused(&mut router, &written(src, dst, 89, b"x"), MirrorError::Source);
    }
    for (src, dst) in
        [(OURS, OURS_1), (OURS, "127.0.0.1"), (OURS6, "ff01::1"), (OURS, "198.51.100.255")]
    {
        refused(&mut router, &written(src, dst, 89, b"x"), MirrorError::Destination);
    }
    for kind in [133, 135, 136, 137] {
        let message = icmp(OURS6, "ff02::1", [&[kind, 0, 0, 0][..], &[0; 20]].concat());
        let bytes = written(OURS6, "ff02::1", protocol::ICMPV6, &message);
        refused(&mut router, &bytes, MirrorError::NeighbourDiscovery);
    }
    let mut arp = written(OURS, A, 89, b"x");
    arp[12..14].copy_from_slice(&[8, 6]);
    refused(&mut router, &arp, MirrorError::NotIp);
    let short = written(OURS, A, 89, b"x");
    refused(&mut router, &short[..10], MirrorError::Malformed);
    refused(&mut router, &short[..34], MirrorError::Malformed);
    let mut wrong = short.clone();
    wrong[12..14].copy_from_slice(&[0x86, 0xdd]);
    refused(&mut router, &wrong, MirrorError::Malformed);
    let nowhere = written(OURS, "203.0.113.5", 89, b"x");
    refused(&mut router, &nowhere, MirrorError::Unsendable(DropReason::IpNoRoute));
    let no_port = router.stack.send_by_mirror(NOW, PortId(9), &short);
    assert_eq!(no_port, Err(MirrorError::NoPort));
    nothing_is_held(&mut router);
}

#[test]
fn a_large_packet_is_cut_unless_it_forbids_it() {
    let mut router = mirrored();
    let data: Vec<u8> = (0..2_000).map(|n| n as u8).collect();
    let mut bytes = written(OURS, A, 89, &data);
    bytes[20] |= 0x40;
    super::super::firewall::packets::fix(&mut bytes[14..]);
    refused(&mut router, &bytes, MirrorError::TooBig);
    refused(&mut router, &written(OURS6, "2001:db8:1::9", 89, &data), MirrorError::TooBig);
    bytes[20] &= !0x40;
    super::super::firewall::packets::fix(&mut bytes[14..]);
    let [sent, _] = send(&mut router, &bytes);
    assert_eq!(sent.len(), 2);
    let got: Vec<u8> = sent.iter().flat_map(|frame| frame[34..].to_vec()).collect();
    assert_eq!(got, data);
    nothing_is_held(&mut router);
}

#[test]
fn a_neighbour_is_resolved_by_us() {
    let mut router = mirrored();
    let bytes = written(OURS, "192.0.2.50", 89, b"hello");
    let [asked, _] = send(&mut router, &bytes);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0][12..14], [8, 6], "no ARP request");
    let sender = (HOSTS[0], core::net::Ipv4Addr::new(192, 0, 2, 50));
    let target = (MACS[0], core::net::Ipv4Addr::new(192, 0, 2, 1));
    let reply = inet::nd::arp_output(wire::arp::Operation::Reply, sender, target);
    let reply = [&MACS[0].0[..], &HOSTS[0].0, &[8, 6], &reply].concat();
    let [sent, _] = router.exchange(&reply);
    assert_eq!(link_of(&sent[0]), (HOSTS[0], MACS[0]));
    assert_eq!(sent[0][14..], bytes[14..]);
}

/// Rules are not about what the router sends: answers pass, also when rules change, and nobody
/// else's packets.
#[test]
fn answers_pass_the_filter() {
    let mut router = mirrored();
    router.stack.set_filter(Some(published("", "", 1)));
    let syn = tcp(OURS, A, (40_000, 179), Flags::SYN);
    let answer = tcp(A, OURS, (179, 40_000), Flags::SYN | Flags::ACK);
    let answer = frame(0, A, OURS, protocol::TCP, &answer);
    router.exchange(&answer);
    assert!(punted(&mut router).is_empty());
    send(&mut router, &written(OURS, A, protocol::TCP, &syn));
    is_punted(&mut router, 0, &answer, PuntClass::Routing);
    let other = tcp(A, OURS, (179, 40_001), Flags::SYN | Flags::ACK);
    router.exchange(&frame(0, A, OURS, protocol::TCP, &other));
    assert!(punted(&mut router).is_empty());
    router.stack.set_filter(Some(published("reject in lan to self", "", 2)));
    is_punted(&mut router, 0, &answer, PuntClass::Routing);
    send(&mut router, &written(OURS, A, protocol::UDP, &udp(OURS, A, (50_000, 53), b"which?")));
    is_punted(&mut router, 0, &udp_frame(0, A, OURS, (53, 50_000)), PuntClass::Other);
    let message = udp(OURS, A, (50_001, 33_434), b"traceroute");
    let probe = written(OURS, A, protocol::UDP, &message);
    send(&mut router, &probe);
    let error = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &probe[14..]].concat();
    let error = frame(0, A, OURS, protocol::ICMP, &icmp(A, OURS, error));
    is_punted(&mut router, 0, &error, PuntClass::Other);
    assert_eq!(router.stack.filter().map(|filter| filter.states().len()), Some(3));
}

/// A rule of NAT leads a port of ours to the daemon: its answers are translated back.
#[test]
fn answers_of_daemons_are_translated_back() {
    let mut router = mirrored();
    let rules = "pass in lan to self tcp 22";
    let nat = "dest in lan to self tcp 2222 to 192.0.2.1:22";
    router.stack.set_filter(Some(published(rules, nat, 1)));
    let syn = tcp(A, OURS, (40_000, 2_222), Flags::SYN);
    router.exchange(&frame(0, A, OURS, protocol::TCP, &syn));
    let got = punted(&mut router);
    assert_eq!(got[0].2[34..38], tcp(A, OURS, (40_000, 22), Flags::SYN)[..4]);
    let answer = tcp(OURS, A, (22, 40_000), Flags::SYN | Flags::ACK);
    let [sent, _] = send(&mut router, &written(OURS, A, protocol::TCP, &answer));
    let expected = tcp(OURS, A, (2_222, 40_000), Flags::SYN | Flags::ACK);
    assert_eq!(sent[0][34..], expected);
}

/// RFC 2131 section 4.1: the answer goes to the client's link address, which has no address yet.
#[test]
fn a_dhcp_server_reaches_a_client_that_answers_no_arp() {
    let mut router = mirrored();
    let client = "192.0.2.77";
    let reply = |ports| {
        let data = udp(OURS, client, ports, b"offer");
        written(OURS, client, protocol::UDP, &data)
    };
    let [sent, other] = send(&mut router, &reply((67, 68)));
    assert!(sent.len() == 1 && other.is_empty(), "{sent:?}");
    assert_eq!(link_of(&sent[0]), (MacAddr([2, 9, 9, 9, 9, 9]), MACS[0]));
    // Of anything else the link address is not believed.
    let [sent, _] = send(&mut router, &reply((67, 69)));
    assert_ne!(link_of(&sent[0]).0, MacAddr([2, 9, 9, 9, 9, 9]));
    // Nor is it of a client beyond another port.
    let data = udp(OURS, B, (67, 68), b"offer");
    let [sent, other] = send(&mut router, &written(OURS, B, protocol::UDP, &data));
    assert!(sent.is_empty());
    assert_eq!(link_of(&other[0]), (HOSTS[1], MACS[1]));
}
