//! A port that answers ARP requests and neighbour solicitations for every address: whom it answers
//! for, and for whom it does not. RFC 1027, RFC 4861 section 7.2.8, RFC 5227, RFC 4862.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Counter, DropReason, IpVersion, MacAddr};
use device::mem;
use inet::nd;
use wire::arp::{self, Operation};
use wire::nd::{Header, Kind};

use super::craft::{Bench, frame_between};
use super::icmp::NOW;
use crate::pair::{self, PairConfig};
use crate::{NeighbourState, PortConfig, PortId, Stack};

const PORT: PortId = PortId(0);

/// A stack with such a port, whose only neighbour is the test.
fn bench(version: IpVersion, answer_all: bool) -> Bench {
    let config = PairConfig { version, ..PairConfig::new([3, 4]) };
    let mut bench = Bench::among_strangers(&config);
    let (left, wire) = mem::pair(&config.wire);
    bench.stack = Stack::new(config.stack);
    let addresses = pair::addresses(1).to_vec();
    bench.stack.add_port(Box::new(left), PortConfig { mac: pair::mac(1), addresses, answer_all });
    bench.wire = wire;
    bench
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().expect("an address")
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// The answer to an ARP packet from this sender.
fn arp(
    bench: &mut Bench,
    operation: Operation,
    sender: (MacAddr, Ipv4Addr),
    target: Ipv4Addr,
) -> Option<arp::Header> {
    let mut frame = vec![0; 14];
    let (dst, ethertype) = (MacAddr::BROADCAST, wire::ether::ARP);
    wire::ether::Header { dst, src: sender.0, ethertype }.emit(&mut frame);
    frame.extend(nd::arp_output(operation, sender, (MacAddr::default(), target)));
    let sent = bench.exchange(&frame, NOW);
    let answer = sent.first()?;
    // Answers from link-local addresses are broadcast (RFC 3927 section 2.5).
    let dst = if target.is_link_local() { MacAddr::BROADCAST } else { sender.0 };
    assert_eq!(answer[..6], dst.0);
    arp::Header::parse(&answer[14..]).ok()
}

/// The answer to a solicitation: its source, and its content.
fn solicit(bench: &mut Bench, src: Ipv6Addr, target: Ipv6Addr) -> Option<(Ipv6Addr, Header)> {
    let dst = nd::solicited_node(target);
    let link_addr = (!src.is_unspecified()).then_some(pair::mac(2));
    let mut bytes = [0; wire::nd::LEN_MAX];
    let message = Header { kind: Kind::Solicitation, target, link_addr };
    let len = message.emit(&mut bytes, src, dst).expect("room");
    let mut frame = frame_between(src.into(), dst.into(), 58, &bytes[..len]);
    frame[14 + 7] = 255;
    let [.., a, b, c, d] = dst.octets();
    frame[..6].copy_from_slice(&[0x33, 0x33, a, b, c, d]);
    let sent = bench.exchange(&frame, NOW);
    let answer = sent.first()?;
    let header = wire::ipv6::Header::parse(&answer[14..]).expect("IPv6");
    let (source, to) = (header.src, header.dst);
    wire::icmpv6::Header::parse(&answer[54..], source, to).expect("its checksum");
    Some((source, Header::parse(&answer[54..]).expect("an advertisement")))
}

#[test]
fn every_address_is_at_the_port_and_the_asker_is_learnt() {
    let mut bench = bench(IpVersion::V4, true);
    let guest = (pair::mac(2), v4("192.0.2.2"));
    for target in ["192.0.2.1", "192.0.2.99", "198.51.100.7", "169.254.1.1", "8.8.8.8"] {
        let answer = arp(&mut bench, Operation::Request, guest, v4(target)).expect(target);
        assert_eq!((answer.operation, answer.sender_ip), (Operation::Reply, v4(target)));
        assert_eq!((answer.sender_mac, answer.target_ip), (pair::mac(1), guest.1));
    }
    let learnt = bench.stack.neighbour_state(PORT, IpAddr::V4(guest.1));
    assert_eq!(learnt, Some(NeighbourState::Stale));
    assert_eq!(bench.stack.counters().of(Counter::NeighbourAdvertisements), 5);
    // A guest that is not of our networks is answered as well.
    let far = (pair::mac(2), v4("10.9.8.7"));
    assert!(arp(&mut bench, Operation::Request, far, v4("8.8.8.8")).is_some());
}

#[test]
fn a_guest_hears_nothing_about_its_own_addresses() {
    let mut bench = bench(IpVersion::V4, true);
    let (mac, guest) = (pair::mac(2), v4("192.0.2.2"));
    let probe = (mac, Ipv4Addr::UNSPECIFIED);
    assert!(arp(&mut bench, Operation::Request, probe, guest).is_none(), "a probe (RFC 5227)");
    assert!(arp(&mut bench, Operation::Request, probe, v4("8.8.8.8")).is_none(), "of any address");
    let announcement = arp(&mut bench, Operation::Request, (mac, guest), guest);
    assert!(announcement.is_none());
    // Once its address is known, nobody else hears ours for it.
    assert!(bench.stack.add_neighbour(PORT, guest.into(), mac));
    let neighbour = (pair::mac(3), v4("192.0.2.3"));
    assert!(arp(&mut bench, Operation::Request, neighbour, guest).is_none());
    assert_eq!(bench.stack.drops().of(DropReason::ArpNotForUs), 3);
    // A probe of an address that is ours is answered, as ever.
    assert!(arp(&mut bench, Operation::Request, probe, v4("192.0.2.1")).is_some());
}

#[test]
fn addresses_of_no_host_and_replies_are_not_answered() {
    let mut bench = bench(IpVersion::V4, true);
    let guest = (pair::mac(2), v4("192.0.2.2"));
    for target in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.255"] {
        assert!(arp(&mut bench, Operation::Request, guest, v4(target)).is_none(), "{target}");
    }
    assert!(arp(&mut bench, Operation::Reply, guest, v4("8.8.8.8")).is_none());
    let ours = (pair::mac(1), v4("192.0.2.2"));
    assert!(arp(&mut bench, Operation::Request, ours, v4("8.8.8.8")).is_none(), "looped");
}

