//! IPv4 address conflict detection and link-local addresses. RFC 5227, RFC 3927.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Cidr, Counter, DropReason, Duration, Instant, IpVersion, LinkKind, MacAddr, Owner};
use inet::nd;
use wire::arp::{self, Operation};
use wire::ether;

use super::craft::Bench;
use super::icmp::{NOW, bench};
use crate::pair::{self, PairConfig};
use crate::{Address, AddressState, Event, Origin, PortConfig, PortId, Stack};

const PORT: PortId = PortId(0);
const NEW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);

fn after(ms: u64) -> Instant {
    NOW + Duration::from_millis(ms)
}

fn tentative(ip: Ipv4Addr, origin: Origin) -> Address {
    let cidr = Cidr { addr: ip.into(), prefix_len: 24 };
    Address { state: AddressState::Tentative, origin, ..Address::fixed(cidr) }
}

/// An ARP packet from the station `station`, whose sender address is `sender`.
fn arp(operation: Operation, station: u8, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; ether::HEADER_LEN];
    let src = pair::mac(station);
    ether::Header { dst: MacAddr::BROADCAST, src, ethertype: ether::ARP }.emit(&mut frame);
    let asked = (MacAddr::default(), target);
    frame.extend(nd::arp_output(operation, (src, sender), asked));
    frame
}

fn arp_of(frame: &[u8]) -> Option<arp::Header> {
    (frame.get(12..14)? == [8, 6]).then(|| arp::Header::parse(&frame[14..]).ok()).flatten()
}

fn state(stack: &Stack, ip: Ipv4Addr) -> Option<AddressState> {
    stack.addresses(PORT).iter().find(|a| a.ip() == IpAddr::V4(ip)).map(|a| a.state)
}

/// A stack with a new tentative address.
fn claiming(origin: Origin) -> Bench {
    let mut bench = bench(IpVersion::V4);
    bench.poll(NOW);
    bench.stack.add_address(PORT, tentative(NEW, origin)).expect("room");
    bench
}

/// Poll at every deadline up to `until`; returns the ARP packets that were sent, with their times.
fn run(bench: &mut Bench, until: Instant) -> Vec<(Instant, arp::Header)> {
    let mut found = Vec::new();
    while bench.stack.next_deadline() <= until {
        let at = bench.stack.next_deadline();
        for frame in bench.poll(at) {
            assert_eq!(frame[..6], MacAddr::BROADCAST.0);
            found.extend(arp_of(&frame).map(|header| (at, header)));
        }
    }
    bench.poll(until);
    found
}

/// RFC 5227 2.1.1-a, 2.1.1-b, 2.1.1-c, 2.3-a, 2.3-b.
#[test]
fn a_tentative_address_is_probed_then_claimed_and_announced() {
    let mut bench = claiming(Origin::Static);
    let sent = run(&mut bench, after(20_000));
    let senders: Vec<_> =
        sent.iter().map(|(_, h)| (h.operation, h.sender_ip, h.target_ip)).collect();
    let (probe, announcement) =
        ((Operation::Request, Ipv4Addr::UNSPECIFIED, NEW), (Operation::Request, NEW, NEW));
    assert_eq!(senders, [probe, probe, probe, announcement, announcement]);
    assert!(sent.iter().all(|(_, h)| h.sender_mac == pair::mac(1)));
    assert!(sent[0].0 < after(1_000));
    assert!(sent[4].0 < after(9_000));
    assert_eq!(state(&bench.stack, NEW), Some(AddressState::Preferred));
    assert_eq!(bench.stack.next_event(), Some(Event::Address(PORT)));
    assert_eq!(bench.stack.next_event(), None);
    assert_eq!(bench.stack.counters().of(Counter::AddressProbes), 3);
    assert_eq!(bench.stack.next_deadline(), Instant::NEVER);
}

/// Like a DHCP client: the network of the address is set once the address is ours.
/// RFC 5227 2.3-a.
#[test]
fn an_address_that_is_changed_when_it_is_won_is_announced_twice() {
    let mut bench = claiming(Origin::Dhcp);
    while state(&bench.stack, NEW) != Some(AddressState::Preferred) {
        let at = bench.stack.next_deadline();
        bench.poll(at);
    }
    let address = bench.stack.addresses(PORT).iter().find(|a| a.ip() == IpAddr::V4(NEW)).copied();
    let cidr = Cidr { addr: NEW.into(), prefix_len: 28 };
    let changed = Address { cidr, ..address.expect("it is there") };
    bench.stack.add_address(PORT, changed).expect("room");
    let sent = run(&mut bench, after(20_000));
    assert_eq!(
        sent.iter().filter(|(_, h)| h.sender_ip == NEW).count(),
        1,
        "the second announcement is missing"
    );
    // A stack that is to check an address again begins at the first probe.
    bench.stack.add_address(PORT, tentative(NEW, Origin::Dhcp)).expect("room");
    assert_eq!(run(&mut bench, after(40_000)).len(), 5);
}

