//! Neighbours that are resolved by ARP and ND: two stacks without configured neighbours, and a
//! stack whose wire the test holds. RFC 826, RFC 4861, RFC 1122 sections 2.3.2.1 and 2.3.2.2.

mod hostile;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Counter, DropReason, Duration, Instant, IpVersion, Limit, MacAddr, Owner};
use device::mem;
use inet::nd;
use inet::neighbour::State;
use wire::arp::{self, Operation};

use super::craft::Bench;
use crate::pair::{self, PairConfig};
use crate::{Event, ListenConfig, PortConfig, PortId, Stack, TcpHandle};

const NOW: Instant = Instant::from_nanos(5_000_000_000);
const PORT: PortId = PortId(0);
const V4: usize = 0;

fn after(ms: u64) -> Instant {
    NOW + Duration::from_millis(ms)
}

fn of(version: IpVersion) -> PairConfig {
    PairConfig { version, ..PairConfig::new([3, 4]) }
}

/// Two stacks on one wire, each of which knows only its own addresses.
pub(super) fn strangers() -> [Stack; 2] {
    let config = PairConfig::new([3, 4]);
    let (left, right) = mem::pair(&config.wire);
    let make = |device, number: u8| {
        let mut settings = config.stack.clone();
        settings.seed[0] ^= u64::from(number);
        let mut stack = Stack::new(settings);
        let addresses = pair::addresses(number).to_vec();
        stack.add_port(
            Box::new(device),
            PortConfig { mac: pair::mac(number), addresses, ..PortConfig::default() },
        );
        stack
    };
    [make(left, 1), make(right, 2)]
}

fn connect(stack: &mut Stack, to: IpAddr, now: Instant) -> TcpHandle {
    let to = SocketAddr::new(to, 80);
    stack.tcp_connect(to, None, &tcp::Config::default(), Owner::program(), now).expect("routed")
}

/// A frame with an ARP packet from end 2.
fn arp_frame(operation: Operation, sender: (MacAddr, Ipv4Addr), target: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; 14];
    let (dst, ethertype) = (pair::mac(1), wire::ether::ARP);
    wire::ether::Header { dst, src: sender.0, ethertype }.emit(&mut frame);
    frame.extend(nd::arp_output(operation, sender, (pair::mac(1), target)));
    frame
}

/// A frame from end 2 with a solicitation for the stack's address, or with an advertisement.
fn nd_frame(bytes: &[u8], src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8) -> Vec<u8> {
    let mut frame = super::craft::frame_between(src.into(), dst.into(), 58, bytes);
    frame[14 + 7] = hop_limit;
    frame
}

fn v4(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(a) => a,
        IpAddr::V6(_) => panic!("IPv4"),
    }
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V6(a) => a,
        IpAddr::V4(_) => panic!("IPv6"),
    }
}

fn arp_of(frame: &[u8]) -> Option<arp::Header> {
    (frame.get(12..14)? == [8, 6]).then(|| arp::Header::parse(&frame[14..]).ok()).flatten()
}

#[test]
fn a_connection_finds_its_neighbour_both_ways() {
    for end in [V4, 1] {
        let [mut client, mut server] = strangers();
        let to = pair::addresses(2)[end].addr;
        let listener =
            server.tcp_listen(SocketAddr::new(to, 80), ListenConfig::default()).expect("free");
        let handle = connect(&mut client, to, NOW);
        for _ in 0..10 {
            client.poll(NOW);
            server.poll(NOW);
        }
        assert!(server.tcp_accept(listener).is_some(), "{to}");
        assert_eq!(client.tcp_info(handle).expect("there").retransmits, 0);
        assert_eq!(client.neighbour_state(PORT, to), Some(State::Reachable));
        let ours = pair::addresses(1)[end].addr;
        // The server learnt the client's address from its request; it has not sent a request.
        assert_eq!(server.neighbour_state(PORT, ours), Some(State::Delay));
        assert_eq!(server.counters().of(Counter::NeighbourSolicitations), 0);
    }
}