#[test]
fn solicitations_are_answered_without_the_override_flag() {
    let mut bench = bench(IpVersion::V6, true);
    let guest = v6("2001:db8::2");
    for target in ["2001:db8::99", "2001:db8:1::7", "fe80::1"] {
        let (src, answer) = solicit(&mut bench, guest, v6(target)).expect(target);
        let kind = Kind::Advertisement { router: true, solicited: true, overrides: false };
        assert_eq!((answer.kind, answer.target), (kind, v6(target)));
        assert_eq!(answer.link_addr, Some(pair::mac(1)));
        assert_eq!(src, v6("2001:db8::1"), "from an address of ours (RFC 4861 section 7.2.8)");
    }
    let (src, answer) = solicit(&mut bench, guest, v6("2001:db8::1")).expect("ours");
    let kind = Kind::Advertisement { router: false, solicited: true, overrides: true };
    assert_eq!((src, answer.kind), (v6("2001:db8::1"), kind), "as ever");
}

#[test]
fn duplicate_address_detection_of_a_guest_hears_nothing() {
    let mut bench = bench(IpVersion::V6, true);
    let guest = v6("2001:db8::2");
    assert!(solicit(&mut bench, Ipv6Addr::UNSPECIFIED, guest).is_none());
    assert!(solicit(&mut bench, Ipv6Addr::UNSPECIFIED, v6("2001:db8::77")).is_none());
    assert!(solicit(&mut bench, guest, guest).is_none());
    assert_eq!(bench.stack.drops().of(DropReason::NdNotForUs), 3);
    assert!(bench.stack.add_neighbour(PORT, guest.into(), pair::mac(2)));
    assert!(solicit(&mut bench, v6("2001:db8::3"), guest).is_none(), "it answers for itself");
}

#[test]
fn an_ordinary_port_answers_for_its_own_addresses_alone() {
    let mut bench = bench(IpVersion::V4, false);
    let guest = (pair::mac(2), v4("192.0.2.2"));
    assert!(arp(&mut bench, Operation::Request, guest, v4("8.8.8.8")).is_none());
    assert!(solicit(&mut bench, v6("2001:db8::2"), v6("2001:db8::99")).is_none());
    assert!(arp(&mut bench, Operation::Request, guest, v4("192.0.2.1")).is_some());
}
