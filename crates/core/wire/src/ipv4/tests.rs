//! IPv4 headers, parsed and emitted, against etherparse; a packet for each drop reason.

use super::*;
use crate::checksum::Ladder;
use crate::protocol::TCP;
use proptest::prelude::*;

const GOOD: Header = Header {
    header_len: 20,
    tos: 0xb9,
    total_len: 28,
    id: 0x1234,
    dont_fragment: true,
    more_fragments: false,
    fragment_offset: 0,
    ttl: 64,
    protocol: TCP,
    src: Ipv4Addr::new(192, 0, 2, 1),
    dst: Ipv4Addr::new(198, 51, 100, 2),
};

fn good() -> [u8; 28] {
    let mut packet = [0; 28];
    assert!(GOOD.emit(&mut packet));
    packet
}

/// `packet` with another byte at `at`, and the checksum updated.
fn with_byte(at: usize, byte: u8) -> [u8; 28] {
    let mut packet = good();
    packet[at] = byte;
    packet[10..12].fill(0);
    let field = Ladder::Byte.sum(&packet[..20]).field();
    packet[10..12].copy_from_slice(&field);
    packet
}

/// A packet with these option bytes in its header.
fn with_options(options: &[u8]) -> Vec<u8> {
    let len = 20 + options.len();
    let mut packet = vec![0; len + 8];
    packet[20..len].copy_from_slice(options);
    let header = Header { header_len: len, total_len: len as u16 + 8, ..GOOD };
    assert!(header.emit(&mut packet));
    packet
}

/// RFC 791 3.1-a, 3.1-b, 3.1-c.
/// RFC 1122 3.2.1.1-a, 3.2.1.2-a.
#[test]
fn every_reason_to_drop() {
    let packet = good();
    assert_eq!(Header::parse(&packet), Ok(GOOD));
    assert_eq!(Header::parse(&[]), Err(DropReason::Ipv4Short));
    assert_eq!(Header::parse(&packet[..19]), Err(DropReason::Ipv4Short));
    assert_eq!(Header::parse(&with_byte(0, 0x65)), Err(DropReason::Ipv4Version));
    assert_eq!(Header::parse(&with_byte(0, 0x44)), Err(DropReason::Ipv4HeaderLength));
    assert_eq!(Header::parse(&with_byte(0, 0x4f)), Err(DropReason::Ipv4HeaderLength));
    assert_eq!(Header::parse(&with_byte(3, 19)), Err(DropReason::Ipv4TotalLength));
    assert_eq!(Header::parse(&with_byte(3, 29)), Err(DropReason::Ipv4TotalLength));
    assert_eq!(Header::parse(&packet[..27]), Err(DropReason::Ipv4TotalLength));
    for bit in 0..20 * 8 {
        let mut packet = good();
        packet[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::parse(&packet).is_err(), "bit {bit}");
    }
    let mut packet = good();
    packet[8] ^= 1;
    assert_eq!(Header::parse(&packet), Err(DropReason::Ipv4Checksum));
}

/// RFC 791 3.1-d.
#[test]
fn options() {
    let parse = |options: &[u8]| Header::parse(&with_options(options)).map(|h| h.header_len);
    assert_eq!(parse(&[1, 1, 1, 0]), Ok(24));
    assert_eq!(parse(&[0, 131, 0, 0]), Ok(24), "bytes after the end of the list were parsed");
    assert_eq!(parse(&[148, 4, 0, 0]), Ok(24), "router alert was refused");
    assert_eq!(parse(&[131, 3, 4, 0]), Err(DropReason::Ipv4SourceRoute));
    assert_eq!(parse(&[1, 137, 3, 4]), Err(DropReason::Ipv4SourceRoute));
    assert_eq!(parse(&[7, 0, 0, 0]), Err(DropReason::Ipv4Options));
    assert_eq!(parse(&[7, 1, 0, 0]), Err(DropReason::Ipv4Options));
    assert_eq!(parse(&[7, 5, 0, 0]), Err(DropReason::Ipv4Options));
    assert_eq!(parse(&[1, 1, 1, 7]), Err(DropReason::Ipv4Options));
    assert_eq!(parse(&[1; 40]), Ok(60));
    let mut packet = with_options(&[1, 1, 1, 0]);
    packet[21] = 0;
    assert_eq!(Header::parse(&packet), Err(DropReason::Ipv4Checksum));
}

