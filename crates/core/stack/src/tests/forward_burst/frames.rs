//! Frames for a router: most are plain, and the others have one unusual property each.

use core::net::IpAddr;

use base::LinkKind;
use mbuf::{Flags, Mbuf, Pool};

use super::twins::{LINKS, mac, vlan_of};
use crate::tests::craft::Rng;

/// A frame, and the state of its buffer (offloads, room in front).
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    buffer: Buffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    Plain,
    /// The checksum is left to the device; the transport header is at this offset.
    Unfinished(u16),
    /// As [`Self::Unfinished`], and the payload is to be cut into segments of the second number of
    /// bytes.
    Super(u16, u16),
    /// A super-segment with a finished checksum, which no device makes.
    Contradiction,
    Shared,
    /// The buffer has no room for a link header in front.
    Full,
}

impl Frame {
    pub(super) fn new(bytes: Vec<u8>) -> Frame {
        Frame { bytes, buffer: Buffer::Plain }
    }

    /// Write the frame to a buffer of `pool`. Also returns what must be held meanwhile.
    pub(super) fn build(&self, pool: &mut Pool) -> (Mbuf, Option<Mbuf>) {
        let bytes = &self.bytes;
        if self.buffer == Buffer::Full {
            let mut m = pool.alloc(bytes.len()).expect("room");
            let front = m.headroom().min(bytes.len());
            m.prepend(front).expect("room").copy_from_slice(&bytes[..front]);
            m.append(&bytes[front..]);
            return (m, None);
        }
        let mut m = pool.copy_of(bytes).expect("room");
        match self.buffer {
            Buffer::Unfinished(at) => {
                m.set(Flags::CSUM_PARTIAL);
                m.set_csum(at);
            }
            Buffer::Super(at, size) => {
                m.set(Flags::CSUM_PARTIAL);
                m.set_csum(at);
                m.set_segment_size(size);
            }
            Buffer::Contradiction => m.set_segment_size(8),
            Buffer::Shared => {
                let other = pool.share(&mut m);
                return (m, other);
            }
            _ => {}
        }
        (m, None)
    }
}

/// An address for a packet through the router: of a host on its links or beyond them, of the router
/// itself, a broadcast address, or one that no host can have.
fn v4(rng: &mut Rng) -> [u8; 4] {
    let link = rng.below(LINKS.len() as u32) as u8 + 1;
    match rng.below(40) {
        0 => [10, link, 0, 1],
        1 => [10, link, 0, 255],
        2 => [10, link, 0, 0],
        3 => [10, link, 0, 127],
        4 => rng.pick(&[[127, 0, 0, 1], [224, 0, 0, 5], [0, 0, 0, 0], [255; 4], [240, 1, 2, 3]]),
        5 => [169, 254, 1, 2],
        6 => [198, 18, 0, rng.below(4) as u8],
        7 => [10, link, 0, 77],
        8..18 => [203, 0, link, rng.below(8) as u8],
        _ => [10, link, 0, 2 + rng.below(3) as u8],
    }
}

fn v6(rng: &mut Rng) -> [u8; 16] {
    let link = rng.below(LINKS.len() as u32) as u8 + 1;
    let mut addr = [0x20, 1, 0xd, 0xb8, 0, link, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    match rng.below(40) {
        0 => addr[15] = 1,
        1 => addr = [0; 16],
        2 => addr[0] = 0xff,
        3 => addr[..2].copy_from_slice(&[0xfe, 0x80]),
        4 => addr[0] = 0x44,
        5 => (addr[0], addr[15]) = (0xfd, 3),
        6 => addr[15] = 77,
        7..16 => (addr[4], addr[15]) = (0x77, rng.below(8) as u8),
        _ => addr[15] = 2 + rng.below(3) as u8,
    }
    addr
}

/// An IPv4 or IPv6 packet with this source and destination.
fn packet(rng: &mut Rng, src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let len = match rng.below(20) {
        0 => rng.below(3) as usize,
        1 => 1_000 + rng.below(480) as usize,
        2 => 1_460 + rng.below(21) as usize,
        _ => 8 + rng.below(40) as usize,
    };
    let data: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
    let ttl = if rng.one_in(16) { rng.below(3) as u8 } else { 2 + rng.below(200) as u8 };
    let protocol = rng.pick(&[1_u8, 6, 17, 58, 99]);
    let mut p = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let total = (20 + len) as u16;
            let mut p = vec![0x45, rng.below(256) as u8];
            p.extend(total.to_be_bytes());
            p.extend((rng.below(65_536) as u16).to_be_bytes());
            p.extend(rng.pick(&[[0x40, 0], [0, 0], [0x20, 0], [0, 9], [0x40, 0]]));
            p.extend([ttl, protocol, 0, 0]);
            p.extend(src.octets());
            p.extend(dst.octets());
            p
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut p = vec![0x60, rng.below(16) as u8, 0, 0];
            p.extend((len as u16).to_be_bytes());
            p.extend([rng.pick(&[protocol, 0, 43, 44, 59]), ttl]);
            p.extend(src.octets());
            p.extend(dst.octets());
            p
        }
        _ => unreachable!("both are of one version"),
    };
    match (src, dst) {
        _ if rng.below(12) > 0 => p.extend(data),
        // An ICMP error about a packet of the opposite direction, mostly to a client other than
        // this packet's.
        (IpAddr::V4(_), IpAddr::V4(dst)) => {
            let quoted = [&[0x45; 12], &dst.octets()[..], &v4(rng)].concat();
            quote(&mut p, 9, [1, rng.pick(&[3, 5, 8, 11])], &quoted);
        }
        (_, dst) => {
            let IpAddr::V6(dst) = dst else { unreachable!("both are of one version") };
            let quoted = [&[0x60; 8], &dst.octets()[..], &v6(rng)].concat();
            quote(&mut p, 6, [58, rng.pick(&[1, 2, 128, 3])], &quoted);
        }
    }
    p
}

