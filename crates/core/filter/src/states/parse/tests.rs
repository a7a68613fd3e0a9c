//! Keys from bytes: plain and other packets, ICMP, extension headers, fragments, nonsense.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::states::Segment;
use proptest::prelude::*;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 9);

/// An IPv4 packet; `offset` is in bytes.
fn v4(protocol: u8, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let header = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: 20 + data.len() as u16,
        id: 77,
        dont_fragment: false,
        more_fragments: more,
        fragment_offset: offset,
        ttl: 64,
        protocol,
        src: A,
        dst: B,
    };
    let mut packet = vec![0; 20];
    packet.extend_from_slice(data);
    assert!(header.emit(&mut packet));
    packet
}

fn v6(next_header: u8, data: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: data.len() as u16,
        next_header,
        hop_limit: 64,
        src: A6,
        dst: B6,
    };
    let mut packet = vec![0; ipv6::HEADER_LEN];
    packet.extend_from_slice(data);
    assert!(header.emit(&mut packet));
    packet
}

/// A TCP header without options from port 4,660 to port 80, with four bytes of data.
fn tcp() -> Vec<u8> {
    let mut b = vec![0x12, 0x34, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x02, 1, 0, 0, 0, 0, 0];
    b.extend_from_slice(&[1, 2, 3, 4]);
    b
}

fn udp() -> Vec<u8> {
    vec![0x12, 0x34, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]
}

/// An ICMP message of eight bytes with the identifier 0x0506, and `behind`.
fn icmp(kind: u8, behind: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 5, 6, 0, 1], behind].concat()
}

#[test]
fn plain_packets_have_the_same_key_quickly_and_slowly() {
    for (protocol, data, kind) in [(TCP, tcp(), Kind::Tcp), (UDP, udp(), Kind::Udp)] {
        let (packet, packet6) = (v4(protocol, 0, false, &data), v6(protocol, &data));
        let parsed = parse(&packet).expect("a packet");
        assert_eq!(plain_v4(&packet).map(Key::V4), Some(parsed.key));
        assert_eq!((parsed.kind, parsed.transport, parsed.piece), (kind, 20, None));
        assert_eq!(parsed.transport_len, data.len());
        let tuple = parsed.key.tuple();
        assert_eq!((tuple.src, tuple.dst), (A.into(), B.into()));
        assert_eq!((tuple.src_port, tuple.protocol), (0x1234, protocol));
        let parsed = parse(&packet6).expect("a packet");
        assert_eq!(plain_v6(&packet6).map(Key::V6), Some(parsed.key));
        assert_eq!((parsed.key.tuple().src, parsed.transport), (A6.into(), 40));
    }
}

#[test]
fn padding_behind_a_packet_is_not_its_data() {
    let mut packet = v4(TCP, 0, false, &tcp());
    packet.extend_from_slice(&[0; 9]);
    assert_eq!(parse(&packet).map(|parsed| parsed.transport_len), Ok(24));
}

#[test]
fn fragments_and_other_protocols_are_not_plain() {
    assert_eq!(plain_v4(&v4(TCP, 0, true, &tcp())), None);
    assert_eq!(plain_v4(&v4(TCP, 8, false, &tcp())), None);
    assert_eq!(plain_v4(&v4(ICMP, 0, false, &icmp(8, &[]))), None);
    assert_eq!(plain_v6(&v6(HOP_BY_HOP, &[TCP, 0, 1, 4, 0, 0, 0, 0])), None);
    assert_eq!(plain_v4(&[0x45; 10]), None);
}

#[test]
fn an_answer_of_icmp_has_the_reversed_key_of_its_query() {
    let query = parse(&v4(ICMP, 0, false, &icmp(8, b"data"))).expect("a packet");
    let mut packet = v4(ICMP, 0, false, &icmp(0, b"data"));
    packet[12..20].rotate_left(4);
    // Exchanged addresses leave the header's sum as it is.
    let answer = parse(&packet).expect("a packet");
    assert_eq!((query.kind, answer.kind), (Kind::Query, Kind::Answer));
    assert_eq!(answer.key, query.key.reversed());
    assert_eq!(query.key.ports(), [0x0506, 0x0507]);
    assert_eq!(query.icmp, Some((8, 0)));
    let query = parse(&v6(ICMPV6, &icmp(128, b"data"))).expect("a packet");
    assert_eq!((query.kind, query.key.ports()), (Kind::Query, [0x0506, 0x0507]));
}

/// The packet with its addresses exchanged: an error about it goes to its source.
fn turned(mut packet: Vec<u8>) -> Vec<u8> {
    match packet[0] >> 4 {
        4 => packet[12..20].rotate_left(4),
        _ => packet[8..40].rotate_left(16),
    }
    packet
}

