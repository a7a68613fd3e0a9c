//! Packets written and fixed byte by byte: what a target needs to get past checksums, and to talk
//! to a stack as its peer would.
//!
//! Called by: the targets. Fixing is lenient: it changes the bytes at the place of a header, and
//! leaves packets alone that are too short to have one.

use core::net::{IpAddr, SocketAddr};

use base::{LinkKind, MacAddr, SeqNumber};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, Header, Options};
use wire::{ether, ipv4, ipv6, protocol, tcp};

/// IGMP has a checksum without a pseudo-header, like ICMP.
const IGMP: u8 = 2;

/// Put the right checksum into the IPv4 header at the beginning of `packet`.
pub(crate) fn fix_ipv4_checksum(packet: &mut [u8]) {
    let Some(first) = packet.first() else { return };
    let len = usize::from(first & 0x0f) * 4;
    if let Some(header) = packet.get_mut(..len) {
        fix_checksum(header, 10, Sum::ZERO);
    }
}

/// Put the checksum of `bytes` and of the pseudo-header `pseudo` into the field at `at`.
pub(crate) fn fix_checksum(bytes: &mut [u8], at: usize, pseudo: Sum) {
    let Some(field) = bytes.get_mut(at..at + 2) else { return };
    field.fill(0);
    let field = pseudo.plus(Ladder::Word64.sum(bytes)).field();
    bytes[at..at + 2].copy_from_slice(&field);
}

/// Put every checksum of a frame right: the IPv4 header's, and TCP's, UDP's or ICMP's.
pub(crate) fn fix_frame_checksums(frame: &mut [u8], link: LinkKind) {
    let at = match link {
        LinkKind::Ip => 0,
        LinkKind::Ethernet => ether::HEADER_LEN,
    };
    let Some(packet) = frame.get_mut(at..) else { return };
    fix_ipv4_checksum(packet);
    if let Some((src, dst, protocol, transport)) = transport_mut(packet) {
        fix_transport_checksum(src, dst, protocol, transport);
    }
}

/// The transport of a packet, whatever its header says of checksums.
fn transport_mut(packet: &mut [u8]) -> Option<(IpAddr, IpAddr, u8, &mut [u8])> {
    if packet.first()? >> 4 == 6 {
        let ip = ipv6::Header::parse(packet).ok()?;
        let end = ipv6::HEADER_LEN + usize::from(ip.payload_len);
        let payload = packet.get_mut(ipv6::HEADER_LEN..end)?;
        let (protocol, at) = ipv6::upper_layer(payload, ip.next_header).ok()?;
        return Some((ip.src.into(), ip.dst.into(), protocol, payload.get_mut(at..)?));
    }
    let ip = ipv4::Header::parse(packet).ok()?;
    let transport = packet.get_mut(ip.header_len..usize::from(ip.total_len))?;
    Some((ip.src.into(), ip.dst.into(), ip.protocol, transport))
}

fn fix_transport_checksum(src: IpAddr, dst: IpAddr, protocol: u8, transport: &mut [u8]) {
    let at = match protocol {
        protocol::TCP => tcp::CHECKSUM_OFFSET,
        protocol::UDP => wire::udp::CHECKSUM_OFFSET,
        protocol::ICMP | protocol::ICMPV6 | IGMP => 2,
        _ => return,
    };
    let bare = matches!(protocol, protocol::ICMP | IGMP);
    let len = Sum::of_be16(transport.len() as u16);
    let sum = if bare { Sum::ZERO } else { pseudo(src, dst, protocol).plus(len) };
    fix_checksum(transport, at, sum);
}

/// The sum of a pseudo-header without the length.
pub(crate) fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8) -> Sum {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_v4(src, dst, protocol),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, protocol),
        _ => Sum::ZERO,
    }
}

/// A packet with this transport, whose checksum is fixed too.
pub(crate) fn packet(src: IpAddr, dst: IpAddr, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut out = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut header = vec![0; ipv4::HEADER_LEN];
            let fields = ipv4::Header {
                header_len: ipv4::HEADER_LEN,
                tos: 0,
                total_len: (ipv4::HEADER_LEN + transport.len()) as u16,
                id: 1,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol,
                src,
                dst,
            };
            fields.emit(&mut header);
            header
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut header = vec![0; ipv6::HEADER_LEN];
            let fields = ipv6::Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: transport.len() as u16,
                next_header: protocol,
                hop_limit: 64,
                src,
                dst,
            };
            fields.emit(&mut header);
            header
        }
        _ => Vec::new(),
    };
    let at = out.len();
    out.extend_from_slice(transport);
    fix_transport_checksum(src, dst, protocol, &mut out[at..]);
    out
}

