//! IPv4 packets that carry a TCP segment, built and parsed without a stack, for peers made of raw
//! segments.

use std::net::{Ipv4Addr, SocketAddrV4};

#[allow(dead_code, reason = "each test program uses a part")]
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// The fields of a segment that the tests use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) src: SocketAddrV4,
    pub(crate) dst: SocketAddrV4,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| b.into())).sum()
}

/// The Internet checksum (RFC 1071) of data with this sum of 16-bit words.
fn checksum(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

impl Segment {
    /// The IPv4 packet with this segment and `payload`.
    pub(crate) fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let len = (40 + payload.len()) as u16;
        let mut out = vec![0; 40];
        out[0] = 0x45;
        out[2..4].copy_from_slice(&len.to_be_bytes());
        out[8] = 64;
        out[9] = 6;
        out[12..16].copy_from_slice(&self.src.ip().octets());
        out[16..20].copy_from_slice(&self.dst.ip().octets());
        let header = checksum(sum(&out[..20]));
        out[10..12].copy_from_slice(&header);
        out[20..22].copy_from_slice(&self.src.port().to_be_bytes());
        out[22..24].copy_from_slice(&self.dst.port().to_be_bytes());
        out[24..28].copy_from_slice(&self.seq.to_be_bytes());
        out[28..32].copy_from_slice(&self.ack.to_be_bytes());
        out[32] = 5 << 4;
        out[33] = self.flags;
        out[34..36].copy_from_slice(&60_000u16.to_be_bytes());
        out.extend_from_slice(payload);
        let pseudo = sum(&out[12..20]) + 6 + u32::from(len - 20);
        let transport = checksum(pseudo + sum(&out[20..]));
        out[36..38].copy_from_slice(&transport);
        out
    }

    /// Parse a packet; `None` if it is not TCP over IPv4.
    pub(crate) fn of(packet: &[u8]) -> Option<Segment> {
        if packet.len() < 40 || packet[0] != 0x45 || packet[9] != 6 {
            return None;
        }
        let ip = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
        let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        Some(Segment {
            src: SocketAddrV4::new(ip(12), half(20)),
            dst: SocketAddrV4::new(ip(16), half(22)),
            seq: word(24),
            ack: word(28),
            flags: packet[33],
        })
    }
}
