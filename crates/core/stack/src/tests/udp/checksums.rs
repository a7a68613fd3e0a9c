//! Datagrams without a checksum. RFC 768, RFC 6935 section 5, RFC 6936 section 4.

use base::{Counter, DropReason, IpVersion};

use super::*;

fn field(frame: &[u8], payload_len: usize) -> [u8; 2] {
    let at = frame.len() - payload_len - 2;
    [frame[at], frame[at + 1]]
}

/// RFC 6935 5-b, RFC 7011 10.3.2-b: datagrams leave without a checksum only if the socket's option
/// is set.
#[test]
fn they_are_sent_if_the_socket_asks() {
    for version in BOTH {
        let mut bench = bench(version);
        let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
        for no_checksum in [false, true, false] {
            set(&mut bench, socket, |options| options.no_checksum = no_checksum);
            for len in [2, 200] {
                assert_eq!(bench.stack.udp_send(socket, to, &vec![1; len], NOW), Ok(()));
                let frame = bench.sent().remove(0);
                assert_eq!(field(&frame, len) == [0, 0], no_checksum);
            }
            // A datagram in fragments as well: the checksum field is in the first fragment.
            assert_eq!(bench.stack.udp_send(socket, to, &[1; 2_000], NOW), Ok(()));
            let first = bench.sent().remove(0);
            // The UDP header follows the Ethernet and IP headers, and IPv6's fragment header.
            let at = 14 + if version == IpVersion::V4 { 20 } else { 48 };
            let checksum = &first[at + 6..at + 8];
            assert_eq!(checksum == [0, 0], no_checksum);
        }
        assert_eq!(bench.stack.counters().of(Counter::UdpZeroChecksumOut), 3);
    }
}

/// A sum of zero is sent as all ones, because zero means "no checksum" (RFC 768).
#[test]
fn a_sum_of_zero_is_sent_as_ones() {
    for version in BOTH {
        let mut bench = bench(version);
        let (socket, to) = (bound(&mut bench, 9), peer(&bench, 7));
        bench.stack.udp_send(socket, to, &[0, 0], NOW).expect("sent");
        let sum = field(&bench.sent()[0], 2);
        // With the datagram's checksum as its payload, the sum is zero.
        bench.stack.udp_send(socket, to, &sum, NOW).expect("sent");
        assert_eq!(field(&bench.sent()[0], 2), [0xff, 0xff]);
    }
}

/// RFC 6935 5-a, RFC 6936 4-a, 4-b, 4-c: IPv6 datagrams without a checksum are dropped and counted,
/// unless the port's socket accepts them; IPv4 has always allowed them.
#[test]
fn they_are_taken_over_ipv6_by_sockets_that_ask() {
    for version in BOTH {
        let v6 = version == IpVersion::V6;
        let mut bench = bench(version);
        let socket = bound(&mut bench, 9);
        let frame = frame_with_checksum(&bench, [0, 0], b"1");
        for accepts in [false, true, false] {
            set(&mut bench, socket, |options| options.accepts_zero_checksum = accepts);
            // Twice: the second time the flow is known.
            for _ in 0..2 {
                assert_eq!(bench.exchange(&frame, NOW).len(), 0, "the datagram was answered");
                assert_eq!(bench.stack.udp_receive(socket).is_some(), accepts || !v6);
            }
        }
        let counted = bench.stack.drops().of(DropReason::UdpZeroChecksum);
        assert_eq!(counted, if v6 { 4 } else { 0 });
        let taken = bench.stack.counters().of(Counter::UdpZeroChecksumIn);
        assert_eq!(taken, if v6 { 2 } else { 0 });
        // A socket that accepts datagrams without a checksum still refuses a wrong one.
        set(&mut bench, socket, |options| options.accepts_zero_checksum = true);
        let wrong = frame_with_checksum(&bench, [1, 2], b"1");
        bench.exchange(&wrong, NOW);
        assert_eq!(bench.stack.drops().of(DropReason::UdpChecksum), 1);
    }
}

/// RFC 6936 4-d: the destination port of a datagram without a checksum may be wrong, so one for
/// which there is no socket causes no ICMPv6 error.
#[test]
fn they_draw_no_port_unreachable_over_ipv6() {
    for version in BOTH {
        let mut bench = bench(version);
        let frame = frame_with_checksum(&bench, [0, 0], b"1");
        let answers = bench.exchange(&frame, NOW).len();
        assert_eq!(answers, usize::from(version == IpVersion::V4));
    }
}
