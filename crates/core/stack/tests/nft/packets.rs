//! IP packets of both versions from their tuples, and what a packet that came out says.
//!
//! Called by: `flows.rs`, which says what is in them; `compare.rs`. RFC 791, 8200, 9293, 768, 792,
//! 4443.

use std::net::{IpAddr, SocketAddr};

use inet::ip_input::pseudo_sum;
use wire::checksum::{Ladder, Sum};
use wire::protocol::{FRAGMENT, ICMP, ICMPV6, TCP, UDP};

/// Source and destination; an echo's identifier is the port of its querier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
}

impl Ends {
    pub(crate) fn reversed(self) -> Ends {
        Ends { src: self.dst, dst: self.src }
    }
}

/// What a packet is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Tcp(Segment),
    Udp(usize),
    EchoRequest(usize),
    EchoReply(usize),
    /// A protocol without ports.
    Other(u8, usize),
    /// An ICMP error of this type and code about a packet that goes in the other direction. The
    /// error itself may come from another host than the packet's destination, and go to another
    /// one than its source.
    Error {
        kind: (u8, u8),
        about: Box<Content>,
        from: Option<IpAddr>,
        to: Option<IpAddr>,
    },
    /// Another ICMP message, without a body.
    Message(u8, u8),
    /// In fragments of so many bytes, in this order; a number that is missing is not sent.
    Pieces {
        whole: Box<Content>,
        each: usize,
        order: Vec<usize>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// A multiple of four bytes.
    pub(crate) options: Vec<u8>,
    pub(crate) len: usize,
}

/// Generic routing encapsulation, RFC 2784.
pub(crate) const GRE: u8 = 47;
/// IPsec's encapsulating security payload, RFC 4303.
pub(crate) const ESP: u8 = 50;

/// The identification of the packets of a step.
pub(crate) type Id = u16;

fn fill(len: usize) -> impl Iterator<Item = u8> {
    (0..len).map(|n| (n * 7 + 3) as u8)
}

/// The packets of a content, in the order in which they are sent.
pub(crate) fn build(content: &Content, ends: Ends, id: Id) -> Vec<Vec<u8>> {
    match content {
        Content::Pieces { whole, each, order } => {
            let (protocol, bytes) = transport(whole, ends, id);
            order.iter().filter_map(|&n| piece(ends, protocol, &bytes, (*each, n), id)).collect()
        }
        Content::Error { from, to, .. } => {
            let mut outer = ends;
            outer.src.set_ip(from.unwrap_or(ends.src.ip()));
            outer.dst.set_ip(to.unwrap_or(ends.dst.ip()));
            let (protocol, mut bytes) = transport(content, ends, id);
            if protocol == ICMPV6 {
                set_sum(&mut bytes, 2, outer, ICMPV6);
            }
            vec![packet(outer, protocol, 0x4000, id, &bytes)]
        }
        _ => {
            let (protocol, bytes) = transport(content, ends, id);
            vec![packet(ends, protocol, 0x4000, id, &bytes)]
        }
    }
}

fn transport(content: &Content, ends: Ends, id: Id) -> (u8, Vec<u8>) {
    let v6 = ends.src.is_ipv6();
    // The answering side has port 0.
    let identifier = ends.src.port().max(ends.dst.port());
    match content {
        Content::Tcp(segment) => (TCP, tcp(segment, ends)),
        Content::Udp(len) => {
            let mut bytes = Vec::new();
            for word in [ends.src.port(), ends.dst.port(), 8 + *len as u16, 0] {
                bytes.extend(word.to_be_bytes());
            }
            bytes.extend(fill(*len));
            set_sum(&mut bytes, 6, ends, UDP);
            (UDP, bytes)
        }
        Content::EchoRequest(len) => icmp(if v6 { 128 } else { 8 }, identifier, *len, ends),
        Content::EchoReply(len) => icmp(if v6 { 129 } else { 0 }, identifier, *len, ends),
        Content::Message(kind, code) => {
            let (protocol, mut bytes) = icmp(*kind, identifier, 8, ends);
            bytes[1] = *code;
            set_sum(&mut bytes, 2, ends, protocol);
            (protocol, bytes)
        }
        Content::Other(protocol, len) => {
            let mut bytes: Vec<u8> = fill(*len).collect();
            if *protocol == GRE {
                // Flags and version: the kernel translates answers of version 0 and 1 alone.
                bytes[..2].fill(0);
            }
            (*protocol, bytes)
        }
        Content::Error { kind: (kind, code), about, .. } => {
            let quoted = build(about, ends.reversed(), id).swap_remove(0);
            let mut bytes = vec![*kind, *code, 0, 0, 0, 0, 0, 0];
            if matches!((v6, kind, code), (false, 3, 4) | (true, 2, 0)) {
                bytes[6..8].copy_from_slice(&1280u16.to_be_bytes());
            }
            bytes.extend(&quoted[..quoted.len().min(if v6 { 1_200 } else { 28 })]);
            let protocol = if v6 { ICMPV6 } else { ICMP };
            set_sum(&mut bytes, 2, ends, protocol);
            (protocol, bytes)
        }
        Content::Pieces { whole, .. } => transport(whole, ends, id),
    }
}

