//! ICMP errors in both directions, echoes, and the limits on forged messages. RFC 792, RFC 4443,
//! RFC 1122 sections 3.2.2 and 4.2.3.9, RFC 1191, RFC 8201, RFC 5927.

mod echo;

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Duration, Instant, IpVersion, Owner, SeqNumber};
use inet::icmp::{self, Unreachable};
use wire::tcp::{Flags, Header};
use wire::{icmp as v4, icmpv6 as v6};

use super::craft::{Bench, Tcp, parse_tcp};
use crate::pair::PairConfig;
use crate::{Event, TcpHandle};

pub(super) const NOW: Instant = Instant::from_nanos(5_000_000_000);
pub(super) const BOTH: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];

pub(super) fn bench(version: IpVersion) -> Bench {
    Bench::new(&PairConfig { version, ..PairConfig::new([8, 9]) })
}

/// The kind of an ICMP error, for either IP version.
#[derive(Clone, Copy)]
pub(super) enum What {
    Unreachable(Unreachable),
    TooBig(usize),
}

/// An ICMP error from end 2 that quotes `packet`, an IP packet that the stack sent.
fn error_frame(bench: &Bench, packet: &[u8], what: What) -> Vec<u8> {
    let mut message = vec![0; icmp::HEADER_LEN];
    message.extend_from_slice(&packet[..packet.len().min(200)]);
    match (bench.theirs, bench.ours, what) {
        (src, dst, What::Unreachable(why)) => icmp::error(&mut message, why, src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst), What::TooBig(mtu)) => {
            v6::Header::PacketTooBig { mtu: mtu as u32 }.emit(&mut message, src, dst);
        }
        (.., What::TooBig(mtu)) => {
            v4::Header::FragmentationNeeded { mtu: mtu as u16 }.emit(&mut message);
        }
    }
    bench.frame(if bench.ours.is_ipv4() { 1 } else { 58 }, &message)
}

pub(super) fn tell(bench: &mut Bench, packet: &[u8], what: What, now: Instant) -> Vec<Vec<u8>> {
    let frame = error_frame(bench, packet, what);
    bench.exchange(&frame, now)
}

pub(super) fn connect(bench: &mut Bench) -> (TcpHandle, Vec<u8>) {
    let to = SocketAddr::new(bench.theirs, 80);
    let config = tcp::Config { timestamps: false, ..tcp::Config::default() };
    let handle = bench.stack.tcp_connect(to, None, &config, Owner::program(), NOW).expect("routed");
    (handle, bench.sent().remove(0))
}

/// Opens a connection with `bytes` in flight; returns its handle and the frames in flight.
pub(super) fn in_flight(bench: &mut Bench, bytes: usize) -> (TcpHandle, Vec<Vec<u8>>) {
    let (handle, syn) = connect(bench);
    let (header, _) = parse_tcp(&syn).expect("SYN");
    let answer = Tcp {
        ports: (80, header.src_port),
        seq: SeqNumber(1_000),
        ack: header.seq + 1,
        flags: Flags::SYN | Flags::ACK,
        window: 60_000,
        urgent: 0,
        options: vec![2, 4, 5, 0xb4],
        payload: Vec::new(),
    };
    let frame = bench.tcp_frame(&answer);
    bench.exchange(&frame, NOW);
    let data = vec![7; bytes];
    assert_eq!(bench.stack.tcp_write(handle, &data), Ok(bytes));
    bench.stack.flush();
    (handle, bench.sent())
}

fn error_of(bench: &Bench, handle: TcpHandle) -> Option<tcp::Error> {
    bench.stack.tcp_state(handle).expect("kept").1
}

/// RFC 9293 MUST-54, MUST-56.
#[test]
fn a_port_unreachable_ends_a_connect_and_a_host_unreachable_does_not() {
    for version in BOTH {
        let mut bench = bench(version);
        let (handle, syn) = connect(&mut bench);
        tell(&mut bench, &syn[14..], What::Unreachable(Unreachable::Host), NOW);
        assert_eq!(error_of(&bench, handle), None, "soft");
        tell(&mut bench, &syn[14..], What::Unreachable(Unreachable::Port), NOW);
        assert_eq!(error_of(&bench, handle), Some(tcp::Error::Refused));
        assert_eq!(bench.stack.counters().of(Counter::IcmpErrorsIn), 2);
    }
}

