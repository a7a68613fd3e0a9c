//! The key of a packet from its borrowed bytes: quickly for plain TCP and UDP, by `parse` for all
//! others.
//!
//! Called by: the stack, first one of the plain functions, then `parse` for packets that those
//! leave. A protocol without ports has its addresses alone; a query of ICMP has its identifier and
//! the next number as ports, its answer the same two in the other order; an error of ICMP has the
//! tuple of the packet that it quotes. RFC 791, 792, 4443,
//! 8200, RFC 5508 section 4, RFC 1858, RFC 7112, RFC 6946. Counters: `filter_malformed`,
//! `filter_fragment`, `filter_icmp`.

use core::net::IpAddr;

use base::DropReason::{self, FilterFragment, FilterIcmp, FilterMalformed};
use base::SeqNumber;
use wire::ipv6::Fragment;
use wire::protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMP, ICMPV6, ROUTING, TCP, UDP};
use wire::{ipv4, ipv6};

use super::fragments::Datagram;
use super::key::{Key, KeyV4, KeyV6};
use crate::packet::query_dst_port;

/// Extension headers that are walked, at most; a packet with more is malformed here.
const EXTENSIONS_MAX: usize = 8;
/// The largest datagram, RFC 791 section 3.1; fragments that would go beyond are an attack.
const DATAGRAM_MAX: usize = 65_535;
/// The header of UDP, and the part of an ICMP header that is read.
const SHORT_HEADER_LEN: usize = 8;

/// What a packet is, beyond its tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP; [`super::Segment::parse`] reads the rest.
    Tcp,
    /// UDP.
    Udp,
    /// A query of ICMP or ICMPv6.
    Query,
    /// The answer to a query.
    Answer,
    /// An error of ICMP or ICMPv6: the key is the one of the packet that it quotes.
    Error {
        /// The sequence number of a TCP segment that is quoted.
        seq: Option<SeqNumber>,
        /// Who sent the error.
        from: IpAddr,
        /// Type and code of an ICMP message that is quoted.
        about: Option<(u8, u8)>,
    },
    /// Anything else, known by its addresses.
    Other,
}

/// A fragment of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its datagram.
    pub datagram: Datagram,
    /// Offset of its data in the datagram, in bytes.
    pub offset: u32,
    /// Bytes of its data.
    pub len: u32,
    /// Bytes of the transport header, and of the extension headers that are fragmented with it; 0
    /// if this is not the first fragment.
    pub header_len: u32,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its tuple; without ports if it is a fragment other than the first one.
    pub key: Key,
    /// What it is; [`Kind::Other`] if it is a fragment other than the first one.
    pub kind: Kind,
    /// Where the transport header begins, in bytes from the IP header.
    pub transport: usize,
    /// Bytes of transport header and data, without padding behind the packet.
    pub transport_len: usize,
    /// Set if the packet is a fragment.
    pub piece: Option<Piece>,
    /// Type and code of an ICMP or ICMPv6 message.
    pub icmp: Option<(u8, u8)>,
}

/// The key of a plain IPv4 packet: TCP or UDP, no options, no fragment.
#[inline(always)]
#[must_use]
pub fn plain_v4(packet: &[u8]) -> Option<KeyV4> {
    let b = packet.first_chunk::<24>()?;
    let is_whole = (b[6] & 0x3f) | b[7] == 0;
    let is_plain = b[0] == 0x45 && is_whole && matches!(b[9], TCP | UDP);
    is_plain.then(|| key_v4(b))
}

/// The key of a packet that [`plain_v4`] has accepted.
#[inline(always)]
#[must_use]
pub fn key_v4(b: &[u8; 24]) -> KeyV4 {
    KeyV4 { addrs: word(b, 12), ports: half_word(b, 20), protocol: b[9] }
}

/// The key of a plain IPv6 packet: TCP or UDP right behind the header.
#[inline(always)]
#[must_use]
pub fn plain_v6(packet: &[u8]) -> Option<KeyV6> {
    let b = packet.first_chunk::<44>()?;
    let is_plain = b[0] >> 4 == 6 && matches!(b[6], TCP | UDP);
    is_plain.then(|| key_v6(b))
}

/// The key of a packet that [`plain_v6`] has accepted.
#[inline(always)]
#[must_use]
pub fn key_v6(b: &[u8; 44]) -> KeyV6 {
    let addrs = [word(b, 8), word(b, 16), word(b, 24), word(b, 32)];
    KeyV6 { addrs, ports: half_word(b, 40), protocol: b[6] }
}

