//! ICMP: parse and emit are inverse, and agree with etherparse.

use super::*;
use proptest::prelude::*;

fn header() -> impl Strategy<Value = Header> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(id, seq)| Header::EchoRequest { id, seq }),
        any::<(u16, u16)>().prop_map(|(id, seq)| Header::EchoReply { id, seq }),
        (0u8..16)
            .prop_filter("has a name", |&c| c != 4)
            .prop_map(|code| Header::Unreachable { code }),
        any::<u16>().prop_map(|mtu| Header::FragmentationNeeded { mtu }),
        any::<u8>().prop_map(|code| Header::TimeExceeded { code }),
        any::<(u8, u8)>().prop_map(|(code, pointer)| Header::ParameterProblem { code, pointer }),
        any::<(u8, [u8; 4])>().prop_map(|(code, rest)| Header::Other { kind: 200, code, rest }),
    ]
}

proptest! {
    #[test]
    fn emit_parses_here_and_in_etherparse(
        header in header(), data in prop::collection::vec(any::<u8>(), 12..80), bit in 0usize..64,
    ) {
        let mut message = [&[0; 8][..], &data].concat();
        prop_assert!(header.emit(&mut message));
        prop_assert_eq!(Header::parse(&message), Ok(header));
        prop_assert_eq!(&message[8..], &data[..]);
        let (theirs, _) = etherparse::Icmpv4Header::from_slice(&message).unwrap();
        let their_sum = etherparse::checksum::Sum16BitWords::new().add_slice(&message);
        prop_assert_eq!(their_sum.ones_complement(), 0);
        match (header, theirs.icmp_type) {
            (Header::EchoRequest { id, seq }, etherparse::Icmpv4Type::EchoRequest(e))
            | (Header::EchoReply { id, seq }, etherparse::Icmpv4Type::EchoReply(e)) => {
                prop_assert_eq!((id, seq), (e.id, e.seq));
            }
            (Header::EchoRequest { .. } | Header::EchoReply { .. }, _) => prop_assert!(false),
            (Header::FragmentationNeeded { mtu }, etherparse::Icmpv4Type::DestinationUnreachable(
                etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu },
            )) => prop_assert_eq!(mtu, next_hop_mtu),
            (Header::FragmentationNeeded { .. }, _) => prop_assert!(false),
            _ => {}
        }
        message[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Header::parse(&message), Err(DropReason::IcmpMalformed));
    }

    #[test]
    fn parse_is_total(mut message in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = Header::parse(&message);
        if message.len() >= 4 {
            message[2..4].fill(0);
            let field = Ladder::Byte.sum(&message).field();
            message[2..4].copy_from_slice(&field);
            prop_assert_eq!(Header::parse(&message).is_ok(), message.len() >= 8);
        }
    }
}

#[test]
fn errors_are_known_for_errors() {
    assert!(Header::FragmentationNeeded { mtu: 0 }.is_error());
    assert!(Header::Other { kind: 5, code: 0, rest: [0; 4] }.is_error());
    assert!(!Header::EchoRequest { id: 0, seq: 0 }.is_error());
    assert!(!Header::Other { kind: 13, code: 0, rest: [0; 4] }.is_error());
    assert!(!Header::EchoRequest { id: 0, seq: 0 }.emit(&mut [0; 7]));
}
