//! IPv4 packets for the tests of the firewall, and the check of all their checksums.

use core::net::IpAddr;

use wire::checksum::{Ladder, Sum};
use wire::protocol::{ICMP, TCP, UDP};
use wire::tcp::Flags;

use crate::tests::craft::transport_sum;

pub(in crate::tests) type End<'a> = (&'a str, u16);

fn octets(text: &str) -> [u8; 4] {
    match text.parse() {
        Ok(IpAddr::V4(addr)) => addr.octets(),
        other => panic!("{other:?}"),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// An IPv4 packet with correct checksum; `place` is the header field of flags and fragment offset.
fn packet(src: &str, dst: &str, protocol: u8, place: u16, data: &[u8]) -> Vec<u8> {
    let len = (20 + data.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[6..8].copy_from_slice(&place.to_be_bytes());
    packet.extend(octets(src));
    packet.extend(octets(dst));
    fix(&mut packet);
    packet.extend(data);
    packet
}

/// Compute the checksum of the IPv4 header again.
pub(in crate::tests) fn fix(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = Ladder::best().sum(&packet[..20]).field();
    packet[10..12].copy_from_slice(&sum);
}

pub(in crate::tests) fn udp(from: End<'_>, to: End<'_>, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [from.1, to.1, 8 + data.len() as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(data);
    let sum = transport_sum(ip(from.0), ip(to.0), UDP, &bytes).field();
    bytes[6..8].copy_from_slice(&sum);
    packet(from.0, to.0, UDP, 0, &bytes)
}

pub(in crate::tests) fn tcp(
    from: End<'_>,
    to: End<'_>,
    seq: u32,
    ack: u32,
    flags: Flags,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(from.1.to_be_bytes());
    bytes.extend(to.1.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([0x50, flags.0, 0x20, 0, 0, 0, 0, 0]);
    let sum = transport_sum(ip(from.0), ip(to.0), TCP, &bytes).field();
    bytes[16..18].copy_from_slice(&sum);
    packet(from.0, to.0, TCP, 0x4000, &bytes)
}

/// An echo request or reply.
pub(in crate::tests) fn echo(kind: u8, from: &str, to: &str, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut bytes = vec![kind, 0, 0, 0, high, low, 0, 1];
    let sum = Ladder::best().sum(&bytes).field();
    bytes[2..4].copy_from_slice(&sum);
    packet(from, to, ICMP, 0x4000, &bytes)
}

/// A packet of a protocol without ports.
pub(super) fn other(protocol: u8, from: &str, to: &str) -> Vec<u8> {
    packet(from, to, protocol, 0x4000, &[1; 16])
}

/// A UDP datagram in IPv6.
pub(super) fn udp_v6(from: End<'_>, to: End<'_>, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [from.1, to.1, 8 + data.len() as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(data);
    let sum = transport_sum(ip(from.0), ip(to.0), UDP, &bytes).field();
    bytes[6..8].copy_from_slice(&sum);
    let mut packet = vec![0x60, 0, 0, 0, 0, bytes.len() as u8, UDP, 64];
    for addr in [from.0, to.0].map(ip) {
        let IpAddr::V6(addr) = addr else { panic!("{addr}") };
        packet.extend(addr.octets());
    }
    packet.extend(bytes);
    packet
}

/// Source and destination (address and port) of an IPv6 packet with UDP. Its checksum must be
/// right.
pub(super) fn ends_v6(packet: &[u8]) -> [(IpAddr, u16); 2] {
    let addr = |at: usize| {
        let octets: [u8; 16] = packet[at..at + 16].try_into().expect("16 bytes");
        IpAddr::from(octets)
    };
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    assert!(transport_sum(addr(8), addr(24), UDP, &packet[40..]).is_whole());
    [(addr(8), port(40)), (addr(24), port(42))]
}

/// The ICMP error "port unreachable" from `src` to `dst`, which quotes the packet `quoted`.
pub(in crate::tests) fn unreachable(src: &str, dst: &str, quoted: &[u8]) -> Vec<u8> {
    let mut bytes = vec![3, 3, 0, 0, 0, 0, 0, 0];
    bytes.extend(&quoted[..28]);
    let sum = Ladder::best().sum(&bytes).field();
    bytes[2..4].copy_from_slice(&sum);
    packet(src, dst, ICMP, 0, &bytes)
}

/// The packet `whole` as fragments with `each` bytes of data, a multiple of 8.
pub(in crate::tests) fn fragments(whole: &[u8], each: usize) -> Vec<Vec<u8>> {
    let data = &whole[20..];
    let text = |at: usize| {
        let [a, b, c, d] = [whole[at], whole[at + 1], whole[at + 2], whole[at + 3]];
        format!("{a}.{b}.{c}.{d}")
    };
    let (src, dst) = (text(12), text(16));
    let piece = |(at, part): (usize, &[u8])| {
        let more = if (at + 1) * each < data.len() { 0x2000 } else { 0 };
        packet(&src, &dst, whole[9], more | (at * each / 8) as u16, part)
    };
    data.chunks(each).enumerate().map(piece).collect()
}

/// Assert that all checksums of an unfragmented packet are right.
pub(in crate::tests) fn check(packet: &[u8]) {
    let ladder = Ladder::best();
    assert!(ladder.sum(&packet[..20]).is_whole(), "IP header");
    let addr =
        |at: usize| IpAddr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let bytes = &packet[20..len];
    if packet[6] & 0x3f != 0 || packet[7] != 0 {
        return;
    }
    let sum: Sum = match packet[9] {
        ICMP => ladder.sum(bytes),
        protocol @ (TCP | UDP) => transport_sum(addr(12), addr(16), protocol, bytes),
        _ => return,
    };
    assert!(sum.is_whole(), "the checksum of protocol {} is wrong", packet[9]);
}
