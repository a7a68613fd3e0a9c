//! Packets for the tests of rewriting: a sample is built from a tuple and everything else, with
//! whole checksums, so that the packet to expect of a rewrite is the sample built with the new
//! tuple.
//!
//! Called by: the tests of `rewrite.rs`, `quote.rs` and `plain.rs`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use wire::checksum::{Ladder, Sum};
use wire::protocol;

use crate::Tuple;

/// What a sample has behind its IP header.
#[derive(Clone, Debug)]
pub(super) enum Transport {
    Tcp {
        fixed: [u8; 12],
        options: Vec<u8>,
    },
    Udp {
        has_checksum: bool,
    },
    /// Is it a reply, and its sequence number.
    Echo {
        is_reply: bool,
        seq: u16,
    },
    UdpLite,
    Dccp,
    Gre,
}

/// The part of a datagram that a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// Up to this offset.
    First(usize),
    /// From this offset.
    Later(usize),
}

/// Everything but the tuple.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) tuple: Tuple,
    pub(super) transport: Transport,
    pub(super) payload: Vec<u8>,
    pub(super) part: Part,
    /// Words of IPv4 options that do nothing, or extension headers of 8 bytes in IPv6.
    pub(super) extras: usize,
    pub(super) id: u16,
    pub(super) ttl: u8,
    /// Bytes of the link behind the packet.
    pub(super) padding: usize,
}

impl Sample {
    pub(super) fn of(tuple: Tuple, transport: Transport, payload: &[u8]) -> Sample {
        let payload = payload.to_vec();
        let part = Part::Whole;
        Sample { tuple, transport, payload, part, extras: 0, id: 7, ttl: 64, padding: 0 }
    }

    /// The same packet with another tuple.
    pub(super) fn with(&self, tuple: Tuple) -> Sample {
        Sample { tuple: Tuple { protocol: self.protocol(), ..tuple }, ..self.clone() }
    }

    pub(super) fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Tcp { .. } => protocol::TCP,
            Transport::Udp { .. } => protocol::UDP,
            Transport::Echo { .. } if self.tuple.src.is_ipv6() => protocol::ICMPV6,
            Transport::Echo { .. } => protocol::ICMP,
            Transport::UdpLite => 136,
            Transport::Dccp => 33,
            Transport::Gre => 47,
        }
    }

    /// The datagram's payload, its transport header included, with its checksum.
    fn datagram(&self) -> Vec<u8> {
        let (src, dst) = (self.tuple.src_port.to_be_bytes(), self.tuple.dst_port.to_be_bytes());
        let mut b: Vec<u8> = [src, dst].concat();
        let (at, mut has_pseudo) = match &self.transport {
            Transport::Tcp { fixed, options } => {
                b.extend(fixed);
                b[12] = ((20 + options.len()) as u8 / 4) << 4;
                b.extend([0, 0, 1, 2]);
                b.extend(options);
                (16, true)
            }
            Transport::Udp { .. } => {
                b.extend((8 + self.payload.len() as u16).to_be_bytes());
                b.extend([0, 0]);
                (6, true)
            }
            Transport::Echo { is_reply, seq } => {
                let kind = match (self.tuple.src.is_ipv6(), is_reply) {
                    (false, false) => 8,
                    (false, true) => 0,
                    (true, false) => 128,
                    (true, true) => 129,
                };
                let id = if *is_reply { dst } else { src };
                b = vec![kind, 0, 0, 0, id[0], id[1]];
                b.extend(seq.to_be_bytes());
                (2, self.tuple.src.is_ipv6())
            }
            Transport::UdpLite | Transport::Dccp => {
                b = vec![1, 2, 3, 4, 8, 0, 0, 0];
                (6, true)
            }
            Transport::Gre => {
                b = vec![0, 0, 8, 0];
                b.extend(&self.payload);
                return b;
            }
        };
        b.extend(&self.payload);
        let mut sum = Ladder::best().sum(&b);
        if core::mem::take(&mut has_pseudo) {
            sum = sum.plus(self.pseudo()).plus(Sum::of_be16(b.len() as u16));
        }
        let field = match (&self.transport, sum.field()) {
            (Transport::Udp { has_checksum: false }, _) => [0, 0],
            (Transport::Udp { .. }, [0, 0]) => [0xff, 0xff],
            (_, field) => field,
        };
        b[at..at + 2].copy_from_slice(&field);
        b
    }

    /// The sum of the pseudo-header without the length.
    pub(super) fn pseudo(&self) -> Sum {
        match (self.tuple.src, self.tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_v4(src, dst, self.protocol()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, self.protocol()),
            _ => unreachable!("one version"),
        }
    }

    /// The packet.
    pub(super) fn build(&self) -> Vec<u8> {
        let datagram = self.datagram();
        // Fragments end at multiples of 8, and the first has its transport header.
        let cut = |at: usize| (at / 8 * 8).max(24).min(datagram.len() / 8 * 8);
        let (data, offset, more) = match self.part {
            Part::First(at) if datagram.len() > 32 => (&datagram[..cut(at)], 0, true),
            Part::Later(at) if datagram.len() > 32 => (&datagram[cut(at)..], cut(at), false),
            _ => (&datagram[..], 0, false),
        };
        let mut packet = match (self.tuple.src, self.tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.v4(src, dst, data, offset, more),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.v6(src, dst, data, offset, more),
            _ => unreachable!("one version"),
        };
        packet.extend(vec![0xaa; self.padding]);
        packet
    }

    fn v4(&self, src: Ipv4Addr, dst: Ipv4Addr, data: &[u8], offset: usize, more: bool) -> Vec<u8> {
        let header_len = 20 + self.extras * 4;
        let mut b = vec![0x40 | (header_len / 4) as u8, 0];
        b.extend(((header_len + data.len()) as u16).to_be_bytes());
        b.extend(self.id.to_be_bytes());
        b.extend(((offset / 8) as u16 | if more { 0x2000 } else { 0 }).to_be_bytes());
        b.extend([self.ttl, self.protocol(), 0, 0]);
        b.extend(src.octets());
        b.extend(dst.octets());
        b.extend(vec![1; self.extras * 4]);
        let field = Ladder::best().sum(&b).field();
        b[10..12].copy_from_slice(&field);
        b.extend(data);
        b
    }

    fn v6(&self, src: Ipv6Addr, dst: Ipv6Addr, data: &[u8], offset: usize, more: bool) -> Vec<u8> {
        let is_fragment = more || offset != 0;
        // Destination options, then the fragment header.
        let mut kinds = vec![60; self.extras];
        kinds.extend(is_fragment.then_some(44));
        let next = |index: usize| *kinds.get(index).unwrap_or(&self.protocol());
        let mut b = vec![0x60, 0, 0, 0];
        b.extend(((kinds.len() * 8 + data.len()) as u16).to_be_bytes());
        b.extend([next(0), self.ttl]);
        b.extend(src.octets());
        b.extend(dst.octets());
        for (index, kind) in kinds.iter().enumerate() {
            match kind {
                44 => {
                    b.extend([next(index + 1), 0]);
                    b.extend((offset as u16 | u16::from(more)).to_be_bytes());
                    b.extend([1, 2, 3, 4]);
                }
                _ => b.extend([next(index + 1), 0, 1, 4, 0, 0, 0, 0]),
            }
        }
        b.extend(data);
        b
    }
}

