//! The traffic of an interval: frames and bytes by port, size, protocol, and pair of addresses.
//!
//! Called by: `top.rs`. At most `PAIRS` pairs are kept; others are counted together.

use std::collections::HashMap;
use std::net::IpAddr;

use wire::{ether, ipv4, ipv6, protocol, vlan};
use wirespeed::LinkKind;
use wirespeed::device::vlan::SERVICE_TAG;

use crate::dump::{Direction, Packet};

/// The size classes by their upper ends in bytes; larger frames are super-segments.
pub(super) const SIZES: [(u32, &str); 7] = [
    (64, "to 64"),
    (128, "to 128"),
    (256, "to 256"),
    (512, "to 512"),
    (1024, "to 1024"),
    (1522, "to 1522"),
    (u32::MAX, "more"),
];

/// Maximum number of pairs of addresses in an interval.
const PAIRS: usize = 4096;

/// Bytes that Ethernet adds to a frame: preamble and delimiter, frame check sequence, gap. IEEE
/// 802.3 sections 3.1.1 and 4.4.2.
const FRAMING: u64 = 8 + 4 + 12;

/// Bytes of the shortest Ethernet frame without its frame check sequence; shorter ones are padded.
const SHORTEST: u64 = 60;

/// Bytes of headers behind the link header, for each segment of a super-segment. An estimate: IPv4,
/// and TCP with timestamps.
const HEADERS: u64 = 20 + 32;

/// Frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) frames: u64,
    pub(super) bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u32) {
        self.frames += 1;
        self.bytes += u64::from(bytes);
    }

    pub(super) fn include(&mut self, other: Amount) {
        self.frames += other.frames;
        self.bytes += other.bytes;
    }

    /// The difference since `then`.
    pub(super) fn since(self, then: Amount) -> Amount {
        Amount {
            frames: self.frames.saturating_sub(then.frames),
            bytes: self.bytes.saturating_sub(then.bytes),
        }
    }

    /// Scale up for `lost` frames beside `seen` ones.
    fn grow(&mut self, seen: u64, lost: u64) {
        let share =
            |n: u64| n + (u128::from(n) * u128::from(lost) / u128::from(seen.max(1))) as u64;
        *self = Amount { frames: share(self.frames), bytes: share(self.bytes) };
    }
}

/// Two addresses, the smaller first.
pub(super) type Pair = (IpAddr, IpAddr);

/// An interval's traffic.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    /// By port, received and sent.
    pub(super) ports: Vec<[Amount; 2]>,
    /// The same as carried on links.
    pub(super) links: Vec<[Amount; 2]>,
    pub(super) sizes: [Amount; SIZES.len()],
    pub(super) protocols: HashMap<&'static str, Amount>,
    pub(super) pairs: HashMap<Pair, Amount>,
    /// Traffic of further pairs.
    pub(super) other_pairs: Amount,
}

impl Traffic {
    pub(super) fn add(&mut self, packet: &Packet) {
        let len = packet.wire_len;
        if self.ports.len() <= packet.port {
            self.ports.resize_with(packet.port + 1, Default::default);
            self.links.resize_with(packet.port + 1, Default::default);
        }
        let way = usize::from(packet.direction == Some(Direction::Out));
        self.ports[packet.port][way].add(len);
        self.links[packet.port][way].include(on_link(packet));
        if let Some(at) = SIZES.iter().position(|(most, _)| len <= *most) {
            self.sizes[at].add(len);
        }
        let (protocol, pair) = kind(&packet.bytes, packet.link.kind().unwrap_or(LinkKind::Ip));
        self.protocols.entry(protocol).or_default().add(len);
        let Some(pair) = pair else { return };
        if self.pairs.len() < PAIRS || self.pairs.contains_key(&pair) {
            self.pairs.entry(pair).or_default().add(len);
        } else {
            self.other_pairs.add(len);
        }
    }

    /// All frames.
    pub(super) fn frames(&self) -> u64 {
        self.ports.iter().flatten().map(|amount| amount.frames).sum()
    }

