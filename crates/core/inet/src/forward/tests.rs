//! Which packets may be forwarded, and the pieces of those that are too large.

use super::*;

fn v4(src: [u8; 4], dst: [u8; 4], options: &[u8], data: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut packet = vec![0; header_len];
    packet[20..].copy_from_slice(options);
    packet.extend_from_slice(data);
    let header = ipv4::Header {
        header_len,
        tos: 0,
        total_len: packet.len() as u16,
        id: 7,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 9,
        protocol: protocol::UDP,
        src: src.into(),
        dst: dst.into(),
    };
    assert!(header.emit(&mut packet));
    packet
}

const A: [u8; 4] = [192, 0, 2, 1];
const B: [u8; 4] = [198, 51, 100, 2];

/// RFC 1812 5.2.2-a, 5.3.7-a.
#[test]
fn only_packets_between_hosts_of_different_links_are_admitted() {
    let data = [0; 16];
    let transit = examine(&v4(A, B, &[], &data)).expect("a plain packet");
    assert_eq!((transit.src, transit.dst), (A.into(), B.into()));
    assert!(transit.hops == 9 && transit.len == 36 && transit.may_fragment && transit.may_report);
    for (src, dst, why) in [
        ([127, 0, 0, 1], B, DropReason::IpMartianSource),
        ([0, 0, 0, 0], B, DropReason::IpMartianSource),
        ([224, 0, 0, 1], B, DropReason::IpMartianSource),
        ([255, 255, 255, 255], B, DropReason::IpMartianSource),
        (A, [127, 0, 0, 1], DropReason::IpMartianDestination),
        (A, [0, 1, 2, 3], DropReason::IpMartianDestination),
        (A, [224, 0, 0, 9], DropReason::IpMartianDestination),
        (A, [255, 255, 255, 255], DropReason::IpMartianDestination),
        ([169, 254, 1, 1], B, DropReason::IpLinkLocal),
        (A, [169, 254, 1, 1], DropReason::IpLinkLocal),
    ] {
        assert_eq!(examine(&v4(src, dst, &[], &data)), Err(why), "{src:?} {dst:?}");
    }
    for (src, dst) in [([240, 0, 0, 1], B), (A, [255, 255, 255, 254])] {
        assert!(examine(&v4(src, dst, &[], &data)).is_ok(), "an address in 240/4 is refused");
    }
    let lsrr = [131, 7, 4, 10, 0, 0, 1, 0];
    assert_eq!(examine(&v4(A, B, &lsrr, &data)), Err(DropReason::Ipv4SourceRoute));
    let mut wrong = v4(A, B, &[], &data);
    wrong[8] = 8;
    assert_eq!(examine(&wrong), Err(DropReason::Ipv4Checksum));
    for len in 0..20 {
        assert!(examine(&v4(A, B, &[], &data)[..len]).is_err());
    }
}

#[test]
fn no_error_is_reported_about_errors_and_later_fragments() {
    for (protocol, kind, expected) in
        [(1, 8, true), (1, 3, false), (1, 5, false), (1, 11, false), (1, 0, true), (17, 3, true)]
    {
        let mut packet = v4(A, B, &[], &[kind, 0, 0, 0, 0, 0, 0, 0]);
        packet[9] = protocol;
        assert!(ipv4::Header::parse_quoted(&packet).expect("whole").emit(&mut packet));
        assert_eq!(examine(&packet).expect("sound").may_report, expected, "{protocol} {kind}");
    }
    let mut packet = v4(A, B, &[], &[0; 8]);
    let h = ipv4::Header::parse(&packet).expect("sound");
    assert!(ipv4::Header { fragment_offset: 8, ..h }.emit(&mut packet));
    assert!(!examine(&packet).expect("sound").may_report);
}

/// RFC 1812 5.3.1-a.
#[test]
fn a_hop_is_taken_and_the_checksum_stays_right() {
    let mut packet = v4(A, B, &[], &[0; 8]);
    for left in (1..9).rev() {
        assert!(hop(&mut packet));
        assert_eq!(ipv4::Header::parse(&packet).expect("sound").ttl, left);
    }
    assert!(!hop(&mut packet) && !hop(&mut packet), "a hop is taken although none is left");
}

/// RFC 1812 5.2.6-a.
#[test]
fn pieces_are_the_packet_again_and_options_are_copied_as_their_flag_says() {
    let data: Vec<u8> = (0..1_000u32).map(|n| n as u8).collect();
    // Record route (not copied), then a security option (copied), then the end.
    let options = [7, 7, 4, 0, 0, 0, 0, 130, 4, 1, 2, 0];
    let packet = v4(A, B, &options, &data);
    let mtu = Mtu::new(300).expect("an MTU");
    let (mut begin, mut whole, mut count) = (0, Vec::new(), 0);
    while let Some(piece) = Piece::at(&packet, begin, mtu) {
        let mut bytes = piece.header().to_vec();
        bytes.extend_from_slice(piece.data);
        let h = ipv4::Header::parse(&bytes).expect("sound");
        assert!(bytes.len() <= 300 && h.id == 7 && h.ttl == 9 && !h.dont_fragment);
        assert_eq!(usize::from(h.fragment_offset), begin);
        let kept = if begin == 0 { options } else { [1, 1, 1, 1, 1, 1, 1, 130, 4, 1, 2, 0] };
        assert_eq!(piece.header()[20..], kept);
        whole.extend_from_slice(piece.data);
        begin += piece.data.len();
        assert_eq!(h.more_fragments, begin < data.len());
        count += 1;
    }
    assert!(whole == data && count == 4);
    // A piece of a piece: offsets add up, and it is not the last piece.
    let mut middle = packet.clone();
    let h = ipv4::Header::parse(&packet).expect("sound");
    assert!(ipv4::Header { fragment_offset: 80, more_fragments: true, ..h }.emit(&mut middle));
    let piece = Piece::at(&middle, 800, mtu).expect("there");
    let h = ipv4::Header::parse_quoted(piece.header()).expect("whole");
    assert!(h.fragment_offset == 880 && h.more_fragments);
}