/// RFC 4861 7.2.2-a.
#[test]
fn a_connect_to_nobody_ends_after_three_questions_as_host_unreachable() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let mut bench = Bench::among_strangers(&of(version));
        let theirs = bench.theirs;
        let handle = connect(&mut bench.stack, theirs, NOW);
        let mut asked = bench.sent().len();
        for ms in (0..=3_100).step_by(50) {
            asked += bench.poll(after(ms)).len();
            assert_eq!(bench.stack.tcp_state(handle).expect("kept").1.is_some(), ms >= 3_000);
        }
        assert_eq!(asked, 3, "not three solicitations, or a SYN left");
        let (_, error) = bench.stack.tcp_state(handle).expect("kept for its user");
        assert_eq!(error, Some(tcp::Error::HostUnreachable));
        assert_eq!(bench.stack.neighbour_state(PORT, theirs), None);
    }
}

/// A traceroute sends 16 probes at once, and their answers go to a neighbour that is new.
#[test]
fn a_burst_to_a_new_neighbour_is_held_whole() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    let local = SocketAddr::new(bench.ours, 9);
    let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
    let remote = SocketAddr::new(bench.theirs, 7);
    for n in 0..16 {
        bench.stack.udp_send(socket, remote, &[n], NOW).expect("taken");
    }
    let theirs = (pair::mac(2), v4(bench.theirs));
    let reply = arp_frame(Operation::Reply, theirs, v4(bench.ours));
    assert_eq!(bench.sent().len(), 1, "not one solicitation left");
    let sent = bench.exchange(&reply, after(5));
    let payloads: Vec<u8> = sent.iter().map(|frame| frame[42]).collect();
    assert_eq!(payloads, Vec::from_iter(0..16));
}

#[test]
fn datagrams_are_held_the_latest_three_and_leave_when_the_answer_comes() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    bench.stack.core.cx.budget.set(Limit::NeighbourQueue, 3);
    let local = SocketAddr::new(bench.ours, 9);
    let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
    let remote = SocketAddr::new(bench.theirs, 7);
    for n in 0..5 {
        bench.stack.udp_send(socket, remote, &[n], NOW).expect("taken");
    }
    assert_eq!(bench.sent().len(), 1, "not one solicitation left");
    assert_eq!(bench.stack.drops().of(DropReason::NeighbourQueueFull), 2);
    let theirs = (pair::mac(2), v4(bench.theirs));
    let reply = arp_frame(Operation::Reply, theirs, v4(bench.ours));
    let sent = bench.exchange(&reply, after(5));
    let payloads: Vec<u8> = sent.iter().map(|frame| frame[42]).collect();
    assert_eq!(payloads, [2, 3, 4]);
    assert!(sent.iter().all(|frame| frame[..6] == pair::mac(2).0));
    assert_eq!(bench.stack.pool().outstanding(), 0);
}

#[test]
fn datagrams_to_nobody_are_dropped_by_name_and_their_sender_is_told() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V6));
    let local = SocketAddr::new(bench.ours, 9);
    let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
    let remote = SocketAddr::new(bench.theirs, 7);
    bench.stack.udp_send(socket, remote, b"hello", NOW).expect("taken");
    (0..=40).for_each(|n| drop(bench.poll(after(n * 100))));
    assert_eq!(bench.stack.drops().of(DropReason::IpNoNeighbour), 1);
    assert_eq!(bench.stack.next_event(), Some(Event::Udp(socket)));
    let told = bench.stack.udp_take_error(socket);
    assert_eq!(told, Some((remote, crate::Unreachable::Host)));
    assert_eq!(bench.stack.pool().outstanding(), 0);
}

