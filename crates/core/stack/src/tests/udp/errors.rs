//! Errors that the network reports about datagrams: a socket's pending error, and its queue of
//! errors.

use base::{DropReason, Duration, IpVersion, Limit, Mtu};

use super::*;
use crate::pair::PairConfig;
use crate::{ErrorKind, MtuDiscovery, Unreachable};

/// Sends a datagram; returns the IP packet that left.
fn packet(bench: &mut Bench, socket: UdpHandle, port: u16, payload: &[u8]) -> Vec<u8> {
    let to = peer(bench, port);
    bench.stack.udp_send(socket, to, payload, NOW).expect("sent");
    bench.sent().remove(0).split_off(14)
}

fn events(bench: &mut Bench) -> usize {
    core::iter::from_fn(|| bench.stack.next_event()).count()
}

/// A router's error "hop limit exceeded in transit".
fn expired(bench: &Bench, packet: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 8];
    message.extend_from_slice(packet);
    let report = inet::icmp::Report::ReassemblyTime;
    inet::icmp::report(&mut message, report, bench.theirs, bench.ours);
    bench.frame(if bench.ours.is_ipv4() { 1 } else { 58 }, &message)
}

#[test]
fn the_queue_has_what_was_said_of_each_datagram() {
    for version in BOTH {
        let v4 = version == IpVersion::V4;
        let mut bench = bench(version);
        let socket = bound(&mut bench, 9);
        set(&mut bench, socket, |options| options.error_queue = true);
        let refused = packet(&mut bench, socket, 7, b"first");
        tell(&mut bench, &refused, What::Unreachable(Unreachable::Port), NOW);
        let large = packet(&mut bench, socket, 8, &[5; 1_400]);
        tell(&mut bench, &large, What::TooBig(1_300), NOW);
        let third = packet(&mut bench, socket, 6, b"third");
        let frame = expired(&bench, &third);
        bench.exchange(&frame, NOW);
        assert_eq!(events(&mut bench), 3);
        let [first, second, last] =
            bench.stack.udp_take_errors(socket).try_into().expect("three of them");
        assert_eq!(first.kind, ErrorKind::Unreachable(Unreachable::Port));
        assert_eq!(first.icmp, Some(if v4 { (3, 3) } else { (1, 4) }));
        assert_eq!((first.from, first.remote), (bench.theirs, peer(&bench, 7)));
        assert_eq!(first.local, SocketAddr::new(bench.ours, 9));
        assert_eq!((&first.payload[..], first.payload_len), (&b"first"[..], 5));
        assert_eq!(second.kind, ErrorKind::TooBig(1_300));
        assert_eq!(second.icmp, Some(if v4 { (3, 4) } else { (2, 0) }));
        assert_eq!((&second.payload[..], second.payload_len), (&[5; 64][..], 1_400));
        assert_eq!((last.kind, last.payload_len), (ErrorKind::Transient, 5));
        assert_eq!(last.icmp, Some(if v4 { (11, 1) } else { (3, 1) }));
        assert!(bench.stack.udp_take_errors(socket).is_empty());
        // The pending error is set as well.
        let pending = Some((peer(&bench, 7), Unreachable::Port));
        assert_eq!(bench.stack.udp_take_error(socket), pending);
        assert_eq!(bench.stack.udp_take_error(socket), None);
    }
}

#[test]
fn without_a_queue_only_the_last_error_is_kept() {
    let mut bench = bench(BOTH[0]);
    let socket = bound(&mut bench, 9);
    let sent = packet(&mut bench, socket, 7, b"first");
    tell(&mut bench, &sent, What::Unreachable(Unreachable::Host), NOW);
    tell(&mut bench, &sent, What::Unreachable(Unreachable::Port), NOW);
    let frame = expired(&bench, &sent);
    bench.exchange(&frame, NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpErrorIgnored), 1);
    assert!(bench.stack.udp_take_errors(socket).is_empty());
    let pending = bench.stack.udp_take_error(socket);
    assert_eq!(pending, Some((peer(&bench, 7), Unreachable::Port)));
}

