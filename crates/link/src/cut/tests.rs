//! Super-segments behind tags of a VLAN.

use core::net::Ipv4Addr;

use super::*;

const SEGMENT: u16 = 1_448;

/// A segment of 3,000 bytes, numbered from 0 on, behind tags of these types.
fn frame(tags: &[u16]) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    for (id, tag) in (1_u16..).zip(tags) {
        bytes.extend(tag.to_be_bytes());
        bytes.extend(id.to_be_bytes());
    }
    bytes.extend(ether::IPV4.to_be_bytes());
    let at = bytes.len();
    bytes.extend([0; ipv4::HEADER_LEN + tcp::HEADER_LEN]);
    bytes.extend((0..3_000_u32).map(|i| (i % 251) as u8));
    let ip = ipv4::Header {
        header_len: ipv4::HEADER_LEN,
        tos: 0,
        total_len: (bytes.len() - at) as u16,
        id: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: ipv4::TCP,
        src: Ipv4Addr::new(192, 0, 2, 1),
        dst: Ipv4Addr::new(192, 0, 2, 2),
    };
    assert!(ip.emit(&mut bytes[at..]));
    let tcp = tcp::Header {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(0),
        ack: SeqNumber(0),
        header_len: tcp::HEADER_LEN,
        flags: Flags::ACK,
        window: 1_000,
        urgent: 0,
    };
    assert!(tcp.emit(&mut bytes[at + ipv4::HEADER_LEN..]));
    bytes
}

#[test]
fn each_segment_has_the_tags_of_the_frame() {
    let tagged: [&[u16]; 3] = [&[], &[ether::VLAN], &[SERVICE_TAG, ether::VLAN]];
    for tags in tagged {
        let whole = frame(tags);
        let ip_at = ether::HEADER_LEN + vlan::HEADER_LEN * tags.len();
        let mut pool = Pool::new(1 << 20);
        let mut frame = pool.copy_of(&whole).expect("there is room");
        frame.set_segment_size(SEGMENT);
        let mut data = Vec::new();
        let lost = cut(frame, LinkKind::Ethernet, &mut pool, |part, pool| {
            let bytes = part.as_slice();
            assert_eq!(bytes[..ip_at], whole[..ip_at]);
            let ip = ipv4::Header::parse(&bytes[ip_at..]).expect("its header is right");
            assert_eq!(usize::from(ip.total_len), bytes.len() - ip_at);
            let segment = &bytes[ip_at + ipv4::HEADER_LEN..];
            let tcp = tcp::Header::parse(segment).expect("its header is right");
            assert_eq!(tcp.seq, SeqNumber(data.len() as u32));
            let pseudo = Sum::pseudo_v4(ip.src, ip.dst, ipv4::TCP);
            let sum = pseudo.plus(Sum::of_be16(segment.len() as u16));
            assert!(sum.plus(Ladder::best().sum(segment)).is_whole());
            let part_data = &segment[tcp::HEADER_LEN..];
            assert!(part_data.len() <= usize::from(SEGMENT));
            data.extend_from_slice(part_data);
            pool.free(part);
        });
        assert_eq!(lost, 0, "{tags:?}");
        assert_eq!(data, whole[whole.len() - 3_000..], "{tags:?}");
    }
}
