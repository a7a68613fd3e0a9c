//! Requirements of RFC 9293 about IP and ICMP that no other test of a whole stack covers.

use base::{DropReason, SeqNumber};
use wire::tcp::Flags;

use super::craft::{Tcp, parse_tcp};
use super::icmp::{NOW, bench, in_flight};
use crate::ListenConfig;

fn syn() -> Tcp {
    Tcp {
        ports: (4000, 80),
        seq: SeqNumber(7),
        ack: SeqNumber(0),
        flags: Flags::SYN,
        window: 1000,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
    }
}

/// A SYN whose IP header has a router alert (RFC 2113) is handled like any other.
/// RFC 9293 MUST-50.
#[test]
fn ip_options_are_ignored() {
    let mut bench = bench(base::IpVersion::V4);
    let local = bench.listen_at(80);
    bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let mut frame = bench.tcp_frame(&syn());
    frame.splice(34..34, [148, 4, 0, 0]);
    frame[14] = 0x46;
    frame[17] += 4;
    frame[24..26].fill(0);
    let sum = wire::checksum::Ladder::Word64.sum(&frame[14..38]);
    frame[24..26].copy_from_slice(&sum.field());
    let answers = bench.exchange(&frame, NOW);
    let (header, _) = parse_tcp(&answers[0]).expect("an answer");
    assert_eq!((header.flags, header.ack), (Flags::SYN | Flags::ACK, SeqNumber(8)));
}

/// RFC 6633: only an attacker sends source quenches, to slow connections down.
/// RFC 9293 MUST-55.
#[test]
fn a_source_quench_changes_nothing() {
    let mut bench = bench(base::IpVersion::V4);
    let (handle, sent) = in_flight(&mut bench, 3000);
    let before = bench.stack.tcp_info(handle).expect("open");
    let mut message = vec![4, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&sent[0][14..54]);
    let sum = wire::checksum::Ladder::Word64.sum(&message);
    message[2..4].copy_from_slice(&sum.field());
    let frame = bench.frame(1, &message);
    assert_eq!(bench.exchange(&frame, NOW).len(), 0);
    assert_eq!(bench.stack.tcp_info(handle).expect("open"), before);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpUnhandled), 1);
}

/// A SYN in a broadcast frame is dropped, whatever its IP header contains (RFC 1122 section 3.3.6).
/// RFC 9293 MUST-57.
#[test]
fn a_syn_in_a_broadcast_frame_is_dropped_in_silence() {
    let mut bench = bench(base::IpVersion::V4);
    let local = bench.listen_at(80);
    bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
    let all = core::net::IpAddr::from([192, 0, 2, 255]);
    let to_all = super::craft::frame_between(bench.theirs, all, 6, &syn().bytes(bench.theirs, all));
    for mut frame in [bench.tcp_frame(&syn()), to_all] {
        frame[..6].fill(0xff);
        assert_eq!(bench.exchange(&frame, NOW).len(), 0);
    }
    for reason in [DropReason::IpLinkBroadcast, DropReason::TcpGroupAddress] {
        assert_eq!(bench.stack.drops().of(reason), 1, "{reason:?}");
    }
    assert_eq!(bench.stack.connection_count(), 0);
}