/// A packet behind the link header that its link wants.
pub(crate) fn frame(link: LinkKind, to: MacAddr, from: MacAddr, packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet.first().is_some_and(|b| b >> 4 == 6);
    let mut out = match link {
        LinkKind::Ip => Vec::new(),
        LinkKind::Ethernet => {
            let ethertype = if is_v6 { ether::IPV6 } else { ether::IPV4 };
            let mut header = vec![0; ether::HEADER_LEN];
            ether::Header { dst: to, src: from, ethertype }.emit(&mut header);
            header
        }
    };
    out.extend_from_slice(packet);
    out
}

/// A TCP segment to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) seq: SeqNumber,
    pub(crate) ack: SeqNumber,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    /// Cut to a multiple of four bytes, and to forty.
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Segment {
    /// The packet that carries it.
    pub(crate) fn packet(&self) -> Vec<u8> {
        let options = &self.options[..(self.options.len() & !3).min(40)];
        let header = Header {
            src_port: self.src.port(),
            dst_port: self.dst.port(),
            seq: self.seq,
            ack: self.ack,
            header_len: tcp::HEADER_LEN + options.len(),
            flags: self.flags,
            window: self.window,
            urgent: 0,
        };
        let mut bytes = vec![0; header.header_len];
        header.emit(&mut bytes);
        bytes[tcp::HEADER_LEN..].copy_from_slice(options);
        bytes.extend_from_slice(&self.payload);
        packet(self.src.ip(), self.dst.ip(), protocol::TCP, &bytes)
    }
}

/// A frame that a stack sent, parsed and found right.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The IP packet.
    pub(crate) packet: Vec<u8>,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// If it is a TCP segment: its header, its options, bytes of payload.
    pub(crate) tcp: Option<(Header, Options, u32)>,
}

/// The source of the IP packet in a frame; `None` if it is something else.
pub(crate) fn source(frame: &[u8], link: LinkKind) -> Option<IpAddr> {
    let packet = frame.get(link.header_len()..)?;
    match (link, ether::Header::parse(frame)) {
        (LinkKind::Ethernet, Ok(header)) if header.ethertype == ether::ARP => None,
        _ => match packet.first()? >> 4 {
            4 => Some(IpAddr::from(*packet.get(12..16)?.first_chunk::<4>()?)),
            _ => Some(IpAddr::from(*packet.get(8..24)?.first_chunk::<16>()?)),
        },
    }
}

/// Is a packet that we sent part of a datagram?
fn is_fragment(packet: &[u8]) -> bool {
    match packet[0] >> 4 {
        4 => u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0,
        _ => packet[6] == protocol::FRAGMENT,
    }
}

/// Take a frame of ours apart; ARP is `None`.
///
/// # Panics
/// If it is nothing that a host may send: a header that we would not take, a wrong checksum.
pub(crate) fn sent(frame: &[u8], link: LinkKind) -> Option<Sent> {
    let packet = match link {
        LinkKind::Ip => frame,
        LinkKind::Ethernet => {
            let header = ether::Header::parse(frame).expect("an Ethernet header");
            assert!(!header.src.is_group(), "sent from a group: {header:?}");
            let rest = &frame[ether::HEADER_LEN..];
            if header.ethertype == ether::ARP {
                wire::arp::Header::parse(rest).expect("ARP as we understand it");
                return None;
            }
            rest
        }
    };
    let mut packet = packet.to_vec();
    let (src, dst, protocol, transport) = {
        let (src, dst, protocol, transport) =
            transport_mut(&mut packet).expect("an IP packet as we understand it");
        (src, dst, protocol, transport.to_vec())
    };
    let field = |at| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let said = if src.is_ipv4() { field(2) } else { ipv6::HEADER_LEN + field(4) };
    assert_eq!(said, packet.len(), "its length is what it says");
    if is_fragment(&packet) {
        // A fragment's checksum is that of the whole datagram.
        return None;
    }
    let len = Sum::of_be16(transport.len() as u16);
    let sum = Ladder::Byte.sum(&transport);
    let whole = match protocol {
        protocol::ICMP | IGMP => sum,
        _ => sum.plus(pseudo(src, dst, protocol)).plus(len),
    };
    assert!(whole.is_whole(), "protocol {protocol}: a wrong checksum in {packet:x?}");
    let tcp = (protocol == protocol::TCP).then(|| {
        let header = Header::parse(&transport).expect("a TCP header");
        let options = Options::parse(header.options(&transport)).expect("options");
        (header, options, (transport.len() - header.header_len) as u32)
    });
    Some(Sent { packet, src, dst, tcp })
}