#[test]
fn what_has_no_encoding_is_not_written() {
    let mut out = [0; 64];
    for bad in [
        Header { header_len: 16, ..GOOD },
        Header { header_len: 22, ..GOOD },
        Header { header_len: 64, total_len: 100, ..GOOD },
        Header { total_len: 19, ..GOOD },
        Header { fragment_offset: 4, ..GOOD },
    ] {
        assert!(!bad.emit(&mut out), "{bad:?}");
    }
    assert!(!GOOD.emit(&mut out[..19]));
    assert_eq!(out, [0; 64]);
}

#[test]
fn the_ttl_goes_down_to_zero_and_the_checksum_follows() {
    let mut packet = good();
    for left in (0..64).rev() {
        assert_eq!(decrement_ttl(&mut packet), Some(left));
        assert_eq!(Header::parse(&packet).map(|h| h.ttl), Ok(left));
    }
    let before = packet;
    assert_eq!(decrement_ttl(&mut packet), None);
    assert_eq!(packet, before);
    assert_eq!(decrement_ttl(&mut [0; 19]), None);
}

proptest! {
    #[test]
    fn emit_parses_here_and_in_etherparse(
        (tos, id, offset, ttl, protocol) in any::<(u8, u16, u16, u8, u8)>(),
        (dont, more, src, dst) in any::<(bool, bool, u32, u32)>(),
        nops in 0usize..=10, data in 0usize..40,
    ) {
        let header_len = 20 + nops * 4;
        let header = Header {
            header_len, tos, total_len: (header_len + data) as u16, id,
            dont_fragment: dont, more_fragments: more, fragment_offset: offset & 0xfff8,
            ttl, protocol, src: Ipv4Addr::from_bits(src), dst: Ipv4Addr::from_bits(dst),
        };
        let mut packet = vec![1u8; header_len + data + 3];
        prop_assert!(header.emit(&mut packet));
        prop_assert_eq!(Header::parse(&packet), Ok(header));
        prop_assert_eq!(Header::parse_quoted(&packet[..header_len]), Ok(header));
        let (theirs, _) = etherparse::Ipv4Header::from_slice(&packet).unwrap();
        prop_assert_eq!(theirs.header_checksum, theirs.calc_header_checksum());
        prop_assert_eq!(theirs.header_len(), header_len);
        prop_assert_eq!(theirs.dscp.value(), header.dscp());
        prop_assert_eq!(theirs.ecn.value(), header.ecn());
        prop_assert_eq!(theirs.total_len, header.total_len);
        prop_assert_eq!(theirs.identification, id);
        prop_assert_eq!(theirs.dont_fragment, dont);
        prop_assert_eq!(theirs.more_fragments, more);
        prop_assert_eq!(theirs.fragment_offset.value() * 8, header.fragment_offset);
        prop_assert_eq!(theirs.is_fragmenting_payload(), header.is_fragment());
        prop_assert_eq!((theirs.time_to_live, theirs.protocol.0), (ttl, protocol));
        prop_assert_eq!((theirs.source, theirs.destination),
            (header.src.octets(), header.dst.octets()));
    }

    #[test]
    fn parse_is_total(mut bytes in prop::collection::vec(any::<u8>(), 0..90), ihl in 0u8..16) {
        if let Some(first) = bytes.first_mut() {
            *first = 0x40 | ihl;
        }
        if bytes.len() >= 20 {
            bytes[2] = 0;
            bytes[3] %= 100;
            let end = (usize::from(ihl) * 4).clamp(20, bytes.len());
            bytes[10..12].fill(0);
            let field = Ladder::Byte.sum(&bytes[..end]).field();
            bytes[10..12].copy_from_slice(&field);
        }
        let _ = Header::parse_quoted(&bytes);
        if let Ok(header) = Header::parse(&bytes) {
            prop_assert!(header.header_len <= usize::from(header.total_len));
            prop_assert!(usize::from(header.total_len) <= bytes.len());
            prop_assert!(etherparse::Ipv4Header::from_slice(&bytes).is_ok());
        }
    }
}
