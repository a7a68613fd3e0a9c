//! Finds the TCP segment in a captured frame.
//!
//! Called by: `trace`. Link types: Ethernet with any number of VLAN tags, bare IP, Linux's cooked
//! headers (both versions), BSD's loopback; IPv4, and IPv6 with extension headers.
//!
//! The stack's parsers demand whole packets and drop malformed ones; a capture may have cut packets
//! short, and malformed packets are of interest. So lengths are taken from the IP header, and no
//! byte after the TCP header is needed. Checksums are not verified: if a sender leaves them to its
//! device, its packets are captured before their checksums are computed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::SeqNumber;
use wire::tcp::{Flags, Header, Options};

/// The link types that are read, by their LINKTYPE_ number in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// LINKTYPE_ETHERNET.
    Ethernet,
    /// LINKTYPE_RAW, LINKTYPE_IPV4 and LINKTYPE_IPV6: the packet begins with its IP header.
    Ip,
    /// LINKTYPE_LINUX_SLL.
    Cooked,
    /// LINKTYPE_LINUX_SLL2.
    Cooked2,
    /// LINKTYPE_NULL and LINKTYPE_LOOP: four bytes with an address family, in the byte order of the
    /// capturing host.
    Loopback,
}

impl Link {
    /// The link type with this number in files; `None` for link types that are not read.
    pub fn of_number(number: u32) -> Option<Link> {
        match number {
            1 => Some(Link::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Link::Ip),
            113 => Some(Link::Cooked),
            276 => Some(Link::Cooked2),
            0 | 108 => Some(Link::Loopback),
            _ => None,
        }
    }
}

/// Why a packet is not traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// The link type is not read.
    Link,
    /// The packet is not TCP: ARP, UDP, ICMP, a tunnel and so on.
    NotTcp,
    /// The packet is a fragment of an IP packet. Fragments are not reassembled.
    Fragment,
    /// The packet is cut off within its headers, by the capture or before it.
    Short,
    /// The lengths in a header contradict each other.
    Malformed,
}

/// The parts of a TCP segment that the trace uses.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The time of the packet, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The sender's address and port.
    pub src: SocketAddr,
    /// The receiver's address and port.
    pub dst: SocketAddr,
    /// The sequence number of the first byte, or of the SYN.
    pub seq: SeqNumber,
    /// The acknowledgment number; valid if ACK is set.
    pub ack: SeqNumber,
    /// The control bits.
    pub flags: Flags,
    /// The window field, unscaled.
    pub window: u16,
    /// Bytes of payload on the wire.
    pub len: u32,
    /// The segment's options, as far as they were captured and are well formed.
    pub options: Options,
}

impl Segment {
    /// How many sequence numbers the payload, a SYN and a FIN take.
    pub fn space(&self) -> u32 {
        let flags = u32::from(self.flags.contains(Flags::SYN) || self.flags.contains(Flags::FIN));
        self.len + flags
    }