fn tcp(segment: &Segment, ends: Ends) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(ends.src.port().to_be_bytes());
    bytes.extend(ends.dst.port().to_be_bytes());
    bytes.extend(segment.seq.to_be_bytes());
    bytes.extend(segment.ack.to_be_bytes());
    bytes.extend([(20 + segment.options.len() as u8) << 2, segment.flags]);
    bytes.extend(segment.window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(&segment.options);
    bytes.extend(fill(segment.len));
    set_sum(&mut bytes, 16, ends, TCP);
    bytes
}

fn icmp(kind: u8, id: u16, len: usize, ends: Ends) -> (u8, Vec<u8>) {
    let protocol = if ends.src.is_ipv6() { ICMPV6 } else { ICMP };
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(fill(len));
    set_sum(&mut bytes, 2, ends, protocol);
    (protocol, bytes)
}

fn sum(bytes: &[u8], ends: Ends, protocol: u8) -> Sum {
    let sum = Ladder::best().sum(bytes);
    if protocol == ICMP {
        return sum;
    }
    let pseudo = pseudo_sum(ends.src.ip(), ends.dst.ip(), protocol);
    sum.plus(pseudo).plus(Sum::of_be16(bytes.len() as u16))
}

fn set_sum(bytes: &mut [u8], at: usize, ends: Ends, protocol: u8) {
    bytes[at..at + 2].fill(0);
    let field = sum(bytes, ends, protocol).field();
    // RFC 768: 0 would mean that there is none.
    let field = if protocol == UDP && field == [0, 0] { [0xff; 2] } else { field };
    bytes[at..at + 2].copy_from_slice(&field);
}

/// A whole packet; `place` is IPv4's word of flags and offset.
fn packet(ends: Ends, protocol: u8, place: u16, id: Id, data: &[u8]) -> Vec<u8> {
    match (ends.src.ip(), ends.dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 60, protocol, 0, 0];
            packet[2..4].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            packet[6..8].copy_from_slice(&place.to_be_bytes());
            packet.extend(src.octets());
            packet.extend(dst.octets());
            let field = Ladder::best().sum(&packet).field();
            packet[10..12].copy_from_slice(&field);
            packet.extend(data);
            packet
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, 60];
            packet[4..6].copy_from_slice(&(data.len() as u16).to_be_bytes());
            packet.extend(src.octets());
            packet.extend(dst.octets());
            packet.extend(data);
            packet
        }
        mixed => panic!("{mixed:?}"),
    }
}

/// Fragment `n` of `each` bytes; `None` if there is none.
fn piece(
    ends: Ends,
    protocol: u8,
    bytes: &[u8],
    (each, n): (usize, usize),
    id: Id,
) -> Option<Vec<u8>> {
    let part = bytes.chunks(each).nth(n)?;
    let more = (n + 1) * each < bytes.len();
    let offset = n * each / 8;
    if ends.src.is_ipv4() {
        let place = offset as u16 | if more { 0x2000 } else { 0 };
        return Some(packet(ends, protocol, place, id, part));
    }
    let mut data = vec![protocol, 0];
    data.extend(((offset as u16) << 3 | u16::from(more)).to_be_bytes());
    data.extend([0, 1]);
    data.extend(id.to_be_bytes());
    data.extend(part);
    Some(packet(ends, FRAGMENT, 0, id, &data))
}

/// What a packet that came out has.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) ends: Ends,
    pub(crate) protocol: u8,
    pub(crate) transport: Vec<u8>,
    /// Offset, and whether more follow.
    pub(crate) piece: Option<(usize, bool)>,
    pub(crate) hops: u8,
}

impl std::fmt::Debug for Parsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ends { src, dst } = self.ends;
        let (start, len) = (&self.transport[..self.transport.len().min(24)], self.transport.len());
        write!(f, "{src} > {dst} protocol {} {:?} hops {}", self.protocol, self.piece, self.hops)?;
        write!(f, " {len} bytes {start:02x?}")
    }
}

