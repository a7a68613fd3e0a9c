//! A router of three ports and some shards, and talks through it: a first packet, its answer, both
//! again, and an ICMP error, each by a random queue.

use core::net::{IpAddr, Ipv6Addr};

use base::{LinkKind, MacAddr};
use device::{Burst, Device, mem};
use filter::states::Timeouts;
use filter::{Published, text};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use mbuf::Pool;
use wire::protocol;
use wire::tcp::Flags;

use super::super::{NOW, Random, taken};
use super::{DMZ, LAN, WAN};
use crate::shard::Shard;
use crate::tests::craft::transport_sum;
use crate::tests::firewall::packets;
use crate::{PortConfig, PortId, StackConfig};

const NETWORKS: [[&str; 2]; 3] = [
    ["10.0.0.1/24", "fd00:1::1/64"],
    ["10.0.1.1/24", "fd00:1:0:1::1/64"],
    ["198.51.100.1/24", "2001:db8:2::1/64"],
];
const NAMES: [(&str, u16); 3] = [("lan", LAN as u16), ("dmz", DMZ as u16), ("wan", WAN as u16)];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Udp,
    Tcp,
    Echo,
}

type End = (String, u16);

/// The first packet of a flow: the port that it arrives by, and its ends.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    pub(super) kind: Kind,
    pub(super) at: usize,
    pub(super) from: End,
    pub(super) to: End,
}

/// A packet that left: the port, and its ends.
type Left = (usize, End, End, Vec<u8>);

/// The result of a talk: for each packet, the port that it left by and the addresses that it had.
pub(super) type Course = Vec<Option<(usize, String, String)>>;

pub(super) struct World {
    shards: Vec<Shard>,
    wires: Vec<Vec<mem::Mem>>,
    pool: Pool,
}

fn mac(port: usize, is_host: bool) -> MacAddr {
    MacAddr([2, 0, 0, 0, u8::from(is_host), port as u8])
}