/// Until the address is ours, no request for it is answered, and nothing is sent from it.
#[test]
fn a_tentative_address_answers_nobody() {
    let mut bench = claiming(Origin::Static);
    let other = Ipv4Addr::new(192, 0, 2, 9);
    assert!(bench.exchange(&arp(Operation::Request, 9, other, NEW), NOW).is_empty());
    assert_eq!(state(&bench.stack, NEW), Some(AddressState::Tentative));
    run(&mut bench, after(20_000));
    let request = arp(Operation::Request, 9, other, NEW);
    let answers = bench.exchange(&request, after(20_000));
    let reply = answers.iter().find_map(|frame| arp_of(frame)).expect("a reply");
    assert_eq!((reply.operation, reply.sender_ip), (Operation::Reply, NEW));
}

/// RFC 5227 2.1.1-d, 2.1.1-e.
#[test]
fn who_has_or_wants_a_tentative_address_gets_it() {
    let other = Ipv4Addr::new(192, 0, 2, 9);
    let unspecified = Ipv4Addr::UNSPECIFIED;
    for (frame, conflicts) in [
        (arp(Operation::Reply, 9, NEW, unspecified), true),
        (arp(Operation::Request, 9, NEW, other), true),
        (arp(Operation::Request, 9, NEW, NEW), true),
        // A probe of another host for the same address, and one of ours that was looped back.
        (arp(Operation::Request, 9, unspecified, NEW), true),
        (arp(Operation::Request, 1, unspecified, NEW), false),
        (arp(Operation::Request, 9, unspecified, other), false),
        (arp(Operation::Request, 9, other, NEW), false),
    ] {
        for at in [0, 900, 3_000, 3_999] {
            let mut bench = claiming(Origin::Dhcp);
            run(&mut bench, after(at));
            assert_eq!(state(&bench.stack, NEW), Some(AddressState::Tentative));
            bench.exchange(&frame, after(at));
            let before = bench.stack.drops().of(DropReason::NeighbourConflict);
            assert_eq!(before, u64::from(conflicts));
            let sent = run(&mut bench, after(20_000));
            let (expected, event) = match conflicts {
                true => (AddressState::Duplicated, Some(Event::Address(PORT))),
                false => (AddressState::Preferred, Some(Event::Address(PORT))),
            };
            assert_eq!(state(&bench.stack, NEW), Some(expected));
            assert_eq!(bench.stack.next_event(), event);
            assert_eq!(bench.stack.has_address(NEW.into()), !conflicts);
            assert!(!conflicts || sent.iter().all(|(_, h)| h.sender_ip.is_unspecified()));
        }
    }
}

#[test]
fn an_address_that_is_removed_or_set_preferred_is_probed_no_more() {
    let mut bench = claiming(Origin::Static);
    assert!(bench.stack.remove_address(PORT, NEW.into()));
    assert!(run(&mut bench, after(20_000)).is_empty());
    let mut bench = claiming(Origin::Static);
    let sure = Address { state: AddressState::Preferred, ..tentative(NEW, Origin::Static) };
    bench.stack.add_address(PORT, sure).expect("changed");
    assert!(run(&mut bench, after(20_000)).is_empty());
    assert_eq!(bench.stack.next_event(), None, "an event reports a change that the user has made");
    bench.stack.remove_port(PORT);
    let mut bench = claiming(Origin::Static);
    bench.stack.remove_port(PORT);
    assert_eq!(bench.stack.next_deadline(), Instant::NEVER);
}

/// On a link without ARP nobody can object.
#[test]
fn without_arp_an_address_is_ours_at_once() {
    let mut config = PairConfig::new([8, 9]);
    config.wire.link = LinkKind::Ip;
    let (device, _wire) = device::mem::pair(&config.wire);
    let mut stack = Stack::new(config.stack);
    let id = stack.add_port(Box::new(device), PortConfig::default());
    stack.add_address(id, tentative(NEW, Origin::Static)).expect("room");
    assert_eq!(state(&stack, NEW), Some(AddressState::Preferred));
    assert_eq!(stack.next_event(), Some(Event::Address(id)));
}