    /// Scale the figures up for frames `lost` by port, in proportion.
    pub(super) fn stand_for(&mut self, lost: &[u64]) {
        let seen = self.frames();
        let ports = self.ports.iter_mut().zip(&mut self.links);
        for ((port, link), &lost) in ports.zip(lost) {
            let seen = port.iter().map(|amount| amount.frames).sum();
            port.iter_mut().chain(link).for_each(|amount| amount.grow(seen, lost));
        }
        let lost = lost.iter().sum();
        let named = self.protocols.values_mut().chain(self.pairs.values_mut());
        let all = self.sizes.iter_mut().chain(named).chain([&mut self.other_pairs]);
        all.for_each(|amount| amount.grow(seen, lost));
    }

    /// The pairs, most bytes first.
    pub(super) fn talkers(&self) -> Vec<(Pair, Amount)> {
        let mut all: Vec<_> = self.pairs.iter().map(|(pair, amount)| (*pair, *amount)).collect();
        all.sort_by_key(|(pair, amount)| (std::cmp::Reverse(amount.bytes), *pair));
        all
    }

    pub(super) fn by_protocol(&self) -> Vec<(&'static str, Amount)> {
        let mut all: Vec<_> =
            self.protocols.iter().map(|(name, amount)| (*name, *amount)).collect();
        all.sort_by_key(|(name, amount)| (std::cmp::Reverse(amount.bytes), *name));
        all
    }
}

/// The frames and bytes that a link carries for a packet. A super-segment is cut, and each segment
/// has headers.
fn on_link(packet: &Packet) -> Amount {
    // The sources of `top` are Ethernet or IP.
    let link = packet.link.kind().unwrap_or(LinkKind::Ip);
    let (len, headers) = (u64::from(packet.wire_len), link.header_len() as u64 + HEADERS);
    let frames = match u64::from(packet.segment_bytes) {
        0 => 1,
        payload => len.saturating_sub(headers).div_ceil(payload).max(1),
    };
    let bytes = len + (frames - 1) * headers;
    match link {
        LinkKind::Ip => Amount { frames, bytes },
        LinkKind::Ethernet => {
            Amount { frames, bytes: bytes.max(frames * SHORTEST) + frames * FRAMING }
        }
    }
}

/// The protocol of a frame, and its pair of addresses.
fn kind(bytes: &[u8], link: LinkKind) -> (&'static str, Option<Pair>) {
    let (ethertype, packet) = match link {
        LinkKind::Ip => (0, bytes),
        LinkKind::Ethernet => {
            let Ok(header) = ether::Header::parse(bytes) else { return ("cut off", None) };
            let (mut ethertype, mut rest) = (header.ethertype, &bytes[ether::HEADER_LEN..]);
            while matches!(ethertype, ether::VLAN | SERVICE_TAG)
                && let Ok(tag) = vlan::Header::parse(rest)
            {
                (ethertype, rest) = (tag.ethertype, &rest[vlan::HEADER_LEN..]);
            }
            (ethertype, rest)
        }
    };
    match (ethertype, packet.first().map(|first| first >> 4)) {
        (ether::ARP, _) => ("ARP", None),
        (0 | ether::IPV4, Some(4)) => match ipv4::Header::parse_quoted(packet) {
            Ok(h) => (transport(h.protocol), Some(pair(h.src.into(), h.dst.into()))),
            Err(_) => ("cut off", None),
        },
        (0 | ether::IPV6, Some(6)) => match ipv6::Header::parse_quoted(packet) {
            Ok(h) => (transport(h.next_header), Some(pair(h.src.into(), h.dst.into()))),
            Err(_) => ("cut off", None),
        },
        _ => ("other", None),
    }
}

fn pair(a: IpAddr, b: IpAddr) -> Pair {
    if a <= b { (a, b) } else { (b, a) }
}

