//! What is written is read, cut bodies are refused, and keys are read as operators write them.

use base::SeqNumber;
use filter::firewall::{CopiedSide, CopiedTcp};
use proptest::prelude::*;

use super::*;
use crate::codec::{Reader, put_small};
use crate::records::{LONGEST, Record};

const MAPPINGS: [CopiedMapping; 3] =
    [CopiedMapping::None, CopiedMapping::Source, CopiedMapping::Destination];

fn addr(is_v6: bool, bits: u128) -> IpAddr {
    match is_v6 {
        true => core::net::Ipv6Addr::from_bits(bits).into(),
        false => core::net::Ipv4Addr::from_bits(bits as u32).into(),
    }
}

prop_compose! {
    fn tuples()(
        is_v6: bool, addrs: [u128; 4], ports: [u16; 4], protocol: u8, is_translated: bool,
    ) -> (Tuple, Tuple) {
        let tuple = |at: usize| Tuple {
            src: addr(is_v6, addrs[at]),
            dst: addr(is_v6, addrs[at + 1]),
            protocol,
            src_port: ports[at],
            dst_port: ports[at + 1],
        };
        (tuple(0), if is_translated { tuple(2) } else { tuple(0).reversed() })
    }
}

prop_compose! {
    fn copies()(
        (original, reply) in tuples(),
        phase in 0_u8..15,
        icmp: Option<(u8, u8)>,
        loose: bool,
        ports: [u16; 2],
        times: [u32; 2],
        counts: [u64; 4],
        tcp: Option<([[u32; 3]; 2], u8, u8)>,
        mapping in 0_usize..3,
    ) -> Copied {
        let side = |[end, max_end, max_window]: [u32; 3]| CopiedSide {
            end: SeqNumber(end), max_end: SeqNumber(max_end), max_window,
        };
        let [in_port, out_port] = ports;
        Copied {
            original,
            reply,
            phase: Phase::of(phase).expect("a phase"),
            icmp,
            loose,
            in_port,
            out_port,
            age: Duration::from_millis(times[0].into()),
            idle: Duration::from_millis(times[1].into()),
            packets: [counts[0], counts[1]],
            bytes: [counts[2], counts[3]],
            tcp: tcp.map(|(sides, scales, flags)| {
                CopiedTcp { sides: sides.map(side), scales, flags }
            }),
            mapping: MAPPINGS[mapping],
        }
    }
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written(copied in copies(), cut: u8, request: u32) {
        let all = [
            Record::Copy(Copy::State(copied)),
            Record::Copy(Copy::Ended(copied.original)),
            Record::AllBegin(request),
            Record::AllEnd(request),
        ];
        for record in all {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            prop_assert!(bytes.len() <= LONGEST, "{}", bytes.len());
            let mut from = Reader(&bytes);
            prop_assert_eq!(Record::read(&mut from), Ok(record));
            prop_assert!(from.is_empty());
            let cut = usize::from(cut) % bytes.len();
            prop_assert!(Record::read(&mut Reader(&bytes[..cut])).is_err());
        }
    }

    #[test]
    fn any_bytes_are_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut from = Reader(&bytes);
        while !from.is_empty() && Record::read(&mut from).is_ok() {}
    }

    #[test]
    fn small_numbers_are_read_as_they_were_written(number: u64, shift in 0_u32..64) {
        let number = number >> shift;
        let mut bytes = Vec::new();
        put_small(&mut bytes, number);
        prop_assert_eq!(Reader(&bytes).small(), Ok(number));
    }
}

#[test]
fn a_number_of_too_many_bits_is_none() {
    let mut bytes = vec![0xff; 9];
    bytes.push(2);
    assert!(Reader(&bytes).small().is_err());
    bytes[9] = 1;
    assert_eq!(Reader(&bytes).small(), Ok(u64::MAX));
}

#[test]
fn a_key_is_hexadecimal_or_base64() {
    let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let bytes = core::array::from_fn(|at| at as u8);
    for text in [hex, &hex.to_uppercase(), &format!("  {hex}\n"), base64, &format!("{base64}\n")] {
        assert_eq!(Key::of_text(text), Some(Key::new(bytes)), "{text}");
    }
    for text in ["", &hex[1..], &format!("{hex}0"), &hex.replace('a', "g"), &base64[1..], "ä"] {
        assert_eq!(Key::of_text(text), None, "{text}");
    }
    assert_eq!(Key::of_text(&base64.replace("8=", "9=")), None, "bits that are no part of a byte");
    assert_eq!(format!("{:?}", Key::new(bytes)), "Key");
}