#[inline(always)]
fn word<const N: usize>(b: &[u8; N], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&b[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

#[inline(always)]
fn half_word<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// Parse any packet, of which `packet` has all bytes, perhaps with padding behind.
///
/// # Errors
/// [`FilterMalformed`] if a header is cut or contradicts the length, [`FilterFragment`] if a first
/// fragment does not have all headers or a fragment goes beyond the largest datagram,
/// [`FilterIcmp`] if an error quotes a packet whose flow cannot be told, or goes to another host
/// than the source of that packet.
pub fn parse(packet: &[u8]) -> Result<Parsed, DropReason> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => parse_v4(packet),
        Some(6) => parse_v6(packet),
        _ => Err(FilterMalformed),
    }
}

fn parse_v4(packet: &[u8]) -> Result<Parsed, DropReason> {
    let header = ipv4::Header::parse(packet).map_err(|_| FilterMalformed)?;
    let end = usize::from(header.total_len).min(packet.len());
    let data = packet.get(header.header_len..end).ok_or(FilterMalformed)?;
    let b = packet.first_chunk::<20>().ok_or(FilterMalformed)?;
    let addrs = word(b, 12);
    let piece = header.is_fragment().then(|| Piece {
        datagram: Datagram {
            addrs: [addrs, 0, 0, 0],
            id: u32::from(header.id),
            protocol: header.protocol,
        },
        offset: u32::from(header.fragment_offset),
        len: data.len() as u32,
        header_len: 0,
    });
    let found = transport(header.protocol, data, piece, ICMP)?;
    let own = Key::V4(KeyV4 { addrs, ports: found.ports, protocol: header.protocol });
    finish(found, own, header.header_len, data.len())
}

fn parse_v6(packet: &[u8]) -> Result<Parsed, DropReason> {
    let b = packet.first_chunk::<{ ipv6::HEADER_LEN }>().ok_or(FilterMalformed)?;
    let end = ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([b[4], b[5]]));
    let data = packet.get(ipv6::HEADER_LEN..end).ok_or(FilterMalformed)?;
    let addrs = [word(b, 8), word(b, 16), word(b, 24), word(b, 32)];
    let chain = walk(b[6], data, addrs)?;
    let data = data.get(chain.len..).ok_or(FilterMalformed)?;
    let found = transport(chain.protocol, data, chain.piece, ICMPV6)?;
    let own = Key::V6(KeyV6 { addrs, ports: found.ports, protocol: chain.protocol });
    finish(found, own, ipv6::HEADER_LEN + chain.len, data.len())
}

fn finish(found: Found, own: Key, at: usize, len: usize) -> Result<Parsed, DropReason> {
    let Found { kind, icmp, piece, quoted, .. } = found;
    let parsed = Parsed { key: own, kind, transport: at, transport_len: len, piece, icmp };
    let Some(Quoted { key, seq, about }) = quoted else { return Ok(parsed) };
    // An error goes to the source of the packet that it quotes (RFC 792, RFC 4443 section 2.2):
    // else whoever knows a flow would reach every host by errors about it.
    if key.tuple().src != own.tuple().dst {
        return Err(FilterIcmp);
    }
    let from = own.tuple().src;
    Ok(Parsed { key, kind: Kind::Error { seq, from, about }, ..parsed })
}

/// Extension headers of a packet.
struct Chain {
    /// The protocol behind them.
    protocol: u8,
    /// Their bytes.
    len: usize,
    piece: Option<Piece>,
}