/// RFC 4890 4.3.1-a.
#[test]
fn an_error_has_the_key_of_the_packet_that_it_quotes() {
    let quoted = turned(v4(TCP, 0, false, &tcp()));
    let error = parse(&v4(ICMP, 0, false, &icmp(3, &quoted[..28]))).expect("a packet");
    let kind = |seq, from| Kind::Error { seq, from, about: None };
    assert_eq!(error.kind, kind(Some(SeqNumber(9)), A.into()));
    assert_eq!(Some(error.key), plain_v4(&quoted).map(Key::V4));
    let quoted = turned(v6(UDP, &udp()));
    let error = parse(&v6(ICMPV6, &icmp(2, &quoted))).expect("a packet");
    assert_eq!(error.kind, kind(None, A6.into()));
    assert_eq!(Some(error.key), plain_v6(&quoted).map(Key::V6));
    let quoted = turned(v4(ICMP, 0, false, &icmp(8, b"data")));
    let error = parse(&v4(ICMP, 0, false, &icmp(11, &quoted))).expect("a packet");
    assert_eq!(error.key.ports(), [0x0506, 0x0507]);
    let quoted = turned(v4(ICMP, 0, false, &icmp(0, b"data")));
    let error = parse(&v4(ICMP, 0, false, &icmp(11, &quoted))).expect("a packet");
    assert_eq!(error.key.ports(), [0x0507, 0x0506], "an answer is quoted");
    assert_eq!(error.kind, Kind::Error { seq: None, from: A.into(), about: Some((0, 0)) });
}

/// Else two hosts that query each other would have one flow, and the second would be refused.
#[test]
fn no_query_has_the_reversed_key_of_another_one() {
    let packet = |kind, id: u16| {
        let [high, low] = id.to_be_bytes();
        v4(ICMP, 0, false, &[kind, 0, 0, 0, high, low, 0, 1])
    };
    let ports = |packet: &[u8]| parse(packet).map(|parsed| parsed.key.ports());
    let ids = [0, 1, 2, 0x7fff, 0x8000, 0xfffe, 0xffff];
    for (one, other) in ids.iter().flat_map(|one| ids.map(|other| (*one, other))) {
        let [query, answer] = [(8, one), (0, other)].map(|(kind, id)| ports(&packet(kind, id)));
        assert_ne!(query.expect("a query"), answer.expect("an answer"), "{one} {other}");
    }
}

#[test]
fn an_error_whose_flow_cannot_be_told_is_refused() {
    let error = icmp(3, &v4(TCP, 0, false, &tcp()));
    for quoted in [
        turned(v4(TCP, 0, false, &tcp()))[..27].to_vec(),
        turned(v4(TCP, 64, false, &tcp())),
        turned(v4(ICMP, 0, false, &error)),
        // To another host than the source of the packet.
        v4(TCP, 0, false, &tcp()),
        v6(UDP, &udp()),
        Vec::new(),
    ] {
        assert_eq!(parse(&v4(ICMP, 0, false, &icmp(3, &quoted))), Err(FilterIcmp));
    }
}

#[test]
fn extension_headers_are_walked_to_the_transport() {
    let hop = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0];
    let dest = [UDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let packet = v6(HOP_BY_HOP, &[&hop[..], &dest, &udp()].concat());
    let parsed = parse(&packet).expect("a packet");
    assert_eq!((parsed.kind, parsed.transport), (Kind::Udp, 40 + 24));
    assert_eq!(parsed.key.ports(), [0x1234, 53]);
    assert_eq!(Some(parsed.key), plain_v6(&v6(UDP, &udp())).map(Key::V6));
}

#[test]
fn extension_headers_that_do_not_end_are_malformed() {
    let endless = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(12);
    assert_eq!(parse(&v6(DESTINATION_OPTIONS, &endless)), Err(FilterMalformed));
    assert_eq!(parse(&v6(DESTINATION_OPTIONS, &[UDP, 9, 0, 0])), Err(FilterMalformed));
    assert_eq!(parse(&v6(ROUTING, &[])), Err(FilterMalformed));
}

#[test]
fn short_transport_headers_are_malformed() {
    assert_eq!(parse(&v4(TCP, 0, false, &tcp()[..19])), Err(FilterMalformed));
    assert_eq!(parse(&v4(UDP, 0, false, &udp()[..7])), Err(FilterMalformed));
    assert_eq!(parse(&v4(UDP, 0, false, &udp()[..11])), Err(FilterMalformed), "its length");
    assert_eq!(parse(&v4(ICMP, 0, false, &[8, 0, 0])), Err(FilterMalformed));
    let mut long = tcp();
    long[12] = 0xf0;
    assert_eq!(parse(&v4(TCP, 0, false, &long)), Err(FilterMalformed));
    assert_eq!(Segment::parse(&long, 24), Err(FilterMalformed));
    assert_eq!(parse(&[]), Err(FilterMalformed));
}