    /// The sequence number after the payload and a SYN or a FIN.
    pub fn end(&self) -> SeqNumber {
        self.seq + self.space()
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The Ethertypes of VLAN tags: 802.1Q, 802.1ad, and the old double tag.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TCP: u8 = 6;

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

/// The segment of a frame. `wire_len` is the frame's length before the capture cut it.
pub(crate) fn segment(
    time_ns: u64,
    link: Link,
    bytes: &[u8],
    wire_len: u32,
) -> Result<Segment, Skipped> {
    let at = network(link, bytes)?;
    let packet = bytes.get(at..).ok_or(Skipped::Short)?;
    let wire_len = (wire_len as usize).max(bytes.len()) - at;
    let Found { src, dst, at, end } = match packet.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(packet, wire_len)?,
        Some(6) => ipv6(packet, wire_len)?,
        Some(_) => return Err(Skipped::NotTcp),
        None => return Err(Skipped::Short),
    };
    if end < at + wire::tcp::HEADER_LEN {
        return Err(Skipped::Malformed);
    }
    let held = packet.get(at..packet.len().min(end)).ok_or(Skipped::Short)?;
    let fixed: &[u8; 20] = held.first_chunk().ok_or(Skipped::Short)?;
    let header_len = usize::from(fixed[12] >> 4) * 4;
    if header_len < fixed.len() || at + header_len > end {
        return Err(Skipped::Malformed);
    }
    // If the capture cut off options, the header is read up to the cut.
    let mut whole = [0; 60];
    let captured = held.len().min(header_len);
    whole[..captured].copy_from_slice(&held[..captured]);
    let header = Header::parse(&whole[..header_len]).map_err(|_| Skipped::Malformed)?;
    let options = Options::parse(held.get(20..captured).unwrap_or_default()).unwrap_or_default();
    Ok(Segment {
        time_ns,
        src: SocketAddr::new(src, header.src_port),
        dst: SocketAddr::new(dst, header.dst_port),
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        len: (end - at - header_len) as u32,
        options,
    })
}

/// The offset of the IP header.
fn network(link: Link, bytes: &[u8]) -> Result<usize, Skipped> {
    let (mut kind_at, mut at) = match link {
        Link::Ip => return Ok(0),
        Link::Loopback => return Ok(4),
        Link::Ethernet => (12, 14),
        Link::Cooked => (14, 16),
        Link::Cooked2 => (0, 20),
    };
    loop {
        let kind = be16(bytes, kind_at).ok_or(Skipped::Short)?;
        match kind {
            IPV4 | IPV6 => return Ok(at),
            kind if TAGS.contains(&kind) => (kind_at, at) = (at + 2, at + 4),
            _ => return Err(Skipped::NotTcp),
        }
    }
}

/// A TCP segment in an IP packet: from `at` to `end`, which may be beyond what was captured.
struct Found {
    src: IpAddr,
    dst: IpAddr,
    at: usize,
    end: usize,
}

fn ipv4(packet: &[u8], wire_len: usize) -> Result<Found, Skipped> {
    let header: &[u8; 20] = packet.first_chunk().ok_or(Skipped::Short)?;
    let at = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // The length may be 0 in a super-segment that the device has not split yet.
    let end = if total == 0 { wire_len } else { total };
    if at < header.len() || end < at {
        return Err(Skipped::Malformed);
    }
    if header[9] != TCP {
        return Err(Skipped::NotTcp);
    }
    // Is this a fragment? Then more fragments follow, or the offset is not 0.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(Skipped::Fragment);
    }
    let address = |at: usize| {
        let octets = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    Ok(Found { src: address(12), dst: address(16), at, end })
}

/// The numbers of the extension headers that have a next header and a length in units of 8 bytes.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

fn ipv6(packet: &[u8], wire_len: usize) -> Result<Found, Skipped> {
    let header: &[u8; 40] = packet.first_chunk().ok_or(Skipped::Short)?;
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = if payload == 0 { wire_len } else { header.len() + payload };
    let (mut next, mut at) = (header[6], header.len());
    // Each step advances by at least 8 bytes.
    while matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
        let extension: &[u8; 4] =
            packet.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Skipped::Short)?;
        let len = match next {
            FRAGMENT if u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9 != 0 => {
                return Err(Skipped::Fragment);
            }
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(extension[1]) + 2) * 4,
            _ => (usize::from(extension[1]) + 1) * 8,
        };
        (next, at) = (extension[0], at + len.max(8));
    }
    if next != TCP {
        return Err(Skipped::NotTcp);
    }
    if at > end {
        return Err(Skipped::Malformed);
    }
    let address = |at: usize| {
        let octets = header.get(at..).and_then(|rest| rest.first_chunk::<16>());
        IpAddr::V6(octets.map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets)))
    };
    Ok(Found { src: address(8), dst: address(24), at, end })
}
