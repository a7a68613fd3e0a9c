//! Prepends link and IP headers to a transport segment, from a template that is made once per
//! connection and patched for each packet.
//!
//! Called by: `stack/tx.rs`. RFC 791, 8200. Packets with DF set need no identification (RFC 6864),
//! so ours is zero, which reveals nothing.

use core::net::IpAddr;

use base::{DropReason, LinkKind, MacAddr};
use mbuf::{Flags, Mbuf};
use wire::checksum::Sum;
use wire::tcp::{ChecksumField, Established};
use wire::{ether, ipv4, ipv6};

/// Link and IP header of one connection; lengths and checksum are filled in per packet.
#[derive(Clone, Copy, Debug)]
pub struct HeaderTemplate {
    bytes: [u8; 56],
    /// Sum of the IPv4 header with a zero length.
    sum: Sum,
    link_len: u8,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    EthernetV4,
    EthernetV6,
    Raw(u8),
}

/// The fields of an IP header, except lengths.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same version.
    pub dst: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

/// Bytes of Ethernet and IPv4 header.
pub(crate) const ETHERNET_V4: usize = ether::HEADER_LEN + ipv4::HEADER_LEN;
const ETHERNET_V6: usize = ether::HEADER_LEN + ipv6::HEADER_LEN;

impl HeaderTemplate {
    /// A template for packets with these fields, on a link of this kind.
    pub fn new(
        link: LinkKind,
        src_mac: MacAddr,
        dst_mac: MacAddr,
        fields: &Fields,
    ) -> HeaderTemplate {
        let mut bytes = [0; 56];
        let link_len = link.header_len();
        let ethertype = match fields.dst {
            IpAddr::V4(_) => ether::IPV4,
            IpAddr::V6(_) => ether::IPV6,
        };
        let mut sum = Sum::ZERO;
        let ip = &mut bytes[link_len..];
        let ip_len = match (fields.src, fields.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = ipv6::Header {
                    traffic_class: fields.tos,
                    flow_label: 0,
                    payload_len: 0,
                    next_header: fields.protocol,
                    hop_limit: fields.ttl,
                    src,
                    dst,
                };
                header.emit(ip);
                ipv6::HEADER_LEN
            }
            (src, dst) => {
                let header = ipv4::Header {
                    header_len: ipv4::HEADER_LEN,
                    tos: fields.tos,
                    total_len: ipv4::HEADER_LEN as u16,
                    id: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: fields.ttl,
                    protocol: fields.protocol,
                    src: v4_or_zero(src),
                    dst: v4_or_zero(dst),
                };
                header.emit(ip);
                // Length and checksum are zero while the sum of the other fields is taken.
                ip[2..4].fill(0);
                ip[10..12].fill(0);
                sum = wire::checksum::Ladder::Word16.sum(&ip[..ipv4::HEADER_LEN]);
                ipv4::HEADER_LEN
            }
        };
        if link == LinkKind::Ethernet {
            ether::Header { dst: dst_mac, src: src_mac, ethertype }.emit(&mut bytes);
        }
        let kind = match (link_len + ip_len, link) {
            (ETHERNET_V4, LinkKind::Ethernet) => Kind::EthernetV4,
            (ETHERNET_V6, LinkKind::Ethernet) => Kind::EthernetV6,
            (len, _) => Kind::Raw(len as u8),
        };
        HeaderTemplate { bytes, sum, link_len: link_len as u8, kind }
    }

    /// Prepend the headers to a transport segment. If a device is to finish the checksum
    /// (`CSUM_PARTIAL`), the checksum's offset grows by the length of the headers.
    ///
    /// # Errors
    /// [`DropReason::IpTooBig`] if the length does not fit in 16 bits, or if the headroom is too
    /// small.
    #[inline(always)]
    pub fn prepend(&self, m: &mut Mbuf) -> Result<(), DropReason> {
        let segment_len = m.len();
        if m.has(Flags::CSUM_PARTIAL) {
            m.set_csum(m.csum() + self.len() as u16);
        }
        match self.kind {
            Kind::EthernetV4 => {
                let header = m.prepend(ETHERNET_V4).ok_or(DropReason::IpTooBig)?;
                let header = header.first_chunk_mut::<ETHERNET_V4>().ok_or(DropReason::IpTooBig)?;
                header.copy_from_slice(&self.bytes[..ETHERNET_V4]);
                self.fill_v4(&mut header[ether::HEADER_LEN..], segment_len)
            }
            Kind::EthernetV6 => {
                let header = m.prepend(ETHERNET_V6).ok_or(DropReason::IpTooBig)?;
                let header = header.first_chunk_mut::<ETHERNET_V6>().ok_or(DropReason::IpTooBig)?;
                header.copy_from_slice(&self.bytes[..ETHERNET_V6]);
                fill_v6(&mut header[ether::HEADER_LEN..], segment_len)
            }
            Kind::Raw(len) => {
                let len = usize::from(len);
                let header = m.prepend(len).ok_or(DropReason::IpTooBig)?;
                header.copy_from_slice(&self.bytes[..len]);
                if len == ipv6::HEADER_LEN {
                    fill_v6(header, segment_len)
                } else {
                    self.fill_v4(header, segment_len)
                }
            }
        }
    }

    /// Does [`HeaderTemplate::prepend_all`] support this template? `true` on Ethernet.
    #[inline(always)]
    pub fn is_usual(&self) -> bool {
        matches!(self.kind, Kind::EthernetV4 | Kind::EthernetV6)
    }

    /// Prepend link, IP and TCP headers to a payload in one step. `tcp` has timestamps; its
    /// checksum is computed from the sums of payload and pseudo-header. Call it only if
    /// [`HeaderTemplate::is_usual`].
    ///
    /// # Errors
    /// [`DropReason::IpTooBig`] if the headroom is too small, or the length does not fit in 16
    /// bits.
    #[inline(always)]
    pub fn prepend_all(
        &self,
        m: &mut Mbuf,
        tcp: &Established,
        pseudo: Sum,
        payload: Sum,
    ) -> Result<(), DropReason> {
        if self.kind == Kind::EthernetV6 {
            let headers = all::<ETHERNET_V6>(self, m, tcp, pseudo, payload)?;
            return fill_v6(&mut headers.0[ether::HEADER_LEN..], headers.1);
        }
        let headers = all::<ETHERNET_V4>(self, m, tcp, pseudo, payload)?;
        self.fill_v4(&mut headers.0[ether::HEADER_LEN..], headers.1)
    }

    #[inline(always)]
    fn fill_v4(&self, ip: &mut [u8], segment_len: usize) -> Result<(), DropReason> {
        let ip = ip.first_chunk_mut::<20>().ok_or(DropReason::IpTooBig)?;
        let total = u16::try_from(segment_len + 20).map_err(|_| DropReason::IpTooBig)?;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[10..12].copy_from_slice(&self.sum.plus(Sum::of_be16(total)).field());
        Ok(())
    }

    /// Set traffic class, and TTL or hop limit, of later packets.
    pub fn set_tos_ttl(&mut self, tos: u8, ttl: u8) {
        let at = self.link_len();
        let ip = &mut self.bytes[at..];
        if ip[0] >> 4 == 6 {
            ip[0] = 6 << 4 | tos >> 4;
            ip[1] = tos << 4 | ip[1] & 0xf;
            ip[7] = ttl;
        } else {
            ip[1] = tos;
            ip[8] = ttl;
            self.sum = wire::checksum::Ladder::Word16.sum(&ip[..ipv4::HEADER_LEN]);
        }
    }

    /// Traffic class, and TTL or hop limit.
    pub fn tos_ttl(&self) -> (u8, u8) {
        let ip = &self.bytes[self.link_len()..];
        if ip[0] >> 4 == 6 { (ip[0] << 4 | ip[1] >> 4, ip[7]) } else { (ip[1], ip[8]) }
    }

    /// Set ECT(0) (RFC 3168 section 5) in a packet that [`HeaderTemplate::prepend`] made, unless
    /// its ECN field is set already.
    #[inline(never)]
    pub fn set_ect(&self, m: &mut Mbuf) {
        let Some(header) = m.headers_mut(self.len()) else { return };
        let Some(ip) = header.get_mut(self.link_len()..) else { return };
        match ip {
            [first, second, ..] if *first >> 4 == 6 => {
                // The second byte begins with the lower four bits of the traffic class, of which
                // ECN is the last two.
                *second |= if *second & 0x30 == 0 { 0x20 } else { 0 };
            }
            [_, tos, length_high, length_low, ..] if *tos & 3 == 0 => {
                *tos |= 2;
                let total = u16::from_be_bytes([*length_high, *length_low]);
                let sum = self.sum.plus(Sum::of_be16(total)).plus(Sum::of_be16(2));
                ip[10..12].copy_from_slice(&sum.field());
            }
            _ => {}
        }
    }

    /// The headers of IPv4 on Ethernet, and the sum of the IP header with a length of zero.
    #[inline(always)]
    pub(crate) fn ethernet_v4(&self) -> Option<(&[u8; ETHERNET_V4], Sum)> {
        let headers = self.bytes.first_chunk()?;
        (self.kind == Kind::EthernetV4).then_some((headers, self.sum))
    }

    /// Bytes of link header and IP header.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self.kind {
            Kind::EthernetV4 => ETHERNET_V4,
            Kind::EthernetV6 => ETHERNET_V6,
            Kind::Raw(len) => usize::from(len),
        }
    }

    /// Always `false`: a template has at least an IP header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Link and IP header. Their lengths and checksum are not filled in.
    pub fn headers(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Bytes of link header.
    pub fn link_len(&self) -> usize {
        usize::from(self.link_len)
    }
}

