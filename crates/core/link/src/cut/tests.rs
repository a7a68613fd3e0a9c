//! Segmentation, field by field, and that no malformed frame causes a panic.

use core::net::{Ipv4Addr, Ipv6Addr};

use base::SeqNumber;
use device::fault::Rng;

use super::*;

/// No tag, a customer tag, and a service tag with a customer tag.
const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0x20, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0x20, 5]];
const SEQ: SeqNumber = SeqNumber(u32::MAX - 1_500);
const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
/// An identification that wraps around 16 bits.
const ID: u16 = 0xfffe;

/// An IP packet that carries `transport`; IPv4 uses the identification and DF.
fn packet(v6: bool, protocol: u8, (id, dont_fragment): (u16, bool), transport: &[u8]) -> Vec<u8> {
    let mut header = vec![0; if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }];
    let written = if v6 {
        let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
        let fields = ipv6::Header {
            traffic_class: 2,
            flow_label: 0x12345,
            payload_len: transport.len() as u16,
            next_header: protocol,
            hop_limit: 64,
            src: address(1),
            dst: address(2),
        };
        fields.emit(&mut header)
    } else {
        let fields = ipv4::Header {
            header_len: ipv4::HEADER_LEN,
            tos: 2,
            total_len: (ipv4::HEADER_LEN + transport.len()) as u16,
            id,
            dont_fragment,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src: Ipv4Addr::new(192, 0, 2, 1),
            dst: Ipv4Addr::new(192, 0, 2, 2),
        };
        fields.emit(&mut header)
    };
    assert!(written, "the header is written");
    [&header[..], transport].concat()
}

/// The frame that carries `packet` after `tags`.
fn framed(tags: &[u8], packet: &[u8]) -> Vec<u8> {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], tags, &ethertype, packet].concat()
}

fn counted(bytes: usize) -> impl Iterator<Item = u8> {
    (0..bytes).map(|n| (n % 251) as u8)
}

/// A segment with `bytes` bytes of payload, and with the flags that only the first or the last
/// segment cut from it may keep.
fn tcp_segment(bytes: usize) -> Vec<u8> {
    let header = tcp::Header {
        src_port: 1000,
        dst_port: 2000,
        seq: SEQ,
        ack: SeqNumber(9),
        header_len: tcp::HEADER_LEN + OPTIONS.len(),
        flags: Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR,
        window: 500,
        urgent: 0,
    };
    let mut segment = vec![0; tcp::HEADER_LEN];
    segment.extend(OPTIONS);
    assert!(header.emit(&mut segment), "the header is written");
    // A reserved bit that the sender has set.
    segment[OFFSET_AT] |= 1;
    segment.extend(counted(bytes));
    segment
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let length = (udp::HEADER_LEN + payload.len()) as u16;
    let header = udp::Header { src_port: 1000, dst_port: 2000, length, checksum: [0; 2] };
    let mut datagram = vec![0; udp::HEADER_LEN];
    assert!(header.emit(&mut datagram), "the datagram is written");
    datagram.extend(payload);
    datagram
}

/// The packets cut from a frame with an unfinished checksum, and how many were lost.
fn cut_up(pool: &mut Pool, bytes: &[u8], size: u16, link: LinkKind) -> (Vec<Vec<u8>>, u64) {
    let mut frame = pool.copy_of(bytes).expect("the pool is large");
    frame.set(MbufFlags::CSUM_PARTIAL);
    frame.set_segment_size(size);
    let mut parts = Vec::new();
    let lost = cut(frame, link, pool, |part, pool| {
        parts.push(part.as_slice().to_vec());
        pool.free(part);
    });
    assert_eq!(pool.outstanding(), 0, "a buffer was not freed");
    (parts, lost)
}

