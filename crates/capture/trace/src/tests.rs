//! Tests of all kinds of frames, of numbers that wrap, and of the limits. `tests/tshark.rs` tests
//! the marks.

use std::net::SocketAddr;

use base::SeqNumber;
use wire::tcp::Flags;

use crate::limits::{CONNECTIONS_MAX, POINTS_TOTAL};
use crate::packet::{Link, Segment, Skipped, segment};
use crate::{Marks, Skips, Trace};

const ETHERNET: u32 = 1;
const RAW: u32 = 101;

/// An IPv4 packet from port 40000 of 192.0.2.1 to port 80 of 192.0.2.2, or in the opposite
/// direction.
fn packet(back: bool, seq: u32, ack: u32, flags: Flags, payload: usize) -> Vec<u8> {
    let (from, to, ports) = if back { (2, 1, [80, 40_000]) } else { (1, 2, [40_000_u16, 80]) };
    let len = (40 + payload) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend(len.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
    bytes.extend(ports.map(u16::to_be_bytes).concat());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([0x50, flags.0, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.resize(40 + payload, 7);
    bytes
}

fn read(link: Link, bytes: &[u8]) -> Result<Segment, Skipped> {
    segment(1, link, bytes, bytes.len() as u32)
}

#[test]
fn the_same_segment_is_found_behind_every_link_header() {
    let ip = packet(false, 5, 6, Flags::ACK, 100);
    let behind = |header: &[u8]| [header, &ip[..]].concat();
    let macs = [2; 12];
    let tagged = [&macs[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 9, 8, 0]].concat();
    let cases = [
        (Link::Ip, ip.clone()),
        (Link::Ethernet, behind(&[&macs[..], &[8, 0]].concat())),
        (Link::Ethernet, behind(&tagged)),
        (Link::Cooked, behind(&[&[0; 14][..], &[8, 0]].concat())),
        (Link::Cooked2, behind(&[&[8, 0][..], &[0; 18]].concat())),
        (Link::Loopback, behind(&[2, 0, 0, 0])),
    ];
    for (link, mut bytes) in cases {
        // Ethernet pads short frames.
        bytes.extend([0; 6]);
        let found = read(link, &bytes).expect("a segment");
        let client: SocketAddr = "192.0.2.1:40000".parse().expect("an address");
        assert_eq!((found.src, found.seq, found.len), (client, SeqNumber(5), 100), "{link:?}");
    }
}

#[test]
fn ipv6_is_read_through_its_extension_headers() {
    let tcp = &packet(false, 5, 6, Flags::ACK, 10)[20..];
    let extensions = [[60, 0, 0, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 0]].concat();
    let payload = (extensions.len() + tcp.len()) as u16;
    let mut head = vec![0x60, 0, 0, 0];
    head.extend(payload.to_be_bytes());
    head.extend([0, 64]);
    head.extend([7; 32]);
    let whole = [&head[..], &extensions, tcp].concat();
    assert_eq!(read(Link::Ip, &whole).expect("a segment").len, 10);
    let mut fragment = whole.clone();
    (fragment[6], fragment[43]) = (44, 8);
    assert_eq!(read(Link::Ip, &fragment).expect_err("a fragment was traced"), Skipped::Fragment);
    for cut in 0..whole.len() - 10 {
        assert_eq!(read(Link::Ip, &whole[..cut]).err(), Some(Skipped::Short), "{cut} bytes");
    }
}

#[test]
fn a_snapped_packet_has_the_length_that_its_header_says() {
    let ip = packet(false, 5, 6, Flags::ACK, 1_448);
    let found = segment(1, Link::Ip, &ip[..40], ip.len() as u32).expect("a segment");
    assert_eq!(found.len, 1_448);
    let lies = [(3, 30), (32, 0x20), (32, 0xf0)];
    for (at, byte) in lies {
        let mut wrong = packet(false, 5, 6, Flags::ACK, 4);
        wrong[at] = byte;
        assert_eq!(read(Link::Ip, &wrong).err(), Some(Skipped::Malformed), "{at}: {byte}");
    }
}

#[test]
fn what_is_not_traced_is_counted() {
    let mut trace = Trace::default();
    let ip = packet(false, 5, 6, Flags::ACK, 4);
    let mut udp = ip.clone();
    udp[9] = 17;
    let mut fragment = ip.clone();
    fragment[6] = 0x20;
    for (link, bytes) in [
        (RAW, &ip[..]),
        (147, &ip),
        (RAW, &udp),
        (RAW, &fragment),
        (RAW, &ip[..30]),
        (ETHERNET, &[]),
    ] {
        trace.take(0, link, 1, bytes, bytes.len() as u32);
    }
    let expected = Skips { link: 1, not_tcp: 1, fragments: 1, short: 2, ..Skips::default() };
    assert_eq!((trace.skips(), trace.packets()), (expected, 6));
}

#[test]
fn positions_do_not_wrap_and_round_trips_are_measured() {
    let mut trace = Trace::default();
    let (isn, mut time_ns) = (u32::MAX - 2_000, 1_000);
    trace.take(0, RAW, time_ns, &packet(false, isn, 0, Flags::SYN, 0), 40);
    for round in 0..5_u32 {
        let seq = isn.wrapping_add(1 + round * 1_000);
        time_ns += 1_000_000;
        let data = packet(false, seq, 1, Flags::ACK, 1_000);
        trace.take(0, RAW, time_ns, &data, data.len() as u32);
        time_ns += 300_000;
        let ack = packet(true, 1, seq.wrapping_add(1_000), Flags::ACK, 0);
        trace.take(0, RAW, time_ns, &ack, 40);
    }
    let connection = &trace.connections()[0];
    let sent = connection.from_client();
    let ends: Vec<i64> = sent.graph().segments.points().iter().map(|point| point.end).collect();
    assert_eq!(ends, [1, 1_001, 2_001, 3_001, 4_001, 5_001]);
    let counts = sent.counts();
    assert_eq!((counts.bytes, counts.rtt_count, counts.in_flight_max), (5_000, 5, 1_001));
    assert_eq!((counts.rtt_max_ns, sent.rtt_quantile_ns(0.5)), (300_000, Some(300_000)));
    assert_eq!(counts.of(Marks::RETRANSMISSION), 0);
    // Intervals of a millisecond: the SYN has no data, then a segment comes every 1.3 ms.
    let graph = sent.graph();
    assert_eq!(graph.sent.bytes(), [0, 1_000, 1_000, 1_000, 1_000, 0, 1_000]);
    assert_eq!(graph.acknowledged.bytes().iter().sum::<u64>(), 5_000);
    assert_eq!(graph.acknowledged.start_ns(), Some(1_301_000));
}

#[test]
fn what_is_sent_or_acknowledged_again_counts_as_sent_alone() {
    let mut trace = Trace::default();
    for (time_ns, packet) in [
        (1_000_000, packet(false, 1, 1, Flags::ACK, 500)),
        (2_000_000, packet(true, 1, 501, Flags::ACK, 0)),
        (3_000_000, packet(false, 1, 1, Flags::ACK, 500)),
        (4_000_000, packet(true, 1, 501, Flags::ACK, 0)),
    ] {
        trace.take(0, RAW, time_ns, &packet, packet.len() as u32);
    }
    let graph = trace.connections()[0].from_client().graph();
    assert_eq!(graph.sent.bytes().iter().sum::<u64>(), 1_000);
    assert_eq!(graph.acknowledged.bytes().iter().sum::<u64>(), 500);
}

#[test]
fn one_packet_on_two_interfaces_was_not_sent_twice() {
    let data = packet(false, 5, 1, Flags::ACK, 100);
    let traced = |interfaces: [u32; 2]| {
        let mut trace = Trace::default();
        for (index, interface) in interfaces.into_iter().enumerate() {
            trace.take(interface, RAW, 1 + index as u64, &data, data.len() as u32);
        }
        let again = |c: &crate::Connection| c.from_client().counts().of(Marks::RETRANSMISSION);
        (trace.connections().len(), trace.connections().iter().map(again).sum::<u64>())
    };
    assert_eq!((traced([0, 0]), traced([0, 1])), ((1, 1), (2, 0)));
}

#[test]
fn more_connections_and_points_than_the_limits_are_not_kept() {
    let mut trace = Trace::default();
    let mut syn = packet(false, 5, 0, Flags::SYN, 0);
    for source in 0..CONNECTIONS_MAX as u32 + 7 {
        syn[12..16].copy_from_slice(&source.to_be_bytes());
        trace.take(0, RAW, 1, &syn, 40);
    }
    assert_eq!((trace.connections().len(), trace.skips().connections), (CONNECTIONS_MAX, 7));
    // 200 connections, with more points than all connections may have together.
    let mut trace = Trace::default();
    let mut data = packet(false, 0, 1, Flags::ACK, 8);
    for number in 0..POINTS_TOTAL as u32 * 5 / 4 {
        data[15] = (number % 250) as u8;
        data[24..28].copy_from_slice(&(number / 250 * 8).to_be_bytes());
        trace.take(0, RAW, u64::from(number), &data, 48);
    }
    let kept = |c: &crate::Connection| {
        let (client, server) = (c.from_client().graph(), c.from_server().graph());
        client.segments.points().len() + server.acks.points().len()
    };
    let total: usize = trace.connections().iter().map(kept).sum();
    assert!(total <= POINTS_TOTAL && total > POINTS_TOTAL / 5, "{total}");
    let least = trace.connections().iter().map(kept).min();
    assert!(least > Some(1_000), "{least:?}");
}

#[test]
fn no_bytes_make_it_panic() {
    let mut state = 1_u64;
    let mut trace = Trace::default();
    for _ in 0..200_000 {
        let mut bytes = packet(state & 1 == 0, state as u32, 1, Flags::ACK, 40);
        for _ in 0..6 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 24) as u8;
        }
        bytes.truncate((state >> 40) as usize % 90);
        let link = [0, 1, 101, 113, 276][(state >> 50) as usize % 5];
        trace.take(0, link, state >> 20, &bytes, (state >> 30) as u32 % 2_000);
    }
    assert_eq!(trace.packets(), 200_000);
}
