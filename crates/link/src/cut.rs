//! What a network card does to a frame on its way to the wire: a super-segment is cut into
//! segments, and a checksum that was left to the device is finished.
//!
//! Called by: whoever brings a host's frames to a link, in virtual time or in real. Must not know:
//! links, connections.
//! RFC 9293 section 3.1, RFC 791; FIN and PSH go with the last segment, CWR with the first
//! (RFC 3168 section 6.1.2). Tags stand in front of each segment (IEEE 802.1Q).

use core::net::IpAddr;

use base::{LinkKind, SeqNumber};
use device::vlan::SERVICE_TAG;
use mbuf::{Flags as MbufFlags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum};
use wire::tcp::Flags;
use wire::{ether, ipv4, ipv6, tcp, udp, vlan};

/// Wire packets of `frame` to `out`, in order, their checksums finished. What cannot be cut,
/// because it is no TCP or memory is out, is freed: the number of such frames is returned.
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

struct Cutter<'a> {
    bytes: &'a [u8],
    /// Where the IP header begins, and the transport header.
    ip_at: usize,
    at: usize,
    is_v4: bool,
    protocol: u8,
    pseudo: Sum,
    header_end: usize,
}

impl<'a> Cutter<'a> {
    fn new(bytes: &'a [u8], link: LinkKind) -> Option<Cutter<'a>> {
        let ip_at = match link {
            LinkKind::Ethernet => network_at(bytes)?,
            LinkKind::Ip => 0,
        };
        let packet = bytes.get(ip_at..)?;
        let is_v4 = packet.first()? >> 4 == 4;
        let (at, protocol, src, dst): (usize, u8, IpAddr, IpAddr) = if is_v4 {
            let ip = ipv4::Header::parse(packet).ok()?;
            (ip_at + ip.header_len, ip.protocol, ip.src.into(), ip.dst.into())
        } else {
            let ip = ipv6::Header::parse(packet).ok()?;
            (ip_at + ipv6::HEADER_LEN, ip.next_header, ip.src.into(), ip.dst.into())
        };
        let header_end = match protocol {
            ipv4::TCP => at + tcp::Header::parse(bytes.get(at..)?).ok()?.header_len,
            ipv4::UDP => at + udp::HEADER_LEN,
            _ => return None,
        };
        let pseudo = match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => Sum::pseudo_v4(s, d, protocol),
            (IpAddr::V6(s), IpAddr::V6(d)) => Sum::pseudo_v6(s, d, protocol),
            _ => return None,
        };
        Some(Cutter { bytes, ip_at, at, is_v4, protocol, pseudo, header_end })
    }

    fn segments(&self, size: usize, pool: &mut Pool, out: &mut impl FnMut(Mbuf, &mut Pool)) -> u64 {
        let payload = self.bytes.len().saturating_sub(self.header_end);
        let mut lost = 0;
        let mut from = 0;
        while from < payload || from == 0 {
            lost += self.one(from, size, pool, out);
            from += size;
        }
        lost
    }

    /// The segment with `size` bytes of payload, fewer at the end, from `from` on.
    fn one(
        &self,
        from: usize,
        size: usize,
        pool: &mut Pool,
        out: &mut impl FnMut(Mbuf, &mut Pool),
    ) -> u64 {
        let payload = self.bytes.get(self.header_end + from..).unwrap_or_default();
        let part = &payload[..payload.len().min(size)];
        let Some(mut segment) = pool.alloc(self.header_end + part.len()) else { return 1 };
        segment.append(&self.bytes[..self.header_end]);
        segment.append(part);
        let is_last = part.len() == payload.len();
        let fixed = segment.as_mut_slice().is_some_and(|b| self.fix(b, from, is_last).is_some());
        if !fixed {
            pool.free(segment);
            return 1;
        }
        out(segment, pool);
        0
    }

    /// Lengths, sequence number, flags and checksums of the segment `from` bytes behind the first.
    fn fix(&self, bytes: &mut [u8], from: usize, is_last: bool) -> Option<()> {
        let total = bytes.len() - self.ip_at;
        let transport = bytes.len() - self.at;
        let packet = &mut bytes[self.ip_at..];
        if self.is_v4 {
            let mut ip = ipv4::Header::parse_quoted(packet).ok()?;
            ip.total_len = u16::try_from(total).ok()?;
            ip.emit(packet).then_some(())?;
        } else {
            let mut ip = ipv6::Header::parse_quoted(packet).ok()?;
            ip.payload_len = u16::try_from(transport).ok()?;
            ip.emit(packet).then_some(())?;
        }
        let segment = &mut bytes[self.at..];
        let field = if self.protocol == ipv4::TCP {
            let mut header = tcp::Header::parse(segment).ok()?;
            header.seq = SeqNumber(header.seq.0.wrapping_add(from as u32));
            if !is_last {
                header.flags = header.flags.without(Flags::FIN | Flags::PSH);
            }
            if from > 0 {
                header.flags = header.flags.without(Flags::CWR);
            }
            header.emit(segment).then_some(())?;
            tcp::CHECKSUM_OFFSET
        } else {
            udp::CHECKSUM_OFFSET
        };
        segment[field..field + 2].fill(0);
        let length = Sum::of_be16(transport as u16);
        let sum = self.pseudo.plus(length).plus(Ladder::best().sum(segment));
        segment[field..field + 2].copy_from_slice(&sum.field());
        Some(())
    }
}

/// Where what a frame carries begins: behind its header and its tags.
fn network_at(frame: &[u8]) -> Option<usize> {
    let mut ethertype = ether::Header::parse(frame).ok()?.ethertype;
    let mut at = ether::HEADER_LEN;
    while matches!(ethertype, ether::VLAN | SERVICE_TAG) {
        ethertype = vlan::Header::parse(frame.get(at..)?).ok()?.ethertype;
        at += vlan::HEADER_LEN;
    }
    Some(at)
}

#[cfg(test)]
mod tests;