/// Read a packet; `None` if it is none of ours: a router solicitation, a report of groups.
///
/// # Panics
/// If a checksum is wrong.
pub(crate) fn parse(packet: &[u8]) -> Option<Parsed> {
    let parsed = if packet.first()? >> 4 == 4 { parse_v4(packet) } else { parse_v6(packet) }?;
    parsed.verify();
    Some(parsed)
}

impl Parsed {
    /// # Panics
    /// If the checksum of a whole packet is wrong.
    pub(crate) fn verify(&self) {
        if self.piece.is_none() && matches!(self.protocol, TCP | UDP | ICMP | ICMPV6) {
            let whole = sum(&self.transport, self.ends, self.protocol).is_whole();
            assert!(whole, "the transport's checksum is wrong: {self:?}");
        }
    }

    /// A packet of the side that began, without what depends on the port that NAT has chosen.
    pub(crate) fn without(mut self, chosen: u16) -> Parsed {
        let is_icmp = matches!(self.protocol, ICMP | ICMPV6);
        let is_error = is_icmp && matches!(self.transport.first(), Some(1..=4 | 11 | 12));
        if self.ends.src.port() == chosen {
            self.ends.src.set_port(0);
        }
        let quoted = self.transport.get(17).copied();
        // Where the port is, and the sums over it.
        let (port, sums): (Option<usize>, &[usize]) = match self.protocol {
            TCP => (Some(0), &[16]),
            UDP => (Some(0), &[6]),
            // An error quotes a packet to that port, whose header may have another number.
            _ if is_error && self.ends.src.is_ipv4() => match quoted {
                Some(ICMP) => (Some(32), &[2, 12, 18, 30]),
                Some(UDP) => (Some(30), &[2, 12, 18, 34]),
                _ => (Some(30), &[2, 12, 18]),
            },
            _ if is_icmp && !is_error => (Some(4), &[2]),
            _ => (None, &[]),
        };
        let mut clear = |at: usize, only: Option<u16>| {
            if let Some(bytes) = self.transport.get_mut(at..at + 2)
                && only.is_none_or(|only| *bytes == only.to_be_bytes())
            {
                bytes.fill(0);
            }
        };
        for &at in sums {
            clear(at, None);
        }
        if let Some(at) = port {
            clear(at, Some(chosen));
        }
        self
    }
}

fn parse_v4(packet: &[u8]) -> Option<Parsed> {
    assert!(Ladder::best().sum(&packet[..20]).is_whole(), "the header's checksum: {packet:02x?}");
    let addr =
        |at: usize| IpAddr::from([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let place = u16::from_be_bytes([packet[6], packet[7]]);
    let piece = (usize::from(place & 0x1fff) * 8, place & 0x2000 != 0);
    Some(finish(addr(12), addr(16), packet[9], &packet[20..len], piece, packet[8]))
}

fn parse_v6(packet: &[u8]) -> Option<Parsed> {
    let addr = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&packet[at..at + 16]);
        IpAddr::from(octets)
    };
    let (src, dst) = (addr(8), addr(24));
    // Every address of the tests begins with fd00.
    if packet[8] != 0xfd || packet[24] != 0xfd {
        return None;
    }
    let len = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let data = &packet[40..len];
    if packet[6] != FRAGMENT {
        return Some(finish(src, dst, packet[6], data, (0, false), packet[7]));
    }
    let place = u16::from_be_bytes([data[2], data[3]]);
    let piece = (usize::from(place & !7), place & 1 != 0);
    Some(finish(src, dst, data[0], &data[8..], piece, packet[7]))
}

fn finish(
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    data: &[u8],
    piece: (usize, bool),
    hops: u8,
) -> Parsed {
    let word =
        |at: usize| data.get(at..at + 2).map_or(0, |word| u16::from_be_bytes([word[0], word[1]]));
    let ports = match protocol {
        _ if piece.0 > 0 => (0, 0),
        TCP | UDP => (word(0), word(2)),
        ICMP | ICMPV6 if matches!(data.first(), Some(8 | 13 | 128)) => (word(4), 0),
        ICMP | ICMPV6 if matches!(data.first(), Some(0 | 14 | 129)) => (0, word(4)),
        _ => (0, 0),
    };
    Parsed {
        ends: Ends { src: SocketAddr::new(src, ports.0), dst: SocketAddr::new(dst, ports.1) },
        protocol,
        transport: data.to_vec(),
        piece: (piece != (0, false)).then_some(piece),
        hops,
    }
}
