//! Any frame, with any note for a network card: the frames made of it are right in all lengths and
//! checksums, or the frame is counted as lost.
//!
//! Called by: the target `cut`. Frames come to `crates/core/link` from other programs, which may
//! note anything. An IPv4 checksum keeps almost all random bytes out, so each is tried with the
//! right one, too.

use core::net::IpAddr;

use base::LinkKind;
use mbuf::{Flags, Pool};
use wire::checksum::{Ladder, Sum};
use wire::{ipv4, ipv6, protocol, udp, vlan};

use crate::craft;

/// In the first byte: it is a bare IP packet.
pub(crate) const BARE: u8 = 1;
/// In the first byte: its checksum is not finished.
pub(crate) const PARTIAL: u8 = 2;

/// The input: a byte of notes, two bytes of segment size, and the frame.
pub fn any_frame(data: &[u8]) {
    let Some((&[noted, high, low], frame)) = data.split_first_chunk::<3>() else { return };
    let link = if noted & BARE == 0 { LinkKind::Ethernet } else { LinkKind::Ip };
    let (partial, size) = (noted & PARTIAL != 0, u16::from_be_bytes([high, low]));
    go(frame, link, partial, size);
    let mut fixed = frame.to_vec();
    if let Some(packet) = vlan::ip_at(frame, link).and_then(|at| fixed.get_mut(at..)) {
        craft::fix_ipv4_checksum(packet);
        go(&fixed, link, partial, size);
    }
}

fn go(frame: &[u8], link: LinkKind, partial: bool, size: u16) {
    let mut pool = Pool::new(4 << 20);
    let Some(mut m) = pool.copy_of(frame) else { return };
    if partial {
        m.set(Flags::CSUM_PARTIAL);
    }
    m.set_segment_size(size);
    let (mut parts, has_work) = (0, partial || size > 0);
    let lost = link::cut(m, link, &mut pool, |part, pool| {
        parts += 1;
        if has_work {
            is_right(part.as_slice(), link);
        } else {
            assert_eq!(part.as_slice(), frame, "nothing was to be done");
        }
        pool.free(part);
    });
    assert_eq!(lost, u64::from(parts == 0), "{parts} parts");
    assert_eq!(pool.outstanding(), 0, "buffers are gone");
}

/// Every length of a packet is right, and every checksum.
fn is_right(frame: &[u8], link: LinkKind) {
    let packet = &frame[vlan::ip_at(frame, link).expect("it was cut as IP")..];
    let (at, protocol, src, dst): (usize, u8, IpAddr, IpAddr) = if packet[0] >> 4 == 4 {
        let ip = ipv4::Header::parse(packet).expect("a header as it should be");
        assert_eq!(usize::from(ip.total_len), packet.len());
        (ip.header_len, ip.protocol, ip.src.into(), ip.dst.into())
    } else {
        let ip = ipv6::Header::parse(packet).expect("a header as it should be");
        assert_eq!(ipv6::HEADER_LEN + usize::from(ip.payload_len), packet.len());
        (ipv6::HEADER_LEN, ip.next_header, ip.src.into(), ip.dst.into())
    };
    let transport = &packet[at..];
    let len = Sum::of_be16(transport.len() as u16);
    let sum = craft::pseudo(src, dst, protocol).plus(len).plus(Ladder::Byte.sum(transport));
    assert!(sum.is_whole(), "a wrong checksum in {frame:x?}");
    if protocol == protocol::UDP {
        let header = udp::Header::parse(transport).expect("a header as it should be");
        assert_eq!(usize::from(header.length), transport.len());
        assert_ne!(header.checksum, [0; 2], "that says that there is none");
    }
}