fn transport(protocol: u8) -> &'static str {
    match protocol {
        protocol::TCP => "TCP",
        protocol::UDP => "UDP",
        protocol::ICMP => "ICMP",
        protocol::ICMPV6 => "ICMPv6",
        _ => "other IP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(src: u8, dst: u8, protocol: u8, len: u32) -> Packet {
        let mut bytes = vec![0; 34];
        bytes[12..14].copy_from_slice(&ether::IPV4.to_be_bytes());
        bytes[14] = 0x45;
        bytes[23] = protocol;
        bytes[26..30].copy_from_slice(&[192, 0, 2, src]);
        bytes[30..34].copy_from_slice(&[192, 0, 2, dst]);
        Packet {
            time_ns: 0,
            link: LinkKind::Ethernet.into(),
            port: 0,
            direction: Some(Direction::In),
            wire_len: len,
            segment_bytes: 0,
            bytes,
        }
    }

    #[test]
    fn what_was_looked_at_stands_for_what_was_lost() {
        let mut traffic = Traffic::default();
        (0..3).for_each(|_| traffic.add(&packet(1, 2, protocol::TCP, 100)));
        traffic.add(&packet(1, 2, protocol::UDP, 1000));
        traffic.stand_for(&[36]);
        assert_eq!(traffic.frames(), 40);
        assert_eq!(traffic.ports[0][0], Amount { frames: 40, bytes: 13_000 });
        assert_eq!(traffic.protocols["UDP"], Amount { frames: 10, bytes: 10_000 });
        let mut nothing = Traffic::default();
        nothing.stand_for(&[7]);
        assert_eq!(nothing.frames(), 0);
    }

    #[test]
    fn packets_are_counted_by_size_protocol_and_pair() {
        let mut traffic = Traffic::default();
        traffic.add(&packet(1, 2, protocol::TCP, 64));
        traffic.add(&packet(2, 1, protocol::TCP, 1514));
        traffic.add(&packet(3, 1, protocol::UDP, 65_000));
        assert_eq!(traffic.ports[0][0], Amount { frames: 3, bytes: 66_578 });
        assert_eq!([0, 5, 6].map(|i| traffic.sizes[i].frames), [1, 1, 1]);
        let names: Vec<_> = traffic.by_protocol().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["UDP", "TCP"]);
        let talkers = traffic.talkers();
        assert_eq!(talkers.len(), 2, "both directions of a pair are one");
        assert_eq!(talkers[1].1, Amount { frames: 2, bytes: 1_578 });
    }

    #[test]
    fn what_is_behind_two_tags_is_found() {
        let mut packet = packet(1, 2, protocol::UDP, 100);
        packet.bytes.splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0, 0x60, 5]);
        let mut traffic = Traffic::default();
        traffic.add(&packet);
        assert_eq!(traffic.protocols["UDP"].frames, 1);
        assert_eq!(traffic.talkers().len(), 1);
    }

    #[test]
    fn the_shortest_frames_that_a_link_can_carry_fill_it() {
        // The number of such frames that 10 Mb/s carry in a second.
        for (len, most) in [(60, 14_880), (42, 14_880), (1514, 812)] {
            let mut traffic = Traffic::default();
            (0..most).for_each(|_| traffic.add(&packet(1, 2, protocol::UDP, len)));
            let bits = traffic.links[0][0].bytes * 8;
            assert!((9_990_000..=10_000_000).contains(&bits), "{len}: {bits}");
            traffic.stand_for(&[most]);
            assert_eq!(traffic.links[0][0].bytes * 8, 2 * bits);
        }
    }

    #[test]
    fn a_super_segment_takes_as_much_of_its_link_as_its_segments() {
        let whole = Packet { segment_bytes: 1448, ..packet(1, 2, protocol::TCP, 66 + 45 * 1448) };
        let part = on_link(&packet(1, 2, protocol::TCP, 1514));
        assert_eq!(part.bytes, 1538);
        assert_eq!(on_link(&whole), Amount { frames: 45, bytes: 45 * part.bytes });
        let bare = Packet { link: LinkKind::Ip.into(), ..packet(1, 2, protocol::TCP, 40) };
        assert_eq!(on_link(&bare), Amount { frames: 1, bytes: 40 });
    }

    #[test]
    fn a_flood_of_addresses_is_counted_together() {
        let mut traffic = Traffic::default();
        for n in 0..10_000u32 {
            let mut packet = packet(1, 2, protocol::UDP, 64);
            packet.bytes[26..30].copy_from_slice(&n.to_be_bytes());
            traffic.add(&packet);
        }
        assert_eq!(traffic.pairs.len(), PAIRS);
        assert_eq!(traffic.other_pairs.frames, 10_000 - PAIRS as u64);
    }
}