#[test]
fn the_queue_is_bounded_and_goes_with_its_option() {
    let mut bench = bench(BOTH[0]);
    let socket = bound(&mut bench, 9);
    set(&mut bench, socket, |options| options.error_queue = true);
    let most = bench.stack.budget().of(Limit::UdpErrors);
    let sent = packet(&mut bench, socket, 7, b"first");
    for _ in 0..most + 5 {
        tell(&mut bench, &sent, What::Unreachable(Unreachable::Port), NOW);
    }
    assert_eq!(bench.stack.drops().of(DropReason::UdpErrorQueueFull), 5);
    assert_eq!(bench.stack.udp_take_errors(socket).len(), most);
    tell(&mut bench, &sent, What::Unreachable(Unreachable::Port), NOW);
    set(&mut bench, socket, |options| options.error_queue = false);
    set(&mut bench, socket, |options| options.error_queue = true);
    assert!(bench.stack.udp_take_errors(socket).is_empty());
}

/// Among the sockets at one address, the one with that peer gets the error; an error about a
/// datagram that no socket can have sent reaches none.
/// RFC 6936 4-e, RFC 8899 4.6.1-a.
#[test]
fn an_error_is_for_the_socket_that_sent_the_datagram() {
    for version in BOTH {
        let mut bench = bench(version);
        let (local, one) = (SocketAddr::new(bench.ours, 9), peer(&bench, 1));
        let all = bound(&mut bench, 9);
        let connected = bench.stack.udp_bind_connected(local, one, Owner::program());
        let connected = connected.expect("free");
        for socket in [all, connected] {
            set(&mut bench, socket, |options| options.error_queue = true);
        }
        let [to_one, to_two] = [1, 2].map(|port| packet(&mut bench, all, port, b"x"));
        for (packet, of_all, of_connected) in [(&to_one, 0, 1), (&to_two, 1, 0)] {
            tell(&mut bench, packet, What::Unreachable(Unreachable::Port), NOW);
            assert_eq!(bench.stack.udp_take_errors(all).len(), of_all);
            assert_eq!(bench.stack.udp_take_errors(connected).len(), of_connected);
        }
        bench.stack.udp_close(all);
        tell(&mut bench, &to_two, What::Unreachable(Unreachable::Port), NOW);
        assert_eq!(bench.stack.drops().of(DropReason::IcmpErrorNoMatch), 1);
    }
}

/// The host itself finds out that the next hop does not answer: the error has no ICMP message.
#[test]
fn a_silent_next_hop_is_in_the_queue() {
    let mut bench = Bench::among_strangers(&PairConfig::new([8, 9]));
    let socket = bound(&mut bench, 9);
    set(&mut bench, socket, |options| options.error_queue = true);
    let to = peer(&bench, 7);
    bench.stack.udp_send(socket, to, b"hello", NOW).expect("it waits");
    (0..9).for_each(|n| drop(bench.poll(NOW + Duration::from_secs(n))));
    let error = bench.stack.udp_take_errors(socket).remove(0);
    assert_eq!(error.kind, ErrorKind::Unreachable(Unreachable::Host));
    assert_eq!((error.icmp, error.from, error.remote), (None, bench.ours, to));
    assert_eq!(error.payload, b"hello");
}

/// A socket that probes the path's MTU relies on its peer's acknowledgements instead.
#[test]
fn a_report_binds_only_sockets_that_go_by_it() {
    for (discovery, known) in
        [(MtuDiscovery::Want, 1_300), (MtuDiscovery::Do, 1_300), (MtuDiscovery::Probe, 1_500)]
    {
        let mut bench = bench(BOTH[1]);
        let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
        set(&mut bench, socket, |options| options.mtu_discovery = discovery);
        let sent = packet(&mut bench, socket, 7, &[1; 1_400]);
        tell(&mut bench, &sent, What::TooBig(1_300), NOW);
        assert_eq!(bench.stack.udp_path_mtu(socket, to).ok(), Mtu::new(known), "{discovery:?}");
    }
}