impl World {
    pub(super) fn new(count: usize, rules: &str, nat: &str) -> World {
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new([5, 6]) };
        let mut shards = Shard::group(&config, count);
        let depth = mem::Config { depth: 256, depth_bytes: 1 << 20, ..mem::Config::default() };
        let wires = (0..3).map(|n| {
            let (near, far): (Vec<_>, Vec<_>) = (0..count).map(|_| mem::pair(&depth)).unzip();
            let devices = near.into_iter().map(|d| Box::new(d) as Box<dyn Device>).collect();
            let addresses = NETWORKS[n].iter().map(|a| a.parse().expect("a network")).collect();
            let config = PortConfig { mac: mac(n, false), addresses, ..PortConfig::default() };
            Shard::add_port(&mut shards, devices, &config);
            far
        });
        let wires = wires.collect();
        let source = text::Source { rules, nat, ..text::Source::default() };
        let rules = text::parse(&source, &NAMES, &|_| Err("no files".into())).expect("rules");
        let published = Published::compile(rules, Timeouts::default(), 1).expect("small");
        let mut first = shards[0].enter();
        first.set_forwarding(true);
        for (port, [_, v6]) in NETWORKS.iter().enumerate() {
            for n in 9..=45 {
                let v4 = super::host(port, n - 9).parse().expect("an address");
                first.add_neighbour(PortId(port as u16), v4, mac(port, true));
                let net = v6.trim_end_matches("1/64");
                let v6: Ipv6Addr = format!("{net}{n:x}").parse().expect("an address");
                first.add_neighbour(PortId(port as u16), v6.into(), mac(port, true));
            }
        }
        let exchanged = "198.51.100.77".parse().expect("an address");
        first.add_neighbour(PortId(WAN as u16), exchanged, mac(WAN, true));
        first.set_filter(Some(published));
        drop(first);
        World { shards, wires, pool: Pool::new(64 << 20) }
    }

    /// Gives a port a packet by a random queue; returns the packets that leave.
    fn cross(&mut self, port: usize, packet: &[u8], random: &mut Random) -> Vec<(usize, Vec<u8>)> {
        let ethertype: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        let frame = [&mac(port, false).0[..], &mac(port, true).0, &ethertype, packet].concat();
        let queue = random.below(self.shards.len());
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(&frame).expect("room"));
        assert_eq!(self.wires[port][queue].tx_burst(&mut self.pool, &mut burst), 1);
        for _ in 0..4 {
            for shard in &mut self.shards {
                while shard.poll(NOW) > 0 {}
            }
        }
        let mut left = Vec::new();
        for (port, wires) in self.wires.iter_mut().enumerate() {
            for wire in wires {
                left.extend(taken(wire, &mut self.pool).into_iter().map(|f| (port, f)));
            }
        }
        // ARP requests for neighbours that do not exist do not count.
        left.retain(|(_, frame)| frame[12..14] != [8, 6]);
        left.into_iter().map(|(port, frame)| (port, frame[14..].to_vec())).collect()
    }

    /// The only packet that leaves, if one does.
    fn one(&mut self, port: usize, packet: &[u8], random: &mut Random) -> Option<Left> {
        let mut left = self.cross(port, packet, random);
        assert!(left.len() < 2, "{left:?}");
        let (port, packet) = left.pop()?;
        packets::check(&packet);
        let [from, to] = ends(&packet);
        Some((port, from, to, packet))
    }

    /// Runs a talk; returns how far it came.
    pub(super) fn have(&mut self, talk: &Talk, random: &mut Random) -> Course {
        let mut course = Vec::new();
        let Talk { kind, at, from, to } = talk;
        let first = kind.packet(from, to, 0);
        let Some((out, src, dst, there)) = self.step(*at, &first, &mut course, random) else {
            return course;
        };
        if is_error(&there) || dst.0 == *from.0 {
            return course;
        }
        // The answer goes to the address that the other end has seen.
        let answer = kind.packet(&dst, &src, 1);
        let back = self.step(out, &answer, &mut course, random);
        if let Some((_, src, dst, _)) = &back {
            assert_eq!(
                (src, dst),
                (&kind.shown(to, from), from),
                "wrong ends of the answer, {talk:?}"
            );
        }
        let again = self.step(*at, &kind.packet(from, to, 2), &mut course, random);
        if let (Some(_), Some((_, now, _, _))) = (&back, &again) {
            assert_eq!(now, &src, "the translation changed, {talk:?}");
        }
        let error = packets::unreachable(&dst.0, &src.0, &there);
        let error = self.step(out, &error, &mut course, random);
        if let Some((_, _, to, packet)) = error {
            assert_eq!(to.0, from.0);
            let quoted = ends(&packet[28..]);
            assert_eq!(quoted[0].0, from.0, "{talk:?}");
        }
        course
    }

    fn step(
        &mut self,
        port: usize,
        packet: &[u8],
        course: &mut Course,
        random: &mut Random,
    ) -> Option<Left> {
        let left = self.one(port, packet, random);
        course.push(left.as_ref().map(|(port, from, to, _)| (*port, from.0.clone(), to.0.clone())));
        left
    }

    /// The outside end that a talk's first packet gets, if it passes.
    pub(super) fn outside_of(&mut self, talk: &Talk, random: &mut Random) -> Option<End> {
        let Talk { kind, at, from, to } = talk;
        let (out, src, _, _) = self.one(*at, &kind.packet(from, to, 0), random)?;
        (out == WAN).then_some(src)
    }

    /// Gives the WAN port another address.
    pub(super) fn renumber(&mut self, from: &str, to: &str) {
        let mut first = self.shards[0].enter();
        let to = inet::Address::fixed(to.parse().expect("an address"));
        assert!(first.add_address(PortId(WAN as u16), to).is_ok());
        assert!(first.remove_address(PortId(WAN as u16), from.parse().expect("an address")));
    }

    /// The mappings of each shard.
    pub(super) fn mappings(&mut self) -> Vec<usize> {
        let of = |shard: &mut Shard| shard.enter().filter().map_or(0, |f| f.mappings().len());
        self.shards.iter_mut().map(of).collect()
    }

    /// A large datagram goes out in fragments and one comes back in fragments, each in any order.
    pub(super) fn exchange_fragments(&mut self, talk: &Talk, id: u16, random: &mut Random) {
        let end = |end: &End| -> (String, u16) { end.clone() };
        let (from, to) = (end(&talk.from), end(&talk.to));
        let seen = self.pieces(talk.at, &from, &to, id, random);
        assert_eq!(seen.0, WAN);
        let back = self.pieces(WAN, &to, &seen.1, id, random);
        assert_eq!((back.0, &back.1, &back.2), (talk.at, &to, &from), "{talk:?}");
    }

    /// Sends a datagram in fragments; returns the port that it left by, and its ends.
    fn pieces(
        &mut self,
        port: usize,
        from: &End,
        to: &End,
        id: u16,
        random: &mut Random,
    ) -> (usize, End, End) {
        let whole = packets::udp((&from.0, from.1), (&to.0, to.1), &[7; 2_500]);
        let mut pieces = packets::fragments(&whole, 800);
        for piece in &mut pieces {
            piece[4..6].copy_from_slice(&id.to_be_bytes());
            packets::fix(piece);
        }
        let count = pieces.len();
        let turn = random.below(count);
        pieces.rotate_left(turn);
        let mut left = Vec::new();
        for piece in &pieces {
            left.extend(self.cross(port, piece, random));
        }
        assert_eq!(left.len(), count, "{from:?} {to:?}, first at {turn}");
        let first = left.iter().find(|(_, p)| p[6] & 0x1f | p[7] == 0).expect("the first fragment");
        let [src, dst] = ends(&first.1);
        for (port, piece) in &left {
            assert_eq!(
                (port, &piece[4..6], &piece[12..20]),
                (&first.0, &first.1[4..6], &first.1[12..20])
            );
        }
        (first.0, src, dst)
    }

    /// An IPv6 datagram goes out and one comes back.
    pub(super) fn exchange_v6(&mut self, inside: &str, outside: &str, n: u16, random: &mut Random) {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let (inside, outside) = (ip(inside), ip(outside));
        let left = self.cross(LAN, &datagram_v6((inside, n), (outside, 443)), random);
        let [(WAN, packet)] = left.as_slice() else { panic!("{left:?}") };
        let of = |packet: &[u8], at: usize| {
            IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).expect("16 bytes"))
        };
        let seen = of(packet, 8);
        assert!(seen.to_string().starts_with("2001:db8:1:"), "{seen}");
        let left = self.cross(WAN, &datagram_v6((outside, 443), (seen, n)), random);
        let [(LAN, packet)] = left.as_slice() else { panic!("{left:?}") };
        assert_eq!((of(packet, 8), of(packet, 24)), (outside, inside));
    }

    /// The number of buffers in use.
    pub(super) fn outstanding(&mut self) -> usize {
        self.pool.flush();
        let all: usize = self.shards.iter_mut().map(|s| s.enter().pool().outstanding()).sum();
        all + self.pool.outstanding()
    }
}