/// Prepend the template and the TCP header to `m`. Returns the link and IP headers, whose lengths
/// are still to be filled in, and the length of the transport segment in bytes.
#[inline(always)]
fn all<'m, const IP_END: usize>(
    template: &HeaderTemplate,
    m: &'m mut Mbuf,
    tcp: &Established,
    pseudo: Sum,
    payload: Sum,
) -> Result<(&'m mut [u8; IP_END], usize), DropReason> {
    let segment_len = m.len() + Established::LEN_MAX;
    let headers = m.prepend(IP_END + Established::LEN_MAX).ok_or(DropReason::IpTooBig)?;
    let (ip, rest) = headers.split_first_chunk_mut::<IP_END>().ok_or(DropReason::IpTooBig)?;
    tcp.emit(rest, segment_len, pseudo, payload, ChecksumField::Full);
    ip.copy_from_slice(&template.bytes[..IP_END]);
    Ok((ip, segment_len))
}

#[inline(always)]
fn fill_v6(ip: &mut [u8], segment_len: usize) -> Result<(), DropReason> {
    let ip = ip.first_chunk_mut::<40>().ok_or(DropReason::IpTooBig)?;
    let len = u16::try_from(segment_len).map_err(|_| DropReason::IpTooBig)?;
    ip[4..6].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

fn v4_or_zero(addr: IpAddr) -> core::net::Ipv4Addr {
    match addr {
        IpAddr::V4(a) => a,
        IpAddr::V6(_) => core::net::Ipv4Addr::UNSPECIFIED,
    }
}
