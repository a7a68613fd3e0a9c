//! Frames made byte by byte, so that the tests do not depend on the stack.

use std::net::IpAddr;

/// ICMP, TCP, UDP, ICMPv6.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

/// The one's-complement sum of big-endian words, not inverted.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum = words.fold(0u64, |sum, word| sum + u64::from(word));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum of a pseudo-header.
pub(crate) fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> u16 {
    let mut bytes = octets(src);
    bytes.extend(octets(dst));
    bytes.extend((len as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    sum(&bytes)
}

pub(crate) fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// An IP packet, of the addresses' version.
pub(crate) fn packet(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = if src.is_ipv4() {
        let mut p = vec![0x45, 0];
        p.extend((20 + payload.len() as u16).to_be_bytes());
        p.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        p
    } else {
        let mut p = vec![0x60, 0, 0, 0];
        p.extend((payload.len() as u16).to_be_bytes());
        p.extend([protocol, 64]);
        p
    };
    p.extend(octets(src));
    p.extend(octets(dst));
    if src.is_ipv4() {
        let checksum = !sum(&p);
        p[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    p.extend(payload);
    p
}

/// An Ethernet frame with the EtherType of its packet: IPv4, IPv6 or ARP.
pub(crate) fn ethernet(dst: [u8; 6], src: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = match packet[0] >> 4 {
        4 => [0x08, 0x00],
        6 => [0x86, 0xdd],
        _ => [0x08, 0x06],
    };
    [&dst, &src, &kind[..], packet].concat()
}

/// An ARP request or reply (RFC 826) for Ethernet and IPv4.
pub(crate) fn arp(operation: u8, sender: ([u8; 6], IpAddr), target: ([u8; 6], IpAddr)) -> Vec<u8> {
    let mut p = vec![0, 1, 8, 0, 6, 4, 0, operation];
    for (mac, addr) in [sender, target] {
        p.extend(mac);
        p.extend(octets(addr));
    }
    p
}

/// A neighbour advertisement (RFC 4861 section 4.4) of `target`, solicited, with its address.
pub(crate) fn advertisement(target: IpAddr, dst: IpAddr, mac: [u8; 6]) -> Vec<u8> {
    let mut body = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    body.extend(octets(target));
    body.extend([2, 1]);
    body.extend(mac);
    let checksum =
        !sum(&[&body[..], &pseudo(target, dst, ICMPV6, body.len()).to_be_bytes()].concat());
    body[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut p = packet(target, dst, ICMPV6, &body);
    p[7] = 255;
    p
}

/// An echo request of either version.
pub(crate) fn echo(src: IpAddr, dst: IpAddr, payload: &[u8]) -> Vec<u8> {
    let (kind, protocol) = if src.is_ipv4() { (8, ICMP) } else { (128, ICMPV6) };
    let mut body = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1];
    body.extend(payload);
    let pseudo = if src.is_ipv4() { 0 } else { pseudo(src, dst, protocol, body.len()) };
    let mut checked = body.clone();
    if !checked.len().is_multiple_of(2) {
        checked.push(0);
    }
    checked.extend(pseudo.to_be_bytes());
    body[2..4].copy_from_slice(&(!sum(&checked)).to_be_bytes());
    packet(src, dst, protocol, &body)
}

/// A UDP datagram whose checksum is left to the device: it holds the pseudo-header's sum.
pub(crate) fn datagram(src: (IpAddr, u16), dst: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len();
    let mut body =
        [src.1, dst.1, len as u16, pseudo(src.0, dst.0, UDP, len)].map(u16::to_be_bytes).concat();
    body.extend(payload);
    packet(src.0, dst.0, UDP, &body)
}

/// A TCP segment, without options except in a SYN; its checksum is left to the device.
pub(crate) struct Segment {
    pub(crate) src: (IpAddr, u16),
    pub(crate) dst: (IpAddr, u16),
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
}

impl Segment {
    pub(crate) fn with(&self, payload: &[u8]) -> Vec<u8> {
        let mut body = [self.src.1, self.dst.1].map(u16::to_be_bytes).concat();
        body.extend(self.seq.to_be_bytes());
        body.extend(self.ack.to_be_bytes());
        // A SYN has a window scale of 7 and an MSS of 1400.
        let options: &[u8] =
            if self.flags & 2 != 0 { &[2, 4, 0x05, 0x78, 1, 3, 3, 7] } else { &[] };
        body.extend([((20 + options.len()) / 4 * 16) as u8, self.flags, 0xff, 0xff]);
        let len = body.len() + 4 + options.len() + payload.len();
        body.extend(pseudo(self.src.0, self.dst.0, TCP, len).to_be_bytes());
        body.extend([0, 0]);
        body.extend(options);
        body.extend(payload);
        packet(self.src.0, self.dst.0, TCP, &body)
    }
}
