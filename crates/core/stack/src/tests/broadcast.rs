//! Broadcasts: both forms of the address, broadcast frames with a packet for one host, the
//! permission to send, and the neighbour that uses the other form. RFC 1122 sections 3.2.2 and
//! 3.3.6.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Counter, DropReason, Duration, Instant, Limit, MacAddr, Owner};
use wire::arp::Operation;

use super::craft::{Bench, frame_between, transport_sum};
use crate::pair::{self, PairConfig};
use crate::{BroadcastForm, Event, PortId, UdpError, UdpHandle};

const NOW: Instant = Instant::from_nanos(5_000_000_000);
const PORT: PortId = PortId(0);
const RIP: u16 = 520;

fn bench() -> Bench {
    Bench::among_strangers(&PairConfig::new([8, 9]))
}

fn v4(a: IpAddr) -> Ipv4Addr {
    match a {
        IpAddr::V4(a) => a,
        IpAddr::V6(_) => panic!("IPv4"),
    }
}

fn addr(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A broadcast frame with a datagram to `dst`, port 520.
fn to_all(src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let mut datagram = vec![2, 8, 2, 8, 0, 12, 0, 0, b'r', b'i', b'p', 0];
    let sum = transport_sum(src, dst, 17, &datagram);
    datagram[6..8].copy_from_slice(&sum.field());
    let mut frame = frame_between(src, dst, 17, &datagram);
    frame[..6].fill(0xff);
    frame
}

fn socket(bench: &mut Bench) -> UdpHandle {
    let any = SocketAddr::new(addr("0.0.0.0"), RIP);
    bench.stack.udp_bind(any, Owner::program()).expect("free")
}

/// RFC 1122 3.3.6-a, 3.3.6-b.
#[test]
fn a_broadcast_of_either_form_arrives_and_a_unicast_to_all_does_not() {
    let mut bench = bench();
    let udp = socket(&mut bench);
    for form in ["192.0.2.255", "192.0.2.0", "255.255.255.255", "0.0.0.0"] {
        let frame = to_all(bench.theirs, addr(form));
        assert_eq!(bench.exchange(&frame, NOW).len(), 0, "{form}");
        let datagram = bench.stack.udp_receive(udp).expect(form);
        assert_eq!(datagram.to.ip(), addr(form));
        bench.stack.give_back(datagram.payload);
    }
    assert_eq!(bench.stack.drops().total(), 0);
    let others = [bench.ours, addr("192.0.2.77"), addr("192.0.255.255"), addr("9.9.9.9")];
    for (n, dst) in others.into_iter().enumerate() {
        let frame = to_all(bench.theirs, dst);
        assert_eq!(bench.exchange(&frame, NOW).len(), 0, "{dst}");
        assert_eq!(bench.stack.drops().of(DropReason::IpLinkBroadcast), n as u64 + 1, "{dst}");
        assert!(bench.stack.udp_receive(udp).is_none(), "{dst}");
    }
    let [ours, theirs] = [1, 2].map(|end| pair::addresses(end)[1].addr);
    let mut frame = frame_between(theirs, ours, 58, &[128, 0, 0, 0, 0, 0, 0, 0]);
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(bench.exchange(&frame, NOW).len(), 0);
    assert_eq!(bench.stack.drops().of(DropReason::IpLinkBroadcast), 5);
    assert_eq!(bench.stack.pool().outstanding(), 0);
}

/// A packet in a broadcast frame causes neither an ICMP error nor an ARP request (RFC 1122 section
/// 3.2.2).
#[test]
fn what_was_sent_to_all_draws_nothing() {
    for forwards in [false, true] {
        let mut bench = bench();
        bench.stack.set_forwarding(forwards);
        let any = "0.0.0.0/0".parse().expect("a network");
        bench.stack.add_route(inet::Route::new(any, None, 0));
        let dsts = ["192.0.2.255", "192.0.2.0", "192.0.2.77", "192.0.255.255", "9.9.9.9"];
        for dst in dsts {
            for protocol in [1, 6, 17, 99] {
                let mut frame = to_all(bench.theirs, addr(dst));
                frame[14 + 9] = protocol;
                super::craft::number(&mut frame, 1);
                assert_eq!(bench.exchange(&frame, NOW).len(), 0, "{dst} {protocol} {forwards}");
            }
        }
        assert!(bench.stack.neighbours.is_empty());
        assert_eq!(bench.stack.drops().total(), 20);
        assert_eq!(bench.stack.counters().of(Counter::Forwarded), 0);
    }
}

/// A broadcast storm costs as little as possible: packets without a receiver are dropped before
/// their checksum is computed.
#[test]
fn what_nobody_takes_is_dropped_before_its_checksum_is_read() {
    let mut bench = bench();
    let reasons = [(17, DropReason::UdpNoSocket), (6, DropReason::TcpGroupAddress)];
    for (protocol, reason) in reasons {
        let mut frame = to_all(bench.theirs, addr("192.0.2.255"));
        frame[14 + 9] = protocol;
        frame[14 + 20 + 6] ^= 1;
        super::craft::number(&mut frame, 1);
        assert_eq!(bench.exchange(&frame, NOW).len(), 0);
        assert_eq!(bench.stack.drops().of(reason), 1, "{protocol}");
    }
    // With a socket for the datagram its checksum is computed.
    let udp = socket(&mut bench);
    let mut frame = to_all(bench.theirs, addr("192.0.2.255"));
    frame[14 + 20 + 6] ^= 1;
    bench.exchange(&frame, NOW);
    assert_eq!(bench.stack.drops().of(DropReason::UdpChecksum), 1);
    assert!(bench.stack.udp_receive(udp).is_none());
}

#[test]
fn a_socket_broadcasts_only_with_permission() {
    let mut bench = bench();
    let udp = socket(&mut bench);
    let forms = ["192.0.2.255", "192.0.2.0"].map(|form| SocketAddr::new(addr(form), 7));
    for to in forms {
        assert_eq!(bench.stack.udp_send(udp, to, b"x", NOW), Err(UdpError::Broadcast), "{to}");
    }
    assert_eq!(bench.sent().len(), 0);
    bench.stack.udp_set_broadcast(udp, true).expect("open");
    for to in forms {
        assert_eq!(bench.stack.udp_send(udp, to, b"x", NOW), Ok(()));
        assert_eq!(bench.sent()[0][..6], [0xff; 6], "{to}");
    }
    let ping = bench.stack.ping_open(Owner::program()).expect("room");
    for to in forms {
        let asked = bench.stack.ping_send(ping, to.ip(), 1, b"x", NOW);
        assert_eq!(asked, Err(UdpError::Broadcast), "{to}");
    }
    // The network's old broadcast address (host part 0) is not accepted as a destination: RFC 1122
    // section 3.2.1.3.
    let any = "0.0.0.0/0".parse().expect("a network");
    bench.stack.add_route(inet::Route::new(any, None, 0));
    let to = SocketAddr::new(addr("0.0.0.0"), 7);
    let refused = Err(UdpError::Unsendable(DropReason::IpMartianDestination));
    assert_eq!(bench.stack.udp_send(udp, to, b"x", NOW), refused);
    bench.stack.udp_close(udp);
    assert_eq!(bench.stack.udp_set_broadcast(udp, true), Err(UdpError::Closed));
}

/// A gateway whose address is a broadcast address, and a host that claims such an address by ARP.
/// RFC 1122 3.3.6-c.
#[test]
fn nobody_is_asked_for_or_believed_to_have_a_broadcast_address() {
    let mut bench = bench();
    let udp = socket(&mut bench);
    for (net, via) in [("203.0.113.0/24", "192.0.2.255"), ("198.51.100.0/24", "192.0.2.0")] {
        let dest = net.parse().expect("a network");
        bench.stack.add_route(inet::Route::new(dest, Some(addr(via)), 0));
    }
    let refused = Err(UdpError::Unsendable(DropReason::IpBroadcastNextHop));
    for to in ["203.0.113.9", "198.51.100.9"] {
        let to = SocketAddr::new(addr(to), 7);
        assert_eq!(bench.stack.udp_send(udp, to, b"x", NOW), refused);
    }
    let ours = v4(bench.ours);
    for claimed in ["192.0.2.255", "192.0.2.0"] {
        for operation in [Operation::Request, Operation::Reply] {
            let sender = (pair::mac(2), v4(addr(claimed)));
            let mut frame = vec![0; 14];
            let ethertype = wire::ether::ARP;
            wire::ether::Header { dst: pair::mac(1), src: sender.0, ethertype }.emit(&mut frame);
            frame.extend(inet::nd::arp_output(operation, sender, (pair::mac(1), ours)));
            bench.exchange(&frame, NOW);
        }
    }
    assert!(bench.stack.neighbours.is_empty());
}

#[test]
fn a_neighbour_of_the_other_form_is_named_once_a_minute() {
    let mut bench = bench();
    let (udp, theirs) = (socket(&mut bench), v4(bench.theirs));
    let mut notices = 0;
    for second in 0..=120 {
        for form in ["192.0.2.0", "192.0.2.255"] {
            let frame = to_all(theirs.into(), addr(form));
            bench.exchange(&frame, NOW + Duration::from_secs(second));
        }
        while let Some(event) = bench.stack.next_event() {
            notices += usize::from(event == Event::OtherBroadcast(PORT));
        }
        while let Some(datagram) = bench.stack.udp_receive(udp) {
            bench.stack.give_back(datagram.payload);
        }
    }
    assert_eq!(notices, 3);
    let [row] = bench.stack.other_broadcasters() else { panic!("one neighbour") };
    assert_eq!((row.source, row.mac, row.count), (theirs, pair::mac(2), 121));
    assert_eq!(row.form, BroadcastForm::Zeros);
    let says = format!(
        "{theirs} ({}) broadcasts to 192.0.2.0, this port to 192.0.2.255: set both to the same \
         address",
        pair::mac(2)
    );
    assert_eq!(row.to_string(), says);
    assert_eq!(bench.stack.counters().of(Counter::BroadcastsOtherForm), 121);
    // The port now uses the other form, so the other neighbour is reported.
    let ours = v4(bench.ours);
    assert!(bench.stack.set_broadcast(PORT, ours, v4(addr("192.0.2.0"))));
    assert_eq!(bench.stack.broadcast(PORT, ours), Some(v4(addr("192.0.2.0"))));
    bench.exchange(&to_all(theirs.into(), addr("192.0.2.0")), NOW);
    assert_eq!(bench.stack.other_broadcasters()[0].count, 121);
}

#[test]
fn neighbours_of_other_forms_are_bounded_and_the_newest_is_kept() {
    let mut bench = bench();
    for n in 0..100u8 {
        let mut frame = to_all([192, 0, 2, n].into(), addr("192.0.2.0"));
        frame[6..12].copy_from_slice(&MacAddr([2, 0, 0, 0, 1, n]).0);
        bench.exchange(&frame, NOW + Duration::from_millis(n.into()));
    }
    let rows = bench.stack.other_broadcasters();
    assert_eq!(rows.len(), bench.stack.budget().of(Limit::OtherBroadcasters));
    assert!(rows.iter().any(|row| row.mac == MacAddr([2, 0, 0, 0, 1, 99])));
    assert!(bench.stack.budget().hits(Limit::OtherBroadcasters) > 80);
    // No socket is bound to the port: datagrams are dropped before their checksum is computed.
    assert!(bench.stack.drops().of(DropReason::UdpNoSocket) > 90);
    assert_eq!(bench.stack.pool().outstanding(), 0);
}
