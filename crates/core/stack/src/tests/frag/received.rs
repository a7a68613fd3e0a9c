//! Fragments that a test sends: some are joined to datagrams, some cause an ICMP error, and some
//! are dropped.

use base::{Counter, DropReason, Duration, IpVersion, Limit};
use wire::checksum::{Ladder, Sum};
use wire::protocol;
use wire::tcp::Flags;

use super::{BOTH, NOW, fragment, fragments, ip_len, pattern, socket, udp_frame};
use crate::ListenConfig;
use crate::tests::craft::{Bench, Tcp, parse_tcp};
use crate::tests::icmp::bench;

fn give(bench: &mut Bench, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames.iter().flat_map(|frame| bench.exchange(frame, NOW)).collect()
}

/// The ICMP type and code of an answer.
fn kind(frame: &[u8]) -> (u8, u8) {
    let at = 14 + if frame[14] >> 4 == 4 { 20 } else { 40 };
    (frame[at], frame[at + 1])
}

/// Fragments are joined in any order and for every transport protocol. Errors in the whole datagram
/// are found after reassembly.
#[test]
fn every_transport_takes_datagrams_from_fragments() {
    for version in BOTH {
        let mut bench = bench(version);
        let (udp, _) = socket(&mut bench);
        let payload = pattern(4_000);
        let mut frames = fragments(&udp_frame(&bench, (7, 9), &payload), 1, 800);
        frames.reverse();
        assert!(give(&mut bench, &frames).is_empty());
        let datagram = bench.stack.udp_receive(udp).expect("joined");
        assert!(datagram.payload.as_slice() == payload);
        // The checksum covers the whole datagram: here one byte of its last fragment is changed.
        if let Some(byte) = frames[0].last_mut() {
            *byte ^= 1;
        }
        give(&mut bench, &frames);
        assert_eq!(bench.stack.drops().of(DropReason::UdpChecksum), 1);
        // A port without a socket, and a protocol that the stack does not have: the error quotes
        // the whole datagram.
        let frames = fragments(&udp_frame(&bench, (7, 10), &payload), 2, 800);
        let answers = give(&mut bench, &frames);
        let port = if version == IpVersion::V4 { (3, 3) } else { (1, 4) };
        assert_eq!(answers.iter().map(|f| kind(f)).collect::<Vec<_>>(), [port]);
        let frames = fragments(&bench.frame(253, &payload), 3, 800);
        let answers = give(&mut bench, &frames);
        let protocol = if version == IpVersion::V4 { (3, 2) } else { (4, 1) };
        assert_eq!(answers.iter().map(|f| kind(f)).collect::<Vec<_>>(), [protocol]);
        // TCP: a SYN in fragments, with its header length in the first one.
        let local = bench.listen_at(80);
        bench.stack.tcp_listen(local, ListenConfig::default()).expect("free");
        let syn = Tcp {
            ports: (4_000, 80),
            seq: base::SeqNumber(7),
            ack: base::SeqNumber(0),
            flags: Flags::SYN,
            window: 1_000,
            urgent: 0,
            options: vec![2, 4, 5, 0xb4],
            payload: pattern(100),
        };
        let frames = fragments(&bench.tcp_frame(&syn), 4, 24);
        let answers = give(&mut bench, &frames);
        let (header, _) = parse_tcp(&answers[0]).expect("an answer");
        assert_eq!((header.flags, header.ack), (Flags::SYN | Flags::ACK, base::SeqNumber(8)));
        let counters = bench.stack.counters();
        assert_eq!(counters.of(Counter::DatagramsReassembled), 5);
        assert_eq!(counters.of(Counter::FragmentsJoined), counters.of(Counter::FragmentsIn));
    }
}

/// RFC 1122 3.3.2-b, RFC 8200 4.5-c: the sender of the first fragment gets an error, within the
/// limit of ICMP errors. Without a first fragment no error is sent.
#[test]
fn time_exceeded_is_reported_for_a_first_fragment() {
    for version in BOTH {
        let mut bench = bench(version);
        let whole = udp_frame(&bench, (7, 9), &pattern(4_000));
        let frames = fragments(&whole, 1, 800);
        let other = fragments(&whole, 2, 800);
        give(&mut bench, &frames[..2]);
        give(&mut bench, &other[1..]);
        let deadline = NOW + Duration::from_secs(60);
        assert!(bench.stack.next_deadline() <= deadline);
        assert!(bench.poll(NOW + Duration::from_millis(59_990)).is_empty());
        let answers = bench.poll(deadline);
        let expected = if version == IpVersion::V4 { (11, 1) } else { (3, 1) };
        assert_eq!(answers.iter().map(|f| kind(f)).collect::<Vec<_>>(), [expected]);
        let quote = &answers[0][14 + ip_len(version) + 8..];
        assert_eq!(
            quote[..],
            frames[0][14..14 + quote.len()],
            "the error does not quote the first fragment"
        );
        assert!(quote.len() >= 500);
        assert_eq!(bench.stack.drops().of(DropReason::FragmentTimeout), 2 + other.len() as u64 - 1);
        // Many datagrams are incomplete at once: no more errors are sent than the limit admits in a
        // second.
        let limit = bench.stack.budget().of(Limit::IcmpErrorsPerSecond);
        bench.stack.core.cx.budget.set(Limit::IcmpErrorsPerSecond, 10);
        for id in 0..100 {
            let first = fragment(&whole, id, 0, &pattern(800), true);
            assert!(bench.exchange(&first, deadline).is_empty());
        }
        let reported = bench.poll(deadline + Duration::from_secs(60)).len();
        assert!((5..=10).contains(&reported), "{reported}");
        assert!(limit > 10 && bench.stack.frags.is_empty());
        bench.stack.settle();
        assert_eq!((bench.stack.pool().outstanding(), bench.peers_buffers_out()), (0, 0));
    }
}

