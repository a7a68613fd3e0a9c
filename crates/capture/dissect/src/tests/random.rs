//! Random frames: any bytes can be printed, and no text exceeds a maximum length.

use super::*;

/// The frames are malformed: lengths are wrong, headers lie beyond the end, and packets are
/// truncated anywhere.
#[test]
fn any_bytes_are_printed_and_lines_are_bounded() {
    let mut random = Random(1);
    for round in 0..60_000_u32 {
        let mut bytes = random.frame();
        let keep = random.below(bytes.len() + 1);
        if round % 3 == 0 {
            bytes.truncate(keep.max(1));
        }
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        let link = LINKS[random.below(LINKS.len())];
        let link = if round % 2 == 0 { 1 } else { link };
        let style = Style {
            verbose: (round % 4) as u8,
            link: round % 5 == 0,
            quiet: round % 7 == 0,
            hex: (round % 11 == 0).then_some(Hex { as_what: As::Both, with_link: false }),
            ..Style::default()
        };
        let wire_len = bytes.len() as u32 + random.below(3) as u32 * 100;
        let mut printer = Printer::new(style);
        let text = printer.text(Frame { link, bytes: &bytes, wire_len }, "").to_owned();
        assert!(text.ends_with('\n') && text.len() < 400_000, "{} bytes", text.len());
    }
}

/// The decoded link types, and three that are not decoded.
const LINKS: [u32; 18] =
    [0, 1, 9, 12, 14, 50, 51, 101, 104, 107, 108, 113, 228, 229, 276, 127, 147, 10];

/// Ethertypes with and without a dissector.
const ETHERTYPES: [u16; 24] = [
    0x0800, 0x86dd, 0x0806, 0x8035, 0x8100, 0x88a8, 0x8847, 0x8848, 0x88cc, 0x888e, 0x8863, 0x8864,
    0x880b, 0x8809, 0x88f7, 0x88a2, 0x6003, 0x9000, 0x8902, 0x0026, 0x05dc, 0x8870, 0xfefe, 0x8947,
];

/// IP protocols with and without a dissector.
const PROTOCOLS: [u8; 26] = [
    0, 1, 2, 4, 6, 8, 9, 17, 33, 41, 43, 44, 46, 47, 50, 51, 55, 58, 59, 60, 88, 89, 103, 108, 112,
    132,
];

/// Ports with and without a dissector.
const PORTS: [u16; 48] = [
    21, 22, 23, 25, 53, 67, 68, 69, 80, 88, 123, 137, 138, 139, 161, 179, 319, 320, 445, 500, 514,
    520, 521, 546, 547, 639, 646, 698, 1701, 1723, 1812, 1985, 2049, 3784, 4500, 4784, 4789, 4790,
    5060, 5353, 6081, 6343, 6379, 6635, 6653, 6696, 7001, 8472,
];

/// A random number generator with a fixed seed.
struct Random(u32);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % below
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        // Small numbers are the most likely, because types and lengths mostly are small.
        let most = [2, 16, 256][self.below(3)];
        (0..len).map(|_| self.below(most) as u8).collect()
    }

    /// A frame with valid headers down to a dissector's payload.
    fn frame(&mut self) -> Vec<u8> {
        let len = self.below(300);
        let payload = self.bytes(len);
        let ethertype = ETHERTYPES[self.below(ETHERTYPES.len())];
        let packet = match self.below(4) {
            0 => payload,
            1 => {
                let port = PORTS[self.below(PORTS.len())].to_be_bytes();
                let len = ((udp::HEADER_LEN + payload.len()) as u16).to_be_bytes();
                let header = [port[0], port[1], port[0], port[1], len[0], len[1], 0, 0];
                self.ip(protocol::UDP, &[&header[..], &payload].concat())
            }
            2 => {
                let port = PORTS[self.below(PORTS.len())].to_be_bytes();
                let mut segment = segment(tcp_v4(), tcp::Flags::ACK, &[], 0);
                segment[..4].copy_from_slice(&[port[0], port[1], port[0], port[1]]);
                self.ip(protocol::TCP, &[segment, payload].concat())
            }
            _ => {
                let protocol = PROTOCOLS[self.below(PROTOCOLS.len())];
                self.ip(protocol, &payload)
            }
        };
        let ethertype = match packet.first() {
            Some(0x45) => 0x0800,
            Some(0x60) => 0x86dd,
            _ => ethertype,
        };
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes(), &packet].concat()
    }

    fn ip(&mut self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        if self.below(2) == 0 { v4(protocol, payload) } else { v6(protocol, payload) }
    }
}