/// Check every length and checksum of a packet; returns its identification, 0 in IPv6, and its IP
/// payload.
fn opened(frame: &[u8], link: LinkKind) -> (u16, &[u8]) {
    let packet = &frame[vlan::ip_at(frame, link).expect("IP")..];
    let (id, at, protocol, pseudo) = if packet[0] >> 4 == 4 {
        let ip = ipv4::Header::parse(packet).expect("an IPv4 header with a right checksum");
        assert_eq!(usize::from(ip.total_len), packet.len());
        (ip.id, ip.header_len, ip.protocol, Sum::pseudo_v4(ip.src, ip.dst, ip.protocol))
    } else {
        let ip = ipv6::Header::parse(packet).expect("IPv6");
        assert_eq!(ipv6::HEADER_LEN + usize::from(ip.payload_len), packet.len());
        (0, ipv6::HEADER_LEN, ip.next_header, Sum::pseudo_v6(ip.src, ip.dst, ip.next_header))
    };
    let segment = &packet[at..];
    let sum = pseudo.plus(Sum::of_be16(segment.len() as u16)).plus(Ladder::Byte.sum(segment));
    assert!(sum.is_whole(), "a wrong checksum in {frame:02x?}");
    if protocol == protocol::UDP {
        let header = udp::Header::parse(segment).expect("UDP");
        assert_eq!(usize::from(header.length), segment.len());
        assert_ne!(header.checksum, [0, 0], "a UDP checksum of zero means that there is none");
    }
    (id, segment)
}

#[test]
fn three_segments_and_a_half_are_cut_as_a_card_cuts_them() {
    let mut pool = Pool::new(1 << 22);
    for v6 in [false, true] {
        for tags in TAGS {
            let packet = packet(v6, protocol::TCP, (ID, true), &tcp_segment(3_500));
            let sent = framed(tags, &packet);
            let (parts, lost) = cut_up(&mut pool, &sent, 1_000, LinkKind::Ethernet);
            assert_eq!(lost, 0);
            let headers = sent.len() - 3_500;
            let lens: Vec<usize> = parts.iter().map(|part| part.len() - headers).collect();
            assert_eq!(lens, [1_000, 1_000, 1_000, 500], "IPv6 {v6}, tags {tags:x?}");
            let ack = Flags::ACK;
            let flags = [ack | Flags::CWR, ack, ack, ack | Flags::PSH | Flags::FIN];
            let mut payload = Vec::new();
            for (n, (part, flags)) in parts.iter().zip(flags).enumerate() {
                let link = 14 + tags.len();
                assert_eq!(part[..link], sent[..link], "addresses or tags changed");
                let (id, segment) = opened(part, LinkKind::Ethernet);
                let header = tcp::Header::parse(segment).expect("TCP");
                assert_eq!(header.flags, flags, "segment {n}");
                assert_eq!(id, if v6 { 0 } else { ID.wrapping_add(n as u16) });
                assert_eq!(header.seq, SEQ + 1_000 * n as u32);
                assert_eq!((header.ack, header.window), (SeqNumber(9), 500));
                assert_eq!(header.options(segment), OPTIONS);
                assert_eq!(segment[OFFSET_AT], 0x81, "the reserved bit was cleared");
                payload.extend_from_slice(&segment[header.header_len..]);
            }
            assert!(
                payload.into_iter().eq(counted(3_500)),
                "the payload is not that of the super-segment"
            );
        }
    }
}

#[test]
fn a_super_segment_may_have_one_segment_or_no_payload() {
    let mut pool = Pool::new(1 << 22);
    for (bytes, size, count) in [(0, 1_000, 1), (1_000, 1_000, 1), (2_000, 1_000, 2), (5, 1, 5)] {
        let sent = packet(false, protocol::TCP, (ID, true), &tcp_segment(bytes));
        let (parts, lost) = cut_up(&mut pool, &sent, size, LinkKind::Ip);
        assert_eq!((parts.len(), lost), (count, 0), "{bytes} by {size}");
        for (n, part) in parts.iter().enumerate() {
            let (_, segment) = opened(part, LinkKind::Ip);
            let flags = tcp::Header::parse(segment).expect("TCP").flags;
            assert_eq!(flags.contains(Flags::CWR), n == 0);
            assert_eq!(flags.intersects(Flags::PSH | Flags::FIN), n + 1 == count);
        }
    }
}