/// RFC 826 2-c, 2-d.
#[test]
fn requests_for_our_address_are_answered_and_others_are_not() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    let (ours, theirs) = (v4(bench.ours), v4(bench.theirs));
    let request = arp_frame(Operation::Request, (pair::mac(2), theirs), ours);
    let sent = bench.exchange(&request, NOW);
    let reply = arp_of(&sent[0]).expect("ARP");
    assert_eq!(reply.operation, Operation::Reply);
    assert_eq!((reply.sender_mac, reply.sender_ip), (pair::mac(1), ours));
    assert_eq!((reply.target_mac, reply.target_ip), (pair::mac(2), theirs));
    assert_eq!(bench.stack.neighbour_state(PORT, bench.theirs), Some(State::Stale));

    let other = Ipv4Addr::new(192, 0, 2, 77);
    let request = arp_frame(Operation::Request, (pair::mac(2), other), other);
    assert!(bench.exchange(&request, NOW).is_empty(), "a gratuitous request was answered");
    assert_eq!(bench.stack.neighbour_state(PORT, other.into()), None);
    let reply = arp_frame(Operation::Reply, (pair::mac(2), other), ours);
    assert!(bench.exchange(&reply, NOW).is_empty(), "an unsolicited reply was answered");
    assert_eq!(bench.stack.neighbour_state(PORT, other.into()), None);
    assert_eq!(bench.stack.drops().of(DropReason::ArpUnsolicited), 2);

    let claim = arp_frame(Operation::Reply, (pair::mac(9), ours), theirs);
    bench.exchange(&claim, NOW);
    assert_eq!(bench.stack.drops().of(DropReason::NeighbourConflict), 1);
}

/// RFC 4861 7.1-a, 7.2.4-a; RFC 4291 2.7.1-a.
#[test]
fn solicitations_are_answered_if_they_prove_to_come_from_the_link() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V6));
    let (ours, theirs) = (v6(bench.ours), v6(bench.theirs));
    let group = nd::solicited_node(ours);
    let mut bytes = [0; 32];
    let len = nd::solicitation(&mut bytes, pair::mac(2), theirs, group, ours).expect("fits");
    let far = nd_frame(&bytes[..len], theirs, group, 254);
    assert!(bench.exchange(&far, NOW).is_empty());
    assert_eq!(bench.stack.drops().of(DropReason::IcmpMalformed), 1);
    let near = nd_frame(&bytes[..len], theirs, group, 255);
    let sent = bench.exchange(&near, NOW);
    let answer = wire::nd::Header::parse(&sent[0][54..]).expect("ND");
    assert_eq!((answer.target, answer.link_addr), (ours, Some(pair::mac(1))));
    assert_eq!(sent[0][..6], pair::mac(2).0);
    assert_eq!(sent[0][14 + 7], 255, "wrong hop limit");
    assert_eq!(bench.stack.neighbour_state(PORT, bench.theirs), Some(State::Stale));
}

/// A stale entry that is used is probed by unicast after five seconds. Without an answer it is
/// removed, and the next packet causes a multicast solicitation or a broadcast ARP request.
#[test]
fn a_stale_neighbour_is_checked_when_used_and_forgotten_when_silent() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    let (ours, theirs) = (v4(bench.ours), v4(bench.theirs));
    let request = arp_frame(Operation::Request, (pair::mac(2), theirs), ours);
    bench.exchange(&request, NOW);
    let local = SocketAddr::new(bench.ours, 9);
    let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
    let remote = SocketAddr::new(bench.theirs, 7);
    bench.stack.udp_send(socket, remote, b"x", NOW).expect("taken");
    assert_eq!(bench.sent().len(), 1, "the datagram did not leave at once");
    assert_eq!(bench.stack.neighbour_state(PORT, bench.theirs), Some(State::Delay));
    let probes: Vec<_> = (1..=90).flat_map(|n| bench.poll(after(n * 100))).collect();
    assert_eq!(probes.len(), 3);
    assert!(probes.iter().all(|frame| frame[..6] == pair::mac(2).0 && arp_of(frame).is_some()));
    assert_eq!(bench.stack.neighbour_state(PORT, bench.theirs), None);
    bench.stack.udp_send(socket, remote, b"x", after(9_500)).expect("held");
    assert_eq!(bench.sent()[0][..6], MacAddr::BROADCAST.0);
}