#[test]
fn a_soft_error_is_what_a_connect_ends_with_when_its_tries_are_over() {
    let mut bench = bench(IpVersion::V4);
    let (handle, syn) = connect(&mut bench);
    tell(&mut bench, &syn[14..], What::Unreachable(Unreachable::Net), NOW);
    for n in 0..400 {
        bench.poll(NOW + Duration::from_secs(n));
    }
    assert_eq!(error_of(&bench, handle), Some(tcp::Error::NetUnreachable));
}

/// RFC 9293 MUST-47, MUST-56, SHLD-25.
#[test]
fn icmp_blind_reset() {
    for version in BOTH {
        let mut bench = bench(version);
        let (handle, sent) = in_flight(&mut bench, 100);
        for why in [Unreachable::Net, Unreachable::Host, Unreachable::Protocol, Unreachable::Port] {
            tell(&mut bench, &sent[0][14..], What::Unreachable(why), NOW);
        }
        assert_eq!(error_of(&bench, handle), None);
        let heard = bench.stack.tcp_info(handle).expect("open").soft_error;
        assert_eq!(heard, Some(tcp::Error::Refused), "the error was not reported to the user");
        assert_eq!(bench.stack.counters().of(Counter::IcmpErrorsIn), 4);
    }
}

#[test]
fn an_error_about_what_is_not_in_flight_is_a_forgery() {
    let mut bench = bench(IpVersion::V4);
    let (handle, syn) = connect(&mut bench);
    let mut packet = syn[14..].to_vec();
    // A quote with another sequence number, then one with another port.
    packet[20 + 4] ^= 0x80;
    tell(&mut bench, &packet, What::Unreachable(Unreachable::Port), NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpErrorOutOfWindow), 1);
    packet[20] ^= 1;
    tell(&mut bench, &packet, What::Unreachable(Unreachable::Port), NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpErrorNoMatch), 1);
    // A quote of a packet that is not from the stack's address; then a quote too short for a
    // sequence number.
    packet[15] ^= 1;
    tell(&mut bench, &packet, What::Unreachable(Unreachable::Port), NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpErrorNoMatch), 2);
    tell(&mut bench, &syn[14..14 + 24], What::Unreachable(Unreachable::Port), NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpMalformed), 1);
    assert_eq!(error_of(&bench, handle), None);
}

/// RFC 1191 section 6.5: the lost segment is retransmitted at once in the new size, and later
/// segments have it too; no window shrinks.
#[test]
fn a_narrower_path_has_its_segments_cut_and_sent_again_at_once() {
    for version in BOTH {
        let mut bench = bench(version);
        let (handle, sent) = in_flight(&mut bench, 5 * 1_400);
        let cwnd = bench.stack.tcp_info(handle).expect("there").cwnd;
        let ip = if version == IpVersion::V4 { 20 } else { 40 };
        let again = tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        let (first, _) = parse_tcp(&sent[0]).expect("TCP");
        let mut next = first.seq;
        let segments: Vec<(Header, Vec<u8>)> =
            again.iter().map(|f| parse_tcp(f).expect("TCP")).collect();
        for (header, payload) in &segments {
            assert_eq!(header.seq, next);
            assert!(payload.len() <= 1_300 - ip - 20, "{} bytes", payload.len());
            next = header.seq + payload.len() as u32;
        }
        assert!(!segments.is_empty());
        let info = bench.stack.tcp_info(handle).expect("there");
        assert_eq!(info.cwnd, cwnd);
        assert_eq!(bench.stack.counters().of(Counter::PathMtuLowered), 1);
        // The same message again changes nothing.
        tell(&mut bench, &sent[0][14..], What::TooBig(1_300), NOW);
        assert_eq!(bench.stack.drops().of(DropReason::IcmpErrorIgnored), 1);
    }
}

