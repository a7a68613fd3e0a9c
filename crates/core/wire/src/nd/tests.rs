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
        // The target is never multicast.
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
    assert_eq!(
        ok(&[2, 1, 1, 2, 3, 4, 5, 6]),
        Ok(None),
        "the target's option was taken for the source's"
    );
    assert_eq!(ok(&[14, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6]), Ok(mac));
    assert_eq!(ok(&[1, 0, 1, 2, 3, 4, 5, 6]), bad, "a length of zero was accepted");
    assert_eq!(ok(&[1, 2, 1, 2, 3, 4, 5, 6]), bad, "a length past the end was accepted");
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

/// A router advertisement with these options, in the format of RFC 4861 section 4.2.
fn advertisement(options: &[u8]) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 63, 0xc8, 7, 8, 0, 0, 0x75, 0x30, 0, 0, 3, 0xe8];
    message.extend_from_slice(options);
    message
}

fn prefix_option(prefix_len: u8) -> Vec<u8> {
    let mut option = vec![3, 4, prefix_len, 0xc0, 0, 0, 0x0e, 0x10, 0xff, 0xff, 0xff, 0xff];
    option.extend_from_slice(&[0; 4]);
    option.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    option
}

#[test]
fn a_router_advertisement_with_every_option() {
    let route = [24, 2, 48, 0x18, 0, 0, 0, 60, 0x20, 1, 0xd, 0xb8, 0, 9, 0, 0];
    let dnssl = b"\x1f\x03\0\0\0\0\0\x3c\x04Lab1\x07example\0\0\0";
    let options = [
        &[1, 1, 2, 0, 0, 0, 0, 9][..],
        &[5, 1, 0, 0, 0, 0, 5, 0],
        &prefix_option(64),
        &route,
        &[vec![25, 3, 0, 0, 0, 0, 1, 0], vec![0x20; 16]].concat(),
        dnssl,
        &[77, 1, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let message = advertisement(&options);
    let ra = RouterAdvertisement::parse(&message).expect("well formed");
    assert_eq!((ra.hop_limit, ra.managed, ra.other), (63, true, true));
    assert_eq!((ra.preference, ra.lifetime_s), (Preference::High, 0x0708));
    assert_eq!((ra.reachable_ms, ra.retransmit_ms), (30_000, 1_000));
    assert_eq!(ra.link_addr(), Some(MacAddr([2, 0, 0, 0, 0, 9])));
    let found: Vec<NdOption<'_>> = ra.options.iter().collect();
    let network = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let prefix = Prefix {
        prefix: network("2001:db8:0:7::"),
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_s: 3_600,
        preferred_s: u32::MAX,
    };
    assert_eq!(found[1], NdOption::Mtu(1_280));
    assert_eq!(found[2], NdOption::Prefix(prefix));
    let (preference, prefix) = (Preference::Low, network("2001:db8:9::"));
    assert_eq!(found[3], NdOption::Route { prefix, prefix_len: 48, preference, lifetime_s: 60 });
    assert_eq!(found[4], NdOption::Rdnss { lifetime_s: 256, servers: &[0x20; 16] });
    let NdOption::Dnssl { lifetime_s: 60, domains } = found[5] else { panic!("{found:?}") };
    assert_eq!(domains.iter().collect::<Vec<_>>(), ["lab1.example"]);
    assert_eq!(found[6], NdOption::Other);
}

#[test]
fn options_that_contradict_themselves_are_skipped() {
    let others = |option: &[u8]| {
        let message = advertisement(option);
        let ra = RouterAdvertisement::parse(&message).expect("lengths are right");
        ra.options.iter().all(|option| option == NdOption::Other)
    };
    assert!(others(&prefix_option(129)));
    assert!(!others(&prefix_option(128)));
    assert!(others(&[24, 1, 1, 0, 0, 0, 0, 9]), "a prefix of one bit in no bytes was accepted");
    assert!(!others(&[24, 1, 0, 0, 0, 0, 0, 9]), "a default route was refused");
    assert!(others(&[24, 1, 0, 0x10, 0, 0, 0, 9]), "the reserved preference was accepted");
    assert!(others(&[25, 1, 0, 0, 0, 0, 0, 9]), "an option without a server was accepted");
    assert!(
        others(&[25, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]),
        "an option with half a server was accepted"
    );
    assert!(
        others(&[5, 2, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        "an MTU option of 16 bytes was accepted"
    );
    let bad = |option: &[u8]| RouterAdvertisement::parse(&advertisement(option)).is_err();
    assert!(bad(&[3, 0, 0, 0, 0, 0, 0, 0]), "a length of zero was accepted");
    assert!(bad(&prefix_option(64)[..24]), "a length past the end was accepted");
    assert!(!bad(&[9, 1, 0, 0, 0, 0, 0, 0].repeat(64)));
    assert!(bad(&[9, 1, 0, 0, 0, 0, 0, 0].repeat(65)));
}

#[test]
fn domain_names_are_those_that_a_host_can_have() {
    let names = |bytes: &[u8]| {
        let mut option = [vec![31, 0, 0, 0, 0, 0, 0, 1], bytes.to_vec()].concat();
        option.resize(option.len().next_multiple_of(8), 0);
        option[1] = (option.len() / 8) as u8;
        let message = advertisement(&option);
        let ra = RouterAdvertisement::parse(&message).expect("well formed");
        match ra.options.iter().next() {
            Some(NdOption::Dnssl { domains, .. }) => domains.iter().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(names(b"\x01a\x01b\0\x01c\0"), ["a.b", "c"]);
    assert_eq!(names(b"\x01a\0\xc0\x08\0"), ["a"], "a compressed name was accepted");
    assert!(names(b"\x03a b\0").is_empty());
    assert!(names(b"\x08abc\0").is_empty(), "a name past the end was accepted");
    assert!(names(&[&[60][..], &[b'x'; 60]].concat().repeat(5)).is_empty(), "305 bytes");
    assert!(
        names(&[&[64][..], &[b'x'; 64], &[0]].concat()).is_empty(),
        "a label of 64 bytes was accepted"
    );
}

#[test]
fn a_probe_has_its_nonce() {
    let mut out = [0xa5; 40];
    let target: Ipv6Addr = "fe80::7".parse().expect("an address");
    let group: Ipv6Addr = "ff02::1:ff00:7".parse().expect("an address");
    assert_eq!(Header::emit_probe(&mut out, target, group, [1, 2, 3, 4, 5, 6]), Some(32));
    let message = &out[..32];
    assert!(icmpv6::Header::parse(message, Ipv6Addr::UNSPECIFIED, group).is_ok());
    let header = Header { kind: Kind::Solicitation, target, link_addr: None };
    assert_eq!(Header::parse(message), Ok(header));
    assert_eq!(Header::nonce(message), Some([1, 2, 3, 4, 5, 6]));
    assert_eq!(Header::emit_probe(&mut [0; 31], target, group, [0; 6]), None);
}

#[test]
fn redirects() {
    let mut message = vec![137, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&[0xfe; 16]);
    message.extend_from_slice(&[0x20; 16]);
    assert!(Redirect::parse(&message[..39]).is_err());
    let plain = Redirect::parse(&message).expect("well formed");
    assert_eq!((plain.target.octets(), plain.destination.octets()), ([0xfe; 16], [0x20; 16]));
    message.extend_from_slice(&[2, 1, 2, 0, 0, 0, 0, 5, 4, 1, 0, 0, 0, 0, 0, 0]);
    let addr = Redirect::parse(&message).expect("well formed").link_addr;
    assert_eq!(addr, Some(MacAddr([2, 0, 0, 0, 0, 5])));
    message[1] = 1;
    assert!(Redirect::parse(&message).is_err());
}

proptest! {
    #[test]
    fn router_messages_are_total(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in [134, 137] {
            let mut message = bytes.clone();
            if let [first, second, ..] = &mut message[..] {
                (*first, *second) = (kind, 0);
            }
            let _ = Redirect::parse(&message);
            if let Ok(ra) = RouterAdvertisement::parse(&message) {
                for option in ra.options.iter() {
                    if let NdOption::Dnssl { domains, .. } = option {
                        prop_assert!(domains.iter().count() <= 200);
                    }
                }
            }
        }
    }
}

/// The parser returns what was written, for quoted packets of every length, and no message is too
/// long.
#[test]
fn a_redirect_quotes_the_packet_as_far_as_it_fits() {
    let [src, dst] = [1, 2].map(|n| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n));
    let (target, destination) = (src, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7));
    let packet: Vec<u8> = (0..1_500_u32).map(|n| n as u8).collect();
    for link_addr in [None, Some(MacAddr([2, 0, 0, 0, 0, 9]))] {
        let redirect = Redirect { target, destination, link_addr };
        for len in [0, 7, 8, 40, 1_100, 1_192, 1_200, 1_500] {
            let mut buf = [0xee; Redirect::LEN_MAX];
            let written = redirect.emit(&mut buf, &packet[..len], src, dst).expect("room");
            let message = &buf[..written];
            assert_eq!(Redirect::parse(message), Ok(redirect));
            assert!(icmpv6::Header::parse(message, src, dst).is_ok());
            let before = 48 + if link_addr.is_some() { 8 } else { 0 };
            let quoted = len.min(Redirect::LEN_MAX - before) & !7;
            assert_eq!(message[before..], packet[..quoted]);
            assert!(buf[written..].iter().all(|b| *b == 0xee));
        }
        assert_eq!(redirect.emit(&mut [0; Redirect::LEN_MAX - 1], &packet, src, dst), None);
    }
}
