//! Datagrams that leave: by known flows and by new ones, from chosen source addresses, and with a
//! limited size.

use core::net::{IpAddr, Ipv4Addr};

use base::{Cidr, Counter, DropReason, Duration, IpVersion, Limit, MacAddr, Mtu, Switch};

use super::super::craft::Rng;
use super::super::icmp::in_flight;
use super::*;
use crate::dplpmtud::{Config, Dplpmtud, STEP, State};
use crate::pair::{self, PairConfig};
use crate::{ErrorKind, MtuDiscovery, PortConfig, Route, UdpError};

/// Whatever changes between datagrams (settings, routes, neighbours, paths, ports): with the flow
/// cache and without it the same frames leave.
#[test]
fn known_flows_differ_in_nothing() {
    for version in BOTH {
        for seed in 0..20 {
            let [on, off] = [true, false].map(|cache| sent_frames(version, seed, cache));
            assert_eq!(on.len(), off.len());
            for (n, (on, off)) in on.iter().zip(&off).enumerate() {
                assert_eq!(on, off, "seed {seed}, step {n}");
            }
        }
    }
}

fn sent_frames(version: IpVersion, seed: u64, cache: bool) -> Vec<(String, Vec<Vec<u8>>)> {
    let mut bench = bench(version);
    bench.stack.set_switch(Switch::FlowCache, cache);
    let mut random = Rng(seed);
    let (socket, mut now) = (bound(&mut bench, 9), NOW);
    let (_, segments) = in_flight(&mut bench, 4_000);
    let (port, theirs) = (bench.stack.port_ids()[0], bench.theirs);
    let mut log = Vec::new();
    for _ in 0..300 {
        now += Duration::from_millis(random.below(400).into());
        let mut said = String::new();
        match random.below(16) {
            0 => bench.stack.udp_ip_mut(socket).expect("open").ttl = random.next() as u8,
            1 => bench.stack.udp_ip_mut(socket).expect("open").tos = random.next() as u8,
            2 => {
                let mac = MacAddr([2, 0, 0, 0, 9, random.next() as u8]);
                assert!(bench.stack.add_neighbour(port, theirs, mac));
            }
            3 => {
                let mtu = 1_280 + random.below(200) as usize;
                tell(&mut bench, &segments[0][14..], What::TooBig(mtu), now);
            }
            4 => {
                let via = bench.ours.is_ipv4().then_some(theirs);
                let dest = Cidr::new(theirs, if theirs.is_ipv4() { 32 } else { 128 });
                let dest = dest.expect("a prefix");
                bench.stack.add_route(Route::new(dest, via, port.0));
            }
            5 => set(&mut bench, socket, |options| options.no_checksum ^= true),
            _ => {
                let to = peer(&bench, random.below(2) as u16 + 7);
                let len = random.pick(&[0, 1, 64, 1_200, 1_400, 1_472, 3_000]);
                let data = vec![random.next() as u8; len];
                said = format!("{:?}", bench.stack.udp_send(socket, to, &data, now));
            }
        }
        log.push((said, bench.sent()));
    }
    log
}

/// A neighbour that is used is verified, however rarely the flow is looked up: RFC 4861 section
/// 7.3.3.
#[test]
fn a_flow_does_not_keep_a_silent_neighbour() {
    let mut bench = Bench::among_strangers(&PairConfig::new([8, 9]));
    let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
    assert_eq!(bench.stack.udp_send(socket, to, b"1", NOW), Ok(()));
    let asked = bench.sent();
    assert_eq!(asked.len(), 1, "not one solicitation left");
    let (IpAddr::V4(theirs), IpAddr::V4(ours)) = (bench.theirs, bench.ours) else { return };
    let operation = wire::arp::Operation::Reply;
    let to_us = (pair::mac(1), ours);
    let reply = inet::nd::arp_output(operation, (pair::mac(2), theirs), to_us);
    let mut frame = vec![0; 14];
    let ethertype = wire::ether::ARP;
    let (src, dst) = (pair::mac(2), pair::mac(1));
    wire::ether::Header { dst, src, ethertype }.emit(&mut frame);
    frame.extend_from_slice(&reply);
    assert_eq!(bench.exchange(&frame, NOW).len(), 1, "the datagram did not leave");
    let mut solicited = Vec::new();
    for second in 1..60 {
        let now = NOW + Duration::from_secs(second);
        let _ = bench.stack.udp_send(socket, to, b"1", now);
        solicited.extend(bench.poll(now).into_iter().filter(|frame| frame[12..14] == [8, 6]));
    }
    assert!(solicited.len() >= 3, "the silent neighbour was not solicited three times");
    assert!(bench.stack.drops().of(DropReason::IpNoNeighbour) > 0);
}