/// Walk the extension headers to the transport header, or to the data of a fragment other than the
/// first one.
fn walk(first: u8, data: &[u8], addrs: [u64; 4]) -> Result<Chain, DropReason> {
    let mut chain = Chain { protocol: first, len: 0, piece: None };
    for _ in 0..=EXTENSIONS_MAX {
        // RFC 7112: a first fragment has all headers.
        let cut = if chain.piece.is_some() { FilterFragment } else { FilterMalformed };
        let rest = data.get(chain.len..).ok_or(cut)?;
        let len = match chain.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                usize::from(*rest.get(1).ok_or(cut)?) * 8 + 8
            }
            FRAGMENT => Fragment::LEN,
            _ => return Ok(chain),
        };
        let next = rest.get(..len).and_then(|header| header.first()).copied().ok_or(cut)?;
        let is_fragment = chain.protocol == FRAGMENT;
        chain.len += len;
        chain.protocol = next;
        if !is_fragment {
            continue;
        }
        let fragment = Fragment::parse(rest).map_err(|_| FilterMalformed)?;
        if fragment.fragment_offset == 0 && !fragment.more_fragments {
            // RFC 6946: whole, whatever other packets have its identification.
            continue;
        }
        if chain.piece.is_some() {
            return Err(FilterFragment);
        }
        // RFC 8200 section 4.5: identification and addresses tell datagrams apart.
        let datagram = Datagram { addrs, id: fragment.id, protocol: FRAGMENT };
        let offset = u32::from(fragment.fragment_offset);
        let len = (data.len() - chain.len.min(data.len())) as u32;
        chain.piece = Some(Piece { datagram, offset, len, header_len: 0 });
        if offset > 0 {
            return Ok(chain);
        }
    }
    Err(FilterMalformed)
}

/// What the transport header says.
struct Found {
    kind: Kind,
    ports: u32,
    icmp: Option<(u8, u8)>,
    quoted: Option<Quoted>,
    piece: Option<Piece>,
}

/// What an error says of the packet that it quotes.
struct Quoted {
    key: Key,
    seq: Option<SeqNumber>,
    about: Option<(u8, u8)>,
}

/// The transport header of a packet that is quoted.
struct QuotedTransport {
    ports: u32,
    seq: Option<SeqNumber>,
    about: Option<(u8, u8)>,
}

impl Quoted {
    fn of(key: Key, QuotedTransport { seq, about, .. }: QuotedTransport) -> Quoted {
        Quoted { key, seq, about }
    }
}

/// Read the transport header in `data`; `icmp` is the protocol of ICMP over this version.
fn transport(
    protocol: u8,
    data: &[u8],
    piece: Option<Piece>,
    icmp: u8,
) -> Result<Found, DropReason> {
    let mut found = Found { kind: Kind::Other, ports: 0, icmp: None, quoted: None, piece };
    if let Some(piece) = &piece {
        if piece.offset as usize + piece.len as usize > DATAGRAM_MAX {
            return Err(FilterFragment);
        }
        if piece.offset > 0 {
            return Ok(found);
        }
    }
    // RFC 1858 section 3.1: a first fragment that is too short for the header hides it.
    let cut = if piece.is_some() { FilterFragment } else { FilterMalformed };
    let header_len = match protocol {
        TCP => {
            let offset = data.get(12).ok_or(cut)? >> 4;
            if offset < 5 {
                return Err(FilterMalformed);
            }
            usize::from(offset) * 4
        }
        UDP => SHORT_HEADER_LEN,
        other if other == icmp => SHORT_HEADER_LEN,
        _ => 0,
    };
    let header = data.get(..header_len).ok_or(cut)?;
    if let Some(piece) = &mut found.piece {
        // Extension headers between the fragment header and the transport header count too.
        let before = piece.len.saturating_sub(data.len() as u32);
        piece.header_len = before + header_len as u32;
    }
    match (protocol, header) {
        (TCP, &[a, b, c, d, ..]) => {
            (found.kind, found.ports) = (Kind::Tcp, u32::from_ne_bytes([a, b, c, d]));
        }
        (UDP, &[a, b, c, d, e, f, ..]) => {
            (found.kind, found.ports) = (Kind::Udp, u32::from_ne_bytes([a, b, c, d]));
            let len = usize::from(u16::from_be_bytes([e, f]));
            if len < SHORT_HEADER_LEN || piece.is_none() && len > data.len() {
                return Err(FilterMalformed);
            }
        }
        (other, &[kind, code, _, _, a, b, ..]) if other == icmp => {
            found.icmp = Some((kind, code));
            read_icmp(&mut found, icmp, kind, [a, b], data)?;
        }
        _ => {}
    }
    Ok(found)
}

/// Messages of ICMP and ICMPv6 by what they are to a state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Query,
    Answer,
    Error,
    Other,
}

/// RFC 792, RFC 950: echo, timestamp, information and address mask. RFC 4443: echo.
fn class_of(kind: u8, icmp: u8) -> Class {
    match (icmp, kind) {
        (ICMP, 8 | 13 | 15 | 17) | (ICMPV6, 128) => Class::Query,
        (ICMP, 0 | 14 | 16 | 18) | (ICMPV6, 129) => Class::Answer,
        // RFC 4890 4.3.1-a, 4.3.2-a.
        (ICMP, 3 | 11 | 12) | (ICMPV6, 1..=4) => Class::Error,
        _ => Class::Other,
    }
}