/// Does a frame ask for offloads: an unfinished checksum, or a super-segment?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offload {
    Some,
    None,
}

/// A packet with the IP header of `p`, mostly with a longer TCP or UDP payload, and with the
/// checksum as a sender leaves it to its device.
fn offloaded(rng: &mut Rng, mut p: Vec<u8>) -> Vec<u8> {
    let is_v4 = p[0] >> 4 == 4;
    let is_tcp = !rng.one_in(4);
    let at = if is_v4 { 20 } else { 40 };
    p.truncate(at);
    let len = rng.pick(&[0, 1, 500, 1_400, 1_460, 2_896, 9_000]) + rng.below(30) as usize;
    if is_tcp {
        let offset = rng.pick(&[5, 5, 8, 8, 8, 8, 4]) << 4;
        p.extend([0x10, 0, 0, 80, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 1, offset, rng.below(256) as u8]);
        p.extend([2, 0, 9, 9, 0, 0]);
    } else {
        p.extend([0x10, 0, 0, 53]);
        p.extend((len as u16 + 8).to_be_bytes());
        p.extend([9, 9]);
    }
    p.extend((0..len).map(|n| (n * 7) as u8));
    if is_v4 {
        let total = (p.len() as u16).to_be_bytes();
        p[2..4].copy_from_slice(&total);
        p[9] = if is_tcp { 6 } else { 17 };
        if !rng.one_in(8) {
            p[6..8].copy_from_slice(&rng.pick(&[[0x40, 0], [0x40, 0], [0, 0]]));
        }
    } else {
        let total = (p.len() as u16 - 40).to_be_bytes();
        p[4..6].copy_from_slice(&total);
        p[6] = if is_tcp { 6 } else { 17 };
    }
    p
}

/// Puts an ICMP message of this type, which quotes the beginning of a packet, after an IP header;
/// the header's protocol field is at `at`.
fn quote(p: &mut Vec<u8>, at: usize, [protocol, kind]: [u8; 2], quoted: &[u8]) {
    p.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    p.extend(quoted);
    p[at] = protocol;
    let len = if at == 9 { p.len() } else { p.len() - 40 } as u16;
    let at = if at == 9 { 2 } else { 4 };
    p[at..at + 2].copy_from_slice(&len.to_be_bytes());
}

/// Sets one field of an IP header to a wrong or unusual value; the header checksum stays right.
fn spoil_header(rng: &mut Rng, p: &mut Vec<u8>) {
    let is_v4 = p[0] >> 4 == 4;
    match rng.below(7) {
        // A source route option that does not change the sum of the first twenty bytes.
        5 if is_v4 => {
            p.splice(20..20, [131, 7, 4, 0, 0x78, 0xf8, 0, 0]);
            p[0] = 0x47;
            let total = (p.len() as u16).to_be_bytes();
            p[2..4].copy_from_slice(&total);
        }
        // A header length of less than 20 bytes, with the right checksum for 20.
        6 if is_v4 => p[0] = 0x44,
        // A longer header, filled with no-operation options.
        0 if is_v4 => {
            p.splice(20..20, [1, 1, 1, 0]);
            p[0] = 0x46;
            let total = (p.len() as u16).to_be_bytes();
            p[2..4].copy_from_slice(&total);
        }
        0 | 1 => p[0] = rng.below(256) as u8,
        2 => {
            // A total length greater than the packet's, or less than its header's.
            let at = if is_v4 { 2 } else { 4 };
            let len = rng.pick(&[p.len() as u16 + 1, 7, u16::MAX]);
            p[at..at + 2].copy_from_slice(&len.to_be_bytes());
        }
        3 => p.truncate(rng.below(p.len() as u32) as usize),
        _ => p.extend([0; 9]),
    }
}