#[test]
fn many_are_sent_at_once() {
    let mut bench = bench(BOTH[0]);
    let socket = bound(&mut bench, 9);
    let (one, two) = (peer(&bench, 1), peer(&bench, 2));
    let long = vec![0; 70_000];
    let sent = bench.stack.udp_send_many(socket, &[(one, b"a"), (two, b"b"), (one, b"c")], NOW);
    assert_eq!((sent, bench.sent().len()), (Ok(3), 3));
    // The call ends before a datagram that cannot be sent. If that is the first one, the call
    // returns the reason.
    let sent = bench.stack.udp_send_many(socket, &[(one, b"a"), (one, &long), (two, b"c")], NOW);
    assert_eq!((sent, bench.sent().len()), (Ok(1), 1));
    let sent = bench.stack.udp_send_many(socket, &[(one, &long)], NOW);
    assert_eq!(sent, Err(UdpError::Unsendable(DropReason::IpTooBig)));
    assert_eq!(bench.stack.udp_send_many(socket, &[], NOW), Ok(0));
    // Datagrams are sent until the device is full.
    let many = vec![(one, &long[..1_000]); 2_000];
    let sent = bench.stack.udp_send_many(socket, &many, NOW).expect("some");
    assert!((64..1_000).contains(&sent), "{sent}");
    assert_eq!(bench.stack.udp_send_many(socket, &many, NOW), Err(UdpError::WouldBlock));
    let left: usize = (0..4).map(|_| bench.sent().len()).sum();
    assert_eq!(left, sent);
}

/// RFC 1122 section 4.1.3.5: the source is the address that the route selects, or the one that the
/// program sets.
#[test]
fn an_answer_leaves_from_the_address_that_was_asked() {
    let mut bench = bench(BOTH[0]);
    let other = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    let (_, wire) = device::mem::pair(&device::mem::Config::default());
    let addresses = vec![Cidr::new(other, 24).expect("a prefix")];
    bench.stack.add_port(Box::new(wire), PortConfig { addresses, ..PortConfig::default() });
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9);
    let socket = bench.stack.udp_bind(any, Owner::program()).expect("free");
    let (to, ours, theirs) = (peer(&bench, 7), bench.ours, bench.theirs);
    let source =
        |frames: Vec<Vec<u8>>| IpAddr::from(*frames[0][26..].first_chunk::<4>().expect("4"));
    for from in [other, ours, other] {
        assert_eq!(bench.stack.udp_send_from(socket, from, to, b"1", NOW), Ok(()));
        assert_eq!(source(bench.sent()), from);
        assert_eq!(bench.stack.udp_send(socket, to, b"1", NOW), Ok(()));
        assert_eq!(source(bench.sent()), ours, "the source is not the route's");
    }
    let v6 = IpAddr::V6(pair_v6());
    for wrong in [theirs, v6] {
        let sent = bench.stack.udp_send_from(socket, wrong, to, b"1", NOW);
        assert_eq!(sent, Err(UdpError::NoAddress), "{wrong}");
    }
    let exact = bound(&mut bench, 10);
    let sent = bench.stack.udp_send_from(exact, other, to, b"1", NOW);
    assert_eq!(
        sent,
        Err(UdpError::NoAddress),
        "sent from an address that the socket is not bound to"
    );
    // A socket at an address of one IP version sends nothing to an address of the other.
    let v6_peer = SocketAddr::new(pair::addresses(2)[1].addr, 7);
    assert_eq!(bench.stack.udp_send(exact, v6_peer, b"1", NOW), Err(UdpError::NoAddress));
}

fn pair_v6() -> core::net::Ipv6Addr {
    match pair::addresses(1)[1].addr {
        IpAddr::V6(addr) => addr,
        IpAddr::V4(_) => core::net::Ipv6Addr::LOCALHOST,
    }
}

#[test]
fn what_is_larger_than_the_path_is_cut_refused_or_sent_as_asked() {
    for version in BOTH {
        let mut bench = bench(version);
        let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
        let headers = if version == IpVersion::V4 { 28 } else { 48 };
        let (_, sent) = in_flight(&mut bench, 4_000);
        tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        let mtu = |mtu| UdpError::TooBig(Mtu::new(mtu).expect("one"));
        assert_eq!(bench.stack.udp_path_mtu(socket, to), Ok(Mtu::new(1_300).expect("one")));
        for (discovery, packet, expected) in [
            (MtuDiscovery::Want, 1_300, Ok(1)),
            (MtuDiscovery::Want, 1_301, Ok(2)),
            (MtuDiscovery::Do, 1_300, Ok(1)),
            (MtuDiscovery::Do, 1_301, Err(mtu(1_300))),
            (MtuDiscovery::Probe, 1_301, Ok(1)),
            (MtuDiscovery::Probe, 1_500, Ok(1)),
            (MtuDiscovery::Probe, 1_501, Err(mtu(1_500))),
        ] {
            set(&mut bench, socket, |options| options.mtu_discovery = discovery);
            let data = vec![1; packet - headers];
            let sent = bench.stack.udp_send(socket, to, &data, NOW);
            let frames = bench.sent();
            assert_eq!(sent.map(|()| frames.len()), expected, "{discovery:?} {packet}");
            // Don't-fragment is set in every packet that is not a fragment.
            if version == IpVersion::V4 && frames.len() == 1 {
                assert_eq!(frames[0][20] & 0xe0, 0x40);
            }
        }
        set(&mut bench, socket, |options| options.mtu_discovery = MtuDiscovery::Do);
        let probe = vec![1; 1_400];
        assert_eq!(bench.stack.udp_send_probe(socket, to, &probe, NOW), Ok(()));
        assert_eq!(bench.sent().len(), 1, "the socket's option prevented a probe");
    }
}