/// Data that stays unacknowledged puts an older neighbour entry in doubt: the neighbour is probed,
/// and the entry is removed if it does not answer.
/// RFC 9293 MUST-20.
#[test]
fn time_outs_of_a_connection_have_its_neighbour_checked() {
    let [mut client, mut server] = strangers();
    let to = pair::addresses(2)[V4].addr;
    server.tcp_listen(SocketAddr::new(to, 80), ListenConfig::default()).expect("free");
    let handle = connect(&mut client, to, NOW);
    for _ in 0..10 {
        client.poll(NOW);
        server.poll(NOW);
    }
    let later = |tenth: u64| after(60_000 + tenth * 100);
    client.poll(later(0));
    assert_eq!(client.tcp_write(handle, b"x"), Ok(1));
    client.poll(later(0));
    assert_eq!(
        client.neighbour_state(PORT, to),
        Some(State::Reachable),
        "the neighbour was put in doubt at once"
    );
    for tenth in 1..=30 {
        client.poll(later(tenth));
    }
    assert_eq!(client.neighbour_state(PORT, to), Some(State::Delay));
    for tenth in 31..=100 {
        client.poll(later(tenth));
    }
    assert_eq!(client.neighbour_state(PORT, to), None);
}

/// A peer that got a SYN-ACK may consider the connection established: after 25 s of silence it
/// still finds the connection.
#[test]
fn a_silent_neighbour_does_not_end_a_handshake_that_was_answered() {
    let [mut client, mut server] = strangers();
    let to = pair::addresses(2)[V4].addr;
    server.tcp_listen(SocketAddr::new(to, 80), ListenConfig::default()).expect("free");
    let handle = connect(&mut client, to, NOW);
    client.poll(NOW);
    server.poll(NOW);
    client.poll(NOW);
    server.poll(NOW);
    let from = pair::addresses(1)[V4].addr;
    assert!(server.neighbour_state(PORT, from).is_some());
    for tenth in 1..=250 {
        server.poll(after(tenth * 100));
    }
    assert!(
        server.counters().of(Counter::NeighbourFailures) > 0,
        "the silent neighbour was not solicited"
    );
    for tenth in 251..=500 {
        client.poll(after(tenth * 100));
        server.poll(after(tenth * 100));
    }
    let read = client.tcp_read(handle, &mut [0; 8]);
    assert_eq!(read, Err(crate::CallError::WouldBlock), "the connection was reset");
}

/// The neighbour's address moves to another host, which advertises it: open connections use the new
/// link address.
#[test]
fn connections_follow_a_neighbour_that_moves() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    let (ours, theirs) = (v4(bench.ours), v4(bench.theirs));
    let peer = bench.theirs;
    connect(&mut bench.stack, peer, NOW);
    let reply = arp_frame(Operation::Reply, (pair::mac(2), theirs), ours);
    let syn = bench.exchange(&reply, NOW).pop().expect("SYN");
    assert_eq!(syn[..6], pair::mac(2).0);
    let moved = arp_frame(Operation::Request, (pair::mac(9), theirs), theirs);
    // The entry changes however new it is.
    bench.exchange(&moved, after(10));
    let syn = bench.poll(after(1_100)).pop().expect("SYN again");
    assert_eq!(syn[..6], pair::mac(9).0);
}

/// Two hosts claim one address: the first moves are accepted, then one in a second; the others are
/// dropped under a reason of their own, and the next use of the entry solicits the neighbour.
#[test]
fn moves_of_one_neighbour_are_bounded_and_others_are_followed() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    let (ours, theirs) = (v4(bench.ours), v4(bench.theirs));
    let claim = |n, ip| arp_frame(Operation::Request, (pair::mac(n), ip), ip);
    let other = Ipv4Addr::new(192, 0, 2, 77);
    for ip in [theirs, other] {
        bench.exchange(&arp_frame(Operation::Request, (pair::mac(2), ip), ours), NOW);
    }
    let mac_of = |bench: &Bench, ip: Ipv4Addr| {
        bench.stack.neighbours.rows().find(|row| row.ip == IpAddr::V4(ip)).and_then(|row| row.mac)
    };
    let too_often = |bench: &Bench| bench.stack.drops().of(DropReason::NeighbourMovesTooOften);
    for n in 3..7 {
        bench.exchange(&claim(n, theirs), after(u64::from(n)));
        assert_eq!(mac_of(&bench, theirs), Some(pair::mac(n)));
    }
    let answer = arp_frame(Operation::Reply, (pair::mac(6), theirs), ours);
    bench.exchange(&answer, after(8));
    assert_eq!(bench.stack.neighbour_state(PORT, theirs.into()), Some(State::Reachable));
    assert_eq!(too_often(&bench), 0);
    bench.exchange(&claim(7, theirs), after(9));
    assert_eq!((mac_of(&bench, theirs), too_often(&bench)), (Some(pair::mac(6)), 1));
    assert_eq!(bench.stack.neighbour_state(PORT, theirs.into()), Some(State::Stale));
    bench.exchange(&claim(3, other), after(10));
    assert_eq!(
        mac_of(&bench, other),
        Some(pair::mac(3)),
        "the limit of one neighbour holds for another"
    );
    bench.exchange(&claim(7, theirs), after(1_100));
    assert_eq!(mac_of(&bench, theirs), Some(pair::mac(7)), "no move was accepted a second later");
}

