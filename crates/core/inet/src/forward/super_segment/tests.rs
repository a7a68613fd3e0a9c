//! Super-segments are cut as RFC 9293 and RFC 791 require, field by field. No malformed one causes
//! a panic.

use wire::checksum::Ladder;

use super::*;

const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
const SEQ: u32 = u32::MAX - 1_500;

fn counted(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 251) as u8).collect()
}

/// FIN, PSH, ACK, ECE and CWR.
const FLAGS: u8 = 0xd9;

fn tcp_segment(payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x10, 0, 0, 80];
    segment.extend(SEQ.to_be_bytes());
    // A reserved bit is set.
    segment.extend([0, 0, 0, 9, 0x81, FLAGS, 2, 0, 0xaa, 0xaa, 0, 0]);
    segment.extend(OPTIONS);
    segment.extend(payload);
    segment
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x10, 0, 0, 53];
    datagram.extend((payload.len() as u16 + 8).to_be_bytes());
    datagram.extend([0xaa, 0xaa]);
    datagram.extend(payload);
    datagram
}

/// Hop-by-hop options: padding.
const HOP_BY_HOP: [u8; 8] = [6, 0, 1, 4, 0, 0, 0, 0];

fn packet(v6: bool, next: u8, flags: u8, id: u16, behind: &[u8]) -> Vec<u8> {
    let mut p = Vec::new();
    if v6 {
        p.extend([0x60, 0x21, 0x23, 0x45]);
        p.extend((behind.len() as u16).to_be_bytes());
        p.extend([next, 64]);
        p.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        p.extend([0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    } else {
        p.extend([0x46, 2]);
        p.extend((24 + behind.len() as u16).to_be_bytes());
        p.extend(id.to_be_bytes());
        p.extend([flags, 0, 64, next, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2, 1, 1, 1, 0]);
        let field = sum_short(&p).field();
        p[10..12].copy_from_slice(&field);
    }
    p.extend(behind);
    p
}

fn cut(packet: &[u8], size: u16) -> Vec<Vec<u8>> {
    let whole = SuperSegment::new(packet, size).expect("sound");
    let piece = |number| {
        let mut piece = vec![0xee; whole.len_of(number)];
        whole.write(number, Ladder::best(), &mut piece);
        piece
    };
    (0..whole.count()).map(piece).collect()
}

/// Check the lengths and checksums of a packet; returns where its segment begins.
fn check(packet: &[u8]) -> usize {
    let inner = Inner::of(packet).expect("TCP or UDP");
    assert_eq!(inner.len, packet.len());
    let (src, dst) = (source(packet).expect("v4 or v6"), destination(packet).expect("one"));
    if src.is_ipv4() {
        assert!(sum_short(&packet[..24]).is_whole(), "the header's checksum is wrong");
    }
    let segment = &packet[inner.at..];
    let protocol = if inner.is_tcp { 6 } else { 17 };
    let pseudo = pseudo_sum(src, dst, protocol).plus(Sum::of_be16(segment.len() as u16));
    assert!(pseudo.plus(Ladder::Byte.sum(segment)).is_whole(), "the segment's checksum is wrong");
    inner.at
}

#[test]
fn a_tcp_segment_is_cut_with_its_own_numbers_and_flags() {
    for (v6, extended) in [(false, false), (true, false), (true, true)] {
        for (bytes, size) in [(0, 9), (1, 1_448), (1_448, 1_448), (1_449, 1_448), (65_000, 1_448)] {
            let payload = counted(bytes);
            let mut behind = tcp_segment(&payload);
            if extended {
                behind.splice(0..0, HOP_BY_HOP);
            }
            let next = if extended { 0 } else { 6 };
            let pieces = cut(&packet(v6, next, 0x40, 0xfffe, &behind), size);
            assert_eq!(pieces.len(), bytes.div_ceil(size.into()).max(1));
            let mut received: Vec<u8> = Vec::new();
            for (number, piece) in pieces.iter().enumerate() {
                let at = check(piece);
                let tcp = &piece[at..];
                let seq = SEQ.wrapping_add(received.len() as u32);
                assert_eq!(
                    tcp[..12],
                    [&[0x10, 0, 0, 80], &seq.to_be_bytes()[..], &[0, 0, 0, 9]].concat()
                );
                let (is_first, is_last) = (number == 0, number + 1 == pieces.len());
                let mut flags = 0x50;
                flags |= if is_first { 0x80 } else { 0 } | if is_last { 9 } else { 0 };
                assert_eq!(tcp[12..16], [0x81, flags, 2, 0], "piece {number}");
                assert_eq!(tcp[20..32], OPTIONS);
                assert!(is_last || tcp.len() == 32 + usize::from(size));
                received.extend(&tcp[32..]);
                let head = if v6 { vec![0x60, 0x21, 0x23, 0x45] } else { vec![0x46, 2] };
                assert_eq!(
                    piece[..head.len()],
                    head,
                    "traffic class and flow label, or TOS, differ"
                );
                if !v6 {
                    let id = 0xfffe_u16.wrapping_add(number as u16);
                    assert_eq!(piece[4..10], [&id.to_be_bytes()[..], &[0x40, 0, 64, 6]].concat());
                }
            }
            assert_eq!(received, payload);
        }
    }
}

/// RFC 6864 4.1: an atomic datagram needs no identification.
#[test]
fn an_identification_of_zero_stays_if_nobody_may_fragment() {
    let segment = tcp_segment(&counted(20));
    let ids = |flags| {
        let pieces = cut(&packet(false, 6, flags, 0, &segment), 8);
        pieces.iter().map(|p| p[5]).collect::<Vec<u8>>()
    };
    assert_eq!(ids(0x40), [0, 0, 0]);
    assert_eq!(ids(0), [0, 1, 2]);
}

#[test]
fn a_super_datagram_is_cut_into_datagrams() {
    for v6 in [false, true] {
        let payload = counted(2_500);
        let pieces = cut(&packet(v6, 17, 0x40, 7, &datagram(&payload)), 1_200);
        let mut received: Vec<u8> = Vec::new();
        for piece in &pieces {
            let at = check(piece);
            let udp = &piece[at..];
            assert_eq!(udp[..4], [0x10, 0, 0, 53]);
            assert_eq!(u16::from_be_bytes([udp[4], udp[5]]) as usize, udp.len());
            received.extend(&udp[8..]);
        }
        assert_eq!((pieces.len(), received), (3, payload));
    }
}

#[test]
fn a_checksum_left_to_a_device_is_finished_behind_extension_headers_too() {
    let mut p = packet(false, 17, 0, 7, &datagram(&[1, 2, 3, 4, 5]));
    finish_checksum(&mut p, Ladder::Word64);
    check(&p);
    for behind in [tcp_segment(b"hello"), [&HOP_BY_HOP[..], &tcp_segment(b"hello")].concat()] {
        let next = if behind.len() > 40 { 0 } else { 6 };
        let mut p = packet(true, next, 0, 0, &behind);
        finish_checksum(&mut p, Ladder::Word64);
        check(&p);
    }
    // A fragment does not contain a whole segment to sum.
    let mut p = packet(false, 6, 0x20, 7, &tcp_segment(b"hello"));
    let before = p.clone();
    finish_checksum(&mut p, Ladder::Word64);
    assert_eq!(p, before);
}

#[test]
fn no_frame_is_cut_into_more_packets_than_a_kernel_would_send() {
    let whole = packet(false, 6, 0x40, 7, &tcp_segment(&counted(60_000)));
    assert_eq!(SuperSegment::new(&whole, 48).map(|whole| whole.count()), Some(1_250));
    assert!(SuperSegment::new(&whole, 40).is_none() && SuperSegment::new(&whole, 1).is_none());
    let short = packet(false, 6, 0x40, 7, &tcp_segment(&counted(30)));
    assert_eq!(SuperSegment::new(&short, 1).map(|whole| whole.count()), Some(30));
}

#[test]
fn the_longest_packet_is_that_of_a_full_segment() {
    let inner = |bytes| Inner::of(&packet(false, 6, 0, 7, &tcp_segment(&counted(bytes))));
    let inner = |bytes| inner(bytes).expect("TCP");
    assert_eq!(inner(3_000).longest(1_444), 24 + 32 + 1_444);
    assert_eq!(inner(100).longest(1_444), 24 + 32 + 100);
    assert_eq!(inner(3_000).longest(0), 24 + 32 + 3_000);
}

#[test]
fn no_malformed_packet_causes_a_panic() {
    let mut seed = 9_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut sound = 0;
    for round in 0..20_000 {
        let behind = match round % 3 {
            0 => tcp_segment(&counted(round % 200)),
            1 => datagram(&counted(round % 200)),
            _ => [&HOP_BY_HOP[..], &tcp_segment(&counted(50))].concat(),
        };
        let next = [6, 17, 0][round % 3];
        let mut p = packet(next == 0 || round % 2 == 0, next, 0x40, 3, &behind);
        for _ in 0..random(4) {
            let at = random(p.len().min(64));
            p[at] = random(256) as u8;
        }
        p.truncate(p.len() - if random(4) == 0 { random(p.len()) } else { 0 });
        let size = random(300) as u16;
        let Some(whole) = SuperSegment::new(&p, size) else { continue };
        sound += 1;
        for number in [0, 1, whole.count() - 1, whole.count(), usize::MAX] {
            let mut piece = vec![0; whole.len_of(number)];
            whole.write(number, Ladder::Word64, &mut piece);
            whole.write(number, Ladder::Word64, &mut piece[1..]);
        }
        finish_checksum(&mut p, Ladder::Word64);
    }
    assert!(sound > 5_000, "only {sound} packets were cut");
}
