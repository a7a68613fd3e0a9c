//! IPv4 and IPv6 headers, and what they carry, as far as it is not TCP or ICMP.
//!
//! Called by: `print.rs`. Must not know: link headers.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use wire::checksum::{Ladder, Sum};
use wire::{ipv4, ipv6, udp};

use super::Printer;

/// A packet of either version, header and what it carries apart.
pub(super) struct Carried<'a> {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
    /// Behind hop-by-hop options.
    pub(super) has_options: bool,
    /// What is here of the payload.
    pub(super) bytes: &'a [u8],
    /// Bytes that the payload had.
    pub(super) len: usize,
}

impl Carried<'_> {
    /// All of it is here.
    pub(super) fn is_whole(&self) -> bool {
        self.bytes.len() >= self.len
    }

    /// What its checksum field ought to be, if all of it is here, with the field at `at`.
    pub(super) fn expected(&self, at: usize) -> Option<[u8; 2]> {
        if !self.is_whole() {
            return None;
        }
        let bytes = self.bytes.get(..self.len)?;
        let field = Sum::of_be16(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let sum = Ladder::best().sum(bytes).minus(field);
        let length = Sum::of_be16(u16::try_from(self.len).ok()?);
        let pseudo = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_v4(src, dst, self.protocol),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, self.protocol),
            _ => return None,
        };
        Some(pseudo.plus(length).plus(sum).field())
    }
}

/// `address.port`.
pub(super) struct End(pub(super) SocketAddr);

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0.ip(), self.0.port())
    }
}

fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        ipv4::ICMP => "ICMP",
        ipv4::IGMP => "IGMP",
        ipv4::TCP => "TCP",
        ipv4::UDP => "UDP",
        ipv6::HOP_BY_HOP => "Options",
        ipv6::ROUTING => "Routing",
        ipv6::FRAGMENT => "Fragment",
        ipv6::ICMPV6 => "ICMPv6",
        ipv6::NO_NEXT => "no next header",
        ipv6::DESTINATION_OPTIONS => "Options",
        _ => "unknown",
    }
}

impl Printer {
    pub(super) fn ipv4(&mut self, out: &mut String, packet: &[u8]) {
        let Ok(h) = ipv4::Header::parse_quoted(packet) else {
            return out.push_str(if packet.len() < ipv4::HEADER_LEN {
                "[|ip]"
            } else {
                "bad header"
            });
        };
        if self.style.verbose {
            let flags = match (h.dont_fragment, h.more_fragments) {
                (false, false) => "none",
                (true, false) => "DF",
                (false, true) => "+",
                (true, true) => "+, DF",
            };
            let name = protocol_name(h.protocol);
            let ecn = ["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(h.tos & 3)];
            let _ = write!(
                out,
                "(tos 0x{:x}{ecn}, ttl {}, id {}, offset {}, flags [{flags}], proto {name} ({}), \
                 length {}",
                h.tos, h.ttl, h.id, h.fragment_offset, h.protocol, h.total_len
            );
            if !Ladder::best().sum(&packet[..h.header_len]).is_whole() {
                out.push_str(", bad cksum!");
            }
            out.push_str(")\n    ");
        }
        let len = usize::from(h.total_len).saturating_sub(h.header_len);
        let bytes = &packet[h.header_len..];
        let bytes = &bytes[..bytes.len().min(len)];
        if h.fragment_offset > 0 {
            let name = protocol_name(h.protocol).to_ascii_lowercase();
            let _ = write!(out, "{} > {}: {name}", h.src, h.dst);
            return;
        }
        let (src, dst) = (IpAddr::V4(h.src), IpAddr::V4(h.dst));
        self.carried(
            out,
            &Carried { src, dst, protocol: h.protocol, has_options: false, bytes, len },
        );
    }

    pub(super) fn ipv6(&mut self, out: &mut String, packet: &[u8]) {
        let Ok(h) = ipv6::Header::parse_quoted(packet) else {
            return out.push_str(if packet.len() < ipv6::HEADER_LEN {
                "[|ip6]"
            } else {
                "bad header"
            });
        };
        if self.style.verbose {
            out.push('(');
            if h.traffic_class != 0 {
                let _ = write!(out, "class 0x{:02x}, ", h.traffic_class);
            }
            if h.flow_label != 0 {
                let _ = write!(out, "flowlabel 0x{:05x}, ", h.flow_label);
            }
            let name = protocol_name(h.next_header);
            let _ = write!(
                out,
                "hlim {}, next-header {name} ({}) payload length: {}) ",
                h.hop_limit, h.next_header, h.payload_len
            );
        }
        let len = usize::from(h.payload_len);
        let payload = &packet[ipv6::HEADER_LEN..];
        let payload = &payload[..payload.len().min(len)];
        let (src, dst) = (IpAddr::V6(h.src), IpAddr::V6(h.dst));
        let (protocol, at) =
            ipv6::upper_layer(payload, h.next_header).unwrap_or((h.next_header, 0));
        let (bytes, len) = (&payload[at.min(payload.len())..], len.saturating_sub(at));
        let has_options = h.next_header == ipv6::HOP_BY_HOP;
        self.carried(out, &Carried { src, dst, protocol, has_options, bytes, len });
    }

    fn carried(&mut self, out: &mut String, carried: &Carried<'_>) {
        match carried.protocol {
            ipv4::TCP => self.tcp(out, carried),
            ipv4::UDP => self.udp(out, carried),
            ipv4::ICMP => self.icmp(out, carried),
            ipv6::ICMPV6 => self.icmpv6(out, carried),
            other => {
                let Carried { src, dst, len, .. } = carried;
                let _ = write!(out, "{src} > {dst}: ip-proto-{other} {len}");
            }
        }
    }

    fn udp(&self, out: &mut String, carried: &Carried<'_>) {
        let Some(b) = carried.bytes.first_chunk::<{ udp::HEADER_LEN }>() else {
            let _ = write!(out, "{} > {}: [|udp]", carried.src, carried.dst);
            return;
        };
        let port = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        let (from, to) =
            (SocketAddr::new(carried.src, port(0)), SocketAddr::new(carried.dst, port(2)));
        let _ = write!(out, "{} > {}: ", End(from), End(to));
        if self.style.very_verbose || self.style.verbose && carried.src.is_ipv6() {
            match (port(6), carried.expected(udp::CHECKSUM_OFFSET)) {
                (0, _) => out.push_str("[no cksum] "),
                (_, None) => {}
                (0xffff, Some([0, 0])) => out.push_str("[udp sum ok] "),
                (has, Some(ought)) if ought == has.to_be_bytes() => out.push_str("[udp sum ok] "),
                (has, Some(ought)) => {
                    let ought = u16::from_be_bytes(ought);
                    let _ = write!(out, "[bad udp cksum 0x{has:04x} -> 0x{ought:04x}!] ");
                }
            }
        }
        let length = usize::from(port(4)).saturating_sub(udp::HEADER_LEN);
        let _ = write!(out, "UDP, length {length}");
    }
}
