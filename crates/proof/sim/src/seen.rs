//! Decodes a frame for observers of the wire: the oracles, and the rows of a replay.
//!
//! Called by: `world`, `oracle`, `trace`.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use base::{LinkKind, SeqNumber, WindowScale};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, Options, SackBlocks, Timestamps};
use wire::{arp, ether, ipv4, ipv6, protocol, tcp};

/// A TCP segment on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The source.
    pub src: SocketAddr,
    /// The destination.
    pub dst: SocketAddr,
    /// SEG.SEQ.
    pub seq: SeqNumber,
    /// SEG.ACK, valid with the ACK flag.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// Bytes of payload.
    pub len: u32,
    /// The window scale offered in a SYN.
    pub window_scale: Option<WindowScale>,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
}

impl Seen {
    /// The sequence number after the segment. Payload, SYN and FIN take sequence space.
    pub fn end(&self) -> SeqNumber {
        let space =
            u32::from(self.flags.contains(Flags::SYN)) + u32::from(self.flags.contains(Flags::FIN));
        self.seq + (self.len + space)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {} {:?} seq {} ack {} win {} len {}",
            self.src, self.dst, self.flags, self.seq.0, self.ack.0, self.window, self.len
        )?;
        for (left, right) in self.sack.iter() {
            write!(f, " sack {}-{}", left.0, right.0)?;
        }
        Ok(())
    }
}

/// The IP packet in a frame, without the link header; `None` if the frame contains another
/// protocol.
pub(crate) fn packet(frame: &[u8], link: LinkKind) -> Option<&[u8]> {
    match link {
        LinkKind::Ip => Some(frame),
        LinkKind::Ethernet => match ether::Header::parse(frame).ok()?.ethertype {
            ether::IPV4 | ether::IPV6 => frame.get(ether::HEADER_LEN..),
            _ => None,
        },
    }
}

/// The TCP segment in a frame; `None` if the frame contains something else, or is malformed.
pub fn segment(frame: &[u8], link: LinkKind) -> Option<Seen> {
    let packet = packet(frame, link)?;
    let (src, dst, bytes): (IpAddr, IpAddr, &[u8]) = match packet.first()? >> 4 {
        4 => {
            let ip = ipv4::Header::parse(packet).ok().filter(|ip| ip.protocol == protocol::TCP)?;
            let end = usize::from(ip.total_len);
            (ip.src.into(), ip.dst.into(), packet.get(ip.header_len..end)?)
        }
        6 => {
            let ip =
                ipv6::Header::parse(packet).ok().filter(|ip| ip.next_header == protocol::TCP)?;
            let end = ipv6::HEADER_LEN + usize::from(ip.payload_len);
            (ip.src.into(), ip.dst.into(), packet.get(ipv6::HEADER_LEN..end)?)
        }
        _ => return None,
    };
    let header = tcp::Header::parse(bytes).ok()?;
    let options = match header.options(bytes) {
        [] => Options::default(),
        options => Options::parse(options).ok()?,
    };
    Some(Seen {
        src: SocketAddr::new(src, header.src_port),
        dst: SocketAddr::new(dst, header.dst_port),
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        len: (bytes.len() - header.header_len) as u32,
        window_scale: options.window_scale,
        sack: options.sack,
        timestamps: options.timestamps,
    })
}

/// Is the checksum of the segment in a frame correct? Some bits, for example the hop limit of IPv6,
/// have no checksum, and a receiver rightly accepts a segment in which one of them was flipped.
pub(crate) fn verifies(frame: &[u8], link: LinkKind) -> bool {
    let Some(packet) = packet(frame, link) else { return false };
    let (pseudo, bytes) = if packet.first().is_some_and(|b| b >> 4 == 4) {
        let Ok(ip) = ipv4::Header::parse(packet) else { return false };
        let bytes = packet.get(ip.header_len..usize::from(ip.total_len));
        (Sum::pseudo_v4(ip.src, ip.dst, ip.protocol), bytes)
    } else {
        let Ok(ip) = ipv6::Header::parse(packet) else { return false };
        let bytes = packet.get(ipv6::HEADER_LEN..ipv6::HEADER_LEN + usize::from(ip.payload_len));
        (Sum::pseudo_v6(ip.src, ip.dst, ip.next_header), bytes)
    };
    let Some(bytes) = bytes else { return false };
    let length = Sum::of_be16(bytes.len() as u16);
    pseudo.plus(length).plus(Ladder::best().sum(bytes)).is_whole()
}

/// A line that describes any frame, for a trace.
pub(crate) fn describe(frame: &[u8], link: LinkKind) -> String {
    if let Some(seen) = segment(frame, link) {
        return seen.to_string();
    }
    let ethertype = match link {
        LinkKind::Ethernet => ether::Header::parse(frame).map_or(0, |header| header.ethertype),
        LinkKind::Ip => 0,
    };
    match ethertype {
        ether::ARP => match arp::Header::parse(frame.get(ether::HEADER_LEN..).unwrap_or(&[])) {
            Ok(arp) => format!("{arp:?}"),
            Err(reason) => format!("ARP, {}", reason.name()),
        },
        _ => format!("{} bytes that are not a TCP segment", frame.len()),
    }
}
