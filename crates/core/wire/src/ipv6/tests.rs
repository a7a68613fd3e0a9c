//! IPv6 headers, parsed and emitted, against etherparse; the parser of plain headers; fragment
//! headers.

use proptest::prelude::*;

use super::*;
use crate::protocol::FRAGMENT;

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
    assert_eq!(with(0, false), Ok((TCP, 16)), "an atomic fragment was refused");
    assert_eq!(with(0, true), Ok((FRAGMENT, 8)));
    assert_eq!(with(65_528, false), Ok((FRAGMENT, 8)));
    assert_eq!(upper_layer(&[0; 7], FRAGMENT), Err(DropReason::Ipv6ExtensionHeader));
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

    /// The parser of plain headers agrees with the general one, or leaves the packet to it.
    #[test]
    fn a_plain_header_is_read_as_any_is(
        mut packet in proptest::collection::vec(any::<u8>(), 0..60),
        protocol in proptest::sample::select(vec![TCP, 17, ICMPV6, FRAGMENT, HOP_BY_HOP]),
    ) {
        if let [first, _, _, _, high, low, next_header, ..] = packet.as_mut_slice() {
            (*first, *high, *next_header) = (0x60 | *first & 0x1f, 0, protocol);
            *low %= 24;
        }
        let plain = Plain::parse(&packet);
        let any = Header::parse(&packet).ok();
        let any = any.filter(|h| matches!(h.next_header, TCP | 17 | ICMPV6));
        prop_assert_eq!(plain.is_some(), any.is_some());
        if let (Some(plain), Some(any)) = (plain, any) {
            let fields = (plain.payload_len as u16, plain.protocol, plain.traffic_class);
            prop_assert_eq!(fields, (any.payload_len, any.next_header, any.traffic_class));
            prop_assert_eq!(plain.hop_limit, any.hop_limit);
            let addrs = plain.addrs.map(u64::to_ne_bytes).concat();
            prop_assert_eq!(addrs, [any.src.octets(), any.dst.octets()].concat());
        }
    }
}
