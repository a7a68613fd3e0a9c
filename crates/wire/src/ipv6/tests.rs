//! IPv6 headers, parsed and emitted, against etherparse; examples of extension headers.

use super::*;
use proptest::prelude::*;

const TCP: u8 = 6;
const REFUSED: Result<(u8, usize), DropReason> = Err(DropReason::Ipv6ExtensionHeader);

#[test]
fn the_walk() {
    let pad = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(upper_layer(&[], TCP), Ok((TCP, 0)));
    assert_eq!(upper_layer(&[], NO_NEXT), Ok((NO_NEXT, 0)));
    assert_eq!(upper_layer(&[], HOP_BY_HOP), REFUSED);
    assert_eq!(upper_layer(&pad(TCP), HOP_BY_HOP), Ok((TCP, 8)));
    assert_eq!(upper_layer(&pad(TCP)[..7], HOP_BY_HOP), REFUSED);
    let two = [pad(DESTINATION_OPTIONS), pad(TCP)].concat();
    assert_eq!(upper_layer(&two, HOP_BY_HOP), Ok((TCP, 16)));
    let second = [pad(HOP_BY_HOP), pad(TCP)].concat();
    assert_eq!(upper_layer(&second, DESTINATION_OPTIONS), REFUSED, "hop-by-hop must be first");
    let most = [pad(DESTINATION_OPTIONS); EXTENSION_HEADERS_MAX - 1].concat();
    let most = [most, pad(TCP).to_vec()].concat();
    assert_eq!(upper_layer(&most, DESTINATION_OPTIONS), Ok((TCP, 64)));
    let more = [pad(DESTINATION_OPTIONS).to_vec(), most].concat();
    assert_eq!(upper_layer(&more, DESTINATION_OPTIONS), REFUSED);
}

#[test]
fn options_that_want_to_be_understood() {
    let with = |kind, len| upper_layer(&[TCP, 0, kind, len, 0, 0, 0, 0], DESTINATION_OPTIONS);
    assert_eq!(with(0x05, 4), Ok((TCP, 8)), "router alert may be skipped");
    assert_eq!(with(0x3e, 4), Ok((TCP, 8)));
    for kind in [0x40, 0x80, 0xc0, 0xc2] {
        assert_eq!(with(kind, 4), REFUSED);
    }
    assert_eq!(with(0x05, 5), REFUSED, "past the end");
    assert_eq!(upper_layer(&[TCP, 0, 0, 0, 0, 0, 0, 0], HOP_BY_HOP), Ok((TCP, 8)), "six Pad1");
    assert_eq!(upper_layer(&[TCP, 0, 0, 0, 0, 0, 0, 5], HOP_BY_HOP), REFUSED, "no length");
}

#[test]
fn routing_headers() {
    let with = |kind, left| upper_layer(&[TCP, 0, kind, left, 0, 0, 0, 0], ROUTING);
    assert_eq!(with(0, 1), REFUSED);
    assert_eq!(with(0, 0), REFUSED);
    assert_eq!(with(4, 1), REFUSED);
    assert_eq!(with(4, 0), Ok((TCP, 8)));
}

#[test]
fn fragments() {
    let with = |offset, more| {
        let mut bytes = [0; 16];
        let fragment =
            Fragment { next_header: TCP, fragment_offset: offset, more_fragments: more, id: 7 };
        assert!(fragment.emit(&mut bytes[8..]));
        assert_eq!(Fragment::parse(&bytes[8..]), Ok(fragment));
        bytes[..4].copy_from_slice(&[FRAGMENT, 0, 1, 4]);
        upper_layer(&bytes, HOP_BY_HOP)
    };
    assert_eq!(with(0, false), Ok((TCP, 16)), "atomic");
    assert_eq!(with(0, true), Ok((FRAGMENT, 8)));
    assert_eq!(with(65_528, false), Ok((FRAGMENT, 8)));
    assert_eq!(upper_layer(&[0; 7], FRAGMENT), REFUSED);
    let odd = Fragment { next_header: 0, fragment_offset: 1, more_fragments: false, id: 0 };
    assert!(!odd.emit(&mut [0; 8]));
}

#[test]
fn reasons_to_drop() {
    let mut packet = [0; 48];
    packet[0] = 0x60;
    packet[5] = 8;
    assert!(Header::parse(&packet).is_ok());
    assert_eq!(Header::parse(&packet[..47]), Err(DropReason::Ipv6PayloadLength));
    assert!(Header::parse_quoted(&packet[..40]).is_ok());
    assert_eq!(Header::parse(&packet[..39]), Err(DropReason::Ipv6Short));
    packet[0] = 0x40;
    assert_eq!(Header::parse(&packet), Err(DropReason::Ipv6Version));
}

proptest! {
    #[test]
    fn emit_parses_here_and_in_etherparse(
        (traffic_class, flow_label, next_header, hop_limit) in any::<(u8, u32, u8, u8)>(),
        (src, dst) in any::<(u128, u128)>(), data in 0usize..40,
    ) {
        let header = Header {
            traffic_class, flow_label: flow_label & 0xf_ffff, payload_len: data as u16,
            next_header, hop_limit,
            src: Ipv6Addr::from_bits(src), dst: Ipv6Addr::from_bits(dst),
        };
        let mut packet = vec![0; 40 + data + 3];
        prop_assert!(header.emit(&mut packet));
        prop_assert_eq!(Header::parse(&packet), Ok(header));
        let (theirs, _) = etherparse::Ipv6Header::from_slice(&packet).unwrap();
        prop_assert_eq!(&theirs.to_bytes()[..], &packet[..40]);
        prop_assert_eq!(theirs.flow_label.value(), header.flow_label);
        prop_assert_eq!(theirs.payload_length, header.payload_len);
        prop_assert_eq!((theirs.next_header.0, theirs.hop_limit), (next_header, hop_limit));
        prop_assert_eq!(theirs.source, header.src.octets());
        let long = Header { flow_label: 1 << 20, ..header };
        prop_assert!(!long.emit(&mut packet));
    }

    #[test]
    fn the_walk_is_total_and_stays_inside(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(43), Just(44),
            Just(60), any::<u8>()], 0..200),
        first in prop_oneof![Just(0u8), Just(43), Just(44), Just(60)],
    ) {
        if let Ok((protocol, at)) = upper_layer(&bytes, first) {
            prop_assert!(at <= bytes.len());
            prop_assert!(![HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS].contains(&protocol));
        }
        let _ = Header::parse(&bytes);
    }
}
