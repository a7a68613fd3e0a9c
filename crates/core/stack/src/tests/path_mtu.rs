//! Path MTUs by destination: learnt from ICMP messages, shared by connections, forgotten after some
//! time, and safe from forged messages. RFC 1191, RFC 8201, RFC 5927 section 7.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use base::{Counter, Duration, Instant, IpVersion, Limit, Mtu, Owner};

use super::craft::{Bench, parse_tcp};
use super::icmp::{BOTH, NOW, What, bench, connect, in_flight, tell};
use crate::mtu::PathMtus;

fn headers(version: IpVersion) -> usize {
    if version == IpVersion::V4 { 40 } else { 60 }
}

fn path(bench: &Bench) -> Option<usize> {
    bench.stack.path_mtu(bench.theirs).map(Mtu::bytes)
}

fn largest(frames: &[Vec<u8>]) -> usize {
    frames.iter().filter_map(|f| parse_tcp(f)).map(|(_, payload)| payload.len()).max().unwrap_or(0)
}

/// RFC 1191 section 5.2 and RFC 8201 section 5.2: a path MTU that one connection has learnt is used
/// by the next, whose SYN still announces the link's MSS.
#[test]
fn rfc_1191_and_8201_a_path_is_remembered_for_the_next_connection() {
    for version in BOTH {
        let mut bench = bench(version);
        let (_, sent) = in_flight(&mut bench, 4_000);
        assert_eq!(path(&bench), None);
        tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        assert_eq!(path(&bench), Some(1_300));
        let (handle, sent) = in_flight(&mut bench, 6_000);
        assert_eq!(largest(&sent), 1_300 - headers(version));
        assert_eq!(bench.stack.tcp_info(handle).expect("there").snd_mss, largest(&sent));
        let (_, syn) = connect(&mut bench);
        let offer = (1_500 - headers(version)) as u16;
        let ip = headers(version) - 20;
        assert_eq!(syn[14 + ip + 20..][..4], [2, 4, (offer >> 8) as u8, offer as u8]);
    }
}

#[test]
fn a_path_is_shared_with_connections_that_are_open_already() {
    for version in BOTH {
        let mut bench = bench(version);
        let (first, sent) = in_flight(&mut bench, 4_000);
        let (second, _) = in_flight(&mut bench, 4_000);
        let cwnd = bench.stack.tcp_info(second).expect("there").cwnd;
        tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        bench.stack.tcp_write(second, &[7; 3_000]).expect("room");
        bench.stack.flush();
        let size = 1_300 - headers(version);
        assert!(largest(&bench.sent()) <= size);
        for handle in [first, second] {
            assert_eq!(bench.stack.tcp_info(handle).expect("there").snd_mss, size);
        }
        assert_eq!(bench.stack.tcp_info(second).expect("there").cwnd, cwnd);
        assert_eq!(bench.stack.counters().of(Counter::PathMtuLowered), 2);
    }
}

/// RFC 1191 section 6.3, RFC 8201 section 4: after ten minutes the path may have become wider.
#[test]
fn a_path_is_forgotten_after_ten_minutes() {
    let mut bench = bench(IpVersion::V4);
    let (_, sent) = in_flight(&mut bench, 4_000);
    tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
    bench.stack.set_now(NOW + Duration::from_secs(599));
    assert_eq!(path(&bench), Some(1_300));
    bench.stack.set_now(NOW + Duration::from_secs(600));
    assert_eq!(path(&bench), None);
}

#[test]
fn datagrams_and_echoes_are_no_larger_than_the_path_takes() {
    for version in BOTH {
        let mut bench = bench(version);
        let (local, remote) = (SocketAddr::new(bench.ours, 9), SocketAddr::new(bench.theirs, 7));
        let udp = bench.stack.udp_bind(local, Owner::program()).expect("free");
        let ping = bench.stack.ping_open(Owner::program()).expect("a socket");
        let (_, sent) = in_flight(&mut bench, 4_000);
        tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        let most = 1_300 - headers(version) + 20 - 8;
        for (len, frames) in [(most, 1), (most + 1, 2)] {
            assert_eq!(bench.stack.udp_send(udp, remote, &vec![1; len], NOW), Ok(()));
            assert_eq!(sizes(&mut bench, 1_300), frames);
            assert!(bench.stack.ping_send(ping, remote.ip(), 1, &vec![1; len], NOW).is_ok());
            assert_eq!(sizes(&mut bench, 1_300), frames);
        }
    }
}