#[test]
fn a_first_fragment_has_all_headers() {
    let parsed = parse(&v4(TCP, 0, true, &tcp())).expect("a fragment");
    let piece = parsed.piece.expect("a fragment");
    assert_eq!((parsed.key.ports(), parsed.kind), ([0x1234, 80], Kind::Tcp));
    assert_eq!((piece.offset, piece.len, piece.header_len), (0, 24, 20));
    assert_eq!(parse(&v4(TCP, 0, true, &tcp()[..16])), Err(FilterFragment), "RFC 1858");
    let fragment = |next, offset: u8, more| [next, 0, 0, offset | more, 0, 0, 0, 7];
    let packet = v6(FRAGMENT, &[&fragment(UDP, 0, 1)[..], &udp()].concat());
    let piece = parse(&packet).expect("a fragment").piece.expect("a fragment");
    assert_eq!((piece.offset, piece.len, piece.header_len), (0, 12, 8));
    assert_eq!(piece.datagram.id, 7);
    let hidden = [&fragment(DESTINATION_OPTIONS, 0, 1)[..], &[UDP, 1, 0, 0]].concat();
    assert_eq!(parse(&v6(FRAGMENT, &hidden)), Err(FilterFragment), "RFC 7112");
}

#[test]
fn a_fragment_behind_the_first_has_no_ports() {
    let parsed = parse(&v4(UDP, 1_480, false, &udp())).expect("a fragment");
    assert_eq!((parsed.kind, parsed.key.ports()), (Kind::Other, [0, 0]));
    assert_eq!(parsed.piece.map(|piece| piece.offset), Some(1_480));
    let first = parse(&v4(UDP, 0, true, &udp())).expect("a fragment");
    let datagram = |parsed: Parsed| parsed.piece.map(|piece| piece.datagram);
    assert_eq!(datagram(first), datagram(parsed));
    let beyond = parse(&v4(UDP, 65_528, false, &udp()));
    assert_eq!(beyond, Err(FilterFragment), "more than the largest datagram");
}

#[test]
fn a_fragment_that_is_the_whole_datagram_is_none() {
    let atomic = [&[UDP, 0, 0, 0, 0, 0, 0, 7][..], &udp()].concat();
    let parsed = parse(&v6(FRAGMENT, &atomic)).expect("a packet");
    assert_eq!((parsed.piece, parsed.kind), (None, Kind::Udp), "RFC 6946");
}

#[test]
fn a_segment_is_read_with_its_options() {
    let mut bytes = tcp();
    bytes[12] = 0x70;
    bytes.splice(20..20, [1, 3, 3, 9, 1, 1, 1, 1]);
    let segment = Segment::parse(&bytes, bytes.len() as u32).expect("a segment");
    assert_eq!((segment.scale, segment.len, segment.window), (Some(9), 4, 256));
    assert_eq!(segment.end(), SeqNumber(9 + 1 + 4));
    bytes[13] = 0x10;
    bytes[8..12].copy_from_slice(&[0, 0, 1, 0]);
    bytes.splice(20..28, [1, 1, 5, 10, 0, 0, 2, 0, 0, 0, 3, 0]);
    bytes[12] = 0x80;
    let segment = Segment::parse(&bytes, bytes.len() as u32).expect("a segment");
    assert_eq!((segment.ack, segment.sack), (SeqNumber(0x100), SeqNumber(0x300)));
}

#[test]
fn impossible_flags_are_refused() {
    let with = |flags: u8| {
        let mut bytes = tcp();
        bytes[13] = flags;
        Segment::parse(&bytes, 24).map(|_| ())
    };
    for flags in [0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0x30, 0xc2, 0x22] {
        assert_eq!(with(flags), Ok(()), "{flags:#x}");
    }
    for flags in [0x00, 0x01, 0x03, 0x06, 0x13, 0x05, 0x15, 0x29, 0x20, 0x08, 0x3f] {
        assert_eq!(with(flags), Err(DropReason::FilterTcpState), "{flags:#x}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        first in prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()],
        protocol in prop_oneof![Just(TCP), Just(FRAGMENT), Just(ICMP), Just(ICMPV6), any::<u8>()],
    ) {
        let mut bytes = bytes;
        for (at, value) in [(0, first), (6, protocol), (9, protocol)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let _ = (plain_v4(&bytes), plain_v6(&bytes), parse(&bytes));
        let _ = Segment::parse(&bytes, bytes.len() as u32);
        for protocol in [TCP, UDP, ICMP, ICMPV6, 47] {
            let _ = (parse(&v4(protocol, 0, false, &bytes)), parse(&v6(protocol, &bytes)));
        }
        let _ = parse(&v6(FRAGMENT, &bytes));
    }
}
