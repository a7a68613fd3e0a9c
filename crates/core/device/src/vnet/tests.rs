//! The offload header compared with bytes written by hand after VIRTIO 1.2 section 5.1.6.

use mbuf::Pool;

use super::*;

/// Ethernet, IP and TCP headers with the fields that this module reads, and 100 bytes of payload.
fn frame(pool: &mut Pool, v6: bool, protocol: u8, tags: usize) -> Mbuf {
    let mut bytes = vec![0; 12];
    bytes.extend([0x81, 0x00, 0, 1].repeat(tags));
    bytes.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    let ip = bytes.len();
    bytes.resize(ip + if v6 { 40 } else { 20 }, 0);
    bytes[ip] = if v6 { 0x60 } else { 0x45 };
    bytes[ip + if v6 { 6 } else { 9 }] = protocol;
    let transport = bytes.len();
    bytes.resize(transport + 32 + 100, 0);
    bytes[transport + 12] = 8 << 4;
    let mut frame = pool.copy_of(&bytes).expect("room");
    frame.set(Flags::CSUM_PARTIAL);
    frame.set_csum(transport as u16);
    frame
}

#[test]
fn a_frame_that_asks_nothing_has_a_header_of_zeros() {
    let mut pool = Pool::new(1 << 20);
    let mut frame = frame(&mut pool, false, 6, 0);
    frame.clear(Flags::CSUM_PARTIAL);
    assert_eq!(Header::of(&frame, LinkKind::Ethernet).map(Header::to_bytes), Ok([0; LEN]));
}

#[test]
fn a_checksum_is_asked_for_by_start_and_offset() {
    let mut pool = Pool::new(1 << 20);
    for (v6, protocol, tags, start, offset) in
        [(false, 6, 0, 34, 16), (true, 6, 0, 54, 16), (false, 17, 0, 34, 6), (true, 6, 2, 62, 16)]
    {
        let frame = frame(&mut pool, v6, protocol, tags);
        let bytes = Header::of(&frame, LinkKind::Ethernet).map(Header::to_bytes);
        let (start, offset) = (u16::to_ne_bytes(start), u16::to_ne_bytes(offset));
        let expected = [1, 0, 0, 0, 0, 0, start[0], start[1], offset[0], offset[1]];
        assert_eq!(bytes, Ok(expected));
    }
}

#[test]
fn a_super_segment_has_its_version_header_length_and_ecn() {
    let mut pool = Pool::new(1 << 20);
    for (v6, cwr, kind) in [(false, 0, 1), (true, 0, 4), (false, 0x80, 0x81), (true, 0x80, 0x84)] {
        let mut frame = frame(&mut pool, v6, 6, 0);
        frame.set_segment_size(1448);
        let start = usize::from(frame.csum());
        frame.as_mut_slice().expect("exclusive")[start + 13] = cwr;
        let header = Header::of(&frame, LinkKind::Ethernet).expect("in order");
        assert_eq!(header.gso_type, kind);
        assert_eq!(usize::from(header.header_len), start + 32);
        assert_eq!(header.segment_size, 1448);
        let mut padded = [0; LEN_MAX];
        padded[..LEN].copy_from_slice(&header.to_bytes());
        assert_eq!(Header::from_bytes(&padded), header);
    }
}

#[test]
fn a_super_datagram_has_a_header_of_udp() {
    let mut pool = Pool::new(1 << 20);
    for v6 in [false, true] {
        let mut frame = frame(&mut pool, v6, 17, 0);
        frame.set_segment_size(1200);
        let header = Header::of(&frame, LinkKind::Ethernet).expect("in order");
        assert_eq!((header.gso_type, header.segment_size), (5, 1200));
        assert_eq!((header.header_len, header.csum_offset), (frame.csum() + 8, 6));
        let mut received = pool.copy_of(frame.as_slice()).expect("room");
        header.describe(&mut received).expect("in order");
        assert_eq!(received.segment_size(), 1200);
    }
}

#[test]
fn frames_that_contradict_themselves_are_refused() {
    let mut pool = Pool::new(1 << 20);
    let mut finished = frame(&mut pool, false, 6, 0);
    finished.clear(Flags::CSUM_PARTIAL);
    finished.set_segment_size(1448);
    let mut beyond = frame(&mut pool, false, 6, 0);
    beyond.set_csum(beyond.len() as u16 - 17);
    let mut short = frame(&mut pool, false, 6, 0);
    short.truncate(13);
    let mut cut = frame(&mut pool, false, 6, 0);
    cut.truncate(20);
    for frame in [finished, beyond, short, cut] {
        assert_eq!(Header::of(&frame, LinkKind::Ethernet), Err(Contradiction), "{frame:?}");
    }
    let empty = pool.alloc(0).expect("room");
    assert!(Header::of(&empty, LinkKind::Ip).is_ok());
}

#[test]
fn a_received_frame_learns_what_its_header_says() {
    let mut pool = Pool::new(1 << 20);
    let mut describe = |header: Header| {
        let mut frame = pool.copy_of(&[0; 200]).expect("room");
        header.describe(&mut frame).map(|()| frame)
    };
    let partial =
        Header { flags: NEEDS_CSUM, csum_start: 34, csum_offset: 16, ..Header::default() };
    let frame = describe(partial).expect("in order");
    assert!(frame.has(Flags::CSUM_PARTIAL | Flags::CSUM_VERIFIED));
    assert_eq!((frame.csum(), frame.segment_size()), (34, 0));

    let verified = describe(Header { flags: DATA_VALID, ..Header::default() }).expect("in order");
    assert!(verified.has(Flags::CSUM_VERIFIED) && !verified.has(Flags::CSUM_PARTIAL));

    let plain = describe(Header::default()).expect("in order");
    assert!(!plain.has(Flags::CSUM_VERIFIED) && !plain.has(Flags::CSUM_PARTIAL));

    let long = Header { gso_type: GSO_TCPV6 | GSO_ECN, segment_size: 1428, ..partial };
    assert_eq!(describe(long).expect("in order").segment_size(), 1428);

    let wrong = [
        Header { csum_start: 183, ..partial },
        Header { csum_start: u16::MAX, csum_offset: u16::MAX, ..partial },
        Header { segment_size: 0, ..long },
        Header { gso_type: 3, segment_size: 1400, ..partial },
        Header { gso_type: 0x7f, ..partial },
    ];
    for header in wrong {
        assert_eq!(describe(header).err(), Some(Contradiction), "{header:?}");
    }
}