/// How many frames were sent. Asserts that none has a packet of more than `most` bytes.
fn sizes(bench: &mut Bench, most: usize) -> usize {
    let sent = bench.sent();
    assert!(sent.iter().all(|frame| frame.len() <= 14 + most));
    sent.len()
}

/// A message about a datagram contains nothing that an off-path attacker could not know, so it
/// holds only for the socket that sent the datagram.
#[test]
fn a_datagram_that_was_too_big_concerns_its_socket_alone() {
    for version in BOTH {
        let mut bench = bench(version);
        let (local, remote) = (SocketAddr::new(bench.ours, 9), SocketAddr::new(bench.theirs, 7));
        let [udp, other] = [9, 10].map(|port| {
            let local = SocketAddr::new(local.ip(), port);
            bench.stack.udp_bind(local, Owner::program()).expect("free")
        });
        bench.stack.udp_send(udp, remote, &[1; 1_400], NOW).expect("sent");
        let sent = bench.sent();
        tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        let later = NOW + Duration::from_secs(601);
        for (socket, len, at, frames) in [
            (udp, 1_400, NOW, 2),
            (udp, 1_200, NOW, 1),
            (other, 1_400, NOW, 1),
            (udp, 1_400, later, 1),
        ] {
            assert_eq!(bench.stack.udp_send(socket, remote, &vec![1; len], at), Ok(()));
            assert_eq!(sizes(&mut bench, if frames == 2 { 1_300 } else { 1_500 }), frames);
        }
        assert_eq!(path(&bench), None);
    }
}

#[test]
fn a_forged_message_teaches_nothing() {
    let mut bench = bench(IpVersion::V4);
    let (_, sent) = in_flight(&mut bench, 4_000);
    // Messages with another sequence number, another port, an MTU larger than the packet, and no
    // MTU.
    let mut packet = sent[0][14..].to_vec();
    packet[20 + 4] ^= 0x80;
    tell(&mut bench, &packet, What::TooBig(1_300), NOW);
    packet[20] ^= 1;
    tell(&mut bench, &packet, What::TooBig(1_300), NOW);
    tell(&mut bench, &sent[0][14..], What::TooBig(1_500), NOW);
    tell(&mut bench, &sent[0][14..], What::TooBig(40), NOW);
    assert_eq!(path(&bench), None);
    // An MTU below the minimum: the minimum is used.
    tell(&mut bench, &sent[0][14..], What::TooBig(68), NOW);
    assert_eq!(path(&bench), Some(552));
}

#[test]
fn messages_about_many_paths_do_not_grow_memory() {
    let mut budget = base::Budget::default();
    let most = 100;
    budget.set(Limit::PathMtus, most);
    let mut paths = PathMtus::default();
    let mtu = Mtu::new(1_280).expect("an MTU");
    let host = |n: u32| IpAddr::V6(Ipv6Addr::from_bits(1 << 120 | u128::from(n)));
    let at = |n: u32| Instant::ZERO + Duration::from_millis(u64::from(n) + 1);
    for n in 0..10_000 {
        paths.learn(host(n), mtu, at(n), &mut budget);
        // The same destination takes no second entry.
        paths.learn(host(n), mtu, at(n), &mut budget);
        assert!(paths.len() <= most);
    }
    assert_eq!(budget.hits(Limit::PathMtus), 10_000 - most as u64);
    assert!(paths.known(host(9_900), at(9_999)).is_some());
    assert!(paths.known(host(9_899), at(9_999)).is_none());
    // Old entries expire even if they are not looked up.
    paths.learn(host(0), mtu, at(9_999) + Duration::from_secs(601), &mut budget);
    assert_eq!(paths.len(), 1);
}

/// The peer of a connection may report a narrow path again and again: the rate is limited, and no
/// table grows.
#[test]
fn a_flood_of_messages_about_one_connection_is_bounded() {
    let mut bench = bench(IpVersion::V4);
    let (handle, sent) = in_flight(&mut bench, 60_000);
    let held = bench.stack.pool().outstanding();
    for n in 0..5_000 {
        tell(&mut bench, &sent[0][14..], What::TooBig(1_499 - n % 1_400), NOW);
    }
    assert!(bench.stack.budget().hits(Limit::PathChangesPerSecond) > 0);
    assert_eq!(bench.stack.path_mtus.len(), 1);
    assert!(bench.stack.pool().outstanding() < held + 64 * 1_024);
    assert!(bench.stack.tcp_info(handle).expect("there").snd_mss >= 256);
}