/// A connection whose path large segments have passed, with one more in flight; returns its handle,
/// the peer's next segment and the frame in flight.
fn proved(version: IpVersion) -> (Bench, TcpHandle, Tcp, Vec<u8>) {
    let mut config = PairConfig { version, ..PairConfig::new([8, 9]) };
    config.stack.switches = config.stack.switches.with(base::Switch::Pacing, false);
    let mut bench = Bench::new(&config);
    let (handle, mut sent) = in_flight(&mut bench, 30_000);
    let mut ack = Tcp {
        ports: (80, parse_tcp(&sent[0]).expect("TCP").0.src_port),
        seq: SeqNumber(1_001),
        ack: SeqNumber(0),
        flags: Flags::ACK,
        window: 60_000,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
    };
    let mut now = NOW;
    for _ in 0..3 {
        while let Some(last) = sent.last() {
            let (header, payload) = parse_tcp(last).expect("TCP");
            ack.ack = header.seq + payload.len() as u32;
            now += Duration::from_millis(5);
            let frame = bench.tcp_frame(&ack);
            sent = bench.exchange(&frame, now);
        }
        assert!(bench.stack.tcp_write(handle, &[7; 30_000]).is_ok());
        bench.stack.poll(now);
        sent = bench.sent();
    }
    while let Some(last) = sent.last() {
        let (header, payload) = parse_tcp(last).expect("TCP");
        ack.ack = header.seq + payload.len() as u32;
        let frame = bench.tcp_frame(&ack);
        sent = bench.exchange(&frame, now);
    }
    assert!(bench.stack.tcp_write(handle, &[7; 1_400]).is_ok());
    bench.stack.poll(now);
    let segment = bench.sent().remove(0);
    ack.ack = parse_tcp(&segment).expect("TCP").0.seq + 1_400;
    (bench, handle, ack, segment)
}

/// RFC 5927 section 7.2: the message is false, since large segments have passed and still do.
#[test]
fn a_path_that_large_segments_pass_is_not_narrowed_by_a_word() {
    for version in BOTH {
        let (mut bench, handle, ack, segment) = proved(version);
        let size = bench.stack.tcp_info(handle).expect("open").snd_mss;
        let now = bench.stack.now();
        assert_eq!(tell(&mut bench, &segment[14..], What::TooBig(1_300), now).len(), 0);
        assert_eq!(bench.stack.counters().of(Counter::PathMtuDoubted), 1);
        assert_eq!(bench.stack.tcp_info(handle).expect("open").snd_mss, size);
        // The segment arrives: the message is forgotten, whatever is lost later.
        let frame = bench.tcp_frame(&ack);
        bench.exchange(&frame, now);
        assert!(bench.stack.tcp_write(handle, &[7; 1_400]).is_ok());
        for after in 1..5 {
            bench.poll(now + Duration::from_millis(100 * after));
        }
        let info = bench.stack.tcp_info(handle).expect("open");
        assert!(info.timeouts > 0);
        assert_eq!((info.snd_mss, bench.stack.path_mtu(bench.theirs)), (size, None));
    }
}

/// RFC 5927 section 7.2: the path really became narrower.
#[test]
fn a_path_that_became_narrower_is_believed_once_a_large_segment_is_missing() {
    for version in BOTH {
        let (mut bench, handle, _, segment) = proved(version);
        let now = bench.stack.now();
        tell(&mut bench, &segment[14..], What::TooBig(1_300), now);
        let mut sent = Vec::new();
        // Only until the first time-out: after more of them the path would count as a black hole.
        for after in 1..4 {
            sent.extend(bench.poll(now + Duration::from_millis(100 * after)));
        }
        let headers = if version == IpVersion::V4 { 40 } else { 60 };
        assert!(!sent.is_empty());
        for frame in &sent {
            assert!(parse_tcp(frame).expect("TCP").1.len() <= 1_300 - headers);
        }
        assert_eq!(bench.stack.tcp_info(handle).expect("open").snd_mss, 1_300 - headers);
        let known = bench.stack.path_mtu(bench.theirs).expect("learnt");
        assert_eq!(known.bytes(), 1_300);
    }
}

#[test]
fn icmp_forged_path_mtu() {
    let mut bench4 = bench(IpVersion::V4);
    let (_, sent) = in_flight(&mut bench4, 1_460);
    let packet = &sent[0][14..];
    for mtu in [1_500, 9_000, 67] {
        tell(&mut bench4, packet, What::TooBig(mtu), NOW);
    }
    assert_eq!(bench4.stack.drops().of(DropReason::IcmpErrorIgnored), 3);
    // A router of before 1990 sends no MTU: the next lower plateau is used (RFC 1191 section 7.1).
    let again = tell(&mut bench4, packet, What::TooBig(0), NOW);
    assert_eq!(parse_tcp(&again[0]).expect("TCP").1.len(), 1_492 - 40);
    // On a path with an MTU of 68, packets would be nearly all headers: 552 is the smallest MTU
    // that is accepted.
    let again = tell(&mut bench4, packet, What::TooBig(68), NOW);
    assert_eq!(parse_tcp(&again[0]).expect("TCP").1.len(), 552 - 40);

    let mut bench6 = bench(IpVersion::V6);
    let (_, sent) = in_flight(&mut bench6, 1_400);
    tell(&mut bench6, &sent[0][14..], What::TooBig(1_279), NOW);
    assert_eq!(bench6.stack.drops().of(DropReason::IcmpErrorIgnored), 1);
}