/// RFC 4861 7.2.5: an advertisement with the override flag replaces the link address at once;
/// without the flag it only makes a reachable entry stale.
#[test]
fn an_override_is_followed_at_once_in_ipv6() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V6));
    let (ours, theirs) = (v6(bench.ours), v6(bench.theirs));
    let said = |n, solicited, overrides, dst: Ipv6Addr| {
        let header = wire::nd::Header {
            kind: wire::nd::Kind::Advertisement { router: false, solicited, overrides },
            target: theirs,
            link_addr: Some(pair::mac(n)),
        };
        let mut bytes = [0; wire::nd::LEN_MAX];
        let len = header.emit(&mut bytes, theirs, dst).expect("room");
        nd_frame(&bytes[..len], theirs, dst, 255)
    };
    let row = |bench: &Bench| bench.stack.neighbours.rows().next().expect("one");
    let peer = bench.theirs;
    connect(&mut bench.stack, peer, NOW);
    bench.exchange(&said(2, true, true, ours), NOW);
    assert_eq!((row(&bench).mac, row(&bench).state), (Some(pair::mac(2)), State::Reachable));
    bench.exchange(&said(9, false, false, nd::ALL_NODES), after(1));
    assert_eq!((row(&bench).mac, row(&bench).state), (Some(pair::mac(2)), State::Stale));
    bench.exchange(&said(9, false, true, nd::ALL_NODES), after(2));
    assert_eq!((row(&bench).mac, row(&bench).state), (Some(pair::mac(9)), State::Stale));
}

#[test]
fn a_static_neighbour_believes_nobody() {
    let mut bench = Bench::new(&of(IpVersion::V4));
    let (ours, theirs) = (v4(bench.ours), v4(bench.theirs));
    let lie = arp_frame(Operation::Reply, (pair::mac(9), theirs), ours);
    bench.exchange(&lie, NOW);
    assert_eq!(bench.stack.neighbour_state(PORT, bench.theirs), Some(State::Static));
    let peer = bench.theirs;
    connect(&mut bench.stack, peer, NOW);
    assert_eq!(bench.sent()[0][..6], pair::mac(2).0);
}

/// RFC 1122 3.3.6-c.
#[test]
fn groups_and_broadcasts_ask_nobody() {
    let mut bench = Bench::among_strangers(&of(IpVersion::V4));
    let local = SocketAddr::new(bench.ours, 9);
    let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
    bench.stack.udp_set_broadcast(socket, true).expect("open");
    let any = "0.0.0.0/0".parse().expect("a network");
    bench.stack.add_route(inet::Route::new(any, None, 0));
    for (to, mac) in [
        ("224.129.2.3", MacAddr([1, 0, 0x5e, 1, 2, 3])),
        ("255.255.255.255", MacAddr::BROADCAST),
        ("192.0.2.255", MacAddr::BROADCAST),
        ("192.0.2.0", MacAddr::BROADCAST),
    ] {
        let to = SocketAddr::new(to.parse().expect("an address"), 7);
        bench.stack.udp_send(socket, to, b"x", NOW).expect("taken");
        assert_eq!(bench.sent()[0][..6], mac.0, "{to}");
    }
    assert!(bench.stack.neighbours.is_empty());
}