/// RFC 5227 2.4-a, 2.4-b, 2.4-c: an address that the user has set is kept, and defended every ten
/// seconds at most; any other address is given up after a second conflict.
#[test]
fn an_address_in_use_is_defended_or_given_up() {
    for origin in [Origin::Static, Origin::Dhcp] {
        let mut bench = bench(IpVersion::V4);
        let ours = Address { state: AddressState::Preferred, ..tentative(NEW, origin) };
        bench.stack.add_address(PORT, ours).expect("room");
        let from = SocketAddr::new(NEW.into(), 0);
        let to = SocketAddr::new(bench.theirs, 80);
        let config = tcp::Config::default();
        let owner = Owner::program();
        let connected = bench.stack.tcp_connect(to, Some(from), &config, owner, NOW);
        let connection = connected.expect("routed");
        bench.sent();
        let claim = arp(Operation::Request, 9, NEW, NEW);
        let defences = |bench: &mut Bench, at| {
            let sent = bench.exchange(&claim, at);
            let arps: Vec<_> = sent.iter().filter_map(|frame| arp_of(frame)).collect();
            assert!(arps.iter().all(|h| (h.sender_ip, h.target_ip) == (NEW, NEW)));
            arps.len()
        };
        assert_eq!(defences(&mut bench, after(0)), 1);
        assert_eq!(bench.stack.drops().of(DropReason::NeighbourConflict), 1);
        // Ten seconds later, a conflict counts as the first one again.
        assert_eq!(defences(&mut bench, after(10_000)), 1);
        assert_eq!(state(&bench.stack, NEW), Some(AddressState::Preferred));
        for n in 0..100 {
            assert_eq!(defences(&mut bench, after(10_001 + n)), 0);
        }
        let (_, error) = bench.stack.tcp_state(connection).expect("kept");
        if origin == Origin::Static {
            assert_eq!(state(&bench.stack, NEW), Some(AddressState::Preferred));
            assert_eq!(error, None);
        } else {
            assert_eq!(state(&bench.stack, NEW), Some(AddressState::Duplicated));
            assert_eq!(error, Some(tcp::Error::NetworkDown));
            assert!(!bench.stack.has_address(NEW.into()));
        }
    }
}

fn link_local(stack: &Stack) -> Option<(Ipv4Addr, AddressState)> {
    let address = stack.addresses(PORT).iter().find(|a| a.origin == Origin::LinkLocal)?;
    match address.ip() {
        IpAddr::V4(ip) => Some((ip, address.state)),
        IpAddr::V6(_) => None,
    }
}

/// RFC 3927 2.1-a, 2.1-b, 2.2.1-a, 2.5-a.
#[test]
fn a_link_local_address_is_found_and_used_on_the_link() {
    let mut bench = bench(IpVersion::V4);
    bench.poll(NOW);
    bench.stack.add_link_local_v4(PORT).expect("room");
    bench.stack.add_link_local_v4(PORT).expect("twice is once");
    let (ip, first) = link_local(&bench.stack).expect("a candidate");
    assert!(ip.is_link_local() && first == AddressState::Tentative);
    let sent = run(&mut bench, after(10_000));
    assert_eq!(sent.len(), 5);
    assert_eq!(link_local(&bench.stack), Some((ip, AddressState::Preferred)));
    let peer = Ipv4Addr::new(169, 254, 9, 9);
    let to = SocketAddr::new(peer.into(), 7);
    assert_eq!(bench.stack.source_for(to), Some(ip.into()));
    // Replies from a link-local address are broadcast, so that conflicts are noticed.
    let replies = bench.exchange(&arp(Operation::Request, 9, peer, ip), after(10_000));
    assert_eq!(replies[0][..6], MacAddr::BROADCAST.0);
    bench.stack.remove_link_local_v4(PORT);
    assert_eq!(link_local(&bench.stack), None);
    assert_eq!(bench.stack.next_deadline(), Instant::NEVER);
    // Another host chooses another address.
    let mut config = PairConfig::new([8, 10]);
    config.version = IpVersion::V4;
    let mut other = Bench::new(&config);
    other.stack.add_link_local_v4(PORT).expect("room");
    assert_ne!(link_local(&other.stack).expect("a candidate").0, ip);
}

/// RFC 3927 2.2.1-b: a host that answers every probe slows the search down, but does not end it.
#[test]
fn conflicts_move_the_search_on_and_slow_it_down() {
    let mut bench = bench(IpVersion::V4);
    bench.poll(NOW);
    bench.stack.add_link_local_v4(PORT).expect("room");
    let mut tried = Vec::new();
    let mut now = NOW;
    while now < after(600_000) {
        now = bench.stack.next_deadline();
        let probes: Vec<_> = bench.poll(now).iter().filter_map(|frame| arp_of(frame)).collect();
        for probe in probes {
            tried.push((now, probe.target_ip));
            let answer = arp(Operation::Reply, 9, probe.target_ip, Ipv4Addr::UNSPECIFIED);
            bench.exchange(&answer, now);
        }
        assert!(bench.stack.addresses(PORT).len() <= 3);
    }
    assert!(
        (18..=22).contains(&tried.len()),
        "{} candidates were probed in ten minutes",
        tried.len()
    );
    assert!(tried[9].0 < after(15_000), "the first ten candidates were probed slowly");
    let mut different: Vec<_> = tried.iter().map(|t| t.1).collect();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), tried.len());
    // When that host stops answering, the next candidate is ours.
    run(&mut bench, now + Duration::from_secs(100));
    assert!(link_local(&bench.stack).is_some_and(|(_, state)| state == AddressState::Preferred));
    // If a host claims the address later, it gets the address, and we find another one.
    let (ip, _) = link_local(&bench.stack).expect("there");
    let later = now + Duration::from_secs(200);
    for ms in [0, 5] {
        let claim = arp(Operation::Request, 9, ip, ip);
        bench.exchange(&claim, later + Duration::from_millis(ms));
    }
    run(&mut bench, later + Duration::from_secs(20));
    let (next, state) = link_local(&bench.stack).expect("another");
    assert!(next != ip && state == AddressState::Preferred);
}
