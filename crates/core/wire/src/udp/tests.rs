//! UDP: parse and emit are inverse, and agree with etherparse.

use super::*;
use crate::checksum::Ladder;
use core::net::Ipv4Addr;
use proptest::prelude::*;

proptest! {
    #[test]
    fn emit_parses_here_and_in_etherparse(
        (src_port, dst_port, src, dst) in any::<(u16, u16, [u8; 4], [u8; 4])>(),
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let length = 8 + data.len() as u16;
        let mut header = Header { src_port, dst_port, length, checksum: [0; 2] };
        let mut datagram = [&[0; 8][..], &data].concat();
        prop_assert!(header.emit(&mut datagram));
        let sum = Sum::pseudo_v4(Ipv4Addr::from(src), Ipv4Addr::from(dst), 17)
            .plus(Sum::of_be16(length))
            .plus(Ladder::best().sum(&datagram));
        header.checksum = checksum_field(sum);
        prop_assert!(header.emit(&mut datagram));
        prop_assert_eq!(Header::parse(&datagram), Ok(header));
        let (theirs, rest) = etherparse::UdpHeader::from_slice(&datagram).unwrap();
        let udp = etherparse::IpNumber::UDP;
        let ip = etherparse::Ipv4Header::new(length, 9, udp, src, dst).unwrap();
        prop_assert_eq!(rest, &data[..]);
        prop_assert_eq!((theirs.source_port, theirs.destination_port), (src_port, dst_port));
        prop_assert_eq!(theirs.checksum.to_be_bytes(), header.checksum);
        prop_assert_eq!(theirs.calc_checksum_ipv4(&ip, &data).unwrap(), theirs.checksum);
    }

    #[test]
    fn parse_is_total(bytes in prop::collection::vec(any::<u8>(), 0..20), length in 0u8..24) {
        let mut bytes = bytes;
        if bytes.len() >= 8 {
            bytes[4..6].copy_from_slice(&[0, length]);
        }
        let fits = bytes.len() >= 8 && length >= 8 && usize::from(length) <= bytes.len();
        prop_assert_eq!(Header::parse(&bytes).is_ok(), fits);
    }
}

#[test]
fn a_zero_checksum_is_sent_as_ones() {
    assert_eq!(checksum_field(Sum(0xffff)), [0xff, 0xff]);
    assert_eq!(checksum_field(Sum(0)), [0xff, 0xff]);
    assert_eq!(checksum_field(Sum(0xfffe)), Sum(0xfffe).field());
}
