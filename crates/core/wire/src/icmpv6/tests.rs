//! ICMPv6: parse and emit are inverse, and agree with etherparse.

use super::*;
use proptest::prelude::*;

fn header() -> impl Strategy<Value = Header> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(id, seq)| Header::EchoRequest { id, seq }),
        any::<(u16, u16)>().prop_map(|(id, seq)| Header::EchoReply { id, seq }),
        any::<u8>().prop_map(|code| Header::Unreachable { code }),
        any::<u32>().prop_map(|mtu| Header::PacketTooBig { mtu }),
        any::<u8>().prop_map(|code| Header::TimeExceeded { code }),
        any::<(u8, u32)>().prop_map(|(code, pointer)| Header::ParameterProblem { code, pointer }),
        any::<(u8, [u8; 4])>().prop_map(|(code, rest)| Header::Other { kind: 200, code, rest }),
    ]
}

proptest! {
    #[test]
    fn emit_parses_here_and_in_etherparse(
        header in header(), data in prop::collection::vec(any::<u8>(), 0..80),
        (src, dst) in any::<([u8; 16], [u8; 16])>(), bit in 0usize..64,
    ) {
        let (a, b) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
        let mut message = [&[0; 8][..], &data].concat();
        prop_assert!(header.emit(&mut message, a, b));
        prop_assert_eq!(Header::parse(&message, a, b), Ok(header));
        let slice = etherparse::Icmpv6Slice::from_slice(&message).unwrap();
        prop_assert!(slice.is_checksum_valid(src, dst));
        match (header, slice.icmp_type()) {
            (Header::EchoRequest { id, seq }, etherparse::Icmpv6Type::EchoRequest(e))
            | (Header::EchoReply { id, seq }, etherparse::Icmpv6Type::EchoReply(e)) => {
                prop_assert_eq!((id, seq), (e.id, e.seq));
            }
            (Header::EchoRequest { .. } | Header::EchoReply { .. }, _) => prop_assert!(false),
            (Header::PacketTooBig { mtu },
                etherparse::Icmpv6Type::PacketTooBig { mtu: theirs }) => {
                prop_assert_eq!(mtu, theirs);
            }
            (Header::PacketTooBig { .. }, _) => prop_assert!(false),
            _ => {}
        }
        message[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Header::parse(&message, a, b), Err(DropReason::IcmpMalformed));
    }

    #[test]
    fn parse_is_total(message in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = Header::parse(&message, Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    }
}

#[test]
fn errors_are_known_for_errors() {
    assert!(Header::PacketTooBig { mtu: 1280 }.is_error());
    assert!(Header::Other { kind: 100, code: 0, rest: [0; 4] }.is_error());
    assert!(!Header::Other { kind: 135, code: 0, rest: [0; 4] }.is_error());
    let echo = Header::EchoReply { id: 1, seq: 2 };
    assert!(!echo.is_error());
    assert!(!echo.emit(&mut [0; 7], Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
}
