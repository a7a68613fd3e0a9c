//! The transmit offloads of a network card in software: segments super-segments (TSO, USO), and
//! finishes checksums that were left to the device.
//!
//! Called by: code that passes a host's frames to a link, in virtual or real time. Frames come from
//! other programs: none causes a panic (fuzz target `cut`). RFC 9293 section 3.1, RFC 791, RFC 768.
//! The last segment has FIN and PSH, the first one CWR (RFC 3168 section 6.1.2).

use base::LinkKind;
use mbuf::{Flags as MbufFlags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum};
use wire::tcp::Flags;
use wire::{ipv4, ipv6, protocol, tcp, udp, vlan};

/// The offset of the data offset field in a TCP header.
const OFFSET_AT: usize = 12;

/// Pass the wire packets of `frame` to `out`, in order, with finished checksums; returns how many
/// were lost. A frame that is not TCP or UDP over IP is lost, and so is each segment for which
/// there is no memory. Each packet keeps the VLAN tags; padding after the IP packet is removed.
pub fn cut(
    frame: Mbuf,
    link: LinkKind,
    pool: &mut Pool,
    mut out: impl FnMut(Mbuf, &mut Pool),
) -> u64 {
    if frame.segment_size() == 0 && !frame.has(MbufFlags::CSUM_PARTIAL) {
        out(frame, pool);
        return 0;
    }
    let lost = match Cutter::new(frame.as_slice(), link) {
        Some(cutter) if frame.segment_size() > 0 => {
            cutter.segments(usize::from(frame.segment_size()), pool, &mut out)
        }
        Some(cutter) => cutter.one(0, usize::MAX, pool, &mut out),
        None => 1,
    };
    pool.free(frame);
    lost
}

enum Ip {
    V4(ipv4::Header),
    V6(ipv6::Header),
}

enum Transport {
    Tcp(tcp::Header),
    Udp(udp::Header),
}

/// The parts of a frame.
struct Cutter<'a> {
    /// The link, IP and transport headers.
    headers: &'a [u8],
    payload: &'a [u8],
    /// The offsets of the IP header and of the transport header.
    ip_at: usize,
    at: usize,
    ip: Ip,
    transport: Transport,
    /// The sum of the pseudo-header, without its length field.
    pseudo: Sum,
}

