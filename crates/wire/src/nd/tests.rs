//! Neighbour discovery: parse and emit are inverse; the ICMPv6 parser verifies the checksum.

use super::*;
use proptest::prelude::*;

fn header() -> impl Strategy<Value = Header> {
    let kind = prop_oneof![
        Just(Kind::Solicitation),
        any::<(bool, bool, bool)>().prop_map(|(router, solicited, overrides)| {
            Kind::Advertisement { router, solicited, overrides }
        }),
    ];
    (kind, any::<u128>(), any::<Option<[u8; 6]>>()).prop_map(|(kind, target, mac)| Header {
        kind,
        // Never multicast.
        target: Ipv6Addr::from_bits(target >> 8 | 0x20 << 120),
        link_addr: mac.map(MacAddr),
    })
}

fn solicitation(options: &[u8]) -> Vec<u8> {
    let header = Header {
        kind: Kind::Solicitation,
        target: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        link_addr: None,
    };
    let mut message = vec![0; 24];
    header.emit(&mut message, Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST).unwrap();
    message.extend_from_slice(options);
    message
}

proptest! {
    #[test]
    fn emit_parses(header in header(), (src, dst) in any::<(u128, u128)>()) {
        let (src, dst) = (Ipv6Addr::from_bits(src), Ipv6Addr::from_bits(dst));
        let mut out = [0xa5; 40];
        let len = header.emit(&mut out, src, dst).unwrap();
        let message = &out[..len];
        prop_assert!(icmpv6::Header::parse(message, src, dst).is_ok());
        prop_assert_eq!(Header::parse(message), Ok(header));
        prop_assert!(out[len..].iter().all(|&b| b == 0xa5));
        prop_assert_eq!(header.emit(&mut out[..len - 1], src, dst), None);
    }

    #[test]
    fn parse_is_total(options in prop::collection::vec(0u8..4, 0..200), kind in 134u8..138) {
        let mut message = solicitation(&options);
        message[0] = kind;
        let _ = Header::parse(&message);
        let _ = Header::parse(&options);
    }
}

#[test]
fn options_are_bounded() {
    let mac = Some(MacAddr([1, 2, 3, 4, 5, 6]));
    let ok = |options: &[u8]| Header::parse(&solicitation(options)).map(|h| h.link_addr);
    let bad = Err(DropReason::IcmpMalformed);
    assert_eq!(ok(&[]), Ok(None));
    assert_eq!(ok(&[1, 1, 1, 2, 3, 4, 5, 6]), Ok(mac));
    assert_eq!(ok(&[2, 1, 1, 2, 3, 4, 5, 6]), Ok(None), "the target's is not the source's");
    assert_eq!(ok(&[14, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6]), Ok(mac));
    assert_eq!(ok(&[1, 0, 1, 2, 3, 4, 5, 6]), bad, "length zero");
    assert_eq!(ok(&[1, 2, 1, 2, 3, 4, 5, 6]), bad, "past the end");
    assert_eq!(ok(&[1]), bad);
    assert_eq!(ok(&[9, 1, 0, 0, 0, 0, 0, 0].repeat(16)), Ok(None));
    assert_eq!(ok(&[9, 1, 0, 0, 0, 0, 0, 0].repeat(17)), bad);
}

#[test]
fn what_must_be_refused() {
    let bad = Err(DropReason::IcmpMalformed);
    let good = solicitation(&[]);
    assert!(Header::parse(&good).is_ok());
    assert_eq!(Header::parse(&good[..23]), bad);
    for (at, byte) in [(0, 134), (1, 1), (8, 0xff)] {
        let mut message = good.clone();
        message[at] = byte;
        assert_eq!(Header::parse(&message), bad);
    }
}
