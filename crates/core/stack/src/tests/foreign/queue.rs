//! What arrives, and what does not.

use base::{Counter, DropReason, IpVersion, Limit};
use wire::protocol;

use super::*;
use crate::tests::craft::{Bench, frame_between, transport_sum};
use crate::{Event, ForeignKind, IpSettings};

#[test]
fn a_datagram_for_another_host_comes_to_the_program_and_no_bytes_are_copied() {
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let (_, to) = ask(&mut guest, b"which?");
        exchange(&mut guest, &mut gateway);
        assert_eq!(gateway.stack.next_event(), Some(Event::Foreign));
        assert_eq!(gateway.stack.next_event(), None);
        let mut all = take(&mut gateway.stack);
        let datagram = all.remove(0);
        assert_eq!(datagram.flow.src, SocketAddr::new(guest.addr, 4_000));
        assert_eq!((datagram.flow.dst, datagram.flow.kind), (to, ForeignKind::Udp));
        assert_eq!((datagram.ttl, datagram.tos, datagram.segment_size), (64, 0, 0));
        assert_eq!(datagram.port, gateway.port);
        assert_eq!(datagram.payload.as_slice(), b"which?");
        assert!(!gateway.stack.pool().owns(&datagram.payload), "the guest's own buffer");
        assert_eq!(gateway.stack.counters().of(Counter::ForeignIn), 1);
        assert_eq!(gateway.stack.drops().total(), 0);
        gateway.stack.give_back(datagram.payload);
    }
}

#[test]
fn an_echo_request_for_another_host_comes_with_its_number() {
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let ping = guest.stack.ping_open(Owner::program()).expect("room");
        guest.stack.ping_send(ping, other(version), 7, b"data", NOW).expect("routed");
        exchange(&mut guest, &mut gateway);
        let all = take(&mut gateway.stack);
        let ForeignKind::Echo { seq: 7, .. } = all[0].flow.kind else {
            panic!("{:?}", all[0].flow)
        };
        assert_eq!(all[0].flow.dst, SocketAddr::new(other(version), 0));
        assert_eq!(all[0].payload.as_slice(), b"data");
    }
}

#[test]
fn without_the_setting_and_for_us_all_is_as_ever() {
    for version in BOTH {
        let mut plain = config(version);
        plain.stack.foreign = Foreign::default();
        let (mut guest, mut gateway) = guest_and_gateway(&plain);
        ask(&mut guest, b"which?");
        let ping = guest.stack.ping_open(Owner::program()).expect("room");
        guest.stack.ping_send(ping, other(version), 7, b"data", NOW).expect("routed");
        exchange(&mut guest, &mut gateway);
        assert_eq!(gateway.stack.drops().of(DropReason::IpNotForUs), 2);
        assert!(take(&mut gateway.stack).is_empty());

        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let (local, ours) = (SocketAddr::new(guest.addr, 1), SocketAddr::new(gateway.addr, 9));
        let from = guest.stack.udp_bind(local, Owner::program()).expect("free");
        let into = gateway.stack.udp_bind(ours, Owner::program()).expect("free");
        guest.stack.udp_send(from, ours, b"for us", NOW).expect("routed");
        let ping = guest.stack.ping_open(Owner::program()).expect("room");
        guest.stack.ping_send(ping, gateway.addr, 7, b"data", NOW).expect("routed");
        exchange(&mut guest, &mut gateway);
        assert!(gateway.stack.udp_receive(into).is_some());
        assert_eq!(gateway.stack.counters().of(Counter::IcmpEchoReplies), 1);
        assert!(take(&mut gateway.stack).is_empty());
    }
}

#[test]
fn datagrams_for_us_that_no_socket_takes_come_if_the_program_wants_them() {
    for version in BOTH {
        let mut wants = config(version);
        wants.stack.foreign.unclaimed = true;
        let (mut guest, mut gateway) = guest_and_gateway(&wants);
        let local = SocketAddr::new(guest.addr, 1);
        let from = guest.stack.udp_bind(local, Owner::program()).expect("free");
        let [taken, free] = [9, 10].map(|port| SocketAddr::new(gateway.addr, port));
        let into = gateway.stack.udp_bind(taken, Owner::program()).expect("free");
        for to in [taken, free] {
            guest.stack.udp_send(from, to, b"which?", NOW).expect("routed");
        }
        exchange(&mut guest, &mut gateway);
        assert!(gateway.stack.udp_receive(into).is_some());
        let all = take(&mut gateway.stack);
        assert_eq!((all[0].flow.src, all[0].flow.dst, all.len()), (local, free, 1));
        assert_eq!(all[0].payload.as_slice(), b"which?");
        let settings = IpSettings::default();
        gateway.stack.udp_send_between(free, local, settings, b"this", NOW).expect("routed");
        exchange(&mut gateway, &mut guest);
        assert_eq!(guest.stack.udp_receive(from).map(|d| d.from), Some(free));
        assert_eq!(gateway.stack.drops().total(), 0);
    }
}

/// A bench whose stack takes what is for other hosts.
fn bench(version: IpVersion) -> Bench {
    let mut config = config(version);
    config.stack.foreign.unclaimed = true;
    Bench::new(&config)
}

fn udp(src: SocketAddr, dst: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let sum = wire::checksum::Ladder::Word64.sum(payload);
    let flow = inet::udp::flow_sum(src, dst);
    let header = inet::udp::header((src.port(), dst.port()), payload.len(), flow, Some(sum));
    frame_between(src.ip(), dst.ip(), protocol::UDP, &[&header[..], payload].concat())
}

