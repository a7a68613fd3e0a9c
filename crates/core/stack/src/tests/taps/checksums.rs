//! Checksums that are left to a device are finished in the copies that taps keep, and only there.

use core::net::IpAddr;

use base::SeqNumber;
use wire::checksum::Sum;
use wire::{protocol, udp};

use super::*;
use crate::tests::craft::frame_between;

#[test]
fn what_the_device_would_finish_is_finished_in_the_copy_alone() {
    for (version, link) in VERSIONS.into_iter().flat_map(|v| LINKS.map(|link| (v, link))) {
        let mut config = PairConfig::new([1, 2]);
        (config.wire.offloads, config.wire.link, config.version) = (ALL, link, version);
        let mut t = Test::of(&config);
        let id = t.watch(tap(0xffff, Some(Direction::Out)));
        let short = t.watch(tap(40, Some(Direction::Out)));
        t.write(20_000);
        t.settle();
        let (mut bytes, mut supers) = (0, 0);
        // IP and TCP headers, with timestamps.
        let headers = if version == IpVersion::V4 { 20 + 32 } else { 40 + 32 };
        t.seen(id, |record| {
            let len = record.bytes.len();
            assert!(is_whole(record.bytes, link), "{version:?} {link:?} {len} bytes");
            bytes += len - link.header_len() - headers;
            supers += usize::from(usize::from(record.segment_bytes) == 1_500 - headers);
        });
        assert_eq!(bytes, 20_000);
        assert!(supers > 0, "no super-segment was recorded");
        t.seen(short, |record| {
            assert_eq!(record.bytes.len(), 40, "the record was not cut before the checksum")
        });
        let mut into = vec![0; 30_000];
        let accepted = t.accepted.expect("it was accepted");
        assert_eq!(t.server.stack.tcp_read(accepted, &mut into), Ok(20_000));
    }
}

/// A frame for end 1 whose checksum is left to the device, and the offset of its transport header.
fn unfinished(
    (version, link): (IpVersion, LinkKind),
    tags: &[u8],
    protocol: u8,
    mut transport: Vec<u8>,
) -> (Vec<u8>, usize) {
    let which = usize::from(version == IpVersion::V6);
    let [src, dst]: [IpAddr; 2] = [2, 1].map(|end| pair::addresses(end)[which].addr);
    let len = Sum::of_be16(transport.len() as u16);
    let pseudo = inet::ip_input::pseudo_sum(src, dst, protocol).plus(len);
    let field = field_of(protocol);
    transport[field..field + 2].copy_from_slice(&pseudo.0.to_ne_bytes());
    let mut frame = frame_between(src, dst, protocol, &transport);
    frame.splice(12..12, tags.iter().copied());
    if link == LinkKind::Ip {
        frame.drain(..ether::HEADER_LEN);
    }
    let start = frame.len() - transport.len();
    (frame, start)
}

fn field_of(protocol: u8) -> usize {
    if protocol == protocol::TCP { tcp::CHECKSUM_OFFSET } else { udp::CHECKSUM_OFFSET }
}

/// The tap's copy of a received frame whose checksum is unfinished.
fn shown(link: LinkKind, frame: &[u8], start: usize) -> Vec<u8> {
    let mut config = PairConfig::new([1, 2]);
    (config.wire.offloads, config.wire.link) = (ALL, link);
    let (ours, mut wire) = mem::pair(&config.wire);
    let mut end = pair::end(&config, ours, 1);
    let tap = tap(0xffff, Some(Direction::In));
    let id = end.stack.add_tap(end.port, tap, WALL).expect("the port is there");
    let mut pool = Pool::new(1 << 20);
    let mut m = pool.copy_of(frame).expect("room for a frame");
    m.set(Flags::CSUM_PARTIAL);
    m.set_csum(start as u16);
    let mut burst = Burst::new();
    burst.push(m);
    assert_eq!(wire.tx_burst(&mut pool, &mut burst), 1);
    end.stack.poll(Instant::from_nanos(1_000_000_000));
    let buffer = end.stack.tap(id).and_then(Tap::take).expect("it was seen");
    let record = buffer.records().next().expect("it was kept");
    record.bytes.to_vec()
}

#[test]
fn checksums_of_received_frames_are_finished_behind_tags_as_well() {
    const TAGS: [&[u8]; 3] = [&[], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5]];
    let segment = {
        let (seq, ack) = (SeqNumber(1), SeqNumber(2));
        let (flags, header_len) = (tcp::Flags::ACK, tcp::HEADER_LEN);
        let header = tcp::Header {
            src_port: 1000,
            dst_port: 80,
            seq,
            ack,
            header_len,
            flags,
            window: 9,
            urgent: 0,
        };
        let mut segment = vec![0x77; header_len + 101];
        assert!(header.emit(&mut segment));
        segment
    };
    for (version, link) in VERSIONS.into_iter().flat_map(|v| LINKS.map(|link| (v, link))) {
        for tags in TAGS {
            if link == LinkKind::Ip && !tags.is_empty() {
                continue;
            }
            for (protocol, transport) in
                [(protocol::TCP, segment.clone()), (protocol::UDP, datagram(77))]
            {
                let (frame, start) = unfinished((version, link), tags, protocol, transport);
                let kept = shown(link, &frame, start);
                assert!(is_whole(&kept, link), "{version:?} {link:?} {tags:x?} {protocol}");
                let mut expected = frame;
                let field = start + field_of(protocol);
                expected[field..field + 2].copy_from_slice(&kept[field..field + 2]);
                assert_eq!(kept, expected, "more than the checksum was changed");
            }
        }
    }
}

fn datagram(bytes: usize) -> Vec<u8> {
    let length = (udp::HEADER_LEN + bytes) as u16;
    let header = udp::Header { src_port: 1000, dst_port: 9, length, checksum: [0; 2] };
    let mut datagram = vec![0; usize::from(length)];
    assert!(header.emit(&mut datagram));
    datagram
}

/// RFC 768: a UDP checksum that computes to zero is sent as all ones.
#[test]
fn a_udp_checksum_of_zero_is_shown_as_ones() {
    for (version, link) in VERSIONS.into_iter().flat_map(|v| LINKS.map(|link| (v, link))) {
        let field = udp::CHECKSUM_OFFSET;
        let (frame, start) = unfinished((version, link), &[], protocol::UDP, datagram(2));
        let kept = shown(link, &frame, start);
        // With the datagram's own checksum as its payload, the sum is zero.
        let mut transport = datagram(2);
        let checksum = &kept[start + field..start + field + 2];
        transport[udp::HEADER_LEN..].copy_from_slice(checksum);
        let (frame, start) = unfinished((version, link), &[], protocol::UDP, transport);
        let kept = shown(link, &frame, start);
        assert_eq!(kept[start + field..start + field + 2], [0xff, 0xff]);
        assert!(is_whole(&kept, link));
    }
}