/// A probe must not wait for a link address, because it would be fragmented when it leaves.
#[test]
fn a_large_probe_does_not_wait_for_a_neighbour() {
    let mut bench = Bench::among_strangers(&PairConfig::new([8, 9]));
    let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
    let mut budget = base::Budget::default();
    budget.set(Limit::PathMtus, 9);
    let mtu = Mtu::new(1_300).expect("one");
    bench.stack.path_mtus.learn(bench.theirs, mtu, NOW, &mut budget);
    let no_neighbour = Err(UdpError::Unsendable(DropReason::IpNoNeighbour));
    assert_eq!(bench.stack.udp_send_probe(socket, to, &[1; 1_400], NOW), no_neighbour);
    assert_eq!(bench.stack.udp_send_probe(socket, to, &[1; 1_200], NOW), Ok(()));
}

/// Each member of a group has its own path, so a probe to a group is refused.
#[test]
fn a_probe_is_for_a_host() {
    for version in BOTH {
        let mut bench = bench(version);
        let socket = bound(&mut bench, 9);
        let group = if version == IpVersion::V4 { "239.1.2.3" } else { "ff0e::123" };
        let to = SocketAddr::new(group.parse().expect("a group"), 7);
        let probe = bench.stack.udp_send_probe(socket, to, &[1; 1_200], NOW);
        assert_eq!((probe, bench.sent().len()), (Err(UdpError::Group), 0));
    }
}

/// RFC 8899 3-b: DPLPMTUD above a socket, over a path that carries 1,400 bytes and sends no error,
/// then over a path that sends one.
#[test]
fn a_program_finds_out_what_its_path_carries() {
    for version in BOTH {
        for reports in [false, true] {
            let mut bench = bench(version);
            let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
            set(&mut bench, socket, |options| options.error_queue = true);
            let headers = if version == IpVersion::V4 { 28 } else { 48 };
            let mut discovery = Dplpmtud::new(Config::new(version, 1_500));
            let (mut now, mut probes) = (NOW, 0);
            discovery.start(now);
            while let Some(size) = discovery.next_probe(now) {
                probes += 1;
                now += Duration::from_millis(30);
                let sent = bench.stack.udp_send_probe(socket, to, &vec![7; size], now);
                assert_eq!(sent, Ok(()));
                let frame = bench.sent().remove(0);
                assert_eq!(frame.len(), 14 + headers + size, "the probe was fragmented");
                if frame.len() <= 14 + 1_400 {
                    discovery.acknowledged(size, now);
                } else if !reports {
                    discovery.lost(size, now);
                } else {
                    tell(&mut bench, &frame[14..], What::TooBig(1_400), now);
                    let told = bench.stack.udp_take_errors(socket).remove(0);
                    let ErrorKind::TooBig(mtu) = told.kind else { panic!("{told:?}") };
                    // An attacker who is not on the path does not know the payload: RFC 8899
                    // 4.6.1-b.
                    assert_eq!((told.payload_len, &told.payload[..3]), (size, &[7, 7, 7][..]));
                    assert!(discovery.packet_too_big(mtu - headers, now));
                }
            }
            assert_eq!(discovery.state(), State::SearchComplete);
            let found = discovery.plpmtu() + headers;
            if reports {
                assert_eq!(
                    (found, probes),
                    (1_400, 3),
                    "not three probes: base size, largest, reported size"
                );
            } else {
                assert!((1_400 - STEP..=1_400).contains(&found), "{found}");
            }
            assert_eq!(bench.stack.counters().of(Counter::DatagramsFragmented), 0);
        }
    }
}

#[test]
fn echoes_are_cut_refused_or_sent_as_asked() {
    for version in BOTH {
        let mut bench = bench(version);
        let (ping, to) = (bench.stack.ping_open(Owner::program()).expect("one"), bench.theirs);
        let headers = if version == IpVersion::V4 { 28 } else { 48 };
        let (_, sent) = in_flight(&mut bench, 4_000);
        tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        let mtu = |mtu| UdpError::TooBig(Mtu::new(mtu).expect("one"));
        for (discovery, packet, expected) in [
            (MtuDiscovery::Want, 1_301, Ok(2)),
            (MtuDiscovery::Do, 1_300, Ok(1)),
            (MtuDiscovery::Do, 1_301, Err(mtu(1_300))),
            (MtuDiscovery::Probe, 1_500, Ok(1)),
            (MtuDiscovery::Probe, 1_501, Err(mtu(1_500))),
        ] {
            assert_eq!(bench.stack.ping_set_mtu_discovery(ping, discovery), Ok(()));
            let sent = bench.stack.ping_send(ping, to, 1, &vec![1; packet - headers], NOW);
            let frames = bench.sent().len();
            assert_eq!(sent.map(|_| frames), expected, "{discovery:?} {packet}");
        }
    }
}