/// RFC 4443 2.2-a, 3.1-a.
/// RFC 1122 3.2.2-b, 3.2.2.1-a.
#[test]
fn a_datagram_to_a_closed_port_draws_an_error_that_quotes_it() {
    for version in BOTH {
        let mut bench = bench(version);
        let mut datagram = vec![0, 9, 0, 7, 0, 13, 0, 0, 1, 2, 3, 4, 5];
        let sum = super::craft::transport_sum(bench.theirs, bench.ours, 17, &datagram);
        datagram[6..8].copy_from_slice(&sum.field());
        let frame = bench.frame(17, &datagram);
        let answer = bench.exchange(&frame, NOW);
        let ip = if version == IpVersion::V4 { 20 } else { 40 };
        let message = &answer[0][14 + ip..];
        let (kind, code) = if version == IpVersion::V4 { (3, 3) } else { (1, 4) };
        assert_eq!(message[..2], [kind, code]);
        assert_eq!(message[8..], frame[14..]);
        assert_eq!(bench.stack.drops().of(DropReason::UdpNoSocket), 1);
        assert_eq!(bench.stack.counters().of(Counter::IcmpErrorsOut), 1);
    }
}

/// RFC 1122 3.2.2-c.
#[test]
fn groups_errors_and_impossible_hosts_draw_no_error() {
    let mut bench = bench(IpVersion::V4);
    let datagram = [0, 9, 0, 7, 0, 8, 0, 0];
    let frame = |src: &str, dst: &str| {
        let [src, dst] = [src, dst].map(|a| a.parse().expect("an address"));
        super::craft::frame_between(src, dst, 17, &datagram)
    };
    for frame in [
        frame("192.0.2.2", "192.0.2.255"),
        frame("192.0.2.2", "224.0.0.1"),
        frame("224.0.0.1", "192.0.2.1"),
        frame("127.0.0.1", "192.0.2.1"),
    ] {
        assert!(bench.exchange(&frame, NOW).is_empty());
    }
    let mut to_all = frame("192.0.2.2", "192.0.2.1");
    to_all[..6].fill(0xff);
    assert!(bench.exchange(&to_all, NOW).is_empty());
    // An error about a packet that the stack did not send causes no error in return.
    let (_, syn) = connect(&mut bench);
    let mut packet = syn[14..].to_vec();
    packet[20] ^= 1;
    assert!(tell(&mut bench, &packet, What::Unreachable(Unreachable::Port), NOW).is_empty());
    assert_eq!(bench.stack.counters().of(Counter::IcmpErrorsOut), 0);
}

#[test]
fn an_unknown_protocol_draws_an_error() {
    for version in BOTH {
        let mut bench = bench(version);
        let frame = bench.frame(253, &[1, 2, 3, 4]);
        let answer = bench.exchange(&frame, NOW);
        let ip = if version == IpVersion::V4 { 20 } else { 40 };
        let wanted = if version == IpVersion::V4 { [3, 2] } else { [4, 1] };
        assert_eq!(answer[0][14 + ip..][..2], wanted);
        assert_eq!(bench.stack.drops().of(DropReason::IpProtocolUnknown), 1);
    }
}

/// RFC 1122 3.2.2.1-b.
#[test]
fn a_udp_socket_is_told_that_nobody_is_there() {
    for version in BOTH {
        let mut bench = bench(version);
        let local = SocketAddr::new(bench.ours, 9);
        let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
        let remote = SocketAddr::new(bench.theirs, 7);
        bench.stack.udp_connect(socket, remote).expect("open");
        bench.stack.udp_send(socket, remote, b"hello", NOW).expect("sent");
        let sent = bench.sent();
        tell(&mut bench, &sent[0][14..], What::Unreachable(Unreachable::Port), NOW);
        assert_eq!(bench.stack.next_event(), Some(Event::Udp(socket)));
        let told = bench.stack.udp_take_error(socket);
        assert_eq!(told, Some((remote, Unreachable::Port)));
        // The socket gets no report of an error about a host that is not its peer.
        let mut packet = sent[0][14..].to_vec();
        let ip = if version == IpVersion::V4 { 20 } else { 40 };
        packet[ip + 3] ^= 1;
        tell(&mut bench, &packet, What::Unreachable(Unreachable::Port), NOW);
        assert_eq!(bench.stack.udp_take_error(socket), None);
    }
}