/// Fragments for other hosts, from impossible sources, or to groups that the port has not joined
/// are not kept. Fragments to a broadcast address or to a joined group are kept, but cause no error
/// when their time is over.
#[test]
fn fragments_that_are_not_for_us_are_not_kept() {
    for (src, dst, reason) in [
        ("192.0.2.2", "192.0.2.9", Some(DropReason::IpNotForUs)),
        ("127.0.0.1", "192.0.2.1", Some(DropReason::IpMartianSource)),
        ("192.0.2.1", "192.0.2.1", Some(DropReason::IpMartianSource)),
        ("192.0.2.2", "224.0.0.5", Some(DropReason::GroupNotJoined)),
        ("192.0.2.2", "224.0.0.1", None),
        ("192.0.2.2", "192.0.2.255", None),
    ] {
        let mut bench = bench(IpVersion::V4);
        let [src, dst] = [src, dst].map(|a| a.parse().expect("an address"));
        let whole = crate::tests::craft::frame_between(src, dst, 17, &pattern(2_000));
        let first = fragments(&whole, 1, 800).remove(0);
        assert!(bench.exchange(&first, NOW).is_empty());
        assert_eq!(bench.stack.frags.len(), usize::from(reason.is_none()));
        if let Some(reason) = reason {
            assert_eq!(bench.stack.drops().of(reason), 1);
        }
        assert!(bench.poll(NOW + Duration::from_secs(61)).is_empty(), "\"time exceeded\" was sent");
    }
}

/// A port's number may later be given to another port.
#[test]
fn a_removed_port_takes_its_fragments_along() {
    let mut bench = bench(IpVersion::V4);
    let first = fragments(&udp_frame(&bench, (7, 9), &pattern(4_000)), 1, 800).remove(0);
    bench.exchange(&first, NOW);
    assert_eq!(bench.stack.frags.len(), 1);
    bench.stack.remove_port(crate::PortId(0));
    assert_eq!(bench.stack.frags.len(), 0);
    assert_eq!(bench.stack.drops().of(DropReason::FragmentEvicted), 1);
}

/// Joining sums all data of the datagram, but UDP's checksum may cover less of it. Here UDP's
/// checksum is wrong, although the sum over all data is right.
#[test]
fn a_checksum_is_that_of_the_datagram_alone() {
    let options: &[u8] = &[protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
    for (version, front, behind) in [
        (IpVersion::V4, &[][..], 2),
        (IpVersion::V6, &[][..], 2),
        // Destination options after the fragment header.
        (IpVersion::V6, options, 0),
    ] {
        let mut bench = bench(version);
        let (udp, _) = socket(&mut bench);
        let at = 14 + ip_len(version);
        let mut data = [front, &udp_frame(&bench, (7, 9), &pattern(1_000))[at..]].concat();
        data.extend(vec![0; behind]);
        // One byte of the UDP datagram is changed, and the last field of the data makes the sum
        // over all data right again.
        data[front.len() + 20] ^= 1;
        let end = data.len() - 2;
        data[end..].fill(0);
        let length = (data.len() - front.len()) as u16;
        let pseudo = inet::ip_input::pseudo_sum(bench.theirs, bench.ours, protocol::UDP);
        let sum = pseudo.plus(Sum::of_be16(length)).plus(Ladder::Byte.sum(&data));
        data[end..].copy_from_slice(&sum.field());
        let protocol = if front.is_empty() { protocol::UDP } else { protocol::DESTINATION_OPTIONS };
        let frames = fragments(&bench.frame(protocol, &data), 1, 400);
        assert!(give(&mut bench, &frames).is_empty());
        assert!(bench.stack.udp_receive(udp).is_none());
        assert_eq!(bench.stack.drops().of(DropReason::UdpChecksum), 1, "{version:?} {behind}");
    }
}