impl Kind {
    fn packet(self, from: &End, to: &End, step: u32) -> Vec<u8> {
        let (src, dst) = ((from.0.as_str(), from.1), (to.0.as_str(), to.1));
        match self {
            Kind::Udp => packets::udp(src, dst, b"datagram"),
            Kind::Tcp => match step {
                0 => packets::tcp(src, dst, 1_000, 0, Flags::SYN),
                1 => packets::tcp(src, dst, 5_000, 1_001, Flags::SYN | Flags::ACK),
                _ => packets::tcp(src, dst, 1_001, 5_001, Flags::ACK),
            },
            Kind::Echo => {
                let kind = if step == 1 { 0 } else { 8 };
                // The identifier is the inside port; the other end answers with the same
                // identifier.
                let id = if step == 1 { to.1 } else { from.1 };
                packets::echo(kind, &from.0, &to.0, id)
            }
        }
    }

    /// The end that answers are from.
    fn shown(self, to: &End, from: &End) -> End {
        match self {
            Kind::Echo => (to.0.clone(), from.1),
            _ => to.clone(),
        }
    }
}

/// Source and destination of an IPv4 packet; an echo message has its identifier as both ports.
fn ends(packet: &[u8]) -> [End; 2] {
    let addr = |at: usize| {
        IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("4 bytes")).to_string()
    };
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (src, dst) = if packet[9] == protocol::ICMP { (24, 24) } else { (20, 22) };
    [(addr(12), port(src)), (addr(16), port(dst))]
}

fn is_error(packet: &[u8]) -> bool {
    packet[9] == protocol::ICMP && packet[20] != 8 && packet[20] != 0
}

fn datagram_v6(from: (IpAddr, u16), to: (IpAddr, u16)) -> Vec<u8> {
    let mut bytes = [from.1, to.1, 16, 0].map(u16::to_be_bytes).concat();
    bytes.extend(b"datagram");
    let sum = transport_sum(from.0, to.0, protocol::UDP, &bytes).field();
    bytes[6..8].copy_from_slice(&sum);
    let mut pool = Pool::new(1 << 20);
    let mut m = pool.copy_of(&bytes).expect("room");
    let fields = Fields { src: from.0, dst: to.0, protocol: protocol::UDP, tos: 0, ttl: 64 };
    let none = MacAddr::default();
    HeaderTemplate::new(LinkKind::Ip, none, none, &fields).prepend(&mut m).expect("fits");
    m.as_slice().to_vec()
}