fn sum(p: &mut [u8]) {
    if p.first().is_some_and(|b| b >> 4 == 4) {
        let len = (usize::from(p[0] & 15) * 4).max(20);
        if (20..=p.len()).contains(&len) {
            p[10..12].fill(0);
            let sum = wire::checksum::Ladder::Word64.sum(&p[..len]);
            p[10..12].copy_from_slice(&sum.field());
        }
    }
}

/// Adds a VLAN tag with any priority. A few frames get none or the tag of another VLAN, or end
/// inside the tag.
fn put_tag(rng: &mut Rng, bytes: &mut Vec<u8>, id: u16) {
    let id = rng.pick(&[id, id, id, id, id, id, id, 5, 6, 7]);
    let control = (id | (rng.below(16) as u16) << 12).to_be_bytes();
    match rng.below(60) {
        0 => {}
        1 => bytes.truncate(12 + rng.below(6) as usize),
        _ => {
            let at = bytes.len().min(12);
            bytes.splice(at..at, [0x81, 0, control[0], control[1]]);
        }
    }
}

/// A frame to the router at `port`.
pub(super) fn frame(rng: &mut Rng, port: usize) -> Frame {
    let is_v6 = rng.one_in(3);
    let addr = |rng: &mut Rng| match is_v6 {
        true => IpAddr::from(v6(rng)),
        false => IpAddr::from(v4(rng)),
    };
    let (src, dst) = (addr(rng), addr(rng));
    let mut p = packet(rng, src, dst);
    let offload = rng.pick(&[Offload::Some, Offload::None, Offload::None, Offload::None]);
    if offload == Offload::Some {
        p = offloaded(rng, p);
    }
    if rng.one_in(20) {
        spoil_header(rng, &mut p);
    }
    sum(&mut p);
    if rng.one_in(40) && !p.is_empty() {
        let at = rng.below(p.len().min(40) as u32) as usize;
        p[at] ^= 1 << rng.below(8);
    }
    let mut bytes = Vec::new();
    if LINKS[port] == LinkKind::Ethernet {
        let to = match rng.below(60) {
            0 => [0xff; 6],
            1 => [1, 0, 0x5e, 0, 0, 5],
            2 => mac(port + 1).0,
            _ => mac(port).0,
        };
        bytes.extend(to);
        bytes.extend([2, 0, 0, 0, 1, port as u8]);
        let is_v6 = is_v6 != rng.one_in(60);
        let ethertype: u16 = match rng.below(60) {
            0 => 0x88b5,
            _ if is_v6 => 0x86dd,
            _ => 0x0800,
        };
        bytes.extend(ethertype.to_be_bytes());
    }
    bytes.extend(p);
    if rng.one_in(8) {
        // Padding of the link.
        bytes.resize(bytes.len().max(60), 0);
    }
    let transport_at = bytes.len().min(14) * usize::from(LINKS[port] == LinkKind::Ethernet)
        + if is_v6 { 40 } else { 20 }
        + 4 * usize::from(vlan_of(port).is_some());
    let at = transport_at as u16 + u16::from(rng.one_in(20));
    let size = rng.pick(&[8, 300, 1_200, 1_400, 1_448, 1_460, 9_000, u16::MAX]);
    let buffer = match rng.below(80) {
        0 => Buffer::Contradiction,
        1 => Buffer::Shared,
        2 | 3 => Buffer::Full,
        4..30 if offload == Offload::Some => Buffer::Unfinished(at),
        30..74 if offload == Offload::Some => Buffer::Super(at, size),
        4 => Buffer::Unfinished(at),
        5 => Buffer::Super(at, size),
        _ => Buffer::Plain,
    };
    if LINKS[port] == LinkKind::Ethernet && rng.one_in(50) {
        bytes.splice(12..12, [0x81, 0, 0xa0, 0]);
    }
    if let Some(id) = vlan_of(port) {
        put_tag(rng, &mut bytes, id);
    }
    if buffer == Buffer::Full && bytes.len() < 128 {
        bytes.resize(128, 0);
    }
    Frame { bytes, buffer }
}