#[test]
fn groups_broadcasts_and_addresses_of_no_host_are_not_taken() {
    let mut bench = bench(IpVersion::V4);
    let src = SocketAddr::new(bench.theirs, 9);
    let cases = [
        ("224.0.0.251", DropReason::GroupNotJoined),
        ("255.255.255.255", DropReason::UdpNoSocket),
        ("192.0.2.255", DropReason::UdpNoSocket),
        ("127.0.0.1", DropReason::IpMartianDestination),
        ("0.1.2.3", DropReason::IpMartianDestination),
    ];
    for (dst, reason) in cases {
        let before = bench.stack.drops().of(reason);
        let to = SocketAddr::new(dst.parse().expect("an address"), 53);
        bench.exchange(&udp(src, to, b"x"), NOW);
        assert_eq!(bench.stack.drops().of(reason), before + 1, "{dst}");
    }
    // A source that cannot be a host.
    let bad = SocketAddr::new("192.0.2.255".parse().expect("an address"), 9);
    let dst = SocketAddr::new(other(IpVersion::V4), 53);
    bench.exchange(&udp(bad, dst, b"x"), NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IpMartianSource), 1);
    assert!(take(&mut bench.stack).is_empty());
    assert_eq!(bench.peers_buffers_out(), 0);
}

#[test]
fn wrong_checksums_and_other_messages_are_dropped_by_name() {
    for version in BOTH {
        let mut bench = bench(version);
        let ends = (SocketAddr::new(bench.theirs, 9), SocketAddr::new(other(version), 53));
        let mut frame = udp(ends.0, ends.1, b"which?");
        let last = frame.len() - 1;
        frame[last] ^= 1;
        bench.exchange(&frame, NOW);
        assert_eq!(bench.stack.drops().of(DropReason::UdpChecksum), 1);
        frame.truncate(last - 6);
        bench.exchange(&frame, NOW);
        // An echo reply for another host is no business of anybody here.
        let (kind, number) = if version == IpVersion::V4 { (0, 1) } else { (129, 58) };
        let mut reply = vec![kind, 0, 0, 0, 0, 1, 0, 2, 3, 4];
        let pseudo = match version {
            IpVersion::V4 => wire::checksum::Ladder::Word64.sum(&reply),
            IpVersion::V6 => transport_sum(bench.theirs, ends.1.ip(), number, &reply),
        };
        reply[2..4].copy_from_slice(&pseudo.field());
        bench.exchange(&frame_between(bench.theirs, ends.1.ip(), number, &reply), NOW);
        assert_eq!(bench.stack.drops().of(DropReason::IpNotForUs), 1);
        assert!(take(&mut bench.stack).is_empty());
        assert_eq!(bench.peers_buffers_out(), 0);
    }
}

#[test]
fn the_queue_is_bounded_by_datagrams_and_by_the_buffers_that_they_hold() {
    let mut bench = bench(IpVersion::V4);
    let ends = (SocketAddr::new(bench.theirs, 9), SocketAddr::new(other(IpVersion::V4), 53));
    let frame = udp(ends.0, ends.1, b"which?");
    let flood = |bench: &mut Bench| (0..100).for_each(|_| drop(bench.exchange(&frame, NOW)));
    bench.stack.core.cx.budget.set(Limit::ForeignDatagrams, 40);
    flood(&mut bench);
    assert_eq!(bench.stack.drops().of(DropReason::ForeignQueueFull), 60);
    assert_eq!(bench.stack.budget().hits(Limit::ForeignDatagrams), 60);
    assert_eq!(take(&mut bench.stack).len(), 40);
    // A datagram of six bytes holds a buffer of two kilobytes.
    bench.stack.core.cx.budget.set(Limit::ForeignBytes, 20 * 2_048);
    flood(&mut bench);
    let all = take(&mut bench.stack);
    assert_eq!(all.len(), 20);
    assert_eq!(bench.stack.budget().hits(Limit::ForeignBytes), 80);
    all.into_iter().for_each(|datagram| bench.stack.give_back(datagram.payload));
    flood(&mut bench);
    assert_eq!(take(&mut bench.stack).len(), 20, "the bytes were given back");
    bench.stack.settle();
    assert_eq!(bench.peers_buffers_out(), 0);
}

#[test]
fn datagrams_that_a_device_has_put_together_come_as_one_with_their_size() {
    let mut config = config(IpVersion::V4);
    let offloads = &mut config.wire.offloads;
    (offloads.tx_checksum, offloads.rx_checksum) = (true, true);
    offloads.uso_max_bytes = 65_535 + 14;
    let (mut guest, mut gateway) = guest_and_gateway(&config);
    let (socket, to) = ask(&mut guest, b"first");
    guest.stack.udp_send_segments(socket, to, &[7; 1_050], 100, NOW).expect("room");
    exchange(&mut guest, &mut gateway);
    let all = take(&mut gateway.stack);
    let sizes: Vec<_> = all.iter().map(|d| (d.payload.len(), d.segment_size)).collect();
    assert_eq!(sizes, [(5, 0), (1_050, 100)]);
}

#[test]
fn a_datagram_in_fragments_comes_whole() {
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let payload: Vec<u8> = (0..4_000).map(|n| n as u8).collect();
        ask(&mut guest, &payload);
        exchange(&mut guest, &mut gateway);
        let all = take(&mut gateway.stack);
        assert!(all[0].payload.as_slice() == payload);
    }
}