/// Four endpoints of one version: those of a packet and those of its translation.
pub(super) fn tuples() -> impl Strategy<Value = (Tuple, Tuple)> {
    (any::<bool>(), any::<[u128; 4]>(), any::<[u16; 4]>()).prop_map(|(is_v6, addrs, ports)| {
        let [a, b, c, d] = addrs.map(|bits| match is_v6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            false => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        });
        let [e, f, g, h] = ports;
        let tuple =
            |src, dst, src_port, dst_port| Tuple { src, dst, protocol: 0, src_port, dst_port };
        (tuple(a, b, e, f), tuple(c, d, g, h))
    })
}

fn transports() -> impl Strategy<Value = Transport> {
    prop_oneof![
        3 => (any::<[u8; 12]>(), 0..11usize).prop_map(|(fixed, words)| Transport::Tcp {
            fixed,
            options: vec![1; words * 4],
        }),
        3 => any::<bool>().prop_map(|has_checksum| Transport::Udp { has_checksum }),
        2 => any::<(bool, u16)>().prop_map(|(is_reply, seq)| Transport::Echo { is_reply, seq }),
        1 => Just(Transport::UdpLite),
        1 => Just(Transport::Dccp),
        1 => Just(Transport::Gre),
    ]
}

/// Any sample, and the tuple to give it, with the sample's protocol in both.
pub(super) fn samples() -> impl Strategy<Value = (Sample, Tuple)> {
    let part = prop_oneof![
        3 => Just(Part::Whole),
        1 => (24..200usize).prop_map(Part::First),
        1 => (24..200usize).prop_map(Part::Later),
    ];
    let rest = (part, 0..4usize, any::<u16>(), any::<u8>(), 0..9usize);
    (tuples(), transports(), vec(any::<u8>(), 0..200), rest).prop_map(
        |((from, to), transport, payload, (part, extras, id, ttl, padding))| {
            let mut sample =
                Sample { part, extras, id, ttl, padding, ..Sample::of(from, transport, &payload) };
            sample = sample.with(from);
            let to = sample.with(to).tuple;
            (sample, to)
        },
    )
}