/// The ports of a query or an answer with this identifier, as in [`crate::Tuple`].
fn ports_of(class: Class, id: [u8; 2]) -> u32 {
    let [e, f] = query_dst_port(u16::from_be_bytes(id)).to_be_bytes();
    match class {
        Class::Answer => u32::from_ne_bytes([e, f, id[0], id[1]]),
        _ => u32::from_ne_bytes([id[0], id[1], e, f]),
    }
}

fn read_icmp(
    found: &mut Found,
    icmp: u8,
    kind: u8,
    id: [u8; 2],
    data: &[u8],
) -> Result<(), DropReason> {
    match class_of(kind, icmp) {
        class @ Class::Query => (found.kind, found.ports) = (Kind::Query, ports_of(class, id)),
        class @ Class::Answer => (found.kind, found.ports) = (Kind::Answer, ports_of(class, id)),
        Class::Error => {
            let quoted = data.get(SHORT_HEADER_LEN..).unwrap_or_default();
            let quoted = if icmp == ICMP { quoted_v4(quoted) } else { quoted_v6(quoted) }?;
            found.quoted = Some(quoted);
        }
        Class::Other => {}
    }
    Ok(())
}

/// What an error quotes: the header and eight bytes at least (RFC 792). A fragment other than the
/// first has no ports.
fn quoted_v4(quoted: &[u8]) -> Result<Quoted, DropReason> {
    let header = ipv4::Header::parse_quoted(quoted).map_err(|_| FilterIcmp)?;
    let b = quoted.first_chunk::<20>().ok_or(FilterIcmp)?;
    if header.fragment_offset != 0 {
        return Err(FilterIcmp);
    }
    let data = quoted.get(header.header_len..).ok_or(FilterIcmp)?;
    let found = quoted_transport(header.protocol, data, ICMP)?;
    let (addrs, protocol) = (word(b, 12), header.protocol);
    Ok(Quoted::of(Key::V4(KeyV4 { addrs, ports: found.ports, protocol }), found))
}

fn quoted_v6(quoted: &[u8]) -> Result<Quoted, DropReason> {
    let b = quoted.first_chunk::<{ ipv6::HEADER_LEN }>().ok_or(FilterIcmp)?;
    let data = quoted.get(ipv6::HEADER_LEN..).unwrap_or_default();
    let addrs = [word(b, 8), word(b, 16), word(b, 24), word(b, 32)];
    let chain = walk(b[6], data, addrs).map_err(|_| FilterIcmp)?;
    if chain.piece.is_some_and(|piece| piece.offset > 0) || b[0] >> 4 != 6 {
        return Err(FilterIcmp);
    }
    let data = data.get(chain.len..).ok_or(FilterIcmp)?;
    let found = quoted_transport(chain.protocol, data, ICMPV6)?;
    let key = KeyV6 { addrs, ports: found.ports, protocol: chain.protocol };
    Ok(Quoted::of(Key::V6(key), found))
}

fn quoted_transport(protocol: u8, data: &[u8], icmp: u8) -> Result<QuotedTransport, DropReason> {
    let eight = data.first_chunk::<SHORT_HEADER_LEN>().copied();
    let [a, b, c, d, e, f, g, h] = match protocol {
        TCP | UDP => eight.ok_or(FilterIcmp)?,
        other if other == icmp => eight.ok_or(FilterIcmp)?,
        _ => return Ok(QuotedTransport { ports: 0, seq: None, about: None }),
    };
    let ports = u32::from_ne_bytes([a, b, c, d]);
    match protocol {
        TCP => {
            let seq = Some(SeqNumber(u32::from_be_bytes([e, f, g, h])));
            Ok(QuotedTransport { ports, seq, about: None })
        }
        UDP => Ok(QuotedTransport { ports, seq: None, about: None }),
        _ => match class_of(a, icmp) {
            class @ (Class::Query | Class::Answer) => {
                let ports = ports_of(class, [e, f]);
                Ok(QuotedTransport { ports, seq: None, about: Some((a, b)) })
            }
            // No error is sent about an error (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
            Class::Error | Class::Other => Err(FilterIcmp),
        },
    }
}

#[cfg(test)]
mod tests;