/// RFC 6864 section 4.1: a packet with DF needs no identification, and our stack sends none.
#[test]
fn identification_counts_up_unless_the_sender_does_not_number() {
    let mut pool = Pool::new(1 << 22);
    for (id, dont_fragment, expected) in [
        (7u16, true, [7u16, 8, 9]),
        (0xffff, true, [0xffff, 0, 1]),
        (0, true, [0, 0, 0]),
        (0, false, [0, 1, 2]),
    ] {
        let sent = packet(false, protocol::TCP, (id, dont_fragment), &tcp_segment(300));
        let (parts, _) = cut_up(&mut pool, &sent, 100, LinkKind::Ip);
        let ids = parts.iter().map(|part| opened(part, LinkKind::Ip).0);
        assert!(ids.eq(expected), "from {id}");
    }
}

#[test]
fn datagrams_in_one_piece_are_cut_into_datagrams_with_lengths_of_their_own() {
    let mut pool = Pool::new(1 << 22);
    let payload: Vec<u8> = counted(2_500).collect();
    for v6 in [false, true] {
        for tags in TAGS {
            let sent = framed(tags, &packet(v6, protocol::UDP, (ID, true), &datagram(&payload)));
            let (parts, lost) = cut_up(&mut pool, &sent, 1_000, LinkKind::Ethernet);
            assert_eq!((parts.len(), lost), (3, 0));
            let mut got = Vec::new();
            for part in &parts {
                // `opened` also checks the length.
                let (_, datagram) = opened(part, LinkKind::Ethernet);
                got.extend_from_slice(&datagram[udp::HEADER_LEN..]);
            }
            assert_eq!(got, payload);
        }
    }
}

/// RFC 768: a checksum that is computed as zero is sent as all ones, since zero means none.
#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let mut pool = Pool::new(1 << 22);
    for v6 in [false, true] {
        let with = |word: [u8; 2]| packet(v6, protocol::UDP, (ID, true), &datagram(&word));
        let (parts, _) = cut_up(&mut pool, &with([0, 0]), 0, LinkKind::Ip);
        let header = udp::Header::parse(opened(&parts[0], LinkKind::Ip).1).expect("UDP");
        // With the datagram's checksum as its payload, the new checksum is computed as zero.
        let (parts, _) = cut_up(&mut pool, &with(header.checksum), 0, LinkKind::Ip);
        let header = udp::Header::parse(opened(&parts[0], LinkKind::Ip).1).expect("UDP");
        assert_eq!(header.checksum, [0xff, 0xff]);
    }
}

#[test]
fn an_unfinished_checksum_is_finished_and_nothing_else_is_changed() {
    let mut pool = Pool::new(1 << 22);
    for v6 in [false, true] {
        for tags in TAGS {
            let segments =
                [(protocol::TCP, tcp_segment(77)), (protocol::UDP, datagram(b"seventy"))];
            for (protocol, segment) in segments {
                let field = match protocol {
                    protocol::TCP => tcp::CHECKSUM_OFFSET,
                    _ => udp::CHECKSUM_OFFSET,
                };
                let sent = framed(tags, &packet(v6, protocol, (ID, true), &segment));
                let padded = [&sent[..], &[0xee; 9]].concat();
                let (parts, lost) = cut_up(&mut pool, &padded, 0, LinkKind::Ethernet);
                assert_eq!((parts.len(), lost), (1, 0));
                opened(&parts[0], LinkKind::Ethernet);
                let mut expected = sent;
                let field = expected.len() - segment.len() + field;
                expected[field..field + 2].copy_from_slice(&parts[0][field..field + 2]);
                assert_eq!(parts[0], expected, "more changed than the checksum and the padding");
            }
        }
    }
}

