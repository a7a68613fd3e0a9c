//! Requirements on every host of RFC 1122 section 3.2 that no other test covers.

use core::net::IpAddr;

use base::{Counter, DropReason, Instant, IpVersion};
use wire::checksum::Ladder;

use super::craft::{Bench, frame_between};
use super::icmp::{NOW, bench};
use crate::{Address, PortId};

/// A frame with an ICMP message from the test, its checksum filled in.
fn message(kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(rest);
    let sum = Ladder::Word64.sum(&message);
    message[2..4].copy_from_slice(&sum.field());
    message
}

fn echo(bench: &Bench) -> Vec<u8> {
    bench.frame(1, &message(8, 0, b"\x00\x07\x00\x01some data"))
}

/// Messages without an answer: timestamps would reveal a clock, and address masks and information
/// the network; router messages are for routers to send; source quench is obsolete (RFC 6633), and
/// so are the messages that RFC 6918 lists.
/// RFC 1122 3.2.2-a, 3.2.2.9-a.
#[test]
fn messages_that_a_host_does_not_handle_are_dropped_by_name() {
    let mut bench = bench(IpVersion::V4);
    let mut dropped = 0;
    let handled =
        |kind: u8, code: u8| matches!((kind, code), (0 | 8, 0) | (3 | 11 | 12, _) | (5, 0..=3));
    for kind in 0..=255 {
        for code in [0, 1, 4, 5, 255].into_iter().filter(|&code| !handled(kind, code)) {
            let frame = bench.frame(1, &message(kind, code, &[7; 32]));
            assert!(bench.exchange(&frame, NOW).is_empty(), "{kind} {code}");
            dropped += 1;
            assert_eq!(bench.stack.drops().of(DropReason::IcmpUnhandled), dropped);
        }
    }
    assert!(dropped > 1_200);
}

/// RFC 1122 3.2.2.6-a, 3.2.2.6-b.
#[test]
fn an_echo_comes_back_whole_from_the_address_that_it_was_for() {
    let mut bench = bench(IpVersion::V4);
    let second = "192.0.2.77/24".parse().expect("a network");
    bench.stack.add_address(PortId(0), Address::fixed(second)).expect("room");
    let request = message(8, 0, b"\x00\x07\x00\x01 all of this");
    for ours in [bench.ours, second.addr] {
        let frame = frame_between(bench.theirs, ours, 1, &request);
        let reply = bench.exchange(&frame, NOW).remove(0);
        let IpAddr::V4(ours) = ours else { panic!("IPv4") };
        assert_eq!(reply[26..30], ours.octets());
        assert_eq!(reply[34..], message(0, 0, &request[4..]));
    }
}

/// RFC 1122 3.2.1.3-a, 3.2.1.7-a.
#[test]
fn a_packet_for_another_host_is_not_ours_and_one_with_its_last_hop_is() {
    let mut bench = bench(IpVersion::V4);
    for other in ["192.0.2.9", "198.51.100.1"] {
        let dst = other.parse().expect("an address");
        let frame = frame_between(bench.theirs, dst, 1, &message(8, 0, &[0; 8]));
        assert!(bench.exchange(&frame, NOW).is_empty());
    }
    assert_eq!(bench.stack.drops().of(DropReason::IpNotForUs), 2);
    for ttl in [0, 1] {
        let mut frame = echo(&bench);
        frame[22] = ttl;
        frame[24..26].fill(0);
        let sum = Ladder::Word64.sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.field());
        assert_eq!(bench.exchange(&frame, NOW).len(), 1, "{ttl}");
    }
}

/// A frame with a datagram to a closed port of the stack.
fn datagram_from(bench: &Bench, host: u8) -> Vec<u8> {
    let src = IpAddr::from([192, 0, 2, host]);
    frame_between(src, bench.ours, 17, &[0, 9, 0, 7, 0, 8, 0, 0])
}

/// A peer that floods a closed port does not use up the errors for other peers, and nobody can
/// count how many errors others got: CVE-2020-25705.
#[test]
fn errors_are_shared_out_and_their_limit_cannot_be_counted() {
    let mut bench = bench(IpVersion::V4);
    for host in 2..40 {
        let mac = crate::pair::mac(host);
        bench.stack.add_neighbour(PortId(0), IpAddr::from([192, 0, 2, host]), mac);
    }
    let flood = |bench: &mut Bench, host: u8, times: usize, at: Instant| -> usize {
        let frame = datagram_from(bench, host);
        (0..times).map(|_| bench.exchange(&frame, at).len()).sum()
    };
    let own = flood(&mut bench, 2, 3_000, NOW);
    assert!((50..=100).contains(&own), "{own}");
    // Only few of the other peers share the flooder's bucket.
    let served = (3..23).filter(|&host| flood(&mut bench, host, 1, NOW) == 1).count();
    assert!(served >= 18, "{served} of 20");
    // The limit for all peers together differs from one second to the next.
    bench.stack.core.cx.budget.set(base::Limit::IcmpErrorsPerDestination, 1_000_000);
    let mut totals: Vec<usize> = (10..18)
        .map(|second| flood(&mut bench, 2, 1_500, Instant::from_nanos(second * 1_000_000_000)))
        .collect();
    assert!(totals.iter().all(|total| (500..=1_000).contains(total)), "{totals:?}");
    totals.sort_unstable();
    totals.dedup();
    assert!(totals.len() > 5, "{totals:?}");
    let counted = bench.stack.counters().of(Counter::IcmpErrorsOut);
    assert!(counted > 4_000);
}