impl<'a> Cutter<'a> {
    fn new(bytes: &'a [u8], link: LinkKind) -> Option<Cutter<'a>> {
        let ip_at = vlan::ip_at(bytes, link)?;
        let packet = bytes.get(ip_at..)?;
        let (ip, protocol, header_len, end) = if packet.first()? >> 4 == 4 {
            let ip = ipv4::Header::parse(packet).ok().filter(|ip| !ip.is_fragment())?;
            (Ip::V4(ip), ip.protocol, ip.header_len, usize::from(ip.total_len))
        } else {
            let ip = ipv6::Header::parse(packet).ok()?;
            let end = ipv6::HEADER_LEN + usize::from(ip.payload_len);
            (Ip::V6(ip), ip.next_header, ipv6::HEADER_LEN, end)
        };
        let segment = packet.get(header_len..end)?;
        let (transport, transport_len, segment_len) = match protocol {
            protocol::TCP => {
                let tcp = tcp::Header::parse(segment).ok()?;
                (Transport::Tcp(tcp), tcp.header_len, segment.len())
            }
            protocol::UDP => {
                let udp = udp::Header::parse(segment).ok()?;
                (Transport::Udp(udp), udp::HEADER_LEN, usize::from(udp.length))
            }
            _ => return None,
        };
        let pseudo = match &ip {
            Ip::V4(ip) => Sum::pseudo_v4(ip.src, ip.dst, protocol),
            Ip::V6(ip) => Sum::pseudo_v6(ip.src, ip.dst, protocol),
        };
        let at = ip_at + header_len;
        let whole = bytes.get(..at + segment_len)?;
        let (headers, payload) = whole.split_at_checked(at + transport_len)?;
        Some(Cutter { headers, payload, ip_at, at, ip, transport, pseudo })
    }

    fn segments(&self, size: usize, pool: &mut Pool, out: &mut impl FnMut(Mbuf, &mut Pool)) -> u64 {
        let mut lost = 0;
        let mut from = 0;
        while from < self.payload.len() || from == 0 {
            lost += self.one(from, size, pool, out);
            from += size;
        }
        lost
    }

    /// Make one segment whose payload begins at offset `from` and has `size` bytes; the last
    /// segment may have fewer.
    fn one(
        &self,
        from: usize,
        size: usize,
        pool: &mut Pool,
        out: &mut impl FnMut(Mbuf, &mut Pool),
    ) -> u64 {
        let rest = self.payload.get(from..).unwrap_or_default();
        let part = rest.get(..size).unwrap_or(rest);
        let Some(mut segment) = pool.alloc(self.headers.len() + part.len()) else { return 1 };
        segment.append(self.headers);
        segment.append(part);
        let (number, is_last) = ((from / size) as u16, part.len() == rest.len());
        let bytes = segment.as_mut_slice();
        if bytes.and_then(|bytes| self.fix(bytes, from, number, is_last)).is_none() {
            pool.free(segment);
            return 1;
        }
        out(segment, pool);
        0
    }

    /// Set lengths, identification and checksums of segment `number`, whose payload begins at
    /// offset `from`; in TCP also the sequence number and the flags.
    fn fix(&self, bytes: &mut [u8], from: usize, number: u16, is_last: bool) -> Option<()> {
        let (front, segment) = bytes.split_at_mut_checked(self.at)?;
        let header = front.get_mut(self.ip_at..)?;
        let length = u16::try_from(segment.len()).ok()?;
        let fits = match self.ip {
            Ip::V4(ip) => {
                let total_len = u16::try_from(header.len() + segment.len()).ok()?;
                // Identifications count up, as in Linux. If the sender sets DF and leaves the field
                // 0, as our stack does (docs/decisions/0009-following.md), it stays 0: RFC 6864
                // section 4.1.
                let is_numbered = ip.id != 0 || !ip.dont_fragment;
                let id = if is_numbered { ip.id.wrapping_add(number) } else { 0 };
                ipv4::Header { total_len, id, ..ip }.emit(header)
            }
            Ip::V6(ip) => ipv6::Header { payload_len: length, ..ip }.emit(header),
        };
        let fits = fits
            && match self.transport {
                Transport::Tcp(tcp) => emit_tcp(tcp, segment, from, is_last),
                Transport::Udp(udp) => {
                    udp::Header { length, checksum: [0; 2], ..udp }.emit(segment)
                }
            };
        fits.then_some(())?;
        let sum = self.pseudo.plus(Sum::of_be16(length)).plus(Ladder::best().sum(segment));
        let (at, field) = match self.transport {
            Transport::Tcp(_) => (tcp::CHECKSUM_OFFSET, sum.field()),
            Transport::Udp(_) => (udp::CHECKSUM_OFFSET, udp::checksum_field(sum)),
        };
        segment.get_mut(at..at + 2)?.copy_from_slice(&field);
        Some(())
    }
}

/// Write the TCP header of the segment whose payload begins at `from`, with a zero checksum;
/// `false` if there is no room for it.
fn emit_tcp(mut tcp: tcp::Header, segment: &mut [u8], from: usize, is_last: bool) -> bool {
    tcp.seq += from as u32;
    if !is_last {
        tcp.flags = tcp.flags.without(Flags::FIN | Flags::PSH);
    }
    if from > 0 {
        tcp.flags = tcp.flags.without(Flags::CWR);
    }
    // Keep the reserved bits of this byte, which `emit` would clear.
    let offset = segment.get(OFFSET_AT).copied();
    let fits = tcp.emit(segment);
    if let (Some(byte), Some(offset)) = (segment.get_mut(OFFSET_AT), offset) {
        *byte = offset;
    }
    fits
}

#[cfg(test)]
mod tests;