#[test]
fn frames_that_lie_are_lost_and_counted() {
    let mut pool = Pool::new(1 << 22);
    let whole = packet(false, protocol::TCP, (ID, true), &tcp_segment(100));
    let changed = |mut packet: Vec<u8>, at: usize, to: &[u8]| {
        packet[at..at + to.len()].copy_from_slice(to);
        let sum = Ladder::Byte.sum(&[&packet[..10], &[0, 0], &packet[12..20]].concat());
        packet[10..12].copy_from_slice(&sum.field());
        framed(&[], &packet)
    };
    let tags = [0x81_u8, 0, 0, 1].repeat(10);
    // UDP with four bytes instead of a header of eight, which would end after the frame's end.
    let short = packet(false, protocol::UDP, (ID, true), &[0; 4]);
    assert_eq!(framed(&[], &short).len(), 38);
    let long = packet(true, protocol::UDP, (ID, true), &[0, 1, 0, 2, 0, 9, 0, 0]);
    for (what, frame) in [
        ("UDP without its header", framed(&[], &short)),
        ("UDP that is longer than its packet", framed(&[], &long)),
        ("a packet longer than its frame", changed(whole.clone(), 2, &[0, 200])),
        ("TCP without its options", changed(whole.clone(), 2, &[0, 44])),
        ("neither TCP nor UDP", changed(whole.clone(), 9, &[1])),
        ("a fragment", changed(whole.clone(), 6, &[0, 9])),
        ("the first of fragments", changed(whole.clone(), 6, &[0x20, 0])),
        ("no version", changed(whole.clone(), 0, &[0x15])),
        ("ARP", [&[2; 12][..], &[8, 6], &whole].concat()),
        ("tags to the end", [&[2; 12][..], &tags].concat()),
        ("nothing", Vec::new()),
    ] {
        for size in [0, 10] {
            let (parts, lost) = cut_up(&mut pool, &frame, size, LinkKind::Ethernet);
            assert_eq!((parts.len(), lost), (0, 1), "{what}");
        }
    }
}

/// A frame in which any field may be wrong, mostly with a correct IPv4 checksum.
fn any_frame(rng: &mut Rng) -> Vec<u8> {
    let protocol = [protocol::TCP, protocol::UDP][rng.below(2)];
    let bytes = rng.below(300);
    let transport = match protocol {
        protocol::TCP => tcp_segment(bytes),
        _ => datagram(&counted(bytes).collect::<Vec<u8>>()),
    };
    let v6 = rng.below(2) == 1;
    let id = (rng.next_u64() as u16, rng.below(2) == 1);
    let mut packet = packet(v6, protocol, id, &transport);
    for _ in 0..rng.below(4) {
        // Mostly a byte of the headers is changed.
        let within = if rng.below(4) > 0 { packet.len().min(60) } else { packet.len() };
        packet[rng.below(within)] = rng.next_u64() as u8;
    }
    let header = usize::from(packet[0] & 15) * 4;
    if rng.below(8) > 0 && packet[0] >> 4 == 4 && (20..packet.len()).contains(&header) {
        packet[10..12].fill(0);
        let sum = Ladder::Byte.sum(&packet[..header]);
        packet[10..12].copy_from_slice(&sum.field());
    }
    let mut frame = framed(TAGS[rng.below(TAGS.len())], &packet);
    if rng.below(4) == 0 {
        frame.truncate(rng.below(frame.len() + 1));
    }
    if rng.below(20) == 0 {
        frame.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
    }
    frame
}

#[test]
fn whatever_a_frame_says_its_parts_are_right_or_it_is_lost() {
    let (mut pool, mut rng) = (Pool::new(1 << 22), Rng::new(1));
    let (mut came, mut gone) = (0, 0);
    for _ in 0..10_000 {
        let mut frame = any_frame(&mut rng);
        let link = [LinkKind::Ethernet, LinkKind::Ip][usize::from(rng.below(8) == 0)];
        if link == LinkKind::Ip && rng.below(2) == 0 {
            frame.drain(..frame.len().min(14));
        }
        let size = [0, 1, 7, 100, 1_448, u16::MAX][rng.below(6)];
        let (parts, lost) = cut_up(&mut pool, &frame, size, link);
        for part in &parts {
            opened(part, link);
        }
        assert!(parts.is_empty() == (lost == 1) && lost <= 1, "{} parts, {lost}", parts.len());
        came += u32::from(lost == 0);
        gone += lost;
    }
    assert!(came > 3_000 && gone > 1_000, "{came} were cut, {gone} were lost");
}
